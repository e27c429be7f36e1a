//! A cache of answers, for questions that are asked again in the same words. Off by
//! default: one answer, good or bad, is then repeated to everybody.

use super::{events::SourcedAnswer, pipeline::UserQuestion};
use quick_cache::{Weighter, sync::Cache};
use std::sync::Arc;
use store::{Key, KeyBuilder};

/// The weight of an answer: its size in bytes.
#[derive(Clone)]
struct AnswerSize;

impl Weighter<Key, Arc<SourcedAnswer>> for AnswerSize {
    fn weight(&self, _: &Key, sourced: &Arc<SourcedAnswer>) -> u64 {
        let passages = sourced.passages.iter().map(|passage| passage.text.len() + 500).sum::<usize>();
        (passages + sourced.answer.text.len() + 500) as u64
    }
}

/// Answers by pipeline and question, up to a size in bytes. Answers that are rarely
/// asked for are evicted first.
pub(crate) struct AnswerCache(Cache<Key, Arc<SourcedAnswer>, AnswerSize>);

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

fn key(version: &str, question: &UserQuestion) -> Key {
    let key = KeyBuilder::new("answer").field("version", version).field("max_passages", &question.max_passages);
    key.field("history", &question.history).field("question", &question.text).finish()
}
