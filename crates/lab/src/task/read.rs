//! Reads the corpus' files. A failed read says nothing about the file: it is
//! tried again, and if it still fails, it is an error of this run and not of
//! the file.

use rag::load::{LoadError, ParseLimits, ReadError, Source, SourceFile, Unread};
use std::time::Duration;
use store::Key;

/// How often a file is tried, if the next read may succeed.
const TRIES: u32 = 4;
/// The pause after the first try; each further pause is four times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A file of at most so many bytes is read together with others, by one thread.
pub(crate) const SMALL_FILE: u64 = 64 << 10;

/// A file's bytes, or why no reader can make a document of it.
pub type ReadContent = Result<bytes::Bytes, LoadError>;

/// A file's content. A read that may succeed next time is tried again.
///
/// # Errors
/// Why the file cannot be read now.
pub async fn content(source: &Source, file: &SourceFile, limits: &ParseLimits) -> Result<ReadContent, Unread> {
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    loop {
        match source.read(file, limits).await {
            Ok(bytes) => return Ok(Ok(bytes)),
            Err(ReadError::Rejected(reason)) => return Ok(Err(reason)),
            Err(ReadError::Failed { is_temporary: true, .. }) if attempt < TRIES => {
                tokio::time::sleep(pause).await;
                pause *= 4;
                attempt += 1;
            }
            Err(ReadError::Failed { reason, .. }) => {
                let tries = if attempt > 1 { format!(" ({attempt} tries)") } else { String::new() };
                return Err(Unread { path: file.path.clone(), reason: format!("{reason}{tries}") });
            }
        }
    }
}

/// The key of a content; it is part of the keys of all tasks that use the file.
pub(crate) fn key(content: &ReadContent) -> Key {
    match content {
        Ok(bytes) => Key::of_bytes(bytes),
        Err(reason) => Key::of_bytes(format!("rejected: {reason}").as_bytes()),
    }
}

/// A file's content, if it is still the one that the plan was made with: a key
/// must never lead to another content.
pub(crate) async fn content_with_key(
    source: &Source,
    file: &SourceFile,
    wanted: &Key,
    limits: &ParseLimits,
) -> Result<ReadContent, Unread> {
    let content = content(source, file, limits).await?;
    if key(&content) == *wanted {
        return Ok(content);
    }
    Err(Unread { path: file.path.clone(), reason: "it changed after the run began".to_owned() })
}

#[cfg(test)]
pub(crate) mod tests;
