//! A small store with everything in it that a store can hold.

use super::*;
use crate::{CopiedCalls, Key, layout::tests::ExampleLayout};
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
    let store = ArtifactStore::open(&folder.to_string_lossy(), &[], &ExampleLayout)?;
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
    // Each artifact, partial output and file of a run has a checksum beside it.
    assert_eq!((found.all.objects, found.kinds["checksums"]), (13 + 9, ObjectAmount { objects: 9, bytes: 0 }));
    assert_eq!(found.kinds["artifacts .parquet"], ObjectAmount { objects: 4, bytes: 64 });
    assert_eq!((found.kinds["runs"].objects, found.kinds["partial outputs"].objects), (7, 1));
    assert_eq!(found.kinds["files of one machine"].objects, 1);
    let runs: Vec<_> = found.runs.iter().map(|run| (run.files.objects, run.artifacts, run.missing)).collect();
    assert_eq!(runs, [(3, Some(ObjectAmount { objects: 2, bytes: 32 }), 0); 2]);
    store.remove(&artifact(1)).await?;
    assert!(inventory(&store).await?.runs.iter().all(|run| run.missing == 1));
    Ok(())
}

#[tokio::test]
async fn a_flipped_bit_and_a_cut_in_any_object_are_named_and_outputs_of_tasks_set_aside() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    for format in ["dense", "bm25", "tokens"] {
        store.put(&format!("artifacts/aa/x.{format}"), vec![7; 3 << 20]).await?;
    }
    let whole = verify(&store, true, |_| {}).await?;
    assert_eq!((whole.read.objects, whole.damaged.len(), whole.without_checksum.objects), (15, 0, 0));
    let names: Vec<String> =
        store.list("").await?.into_iter().filter(|name| store.object(name).is_verified()).collect();
    let mut tried = 0;
    for name in &names {
        let file = store.local_path(name).ok_or("a folder has paths")?;
        let good = std::fs::read(&file)?;
        let is_covered = name != "runs/e.latest" && !name.ends_with(".jsonl");
        for flip in [true, false].into_iter().filter(|_| is_covered && !good.is_empty()) {
            let mut bytes = good.clone();
            match flip {
                true => bytes[good.len() / 2] ^= 1,
                false => bytes.truncate(good.len() / 2),
            }
            std::fs::write(&file, &bytes)?;
            // Once only to look, and once to set aside.
            for set_aside in [false, true] {
                let found = verify(&store, set_aside, |_| {}).await?;
                assert_eq!(found.damaged.len(), 1, "{name}: {found:?}");
                assert_eq!(&found.damaged[0].name, name);
                assert!(found.damaged[0].reason.contains("checksum"), "{found:?}");
            }
            if name.starts_with("runs/") {
                assert!(file.exists(), "{name} is not made by a task");
            } else {
                assert!(!store.exists(name).await? && store.lost().await? == [name.clone()]);
                let aside = store.list("damaged").await?;
                let kept = aside.iter().filter(|kept| kept.starts_with(&format!("damaged/{name}.")));
                let last = kept.map(|kept| store.local_path(kept)).next_back().flatten().ok_or("it is kept")?;
                assert!(aside.len() > 1 || std::fs::read(last)? == bytes);
            }
            std::fs::write(&file, &good)?;
            assert!(verify(&store, true, |_| {}).await?.damaged.is_empty() && store.lost().await?.is_empty());
            tried += 1;
        }
    }
    assert!(tried >= 20, "{tried}");
    assert!(verify(&store, true, |_| {}).await?.set_aside.objects >= 16);
    Ok(())
}

#[tokio::test]
async fn what_has_no_checksum_is_shown_to_who_knows_its_format() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    // As an earlier version leaves a store.
    std::fs::remove_dir_all(folder.path().join("checksums"))?;
    let name = artifact(2);
    std::fs::write(store.local_path(&name).ok_or("a path")?, "no table at all.")?;
    let found = verify(&store, false, |_| {}).await?;
    assert_eq!(found.without_checksum.objects, 5);
    assert_eq!(found.damaged, [DamagedObject { name: name.clone(), reason: "16 bytes are no table".to_owned() }]);
    assert_eq!(store.read(&name).await?.map(|read| read.is_checked), Some(false), "it can be read as before");
    let key = Key::of_bytes(b"call").hex();
    store.put(&format!("journal/{}/{key}.json", &key[..2]), "{}").await?;
    store.put("runs/three/results.json", "{").await?;
    std::fs::remove_dir_all(folder.path().join("checksums"))?;
    assert_eq!(verify(&store, false, |_| {}).await?.damaged.len(), 3, "and a call, and results");
    Ok(())
}

#[tokio::test]
async fn what_a_run_that_goes_on_uses_is_never_litter() -> TestResult {
    for folder in [tempfile::tempdir()?, tempfile::tempdir()?] {
        let store = filled(folder.path()).await?;
        let all = Retention { since_unix_ms: SOON, only_used: true, ..Retention::default() };
        let names = |garbage: &Garbage| garbage.unused.iter().map(|object| object.name.clone()).collect::<Vec<_>>();
        let before = find_garbage(&store, &all).await?;
        assert_eq!((names(&before), before.staged.len()), (vec![artifact(3)], 1));
        // A run begins after somebody has looked, and finds what it needs.
        let claim = Claim::begin(&store).await?;
        claim.add("one", [artifact(3), artifact(9)]).await?;
        let other = Claim::begin(&store).await?;
        assert_eq!((claim.others().await?, other.others().await?), (1, 1));
        other.end().await?;
        assert_eq!(claim.others().await?, 0);
        remove(&store, &before, |_| {}).await?;
        assert!(store.exists(&artifact(3)).await?, "it was about to be removed");
        assert!(store.exists("partial/one/5-artifacts-00-x.parquet").await?, "of the same run");
        let now = find_garbage(&store, &all).await?;
        assert_eq!((now.unused.len(), now.partial.len(), now.staged.len()), (0, 0, 0));
        claim.end().await?;
        assert!(store.list("leases").await?.is_empty());
        assert_eq!(names(&find_garbage(&store, &all).await?), [artifact(3)]);
        remove(&store, &find_garbage(&store, &all).await?, |_| {}).await?;
        assert!(!store.exists(&artifact(3)).await?);
        assert!(!store.list("checksums").await?.iter().any(|name| name.contains(&artifact(3))));
    }
    Ok(())
}

#[tokio::test]
async fn the_claim_of_a_killed_run_ends_and_is_removed() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    let claim = Claim::begin(&store).await?;
    claim.add("killed", [artifact(3)]).await?;
    // As `kill -9` leaves it.
    std::mem::forget(claim);
    let all = Retention { since_unix_ms: SOON, only_used: true, ..Retention::default() };
    assert!(find_garbage(&store, &all).await?.unused.is_empty());
    let dead = std::time::SystemTime::now() - super::claim::CLAIM_LIFETIME - std::time::Duration::from_secs(1);
    for name in store.list("leases").await? {
        let file = std::fs::File::options().write(true).open(store.local_path(&name).ok_or("a path")?)?;
        file.set_modified(dead)?;
    }
    let found = find_garbage(&store, &all).await?;
    assert_eq!((found.unused.len(), found.leftovers.len()), (1, 2), "{found:?}");
    remove(&store, &found, |_| {}).await?;
    assert!(store.list("leases").await?.is_empty() && !store.exists(&artifact(3)).await?);
    Ok(())
}

#[tokio::test]
async fn a_run_waits_for_the_end_of_a_removal_before_it_looks() -> TestResult {
    let store = ArtifactStore::open("memory:///removal", &[], &ExampleLayout)?;
    let removal = claim::Removal::begin(&store).await?;
    let claim = Claim::begin(&store).await?;
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move {
            claim.add("run", ["artifacts/aa/x.parquet".to_owned()]).await?;
            store.exists("ended").await.map(|ended| (claim, ended))
        })
    };
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert!(!waiting.is_finished());
    store.put("ended", "x").await?;
    removal.end().await?;
    let (_claim, ended) = waiting.await??;
    assert!(ended, "it looked after the end");
    Ok(())
}

#[tokio::test]
async fn what_a_run_used_that_began_and_ended_since_is_no_litter() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    let all = Retention { since_unix_ms: SOON, only_used: true, ..Retention::default() };
    let before = find_garbage(&store, &all).await?;
    assert!(before.unused.iter().any(|object| object.name == artifact(3)));
    let list = serde_json::to_vec(&RunArtifacts::new([artifact(3)]))?;
    store.replace("runs/new/artifacts.json", list).await?;
    store.replace("runs/new/results.json", "{}").await?;
    remove(&store, &before, |_| {}).await?;
    assert!(store.exists(&artifact(3)).await?);
    Ok(())
}

#[tokio::test]
async fn measurements_go_with_their_output() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    let usage = |i| artifact(i).replacen("artifacts", "usage", 1);
    // Two of outputs that runs use, one of an output that none uses, one of an output that is gone.
    for i in [0, 1, 3, 9] {
        store.put(&usage(i), "{}").await?;
    }
    let leftovers = async |wanted: &Retention| {
        let garbage = find_garbage(&store, wanted).await?;
        Ok::<_, crate::Error>(garbage.leftovers.into_iter().map(|object| object.name).collect::<Vec<_>>())
    };
    let old = Retention { since_unix_ms: SOON, ..Retention::default() };
    assert_eq!(leftovers(&Retention::default()).await?, [""; 0], "nothing is old");
    assert_eq!(leftovers(&old).await?, [usage(9)]);
    assert_eq!(leftovers(&Retention { only_used: true, ..old.clone() }).await?, [usage(3), usage(9)]);
    let claim = Claim::begin(&store).await?;
    claim.add("three", [artifact(3)]).await?;
    assert_eq!(leftovers(&Retention { only_used: true, ..old }).await?, [usage(9)], "a run uses it now");
    Ok(())
}

#[tokio::test]
async fn only_what_is_old_and_wanted_by_nobody_is_litter() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = filled(folder.path()).await?;
    let now = Retention { only_used: true, ..Retention::default() };
    assert_eq!(find_garbage(&store, &now).await?.all, ObjectAmount::default(), "nothing is old");
    let old = Retention { since_unix_ms: SOON, ..Retention::default() };
    let leftovers = find_garbage(&store, &old).await?;
    assert_eq!((leftovers.partial.len(), leftovers.staged.len(), leftovers.unused.len()), (1, 1, 0));
    let names = |garbage: &Garbage| garbage.unused.iter().map(|object| object.name.clone()).collect::<Vec<_>>();
    let unused = Retention { only_used: true, ..old.clone() };
    assert_eq!(names(&find_garbage(&store, &unused).await?), [artifact(3)]);
    let of_two = Retention { runs: vec!["two".to_owned()], artifacts: [artifact(3)].into(), ..unused.clone() };
    let found = find_garbage(&store, &of_two).await?;
    assert_eq!(names(&found), [artifact(0)]);
    assert!(find_garbage(&store, &Retention { runs: vec!["ten".to_owned()], ..unused.clone() }).await.is_err());

    remove(&store, &found, |_| {}).await?;
    assert!(!store.exists(&artifact(0)).await? && store.exists(&artifact(1)).await?);
    assert!(store.list("partial").await?.is_empty() && !folder.path().join(artifact(7) + "#3").exists());
    store.remove("runs/one/artifacts.json").await?;
    assert!(find_garbage(&store, &unused).await.is_err(), "what run `one` needs is not known");
    Ok(())
}

#[tokio::test]
async fn a_copy_goes_on_where_it_was_and_overwrites_nothing() -> TestResult {
    let (folder, scratch) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let store = filled(folder.path()).await?;
    let far = ArtifactStore::open("memory:///prefix", &[], &ExampleLayout)?;
    far.put(&artifact(0), parquet("rows")).await?;
    far.put("runs/e.latest", "another").await?;
    let mut last = CopyProgress::default();
    let copied = copy(&store, &far, scratch.path(), |progress| last = progress).await?;
    assert_eq!((copied.written.objects, copied.there.objects, copied.n_left_on_machine), (10, 1, 1));
    assert_eq!(copied.different, ["runs/e.latest"]);
    assert_eq!((last.done, last.all.objects), (last.all, 12));
    assert_eq!(far.get("runs/e.latest").await?.as_deref(), Some(&b"another"[..]));
    let again = copy(&store, &far, scratch.path(), |_| {}).await?;
    assert_eq!((again.written.objects, again.there.objects), (0, 11));
    assert_eq!(verify(&far, false, |_| {}).await?.without_checksum.objects, 0, "checksums go along");

    let other = tempfile::tempdir()?;
    let back = ArtifactStore::open(&other.path().to_string_lossy(), &[], &ExampleLayout)?;
    assert_eq!(copy(&far, &back, scratch.path(), |_| {}).await?.written.objects, 12);
    assert_eq!(back.list("").await?, far.list("").await?);
    Ok(())
}

#[tokio::test]
async fn what_is_damaged_is_not_copied_and_named() -> TestResult {
    let (folder, scratch) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let store = filled(folder.path()).await?;
    let file = store.local_path(&artifact(1)).ok_or("a path")?;
    let mut bytes = std::fs::read(&file)?;
    bytes[5] ^= 1;
    std::fs::write(&file, bytes)?;
    let far = ArtifactStore::open("memory:///sound", &[], &ExampleLayout)?;
    let copied = copy(&store, &far, scratch.path(), |_| {}).await?;
    assert_eq!((copied.written.objects, copied.damaged.len(), copied.is_whole()), (11, 1, false));
    assert_eq!(copied.damaged[0].name, artifact(1));
    assert!(!far.exists(&artifact(1)).await? && store.exists(&artifact(1)).await?);
    Ok(())
}

/// How many were written, there already and damaged; nothing else was wrong.
fn counted(calls: &CopiedCalls) -> (u64, u64, u64) {
    assert!(calls.problem.is_none(), "{calls:?}");
    (calls.written, calls.there, calls.damaged)
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
    let near = ArtifactStore::open(&first.path().to_string_lossy(), &[], &ExampleLayout)?;
    let far = ArtifactStore::open("memory:///calls", &[], &ExampleLayout)?;
    let calls = copy(&near, &far, scratch.path(), |_| {}).await?.calls;
    assert_eq!(counted(&calls), (30, 0, 0));
    assert!(verify(&far, false, |_| {}).await?.damaged.is_empty(), "as a shared journal writes them");
    // More than one batch, of which some are there.
    for key in &keys[30..] {
        journal.put(key, &entry(&key.hex()))?;
    }
    drop(journal);
    let calls = copy(&near, &far, scratch.path(), |_| {}).await?.calls;
    assert_eq!((calls.written, calls.there), (2470, 30));

    let name = format!("journal/{}/{}.json", &keys[0].hex()[..2], keys[0].hex());
    far.replace(&name, "{}").await?;
    let back = ArtifactStore::open(&last.path().to_string_lossy(), &[], &ExampleLayout)?;
    let copied = copy(&far, &back, scratch.path(), |_| {}).await?;
    assert_eq!(counted(&copied.calls), (2499, 0, 1));
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
    assert!(
        copied.calls.problem.as_ref().is_some_and(|problem| problem.to_string().contains("journal.db")),
        "{copied:?}"
    );
    assert!(!copied.is_whole() && far.exists(&artifact(0)).await?);
    Ok(())
}
