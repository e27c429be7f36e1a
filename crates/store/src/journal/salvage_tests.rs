//! A salvage that is stopped at each of its steps, and killed at any moment.

use super::super::{SharedJournal, tests};
use super::*;
use crate::ArtifactStore;
use std::{process::Command, sync::Arc};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

const STEPS: [SalvageStep; 7] = [
    SalvageStep::Building,
    SalvageStep::Built,
    SalvageStep::Committed,
    SalvageStep::Linked,
    SalvageStep::LogMoved,
    SalvageStep::Cleared,
    SalvageStep::Replaced,
];

fn key(i: usize) -> Key {
    tests::key(&i.to_string())
}

fn response(i: usize) -> String {
    format!("answer-{i}-{}", "x".repeat(700))
}

/// Copies a journal with its log, as a kill leaves them.
fn copied(path: &Path) -> TestResult<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("journal.db");
    for suffix in ["", "-wal"] {
        if with_suffix(path, suffix).exists() {
            std::fs::copy(with_suffix(path, suffix), with_suffix(&copy, suffix))?;
        }
    }
    Ok((folder, copy))
}

/// A journal of 300 entries that has one page overwritten. Each third has to
/// be sent, and the last 50 are in SQLite's log only.
fn damaged() -> TestResult<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.db");
    let put = |range: std::ops::Range<usize>| {
        let journal = Journal::open(&path)?;
        for i in range {
            let entry = tests::entry(&response(i));
            if i % 3 == 0 { journal.put_to_send(&[(key(i), entry)])? } else { journal.put(&key(i), &entry)? }
        }
        Ok::<_, Error>(journal)
    };
    drop(put(0..250)?);
    let journal = put(250..300)?;
    let (copy, path) = copied(&path)?;
    drop(journal);
    assert!(std::fs::metadata(with_suffix(&path, "-wal"))?.len() > 10_000, "the log holds the last entries");
    let mut bytes = std::fs::read(&path)?;
    let at = bytes.windows(11).position(|window| window == b"answer-120-").ok_or("the response is in the file")?;
    let page = at / 4096 * 4096;
    bytes[page..page + 4096].fill(0xAB);
    std::fs::write(&path, bytes)?;
    Ok((copy, path))
}

/// The entries of a journal, and those of them that have to be sent.
fn read(path: &Path) -> Result<(BTreeSet<usize>, BTreeSet<usize>), Error> {
    let journal = Journal::open(path)?;
    let mut kept = BTreeSet::new();
    for i in 0..300 {
        if let Some(entry) = journal.get(&key(i))? {
            assert_eq!(entry, tests::entry(&response(i)));
            kept.insert(i);
        }
    }
    let sends: BTreeSet<Key> = journal.to_send(None, 1000)?.into_iter().map(|(key, _)| key).collect();
    Ok((kept, (0..300).filter(|i| sends.contains(&key(*i))).collect()))
}

/// The same, after a salvage if one is needed.
fn content(path: &Path) -> TestResult<(BTreeSet<usize>, BTreeSet<usize>)> {
    match read(path) {
        Err(Error::JournalDamaged { .. }) => {
            Journal::salvage(path)?;
            Ok(read(path)?)
        }
        content => Ok(content?),
    }
}

/// What an undisturbed salvage saves of a copy.
fn expected(path: &Path) -> TestResult<(BTreeSet<usize>, BTreeSet<usize>)> {
    let (_folder, copy) = copied(path)?;
    let salvage = Journal::salvage(&copy)?;
    let (kept, sends) = content(&copy)?;
    assert_eq!((kept.len() as u64, sends.len() as u64), (salvage.kept, salvage.unsent));
    Ok((kept, sends))
}

#[test]
fn a_salvage_keeps_what_was_not_sent_yet_and_what_only_the_log_holds() -> TestResult {
    let (_folder, path) = damaged()?;
    let (kept, sends) = expected(&path)?;
    assert!((280..300).contains(&kept.len()), "{}", kept.len());
    assert!((250..300).all(|i| kept.contains(&i)), "of the log");
    let owed: BTreeSet<usize> = kept.iter().copied().filter(|i| i % 3 == 0).collect();
    assert_eq!(sends, owed, "paid answers that no other machine has");
    Ok(())
}

#[tokio::test]
async fn answers_that_were_saved_reach_the_shared_store() -> TestResult {
    let (_folder, path) = damaged()?;
    let owed = expected(&path)?.1.len();
    Journal::salvage(&path)?;
    let store = ArtifactStore::open("memory:///shared", &[], &crate::NoLayout)?;
    let journal = SharedJournal::new(Arc::new(Journal::open(&path)?), store.clone());
    assert_eq!(journal.n_unsent()?, owed as u64);
    assert_eq!(journal.flush().await?, 0);
    assert_eq!(store.list("journal").await?.len(), owed);
    Ok(())
}

#[test]
fn where_the_list_of_what_has_to_be_sent_is_lost_everything_is_sent() -> TestResult {
    let (_folder, path) = damaged()?;
    // Its table and its index begin on pages that their schema names.
    let roots = {
        let connection = Connection::open(&path)?;
        let mut statement = connection.prepare("SELECT rootpage FROM sqlite_master WHERE tbl_name = 'outbox'")?;
        statement.query_map([], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?
    };
    let mut bytes = std::fs::read(&path)?;
    for root in roots {
        let end = usize::try_from(root)? * 4096;
        bytes[end - 4096..end].fill(0xAB);
    }
    std::fs::write(&path, bytes)?;
    ignore_missing(std::fs::remove_file(with_suffix(&path, "-wal")))?;
    let salvage = Journal::salvage(&path)?;
    assert!(salvage.kept > 200, "{salvage:?}");
    assert_eq!(salvage.unsent, salvage.kept);
    Ok(())
}

#[test]
fn stopped_at_any_step_nothing_is_lost_and_the_next_open_goes_on() -> TestResult {
    let (_folder, path) = damaged()?;
    let expected = expected(&path)?;
    for stop in STEPS {
        for again in [None, Some(SalvageStep::Built), Some(SalvageStep::Linked), Some(SalvageStep::LogMoved)] {
            let (folder, copy) = copied(&path)?;
            let before = std::fs::metadata(&copy)?.len();
            let stopped = || Error::Gone { path: "stopped here".to_owned() };
            for step in [Some(stop), again].into_iter().flatten() {
                let mut watch = |now: SalvageStep| if now == step { Err(stopped()) } else { Ok(()) };
                let _ = salvage(&copy, &mut watch);
            }
            let case = format!("stopped at {stop:?}, then at {again:?}");
            assert!(copy.exists(), "{case}: a journal is there at each moment");
            assert!(content(&copy)? == expected, "{case}");
            // A salvage of what is whole changes nothing either.
            Journal::salvage(&copy)?;
            assert!(content(&copy)? == expected, "{case}, and once more");
            let files: Vec<PathBuf> = std::fs::read_dir(folder.path())?.flatten().map(|entry| entry.path()).collect();
            // With its log in it, if SQLite closed it in the meantime.
            let is_kept = |file: &PathBuf| {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("journal.damaged-") && std::fs::metadata(file).is_ok_and(|file| file.len() >= before)
            };
            assert!(files.iter().any(is_kept), "{case}: the damaged file is still there: {files:?}");
        }
    }
    Ok(())
}

#[test]
fn what_an_earlier_version_left_between_its_renames_is_taken_over() -> TestResult {
    let (_folder, path) = damaged()?;
    let (kept, sends) = expected(&path)?;
    // That version had built the new file and moved the old one away.
    Journal::salvage(&path)?;
    std::fs::rename(&path, path.with_extension("salvaged"))?;
    // And the next run began a new, empty one, and paid for something.
    let journal = Journal::open(&path)?;
    journal.put(&key(1000), &tests::entry("new"))?;
    drop(journal);
    assert_eq!(content(&path)?, (kept, sends));
    assert_eq!(Journal::open(&path)?.get(&key(1000))?, Some(tests::entry("new")));
    assert!(path.with_extension("damaged-2").exists(), "what was taken over is kept too");
    Ok(())
}

#[test]
fn a_journal_that_is_in_use_is_not_built_anew() -> TestResult {
    let (_folder, path) = damaged()?;
    let user = Connection::open(&path)?;
    user.query_row("SELECT count(*) FROM reuse", [], |_| Ok(()))?;
    assert!(matches!(Journal::salvage(&path), Err(Error::JournalInUse { .. })));
    drop(user);
    Journal::salvage(&path)?;
    Ok(())
}

#[test]
fn whoever_writes_to_a_journal_that_was_replaced_is_told() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.db");
    let journal = Journal::open(&path)?;
    journal.put(&key(1), &tests::entry("1"))?;
    std::fs::rename(&path, path.with_extension("moved"))?;
    assert!(matches!(journal.put(&key(2), &tests::entry("2")), Err(Error::Gone { .. })));
    drop(Journal::open(&path)?);
    assert!(matches!(journal.put(&key(2), &tests::entry("2")), Err(Error::Gone { .. })), "another file has its name");
    Ok(())
}

#[test]
fn killed_at_any_moment_nothing_is_lost() -> TestResult {
    let (_folder, path) = damaged()?;
    let expected = expected(&path)?;
    let kills: u64 = std::env::var("REVERIE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12);
    let mut midway = 0;
    for kill in 0..kills {
        let (folder, copy) = copied(&path)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "journal::salvage::tests::salvages_until_killed", "--ignored"])
            .env("REVERIE_TEST_JOURNAL", &copy)
            .stdout(std::process::Stdio::null())
            .spawn()?;
        // From before it begins to after its end, at no regular moment.
        let begun = || std::fs::read_dir(folder.path()).is_ok_and(|files| files.count() > 2);
        let start = std::time::Instant::now();
        while !begun() && start.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        let wait = std::time::Duration::from_micros(kill * 7919 % 12_000);
        let start = std::time::Instant::now();
        while start.elapsed() < wait {
            std::thread::yield_now();
        }
        child.kill()?;
        midway += u64::from(!child.wait()?.success());
        assert!(content(&copy)? == expected, "kill {kill} after {wait:?}");
    }
    assert!(midway * 4 >= kills, "only {midway} of {kills} kills came in time");
    Ok(())
}

#[test]
#[ignore = "the process that another test kills"]
fn salvages_until_killed() -> TestResult {
    let Ok(path) = std::env::var("REVERIE_TEST_JOURNAL") else { return Ok(()) };
    Journal::salvage(path)?;
    Ok(())
}
