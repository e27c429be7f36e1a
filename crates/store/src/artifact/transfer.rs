//! Transfers large objects: uploads in parts and downloads in ranges, several
//! at once, so that neither memory nor one connection limits them.

use crate::access::retry;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart, path::Path as ObjectPath};
use std::{fs::File, io, os::unix::fs::FileExt, path::Path, sync::Arc};
use tokio::io::AsyncWriteExt;

/// Objects larger than this go in parts.
pub(super) const LARGE: u64 = 32 << 20;
const PART: u64 = 8 << 20;
/// The parts that are transferred at once, each of them in memory.
const PARTS_AT_ONCE: usize = 8;
/// How many parts of a download are written between two flushes to the disk.
const PARTS_A_FLUSH: u64 = 4;
/// The most parts of an upload; object stores take 10,000.
const MOST_PARTS: u64 = 9_000;

/// The content to upload.
#[derive(Debug, Clone)]
pub(super) enum UploadContent {
    /// Bytes in memory.
    Memory(Bytes),
    /// A file, which must not change meanwhile.
    File(Arc<File>, u64),
}

impl UploadContent {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, bytes) => *bytes,
        }
    }

    /// The bytes of a range, which must be inside the content.
    pub(super) async fn part(&self, start: u64, end: u64) -> io::Result<Bytes> {
        match self {
            Self::Memory(bytes) => Ok(bytes.slice(start as usize..end as usize)),
            Self::File(file, _) => {
                let file = file.clone();
                let read = move || {
                    let mut bytes = vec![0; (end - start) as usize];
                    file.read_exact_at(&mut bytes, start).map(|()| Bytes::from(bytes))
                };
                tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
            }
        }
    }
}

/// Writes a large object. `false` if the name is taken.
///
/// The store's API has no condition for uploads in parts, so the name is
/// checked before the first part and again before the end. Two writers that end
/// within that moment both write, and readers see one of the two objects as a
/// whole; under a content key both have the same bytes.
pub(super) async fn upload(
    objects: &dyn ObjectStore,
    path: &ObjectPath,
    content: &UploadContent,
) -> object_store::Result<bool> {
    retry(|| async {
        if exists(objects, path).await? {
            return Ok(false);
        }
        let part = PART.max(content.len().div_ceil(MOST_PARTS));
        let mut upload = WriteMultipart::new_with_chunk_size(objects.put_multipart(path).await?, part as usize);
        let sent = async {
            let mut start = 0;
            while start < content.len() {
                let end = (start + part).min(content.len());
                let bytes = content.part(start, end).await.map_err(unreadable)?;
                upload.wait_for_capacity(PARTS_AT_ONCE).await?;
                upload.put(bytes);
                start = end;
            }
            upload.wait_for_capacity(0).await?;
            exists(objects, path).await
        };
        match sent.await {
            Ok(false) => upload.finish().await.map(|_| true),
            Ok(true) => upload.abort().await.map(|()| false),
            Err(error) => {
                // The first error is more useful than an error of the cleanup.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    })
    .await
}

/// Writes an object of so many bytes into a file.
pub(super) async fn download(
    objects: &dyn ObjectStore,
    path: &ObjectPath,
    bytes: u64,
    file: &Path,
) -> object_store::Result<()> {
    if bytes <= LARGE {
        let found = retry(|| async { objects.get(path).await?.bytes().await }).await?;
        let mut file = tokio::fs::File::create(file).await.map_err(unwritable)?;
        file.write_all(&found).await.map_err(unwritable)?;
        return file.sync_all().await.map_err(unwritable);
    }
    let file = Arc::new(File::create(file).map_err(unwritable)?);
    let ranges = (0..bytes.div_ceil(PART)).map(|i| i * PART..((i + 1) * PART).min(bytes));
    stream::iter(ranges.map(|range| {
        let file = file.clone();
        async move {
            let found = retry(|| objects.get_range(path, range.clone())).await?;
            let write = move || {
                file.write_all_at(&found, range.start)?;
                // The disk works while other parts come in, and not only after the last.
                if (range.start / PART + 1).is_multiple_of(PARTS_A_FLUSH) { file.sync_data() } else { Ok(()) }
            };
            tokio::task::spawn_blocking(write).await.map_err(unwritable)?.map_err(unwritable)
        }
    }))
    .buffer_unordered(PARTS_AT_ONCE)
    .try_collect::<()>()
    .await?;
    let synced = tokio::task::spawn_blocking(move || file.sync_all()).await;
    synced.map_err(unwritable)?.map_err(unwritable)
}

async fn exists(objects: &dyn ObjectStore, path: &ObjectPath) -> object_store::Result<bool> {
    match objects.head(path).await {
        Ok(_) => Ok(true),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic { store: "file to upload", source: Box::new(error) }
}

fn unwritable(error: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic { store: "downloaded file", source: Box::new(error) }
}
