//! A small store with everything in it that a store can hold.

use super::*;
use crate::CopiedCalls;
use std::path::Path;

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn parquet(content: &str) -> Vec<u8> {
    [b"PAR1", content.as_bytes(), &(content.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

fn artifact(i: usize) -> String {
    format!("artifacts/{i:02}/{i:064}.parquet")
}

/// Two runs with one artifact each and one together, and one of no run.
async fn filled(folder: &Path) -> Result<ArtifactStore, Box<dyn std::error::Error>> {
    let store = ArtifactStore::open(&folder.to_string_lossy(), &[])?;
    for i in 0..4 {
        store.put(&artifact(i), parquet("rows")).await?;
    }
    for (run, used) in [("one", [0, 1]), ("two", [1, 2])] {
        store.put(&format!("runs/{run}/results.json"), "{}").await?;
        let list = serde_json::to_vec(&RunArtifacts::new(used.map(artifact)))?;
        store.put(&format!("runs/{run}/artifacts.json"), list).await?;
        store.put(&format!("runs/{run}/events.jsonl"), "").await?;
    }
    store.put("runs/e.latest", "two").await?;
    store.put("partial/one/5-artifacts-00-x.parquet", parquet("")).await?;
    std::fs::write(folder.join("journal.old"), "of this machine")?;
    std::fs::write(folder.join(artifact(7) + "#3"), "hal").or_else(|_| {
        std::fs::create_dir_all(folder.join("artifacts/07"))?;
        std::fs::write(folder.join(artifact(7) + "#3"), "hal")
    })?;
    Ok(store)
}

const SOON: i64 = i64::MAX;

#[tokio::test]
async fn objects_are_counted_by_kind_and_by_run() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    let found = inventory(&store).await?;
    assert_eq!(found.all.objects, 13);
    assert_eq!(found.kinds["artifacts .parquet"], Amount { objects: 4, bytes: 64 });
    assert_eq!((found.kinds["runs"].objects, found.kinds["partial outputs"].objects), (7, 1));
    assert_eq!(found.kinds["of one machine"].objects, 1);
    let runs: Vec<_> = found.runs.iter().map(|run| (run.files.objects, run.artifacts, run.missing)).collect();
    assert_eq!(runs, [(3, Some(Amount { objects: 2, bytes: 32 }), 0); 2]);
    store.remove(&artifact(1)).await?;
    assert!(inventory(&store).await?.runs.iter().all(|run| run.missing == 1));
    Ok(())
}

#[tokio::test]
async fn every_kind_of_damage_is_named() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    let whole = verify(&store, |_| {}).await?;
    assert_eq!((whole.read.objects, whole.damaged), (12, vec![]));
    let dense = |rows: u32| {
        let mut bytes = [0; 64 + 2 * 16 * 4];
        bytes[..8].copy_from_slice(b"RVDENSE\n");
        bytes[12..16].copy_from_slice(&3u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&rows.to_le_bytes());
        bytes.to_vec()
    };
    let key = Key::of_bytes(b"call").hex();
    store.put("artifacts/aa/whole.dense", dense(2)).await?;
    let damaged = [
        ("artifacts/aa/cut.dense", dense(3)),
        ("artifacts/aa/other.bm25", b"nothing".to_vec()),
        ("artifacts/aa/cut.parquet", parquet("rows")[..9].to_vec()),
        ("artifacts/aa/footer.parquet", [b"PAR1PAR1".as_slice(), &9u32.to_le_bytes(), b"PAR1"].concat()),
        ("runs/three/results.json", b"{".to_vec()),
        (&format!("journal/{}/{key}.json", &key[..2]), b"{}".to_vec()),
    ];
    for (name, bytes) in &damaged {
        store.put(name, bytes.clone()).await?;
    }
    let found = verify(&store, |_| {}).await?;
    let mut names: Vec<&str> = damaged.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(found.damaged.iter().map(|damaged| damaged.name.as_str()).collect::<Vec<_>>(), names);
    Ok(())
}

#[tokio::test]
async fn only_what_is_old_and_wanted_by_nobody_is_litter() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    let now = Wanted { only_used: true, ..Wanted::default() };
    assert_eq!(litter(&store, &now).await?, Litter::default(), "nothing is old");
    let old = Wanted { since_unix_ms: SOON, ..Wanted::default() };
    let leftovers = litter(&store, &old).await?;
    assert_eq!((leftovers.partial.len(), leftovers.staged.len(), leftovers.unused.len()), (1, 1, 0));
    let names = |litter: &Litter| litter.unused.iter().map(|object| object.name.clone()).collect::<Vec<_>>();
    let unused = Wanted { only_used: true, ..old.clone() };
    assert_eq!(names(&litter(&store, &unused).await?), [artifact(3)]);
    let of_two = Wanted { runs: vec!["two".to_owned()], artifacts: [artifact(3)].into(), ..unused.clone() };
    let found = litter(&store, &of_two).await?;
    assert_eq!(names(&found), [artifact(0)]);
    assert!(litter(&store, &Wanted { runs: vec!["ten".to_owned()], ..unused.clone() }).await.is_err());

    remove(&store, &found, |_| {}).await?;
    assert!(!store.exists(&artifact(0)).await? && store.exists(&artifact(1)).await?);
    assert!(store.list("partial").await?.is_empty() && !folder.path().join(artifact(7) + "#3").exists());
    store.remove("runs/one/artifacts.json").await?;
    assert!(litter(&store, &unused).await.is_err(), "what run `one` needs is not known");
    Ok(())
}

#[tokio::test]
async fn a_copy_goes_on_where_it_was_and_overwrites_nothing() -> TestResult {
    let (folder, scratch) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let store = filled(folder.path()).await?;
    let far = ArtifactStore::open("memory:///prefix", &[])?;
    far.put(&artifact(0), parquet("rows")).await?;
    far.put("runs/e.latest", "another").await?;
    let mut last = CopyProgress::default();
    let copied = copy(&store, &far, scratch.path(), |progress| last = progress).await?;
    assert_eq!((copied.written.objects, copied.there.objects, copied.of_the_machine), (10, 1, 1));
    assert_eq!(copied.different, ["runs/e.latest"]);
    assert_eq!((last.done, last.all.objects), (last.all, 12));
    assert_eq!(far.get("runs/e.latest").await?.as_deref(), Some(&b"another"[..]));
    let again = copy(&store, &far, scratch.path(), |_| {}).await?;
    assert_eq!((again.written.objects, again.there.objects), (0, 11));

    let other = tempfile::tempdir()?;
    let back = ArtifactStore::open(&other.path().to_string_lossy(), &[])?;
    assert_eq!(copy(&far, &back, scratch.path(), |_| {}).await?.written.objects, 12);
    assert_eq!(back.list("").await?, far.list("").await?);
    Ok(())
}

#[tokio::test]
async fn calls_go_from_a_file_to_objects_and_back_to_a_file() -> TestResult {
    let (first, last, scratch) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let entry = |response: &str| crate::JournalEntry {
        model: "m".to_owned(),
        kind: "chat".to_owned(),
        response: response.to_owned(),
        prompt_tokens: 3,
        completion_tokens: 2,
        cost_usd: 0.5,
        seconds: 1.5,
        created_unix_ms: 7,
    };
    let keys: Vec<Key> = (0..2500_u32).map(|i| Key::of_bytes(&i.to_le_bytes())).collect();
    let journal = crate::Journal::open(first.path().join("journal.db"))?;
    for key in &keys[..30] {
        journal.put(key, &entry(&key.hex()))?;
    }
    let near = ArtifactStore::open(&first.path().to_string_lossy(), &[])?;
    let far = ArtifactStore::open("memory:///calls", &[])?;
    let calls = copy(&near, &far, scratch.path(), |_| {}).await?.calls;
    assert_eq!(calls, CopiedCalls { written: 30, ..CopiedCalls::default() });
    assert!(verify(&far, |_| {}).await?.damaged.is_empty(), "as a shared journal writes them");
    // More than one batch, of which some are there.
    for key in &keys[30..] {
        journal.put(key, &entry(&key.hex()))?;
    }
    drop(journal);
    let calls = copy(&near, &far, scratch.path(), |_| {}).await?.calls;
    assert_eq!((calls.written, calls.there), (2470, 30));

    let name = format!("journal/{}/{}.json", &keys[0].hex()[..2], keys[0].hex());
    far.replace(&name, "{}").await?;
    let back = ArtifactStore::open(&last.path().to_string_lossy(), &[])?;
    let copied = copy(&far, &back, scratch.path(), |_| {}).await?;
    assert_eq!(copied.calls, CopiedCalls { written: 2499, damaged: 1, ..CopiedCalls::default() });
    assert!(back.list("journal").await?.is_empty(), "a folder has a file");
    let journal = crate::Journal::open(last.path().join("journal.db"))?;
    assert_eq!(journal.get(&keys[7])?, Some(entry(&keys[7].hex())));
    assert_eq!(journal.get(&keys[0])?, None);
    let again = copy(&far, &back, scratch.path(), |_| {}).await?.calls;
    assert_eq!((again.written, again.there, again.damaged), (0, 2499, 1));

    // A file that is no journal keeps nobody from the rest.
    std::fs::write(first.path().join("journal.db"), "of another program")?;
    near.put(&artifact(0), parquet("rows")).await?;
    let copied = copy(&near, &far, scratch.path(), |_| {}).await?;
    assert!(copied.calls.problem.as_ref().is_some_and(|problem| problem.contains("journal.db")), "{copied:?}");
    assert!(!copied.is_whole() && far.exists(&artifact(0)).await?);
    Ok(())
}
