//! Stores in a folder and in memory.

use super::*;
use crate::layout::tests::ExampleLayout;

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn folder_store() -> Result<(tempfile::TempDir, ArtifactStore), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let address = folder.path().join("new/store");
    let store = ArtifactStore::open(&address.to_string_lossy(), &[], &ExampleLayout)?;
    Ok((folder, store))
}

#[test]
fn addresses_are_folders_or_urls() -> TestResult {
    assert_eq!(Location::parse("./.reverie")?, Location::Folder("./.reverie".into()));
    assert_eq!(Location::parse("file:///data/store")?, Location::Folder("/data/store".into()));
    assert!(matches!(Location::parse("s3://bucket/prefix")?, Location::Url(_)));
    assert_eq!(Location::parse("s3://bucket/prefix")?.to_string(), "s3://bucket/prefix");
    assert!(matches!(Location::parse("  "), Err(Error::Address { .. })));
    assert!(matches!(Location::parse("s3://"), Err(Error::Address { .. })));
    assert!(matches!(ArtifactStore::open("ftp://host/folder", &[], &ExampleLayout), Err(Error::Address { .. })));
    Ok(())
}

#[test]
fn a_password_in_an_address_is_refused_and_not_shown() {
    for address in ["s3://user:hunter2@bucket/prefix", "http://user:hunter2@[bad/prefix"] {
        let error = Location::parse(address).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!error.is_empty() && !error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn what_was_put_is_found_and_listed() -> TestResult {
    for store in
        [folder_store()?, (tempfile::tempdir()?, ArtifactStore::open("memory:///prefix", &[], &ExampleLayout)?)]
    {
        let store = store.1;
        assert_eq!(store.get("artifacts/ab/x.parquet").await?, None);
        assert!(!store.exists("artifacts/ab/x.parquet").await?);
        assert!(store.list("artifacts").await?.is_empty());
        assert!(store.put("artifacts/ab/x.parquet", "one").await?);
        assert!(store.put("artifacts/aa/y z%.json", "two").await?);
        assert!(store.put("other", "three").await?);
        assert!(store.exists("artifacts/ab/x.parquet").await?);
        assert_eq!(store.get("artifacts/ab/x.parquet").await?.as_deref(), Some(&b"one"[..]));
        assert_eq!(store.list("artifacts").await?, ["artifacts/aa/y z%.json", "artifacts/ab/x.parquet"]);
        assert_eq!(store.list("").await?.len(), 5, "with a checksum for each artifact");
    }
    Ok(())
}

#[tokio::test]
async fn an_artifact_never_changes() -> TestResult {
    let (_folder, store) = folder_store()?;
    assert!(store.put("a/b", "first").await?);
    assert!(!store.put("a/b", "second").await?);
    assert_eq!(store.get("a/b").await?.as_deref(), Some(&b"first"[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_writers_exactly_one_wins_and_readers_see_whole_objects() -> TestResult {
    let (_folder, store) = folder_store()?;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0u8..16 {
        let store = store.clone();
        writers.spawn(async move {
            let won = store.put("shared/object", vec![writer; 300_000]).await?;
            let seen = store.get("shared/object").await?.unwrap_or_default();
            Ok::<_, Error>((won, seen))
        });
    }
    let mut winners = 0;
    while let Some(result) = writers.join_next().await {
        let (won, seen) = result??;
        winners += usize::from(won);
        assert_eq!(seen.len(), 300_000);
        assert!(seen.iter().all(|byte| Some(byte) == seen.first()));
    }
    assert_eq!(winners, 1);
    assert_eq!(store.list("").await?, ["shared/object"]);
    Ok(())
}

#[tokio::test]
async fn what_a_killed_writer_left_is_not_seen_and_blocks_nobody() -> TestResult {
    let (_folder, store) = folder_store()?;
    store.put("a/other", "x").await?;
    let path = store.local_path("a/object").ok_or("a folder has paths")?;
    std::fs::write(path.with_file_name("object#1"), "hal")?;
    std::fs::write(crate::staged::staged_path(&path), "hal")?;
    assert_eq!(store.list("a").await?, ["a/other"]);
    assert!(!store.exists("a/object").await?);
    assert!(store.put("a/object", "whole").await?);
    assert_eq!(store.get("a/object").await?.as_deref(), Some(&b"whole"[..]));
    Ok(())
}

#[tokio::test]
async fn names_cannot_leave_the_store() -> TestResult {
    let (_folder, store) = folder_store()?;
    assert!(store.put("../outside", "x").await.is_err());
    assert!(store.get("a//b").await.is_err());
    assert_eq!(store.local_path("a/../../b"), None);
    Ok(())
}

#[tokio::test]
async fn a_folder_gives_its_own_file_and_other_stores_a_cached_copy() -> TestResult {
    let (_folder, store) = folder_store()?;
    let cache = tempfile::tempdir()?;
    store.put("a/index", "bytes").await?;
    let path = store.local_copy("a/index", cache.path()).await?;
    assert_eq!(Some(&path), store.local_path("a/index").as_ref());
    assert_eq!(std::fs::read(path)?, b"bytes");
    assert!(store.local_copy("a/missing", cache.path()).await.is_err());

    let remote = ArtifactStore::open("memory:///prefix", &[], &ExampleLayout)?;
    remote.put("a/index", "far").await?;
    assert_eq!(remote.local_path("a/index"), None);
    for _ in 0..2 {
        let path = remote.local_copy("a/index", cache.path()).await?;
        assert_eq!(path, cache.path().join("a/index"));
        assert_eq!(std::fs::read(path)?, b"far");
    }
    assert_eq!(std::fs::read_dir(cache.path().join("a"))?.count(), 1, "nothing staged is left");
    assert!(remote.local_copy("a/missing", cache.path()).await.is_err());
    Ok(())
}

#[tokio::test]
async fn what_may_change_is_replaced_and_removed() -> TestResult {
    for store in
        [folder_store()?, (tempfile::tempdir()?, ArtifactStore::open("memory:///prefix", &[], &ExampleLayout)?)]
    {
        let store = store.1;
        store.replace("runs/a.latest", "one").await?;
        store.replace("runs/a.latest", "two").await?;
        assert_eq!(store.get("runs/a.latest").await?.as_deref(), Some(&b"two"[..]));
        store.remove("runs/a.latest").await?;
        store.remove("runs/a.latest").await?;
        assert!(store.list("").await?.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn objects_of_every_size_go_from_any_store_to_any_other() -> TestResult {
    let far = || ArtifactStore::open("memory:///prefix", &[], &ExampleLayout);
    let scratch = tempfile::tempdir()?;
    let large: Vec<u8> = (0..transfer::LARGE + 5).map(|i| (i % 251) as u8).collect();
    let (_one, folder) = folder_store()?;
    assert!(folder.put("a/small", "bytes").await?);
    assert!(folder.put("a/large", large.clone()).await?);
    let (_two, other_folder) = folder_store()?;
    let (memory, other_memory) = (far()?, far()?);
    for (from, to) in [(&folder, &memory), (&memory, &other_memory), (&other_memory, &other_folder)] {
        for name in ["a/small", "a/large"] {
            assert!(from.copy_to(name, to, scratch.path()).await?);
            assert!(!from.copy_to(name, to, scratch.path()).await?, "a name is written once");
        }
    }
    assert_eq!(other_folder.get("a/small").await?.as_deref(), Some(&b"bytes"[..]));
    assert!(other_folder.get("a/large").await?.as_deref() == Some(&large[..]));
    let mut length = 0;
    assert!(memory.scan("a/large", |piece| length += piece.len()).await?);
    assert_eq!(length, large.len());
    assert!(!memory.scan("a/missing", |_| {}).await?);
    assert!(memory.copy_to("a/missing", &folder, scratch.path()).await.is_err());
    assert_eq!(std::fs::read_dir(scratch.path())?.count(), 0, "nothing staged is left");
    Ok(())
}

/// Overwrites an object's file.
fn damage(store: &ArtifactStore, name: &str, change: impl Fn(&mut Vec<u8>)) -> TestResult {
    let path = store.local_path(name).ok_or("a folder has paths")?;
    let mut bytes = std::fs::read(&path)?;
    change(&mut bytes);
    Ok(std::fs::write(path, bytes)?)
}

#[tokio::test]
async fn what_is_damaged_is_never_read_but_named_set_aside_and_can_be_written_again() -> TestResult {
    let (_folder, store) = folder_store()?;
    let cache = tempfile::tempdir()?;
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let changes: [Change<'_>; 3] = [&|bytes| bytes[40] ^= 1, &|bytes| bytes.truncate(10), &|bytes| bytes.clear()];
    for (i, change) in changes.into_iter().enumerate() {
        for (name, is_mapped) in [("artifacts/aa/table.parquet", false), ("artifacts/aa/index.dense", true)] {
            let good = vec![3; 2 << 20];
            assert!(store.put(name, good.clone()).await?);
            assert_eq!(
                store.read(name).await?,
                Some(CheckedContent { content: Bytes::from(good.clone()), is_checked: true })
            );
            assert!(store.local_file(name, cache.path()).await?.is_checked);
            damage(&store, name, change)?;
            let failed = match is_mapped {
                true => store.local_copy(name, cache.path()).await.map(drop),
                false => store.get(name).await.map(drop),
            };
            let Err(Error::Damaged { path, reason, outcome }) = failed else {
                return Err(format!("{failed:?}").into());
            };
            assert_eq!(path, name);
            assert!(reason.contains("checksum"), "{reason}");
            assert!(
                matches!(&outcome, DamageOutcome::SetAside { place } if place.starts_with("damaged/")),
                "{outcome:?}"
            );
            assert!(outcome.to_string().contains("again"), "{outcome}");
            assert_eq!(store.get(name).await?, None);
            assert_eq!(
                store.list(&format!("damaged/{}", &name[..12])).await?.len(),
                2 * i + 1 + usize::from(is_mapped)
            );
            assert!(store.put(name, good.clone()).await?, "its task is done again");
            assert!(store.get(name).await?.as_deref() == Some(&good[..]));
            store.remove(name).await?;
        }
    }
    assert!(store.list("checksums").await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn damage_on_an_object_store_and_in_its_local_copy_is_found() -> TestResult {
    let store = ArtifactStore::open("memory:///prefix", &[], &ExampleLayout)?;
    let cache = tempfile::tempdir()?;
    let name = "artifacts/aa/index.dense";
    store.put(name, "the vectors").await?;
    let copy = store.local_copy(name, cache.path()).await?;
    std::fs::write(&copy, "the victors")?;
    // It was the copy: a new one is fetched.
    assert_eq!(std::fs::read(store.local_copy(name, cache.path()).await?)?, b"the vectors");
    let path = object_path(name)?;
    store.objects.put(&path, PutPayload::from_static(b"the victors")).await?;
    std::fs::remove_file(&copy)?;
    assert!(matches!(store.local_copy(name, cache.path()).await, Err(Error::Damaged { .. })));
    assert!(!copy.exists() && !store.exists(name).await?);
    assert_eq!((store.list("damaged").await?.len(), store.lost().await?), (1, vec![name.to_owned()]));
    Ok(())
}

#[tokio::test]
async fn of_two_writers_with_different_bytes_neither_looks_damaged() -> TestResult {
    let (_folder, store) = folder_store()?;
    let name = "artifacts/aa/answers.parquet";
    // The second notes its checksum, then finds the name taken.
    assert!(store.put(name, "one answer").await?);
    assert!(!store.put(name, "another").await?);
    assert_eq!(store.get(name).await?.as_deref(), Some(&b"one answer"[..]));
    // A run's file is replaced; what a killed writer noted does no harm.
    for text in ["first", "second"] {
        store.write_checksum("runs/r/results.json", &Checksum::of(&Bytes::from("never written")).await?).await?;
        store.replace("runs/r/results.json", text).await?;
        assert_eq!(store.get("runs/r/results.json").await?.as_deref(), Some(text.as_bytes()));
    }
    Ok(())
}

#[tokio::test]
async fn an_object_without_a_checksum_is_intact_when_the_writer_of_another_was_killed() -> TestResult {
    let (folder, store) = folder_store()?;
    let memory = ArtifactStore::open("memory:///prefix", &[], &ExampleLayout)?;
    for store in [store, memory] {
        let name = "runs/r/results.json";
        // As an earlier version wrote it.
        store.objects.put(&object_path(name)?, "old".into()).await?;
        store.write_replacing_checksum(name, &Checksum::of(&Bytes::from("new")).await?).await?;
        assert_eq!(store.get(name).await?.as_deref(), Some(&b"old"[..]));
        store.replace(name, "new").await?;
        assert_eq!(store.get(name).await?.as_deref(), Some(&b"new"[..]));
        let file = folder.path().join("new/store/file");
        std::fs::write(&file, "newest")?;
        store.replace_with_file(name, &file).await?;
        assert_eq!(store.get(name).await?.as_deref(), Some(&b"newest"[..]));
        assert!(store.check(name).await?);
        store.objects.put(&object_path(name)?, "newest?".into()).await?;
        assert!(matches!(store.get(name).await, Err(Error::Damaged { .. })));
    }
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_taken_is_moved_with_its_checksum() -> TestResult {
    let (folder, store) = folder_store()?;
    let file = folder.path().join("new/scratch.dense");
    std::fs::write(&file, "vectors")?;
    assert!(store.take_file("artifacts/ab/x.dense", &file).await?);
    assert!(!file.exists());
    assert_eq!(store.read("artifacts/ab/x.dense").await?.map(|read| read.is_checked), Some(true));
    std::fs::write(&file, "others")?;
    assert!(!store.take_file("artifacts/ab/x.dense", &file).await?);
    assert_eq!(store.get("artifacts/ab/x.dense").await?.as_deref(), Some(&b"vectors"[..]));
    Ok(())
}

#[tokio::test]
async fn a_store_that_was_removed_takes_nothing_more_and_says_so() -> TestResult {
    let (folder, store) = folder_store()?;
    store.put("artifacts/ab/x.parquet", "x").await?;
    let root = folder.path().join("new/store");
    std::fs::remove_dir_all(&root)?;
    for _ in 0..2 {
        let refused = store.put("artifacts/ab/y.parquet", "y").await;
        let Err(error @ Error::Gone { .. }) = refused else { return Err(format!("{refused:?}").into()) };
        assert!(error.to_string().contains(&*root.canonicalize().unwrap_or(root.clone()).to_string_lossy()), "{error}");
        assert!(store.replace("runs/r/results.json", "y").await.is_err());
        assert!(!root.join("artifacts").exists(), "no new store begins in its place");
        // Another one in its place is not the same.
        std::fs::create_dir_all(&root)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_store_that_is_only_read_stays_as_it_is() -> TestResult {
    let (folder, store) = folder_store()?;
    let name = "artifacts/ab/x.parquet";
    store.put(name, "kept").await?;
    let address = folder.path().join("new/store");
    let reading = ArtifactStore::open_to_read(&address.to_string_lossy(), &[], &ExampleLayout)?;
    assert_eq!(reading.get(name).await?.as_deref(), Some(&b"kept"[..]));
    let refused = |done: Result<(), Error>| matches!(done, Err(Error::ReadOnly { .. }));
    assert!(refused(reading.put("artifacts/ab/y.parquet", "y").await.map(drop)));
    assert!(refused(reading.replace("runs/a.latest", "y").await) && refused(reading.remove(name).await));

    // What is written over it goes elsewhere, and the two look like one.
    let scratch = tempfile::tempdir()?;
    let both = reading.with_scratch(&scratch.path().join("upper"))?;
    assert_eq!(both.location(), reading.location());
    assert!(both.put("artifacts/ab/y.parquet", "new").await?);
    assert!(!both.put(name, "other").await?, "the name is taken below");
    assert_eq!(both.get(name).await?.as_deref(), Some(&b"kept"[..]));
    assert_eq!(both.list("artifacts").await?, [name, "artifacts/ab/y.parquet"]);
    assert_eq!(std::fs::read(both.local_copy(name, scratch.path()).await?)?, b"kept");
    damage(&store, name, |bytes| bytes[0] ^= 1)?;
    assert!(matches!(both.get(name).await, Err(Error::Damaged { .. })));
    assert!(store.exists(name).await? && store.list("damaged").await?.is_empty(), "and is left where it is");
    assert!(!store.exists("artifacts/ab/y.parquet").await?);
    assert!(ArtifactStore::open_to_read(&folder.path().join("absent").to_string_lossy(), &[], &ExampleLayout).is_err());
    assert!(!folder.path().join("absent").exists());
    Ok(())
}

#[tokio::test]
async fn a_file_is_compared_once_until_it_is_written_again() -> TestResult {
    let (folder, store) = folder_store()?;
    let name = "artifacts/ab/index.dense";
    let file = folder.path().join("file");
    std::fs::write(&file, vec![7; 1 << 20])?;
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let set_time = |path: &std::path::Path, time| std::fs::File::options().write(true).open(path)?.set_modified(time);
    set_time(&file, old)?;
    store.take_file(name, &file).await?;
    let path = store.local_file(name, folder.path()).await?.content;
    // Whoever changes a file and sets its time back is found by the next process.
    let mut bytes = std::fs::read(&path)?;
    bytes[5] = 8;
    std::fs::write(&path, &bytes)?;
    set_time(&path, old)?;
    assert!(store.local_file(name, folder.path()).await?.is_checked);
    set_time(&path, old + std::time::Duration::from_secs(1))?;
    assert!(store.local_file(name, folder.path()).await.is_err());
    Ok(())
}
