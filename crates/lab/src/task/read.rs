//! Reads the corpus' files. A read that fails says nothing about the file: it
//! is tried again, and where it still fails, that is an error of this run.

use rag::load::{Limits, LoadError, ReadError, Source, SourceFile, Unread};
use std::time::Duration;
use store::Key;

/// So often a file is tried whose next read may go well.
const TRIES: u32 = 4;
/// The pause after the first try; each next one is four times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What a file holds, or why it is none of the corpus, whenever it is read.
pub type Content = Result<bytes::Bytes, LoadError>;

/// A file's content, if it can be read now: a read that may go well next time
/// is tried again.
///
/// # Errors
/// Why it cannot be read now.
pub async fn content(source: &Source, file: &SourceFile, limits: &Limits) -> Result<Content, Unread> {
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    loop {
        match source.read(file, limits).await {
            Ok(bytes) => return Ok(Ok(bytes)),
            Err(ReadError::Rejected(reason)) => return Ok(Err(reason)),
            Err(ReadError::Failed { may_pass: true, .. }) if attempt < TRIES => {
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

/// The key of a content: what tasks that use it are known by.
pub(crate) fn key(content: &Content) -> Key {
    match content {
        Ok(bytes) => Key::of_bytes(bytes),
        Err(reason) => Key::of_bytes(format!("rejected: {reason}").as_bytes()),
    }
}

/// A file's content, if it is still the one that was planned with: under its
/// key nobody must find another one.
pub(crate) async fn expected(
    source: &Source,
    file: &SourceFile,
    wanted: &Key,
    limits: &Limits,
) -> Result<Content, Unread> {
    let content = content(source, file, limits).await?;
    if key(&content) == *wanted {
        return Ok(content);
    }
    Err(Unread { path: file.path.clone(), reason: "it changed after the run began: run again".to_owned() })
}

#[cfg(test)]
pub(crate) mod tests;
