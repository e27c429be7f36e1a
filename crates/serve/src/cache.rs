//! Answers that were given, for questions that come again in the same words.
//! Off unless somebody turns it on: an answer that was drawn once is then given
//! to all.

use crate::answer::{Asked, Done};
use quick_cache::{Weighter, sync::Cache};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The digest of a bundle and a question with what was said before it.
type Key = [u8; 32];

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Arc<Done>> for Bytes {
    fn weight(&self, _: &Key, done: &Arc<Done>) -> u64 {
        let passages = done.passages.iter().map(|passage| passage.text.len() + 500).sum::<usize>();
        (passages + done.answer.text.len() + 500) as u64
    }
}

/// Answers by pipeline and question, up to so many bytes; the ones that were not
/// asked for go first.
pub(crate) struct AnswerCache(Cache<Key, Arc<Done>, Bytes>);

/// About how large an answer with its passages is.
const TYPICAL: u64 = 20_000;

impl AnswerCache {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Cache::with_weighter((bytes / TYPICAL).max(16) as usize, bytes, Bytes))
    }

    pub(crate) fn get(&self, version: &str, asked: &Asked) -> Option<Arc<Done>> {
        self.0.get(&key(version, asked))
    }

    pub(crate) fn keep(&self, version: &str, asked: &Asked, done: Arc<Done>) {
        self.0.insert(key(version, asked), done);
    }
}

fn key(version: &str, asked: &Asked) -> Key {
    let mut digest = Sha256::new();
    let mut part = |text: &str| {
        // With its length, so that no two lists of parts run together.
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
    };
    part(version);
    part(&asked.at_most.to_string());
    for message in &asked.history {
        part(&format!("{:?}", message.role));
        part(&message.content);
    }
    part(&asked.question);
    digest.finalize().into()
}
