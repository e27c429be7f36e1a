//! Two machines with one store between them.

use super::super::tests::{entry, key};
use super::*;
use crate::layout::tests::ExampleLayout;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A machine with a file of its own.
fn machine(store: &ArtifactStore) -> Result<(tempfile::TempDir, SharedJournal), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let local = Arc::new(Journal::open(folder.path().join("journal.db"))?);
    Ok((folder, SharedJournal::new(local, store.clone())))
}

fn store() -> Result<ArtifactStore, Error> {
    ArtifactStore::open("memory:///prefix", &[], &ExampleLayout)
}

#[tokio::test]
async fn what_one_machine_paid_the_other_finds_and_keeps() -> TestResult {
    let store = store()?;
    let ((_one, first), (_two, second)) = (machine(&store)?, machine(&store)?);
    let odd = JournalEntry { cost_usd: 0.1 + 0.2, seconds: -0.0, ..entry("{\"a\":\"ü\\u0000\"}") };
    assert_eq!(first.put(&key("a"), &odd).await?, None);
    assert_eq!(first.n_unsent()?, 0);
    assert_eq!(store.list("journal").await?, [names::call(&key("a"))]);
    assert_eq!(second.get(&key("a")).await?, Some(odd.clone()));
    assert_eq!(second.local().get(&key("a"))?, Some(odd));
    assert_eq!(second.get(&key("b")).await?, None);
    assert_eq!(second.local().statistics()?.reused, 2);
    Ok(())
}

#[tokio::test]
async fn of_two_answers_to_one_call_the_first_is_everyones() -> TestResult {
    let store = store()?;
    let ((_one, first), (_two, second)) = (machine(&store)?, machine(&store)?);
    assert_eq!(first.put(&key("a"), &entry("1")).await?, None);
    assert_eq!(second.put(&key("a"), &entry("2")).await?, Some(entry("1")));
    assert_eq!(second.local().get(&key("a"))?, Some(entry("1")));
    assert_eq!(second.n_unsent()?, 0);
    Ok(())
}

#[tokio::test]
async fn a_damaged_object_is_absent_counted_and_replaced() -> TestResult {
    let store = store()?;
    let (_one, journal) = machine(&store)?;
    let whole = String::from_utf8(encode(&key("a"), &entry("right"))?)?;
    assert_eq!(decode(&key("a"), whole.as_bytes()).map_err(|damaged| damaged.reason)?, entry("right"));
    assert!(decode(&key("b"), whole.as_bytes()).is_err(), "an entry under the wrong key is damaged");
    store.put(&names::call(&key("a")), whole.replace("right", "wrong")).await?;
    assert_eq!(journal.get(&key("a")).await?, None);
    assert_eq!(journal.n_damaged(), 1);
    assert_eq!(journal.put(&key("a"), &entry("right")).await?, None);
    let (_two, other) = machine(&store)?;
    assert_eq!(other.get(&key("a")).await?, Some(entry("right")));
    Ok(())
}

#[tokio::test]
async fn what_the_store_could_not_take_is_kept_and_sent_later() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.db");
    let blocked = folder.path().join("store");
    let store = ArtifactStore::open(&blocked.to_string_lossy(), &[], &ExampleLayout)?;
    // A file where the folder should be: no entry can be written.
    std::fs::write(blocked.join("journal"), "in the way")?;
    let journal = SharedJournal::new(Arc::new(Journal::open(&path)?), store.clone());
    for name in ["a", "b", "c"] {
        assert_eq!(journal.put(&key(name), &entry(name)).await?, None, "a paid call does not fail");
    }
    assert_eq!((journal.n_unsent()?, journal.local().statistics()?.unsent), (3, 3));
    assert!(journal.problem().is_some());
    assert!(journal.flush().await.is_err());
    drop(journal);

    std::fs::remove_file(blocked.join("journal"))?;
    let journal = SharedJournal::new(Arc::new(Journal::open(&path)?), store.clone());
    assert_eq!(journal.n_unsent()?, 3, "the outbox outlives the process");
    journal.put(&key("d"), &entry("d")).await?;
    assert_eq!(journal.n_unsent()?, 0, "a later entry takes the others along");
    assert_eq!(journal.flush().await?, 0);
    assert_eq!(store.list("journal").await?.len(), 4);
    let (_two, other) = machine(&store)?;
    assert_eq!(other.get(&key("b")).await?, Some(entry("b")));
    Ok(())
}

#[tokio::test]
async fn without_a_store_it_is_the_file() -> TestResult {
    let folder = tempfile::tempdir()?;
    let local = Arc::new(Journal::open(folder.path().join("journal.db"))?);
    let journal = SharedJournal::from(local.clone());
    assert_eq!(journal.put(&key("a"), &entry("1")).await?, None);
    assert_eq!(journal.get(&key("a")).await?, Some(entry("1")));
    assert_eq!((journal.n_unsent()?, journal.flush().await?), (0, 0));
    assert_eq!(local.get(&key("a"))?, Some(entry("1")));
    Ok(())
}
