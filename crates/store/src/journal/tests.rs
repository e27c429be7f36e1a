//! The journal under damage, many writers and `kill -9`.

use super::*;

type TestResult = Result<(), Box<dyn std::error::Error>>;

pub(super) fn entry(response: &str) -> JournalEntry {
    JournalEntry {
        model: "m".to_owned(),
        kind: "chat".to_owned(),
        response: response.to_owned(),
        prompt_tokens: 10,
        completion_tokens: 2,
        cost_usd: 0.125,
        seconds: 1.5,
        created_unix_ms: 1_700_000_000_000,
    }
}

pub(super) fn key(name: &str) -> Key {
    Key::of_bytes(name.as_bytes())
}

fn journal() -> Result<(tempfile::TempDir, Journal), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let journal = Journal::open(folder.path().join("deep/journal.sqlite"))?;
    Ok((folder, journal))
}

#[test]
fn an_entry_comes_back_as_it_was_also_in_the_next_process() -> TestResult {
    let (_folder, journal) = journal()?;
    let odd = JournalEntry { cost_usd: -0.0, seconds: 3.0, prompt_tokens: 0, ..entry("{\"a\":\"ü\\u0000\"}") };
    assert_eq!(journal.get(&key("a"))?, None);
    journal.put(&key("a"), &odd)?;
    assert_eq!(journal.get(&key("a"))?, Some(odd.clone()));
    let again = Journal::open(journal.path())?;
    assert_eq!(again.get(&key("a"))?, Some(odd));
    assert_eq!(again.get(&key("b"))?, None);
    Ok(())
}

#[test]
fn the_first_response_stays() -> TestResult {
    let (_folder, journal) = journal()?;
    journal.put(&key("a"), &entry("1"))?;
    journal.put(&key("a"), &entry("2"))?;
    assert_eq!(journal.get(&key("a"))?, Some(entry("1")));
    assert_eq!(journal.statistics()?.entries, 1);
    Ok(())
}

#[test]
fn a_damaged_entry_is_absent_counted_named_and_can_be_replaced() -> TestResult {
    let (_folder, journal) = journal()?;
    for name in ["a", "b", "c"] {
        journal.put(&key(name), &entry(name))?;
    }
    let other = Connection::open(journal.path())?;
    let damage =
        |set: &str, name: &str| other.execute(&format!("UPDATE calls SET {set} WHERE key = ?1"), [key(name).bytes()]);
    damage("response = 'x'", "a")?;
    damage("response = CAST(x'ff' AS TEXT)", "b")?;
    assert_eq!(journal.get(&key("a"))?, None);
    assert_eq!(journal.get(&key("b"))?, None);
    assert_eq!(journal.get(&key("c"))?, Some(entry("c")));
    assert_eq!(journal.statistics()?.damaged, 2);
    let mut named: Vec<String> = journal.verify()?.into_iter().map(|damaged| damaged.key).collect();
    named.sort();
    let mut expected = vec![key("a").hex(), key("b").hex()];
    expected.sort();
    assert_eq!(named, expected);
    journal.put(&key("a"), &entry("new"))?;
    assert_eq!(journal.get(&key("a"))?, Some(entry("new")));
    assert_eq!(journal.verify()?.len(), 1);
    Ok(())
}

#[test]
fn an_entry_under_another_key_is_damaged() -> TestResult {
    let (_folder, journal) = journal()?;
    journal.put(&key("a"), &entry("1"))?;
    let other = Connection::open(journal.path())?;
    other.execute("UPDATE calls SET key = ?1", [key("b").bytes()])?;
    assert_eq!(journal.get(&key("b"))?, None);
    Ok(())
}

#[test]
fn statistics_add_up() -> TestResult {
    let (_folder, journal) = journal()?;
    journal.put(&key("a"), &entry("1"))?;
    journal.put(&key("b"), &entry("2"))?;
    let statistics = journal.statistics()?;
    assert_eq!((statistics.entries, statistics.prompt_tokens, statistics.completion_tokens), (2, 20, 4));
    assert_eq!((statistics.cost_usd, statistics.damaged), (0.25, 0));
    assert!(statistics.bytes > 0);
    Ok(())
}

#[test]
fn a_number_that_is_not_finite_is_refused() -> TestResult {
    let (_folder, journal) = journal()?;
    assert!(journal.put(&key("a"), &JournalEntry { cost_usd: f64::NAN, ..entry("1") }).is_err());
    assert_eq!(journal.get(&key("a"))?, None);
    Ok(())
}

#[test]
fn a_newer_journal_and_another_file_are_refused() -> TestResult {
    let (folder, journal) = journal()?;
    Connection::open(journal.path())?.pragma_update(None, "user_version", 99)?;
    assert!(matches!(Journal::open(journal.path()), Err(Error::Newer { found: 99, .. })));
    let other = folder.path().join("text.sqlite");
    std::fs::write(&other, "this is no database, but long enough to look at".repeat(100))?;
    assert!(matches!(Journal::open(other), Err(Error::Journal { .. })));
    Ok(())
}

#[test]
fn what_was_put_survives_kill_nine() -> TestResult {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.sqlite");
    // This test program once more, as the process that is killed.
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "journal::tests::puts_until_killed", "--ignored", "--nocapture"])
        .env("REVERIE_TEST_JOURNAL", &path)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("the output is piped")?;
    let mut announced = 0;
    for line in BufReader::new(output).lines() {
        announced += usize::from(line?.starts_with("kept"));
        if announced == 200 {
            child.kill()?;
        }
    }
    child.wait()?;
    assert!(announced >= 200, "{announced} entries were announced");
    let journal = Journal::open(&path)?;
    for i in 0..announced {
        assert!(journal.get(&key(&i.to_string()))?.is_some(), "entry {i} of {announced} is lost");
    }
    assert!(journal.verify()?.is_empty());
    assert!(journal.statistics()?.entries <= announced as u64 + 1, "only the one in flight may be unannounced");
    Ok(())
}

#[test]
#[ignore = "the process that another test kills"]
fn puts_until_killed() -> TestResult {
    use std::io::Write;
    let Ok(path) = std::env::var("REVERIE_TEST_JOURNAL") else { return Ok(()) };
    let journal = Journal::open(path)?;
    for i in 0..1_000_000 {
        journal.put(&key(&i.to_string()), &entry("1"))?;
        // The first line of the test harness has no end of its own.
        writeln!(std::io::stdout(), "{}kept {i}", if i == 0 { "\n" } else { "" })?;
    }
    Ok(())
}

#[test]
fn many_connections_open_read_and_write_at_once() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.sqlite");
    let work = |writer: usize| {
        let journal = Journal::open(&path)?;
        for i in 0..40 {
            // Half of the keys are shared by all writers.
            let name = if i % 2 == 0 { format!("shared {i}") } else { format!("{writer} {i}") };
            journal.put(&key(&name), &entry(&name))?;
            assert_eq!(journal.get(&key(&name))?, Some(entry(&name)));
        }
        Ok::<_, Error>(())
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|writer| scope.spawn(move || work(writer))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a writer panicked")).collect()
    });
    for result in results {
        result??;
    }
    let journal = Journal::open(&path)?;
    assert_eq!(journal.statistics()?.entries, 20 + 8 * 20);
    assert!(journal.verify()?.is_empty());
    Ok(())
}
