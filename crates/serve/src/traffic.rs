//! Questions and answers that are kept, a share of them, so that the pipeline's
//! answers in production can be scored by the metrics that chose it. Nothing is
//! kept unless somebody asks for it; addresses and numbers of people are
//! replaced by what kind they were.

use crate::{answer::Asked, log::LineLog, stream::seconds};
use eval::redacted;
use models::Role;
use rag::Answer;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Where answers are kept, and how many of them.
#[derive(Debug, Clone)]
pub struct Traffic {
    log: LineLog,
    share: f64,
    asked: Arc<AtomicU64>,
}

impl Traffic {
    /// Keeps this share of the questions, from 0 to 1, spread evenly.
    pub fn new(log: LineLog, share: f64) -> Self {
        Self { log, share, asked: Arc::default() }
    }

    /// Whether the next question is one of those.
    pub(crate) fn takes(&self) -> bool {
        let before = self.asked.fetch_add(1, Relaxed) as f64;
        ((before + 1.0) * self.share).floor() > (before * self.share).floor()
    }

    /// Keeps a question: the columns are those that `reverie score` reads.
    pub(crate) fn keep(&self, version: &str, asked: &Asked, contexts: &[String], answer: &Answer) {
        let turn = |message: &models::Message| {
            let role = if message.role == Role::User { "user" } else { "assistant" };
            json!({ "role": role, "content": redacted(&message.content) })
        };
        let line = json!({
            "time": seconds(), "version": version, "question": redacted(&asked.question),
            "turns": asked.history.iter().map(turn).collect::<Vec<_>>(), "answer": redacted(&answer.text),
            "contexts": contexts.iter().map(|text| redacted(text)).collect::<Vec<_>>(),
        });
        let log = self.log.clone();
        // A disk that is slow or full must not hold up an answer.
        tokio::task::spawn_blocking(move || drop(log.append(&line.to_string())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_met_and_spread() {
        let folder = tempfile::tempdir().unwrap();
        let log = LineLog::open(&folder.path().join("kept")).unwrap();
        for (share, expected) in [(0.0, 0), (0.1, 10), (0.5, 50), (1.0, 100)] {
            let traffic = Traffic::new(log.clone(), share);
            let taken: Vec<bool> = (0..100).map(|_| traffic.takes()).collect();
            assert_eq!(taken.iter().filter(|taken| **taken).count(), expected, "{share}");
            let longest = taken.split(|taken| *taken).map(<[bool]>::len).max().unwrap_or(0);
            assert!(share == 0.0 || longest as f64 <= 1.0 / share, "{share}: {longest} in a row were left out");
        }
    }
}
