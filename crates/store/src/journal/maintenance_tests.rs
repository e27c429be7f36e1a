//! Damage of every kind, several processes, and what is taken out.

use super::super::tests::{self, key};
use super::*;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// An entry of a second after the beginning of 1970.
fn entry(response: &str) -> JournalEntry {
    JournalEntry { created_unix_ms: 1000, ..tests::entry(response) }
}

/// A closed journal of entries whose responses name them.
fn filled(count: usize) -> Result<(tempfile::TempDir, PathBuf), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.db");
    let journal = Journal::open(&path)?;
    for i in 0..count {
        journal.put(&key(&i.to_string()), &entry(&response(i)))?;
    }
    Ok((folder, path))
}

/// Removes a database and what SQLite keeps beside it.
fn remove_files(path: &Path) -> TestResult {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(PathBuf::from(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn response(i: usize) -> String {
    format!("answer-{i}-{}", "x".repeat(700))
}

#[test]
fn a_flipped_bit_in_the_file_is_found_named_and_asked_again() -> TestResult {
    let (_folder, path) = filled(50)?;
    let mut bytes = std::fs::read(&path)?;
    let at = bytes.windows(10).position(|window| window == b"answer-17-").ok_or("the response is in the file")?;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes)?;
    let journal = Journal::open(&path)?;
    for i in 0..50 {
        let expected = (i != 17).then(|| entry(&response(i)));
        assert_eq!(journal.get(&key(&i.to_string()))?, expected, "entry {i}");
    }
    let damaged = journal.verify()?;
    assert_eq!(damaged.iter().map(|damaged| damaged.key.clone()).collect::<Vec<_>>(), [key("17").hex()]);
    assert!(damaged[0].reason.contains("checksum"));
    assert_eq!(journal.statistics()?.damaged, 1);
    journal.put(&key("17"), &entry(&response(17)))?;
    assert!(journal.verify()?.is_empty());
    Ok(())
}

#[test]
fn no_flipped_bit_anywhere_gives_a_wrong_answer() -> TestResult {
    let (_folder, path) = filled(40)?;
    let bytes = std::fs::read(&path)?;
    let mut found = 0;
    // A prime step, so that headers, keys, numbers and texts are all hit.
    for at in (0..bytes.len()).step_by(397) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, damaged)?;
        let Ok(journal) = Journal::open(&path) else {
            found += 1;
            continue;
        };
        for i in 0..40 {
            match journal.get(&key(&i.to_string())) {
                Ok(Some(kept)) => assert_eq!(kept, entry(&response(i)), "byte {at}"),
                Ok(None) | Err(_) => found += 1,
            }
        }
        drop(journal);
        remove_files(&path)?;
    }
    assert!(found > 20, "{found}");
    Ok(())
}

#[test]
fn a_journal_that_was_cut_off_is_reported_and_saved_as_far_as_it_goes() -> TestResult {
    let (folder, path) = filled(300)?;
    let whole = std::fs::metadata(&path)?.len();
    std::fs::OpenOptions::new().write(true).open(&path)?.set_len(whole * 6 / 10)?;
    let refused = Journal::open(&path).map(drop);
    assert!(matches!(refused, Err(Error::JournalDamaged { .. })), "{refused:?}");

    let salvage = Journal::salvage(&path)?;
    assert!((100..300).contains(&salvage.kept), "{salvage:?}");
    assert_eq!(salvage.damaged_file, folder.path().join("journal.damaged-1"));
    let journal = Journal::open(&path)?;
    let mut kept = 0;
    for i in 0..300 {
        if let Some(found) = journal.get(&key(&i.to_string()))? {
            assert_eq!(found, entry(&response(i)));
            kept += 1;
        }
        journal.put(&key(&i.to_string()), &entry(&response(i)))?;
    }
    assert_eq!(kept, salvage.kept);
    assert!(journal.verify()?.is_empty());
    assert_eq!(journal.statistics()?.entries, 300);
    Ok(())
}

#[test]
fn a_journal_cut_off_at_any_length_never_gives_a_wrong_answer() -> TestResult {
    let (_folder, path) = filled(30)?;
    let bytes = std::fs::read(&path)?;
    for length in (0..bytes.len()).step_by(bytes.len() / 23) {
        remove_files(&path)?;
        std::fs::write(&path, &bytes[..length])?;
        let Ok(journal) = Journal::open(&path) else { continue };
        for i in 0..30 {
            if let Ok(Some(kept)) = journal.get(&key(&i.to_string())) {
                assert_eq!(kept, entry(&response(i)), "cut to {length} bytes");
            }
        }
    }
    Ok(())
}

#[test]
fn two_processes_write_and_read_at_once() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.db");
    // This test program twice more, as the processes that write.
    let start = |writer: &str| {
        Command::new(std::env::current_exe()?)
            .args(["--exact", "journal::maintenance::tests::puts_as_another_process", "--ignored"])
            .env("REVERIE_TEST_JOURNAL", &path)
            .env("REVERIE_TEST_WRITER", writer)
            .stdout(std::process::Stdio::null())
            .spawn()
    };
    let children = [start("a")?, start("b")?];
    for mut child in children {
        assert!(child.wait()?.success());
    }
    let journal = Journal::open(&path)?;
    assert_eq!(journal.statistics()?.entries, 200 + 2 * 200);
    assert!(journal.verify()?.is_empty());
    assert!(journal.statistics()?.reused >= 800, "both processes' counts add up");
    Ok(())
}

#[test]
#[ignore = "a process of another test"]
fn puts_as_another_process() -> TestResult {
    let (Ok(path), Ok(writer)) = (std::env::var("REVERIE_TEST_JOURNAL"), std::env::var("REVERIE_TEST_WRITER")) else {
        return Ok(());
    };
    let journal = Journal::open(path)?;
    for i in 0..400 {
        let name = if i % 2 == 0 { format!("shared {i}") } else { format!("{writer} {i}") };
        journal.put(&key(&name), &entry(&name))?;
        assert_eq!(journal.get(&key(&name))?, Some(entry(&name)));
    }
    Ok(())
}

#[test]
fn what_is_selected_or_damaged_is_taken_out_and_nothing_else() -> TestResult {
    let (_folder, path) = filled(20)?;
    let journal = Journal::open(&path)?;
    let young = JournalEntry { created_unix_ms: 5000, ..entry("young") };
    journal.put(&key("young"), &young)?;
    journal.put(&key("other"), &JournalEntry { model: "n".to_owned(), ..entry("other") })?;
    Connection::open(&path)?.execute("UPDATE calls SET response = 'x' WHERE key = ?1", [key("3").bytes()])?;

    let nothing = Selection::default();
    let old = Selection { before_unix_ms: Some(2000), ..Selection::default() };
    let of_n = Selection { models: vec!["n".to_owned()], ..Selection::default() };
    let old_of_n = Selection { models: vec!["n".to_owned()], before_unix_ms: Some(1000) };
    for (selection, selected) in [(&nothing, 0), (&old, 20), (&of_n, 1), (&old_of_n, 0)] {
        let sweep = journal.select(selection)?;
        assert_eq!((sweep.selected, sweep.damaged), (selected, 1), "{selection:?}");
        assert_eq!(sweep.cost_usd, selected as f64 * 0.125);
    }
    assert_eq!(journal.statistics()?.entries, 22, "looking takes nothing out");

    // While another process has it open.
    let other = Journal::open(&path)?;
    assert_eq!(other.get(&key("1"))?, Some(entry(&response(1))));
    let sweep = journal.remove(&old)?;
    assert!(sweep.bytes_after < sweep.bytes_before, "{sweep:?}");
    assert_eq!(other.get(&key("1"))?, None);
    assert_eq!(other.get(&key("young"))?, Some(young));
    other.put(&key("1"), &entry("again"))?;
    assert_eq!(journal.get(&key("1"))?, Some(entry("again")));
    assert_eq!(journal.statistics()?.entries, 2);
    assert!(journal.verify()?.is_empty());
    Ok(())
}

#[test]
fn what_was_saved_adds_up_over_processes_and_models() -> TestResult {
    let (_folder, path) = filled(2)?;
    for _ in 0..3 {
        let journal = Journal::open(&path)?;
        journal.get(&key("0"))?;
        journal.get(&key("1"))?;
        journal.get(&key("nobody"))?;
    }
    let journal = Journal::open(&path)?;
    journal.put(&key("n"), &JournalEntry { model: "n".to_owned(), created_unix_ms: 7, ..entry("n") })?;
    let statistics = journal.statistics()?;
    assert_eq!((statistics.reused, statistics.saved_usd, statistics.cost_usd), (6, 0.75, 0.375));
    let models = journal.models()?;
    assert_eq!(
        models.iter().map(|model| (model.model.as_str(), model.entries)).collect::<Vec<_>>(),
        [("m", 2), ("n", 1)]
    );
    assert_eq!((models[1].oldest_unix_ms, models[1].cost_usd), (7, 0.125));
    Ok(())
}

#[test]
fn a_journal_of_an_older_version_gets_what_it_lacks() -> TestResult {
    let (_folder, path) = filled(1)?;
    Connection::open(&path)?.execute_batch("DROP TABLE reuse")?;
    let journal = Journal::open(&path)?;
    journal.get(&key("0"))?;
    assert_eq!(journal.statistics()?.reused, 1);
    Ok(())
}
