//! Stores in a folder and in memory.

use super::*;

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn folder_store() -> Result<(tempfile::TempDir, ArtifactStore), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let address = folder.path().join("new/store");
    let store = ArtifactStore::open(&address.to_string_lossy(), &[])?;
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
    assert!(matches!(ArtifactStore::open("ftp://host/folder", &[]), Err(Error::Address { .. })));
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
    for store in [folder_store()?, (tempfile::tempdir()?, ArtifactStore::open("memory:///prefix", &[])?)] {
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
        assert_eq!(store.list("").await?.len(), 3);
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

    let remote = ArtifactStore::open("memory:///prefix", &[])?;
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
    for store in [folder_store()?, (tempfile::tempdir()?, ArtifactStore::open("memory:///prefix", &[])?)] {
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
    let far = || ArtifactStore::open("memory:///prefix", &[]);
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
