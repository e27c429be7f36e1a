//! A cache of answers, for questions that are asked again in the same words. Off by
//! default: one answer, good or bad, is then repeated to everybody.

use super::{events::SourcedAnswer, pipeline::UserQuestion};
use quick_cache::{Weighter, sync::Cache};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The digest of a pipeline's version, a question, and its conversation.
type CacheKey = [u8; 32];

/// The weight of an answer: its size in bytes.
#[derive(Clone)]
struct AnswerSize;

impl Weighter<CacheKey, Arc<SourcedAnswer>> for AnswerSize {
    fn weight(&self, _: &CacheKey, sourced: &Arc<SourcedAnswer>) -> u64 {
        let passages = sourced.passages.iter().map(|passage| passage.text.len() + 500).sum::<usize>();
        (passages + sourced.answer.text.len() + 500) as u64
    }
}

/// Answers by pipeline and question, up to a size in bytes. Answers that are rarely
/// asked for are evicted first.
pub(crate) struct AnswerCache(Cache<CacheKey, Arc<SourcedAnswer>, AnswerSize>);

/// The typical size of an answer with its passages, in bytes.
const TYPICAL_BYTES: u64 = 20_000;

impl AnswerCache {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Cache::with_weighter((bytes / TYPICAL_BYTES).max(16) as usize, bytes, AnswerSize))
    }

    pub(crate) fn get(&self, version: &str, question: &UserQuestion) -> Option<Arc<SourcedAnswer>> {
        self.0.get(&key(version, question))
    }

    pub(crate) fn keep(&self, version: &str, question: &UserQuestion, answer: Arc<SourcedAnswer>) {
        self.0.insert(key(version, question), answer);
    }
}

fn key(version: &str, question: &UserQuestion) -> CacheKey {
    let mut digest = Sha256::new();
    let mut part = |text: &str| {
        // The length separates the parts.
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
    };
    part(version);
    part(&question.max_passages.to_string());
    for message in &question.history {
        part(&format!("{:?}", message.role));
        part(&message.content);
    }
    part(&question.text);
    digest.finalize().into()
}
