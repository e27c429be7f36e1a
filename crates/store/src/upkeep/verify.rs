//! Reads every object of a store and tells which are not what was written, as
//! far as that shows: a model call by its checksum, results by their syntax,
//! an artifact by the first and last bytes and the length of its format.

use super::{AT_ONCE, Amount, Kind};
use crate::{ArtifactStore, Error, StoredObject, journal};
use futures::{StreamExt, stream};
use serde::Serialize;

/// The first bytes that are kept for a look: a dense index tells its length
/// in its first 24.
const HEAD: usize = 64;
/// The last ones: Parquet ends with a length and its mark.
const TAIL: usize = 8;
/// The header of a dense index.
const DENSE_HEADER: u64 = 64;
/// Rows of a dense index are filled up to a multiple of so many numbers.
const DENSE_LANES: u64 = 16;
/// Larger JSON files are not held in memory.
const LARGEST_JSON: u64 = 256 << 20;

/// What reading everything found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Verified {
    /// What was read.
    pub read: Amount,
    /// What is not what was written.
    pub damaged: Vec<DamagedObject>,
}

/// An object that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedObject {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads everything that is not of one machine, and tells how far it is.
///
/// # Errors
/// If the store cannot be listed or read.
pub async fn verify(store: &ArtifactStore, mut progress: impl FnMut(Amount)) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    let objects = store.objects("").await?;
    let checks = objects.iter().filter(|object| Kind::of(&object.name) != Kind::Machine).map(|object| async move {
        let reason = check(store, object).await;
        reason.map(|reason| (object, reason))
    });
    let mut checks = stream::iter(checks).buffered(AT_ONCE);
    while let Some(checked) = checks.next().await {
        let (object, reason) = checked?;
        verified.read.add(object.bytes);
        progress(verified.read);
        verified.damaged.extend(reason.map(|reason| DamagedObject { name: object.name.clone(), reason }));
    }
    Ok(verified)
}

async fn check(store: &ArtifactStore, object: &StoredObject) -> Result<Option<String>, Error> {
    let kind = Kind::of(&object.name);
    let is_json = match &kind {
        Kind::Call(_) => true,
        Kind::Run { file, .. } => file.ends_with(".json"),
        _ => false,
    };
    let (mut length, mut head, mut tail, mut text) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut look = |piece: &[u8]| {
        length += piece.len() as u64;
        head.extend_from_slice(&piece[..piece.len().min(HEAD - head.len())]);
        tail.extend_from_slice(&piece[piece.len().saturating_sub(TAIL)..]);
        tail.drain(..tail.len().saturating_sub(TAIL));
        if is_json && object.bytes <= LARGEST_JSON {
            text.extend_from_slice(piece);
        }
    };
    if !store.scan(&object.name, &mut look).await? {
        return Ok(Some("it was removed meanwhile".to_owned()));
    }
    if length != object.bytes {
        return Ok(Some(format!("{length} bytes were read, and it is listed with {}", object.bytes)));
    }
    Ok(match kind {
        Kind::Call(key) => journal::check_object(&key, &text),
        Kind::Run { .. } if is_json && object.bytes <= LARGEST_JSON => {
            serde_json::from_slice::<serde::de::IgnoredAny>(&text).err().map(|error| error.to_string())
        }
        Kind::Artifact(format) => artifact(&format, length, &head, &tail),
        Kind::Partial => {
            let format = object.name.rsplit('.').next().unwrap_or_default();
            artifact(format, length, &head, &tail)
        }
        _ => None,
    })
}

/// What is wrong with an artifact of a format.
fn artifact(format: &str, length: u64, head: &[u8], tail: &[u8]) -> Option<String> {
    let number = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
        bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
    };
    match format {
        "parquet" if !head.starts_with(b"PAR1") || !tail.ends_with(b"PAR1") || tail.len() < TAIL => {
            Some("it is no whole Parquet file".to_owned())
        }
        "parquet" if number(tail, 0) + 12 > length => Some("its footer is longer than the file".to_owned()),
        "dense" if !head.starts_with(b"RVDENSE\n") => Some("it is no dense index".to_owned()),
        "dense" => {
            let (columns, rows) = (number(head, 12).next_multiple_of(DENSE_LANES), number(head, 16));
            let expected = rows.saturating_mul(columns).saturating_mul(4).saturating_add(DENSE_HEADER);
            (expected != length).then(|| format!("{length} bytes are not {rows} vectors: it is cut off or damaged"))
        }
        "bm25" if !head.starts_with(b"RVBM25\0\n") || length < 44 => Some("it is no BM25 index".to_owned()),
        _ => None,
    }
}
