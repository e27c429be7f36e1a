//! The text of an answer while a model writes it, shared by all callers that wait
//! for it. An answer may take several attempts, even two at a time; the draft
//! shows only one of them.

use crate::{OnPiece, OnRestart, locked};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::watch;

/// The draft of one call. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct AnswerDraft {
    written: watch::Sender<DraftText>,
    n_attempts: Arc<AtomicU64>,
}

/// The text of the draft now.
#[derive(Debug, Default)]
pub(super) struct DraftText {
    /// The beginning of an answer.
    pub(super) text: String,
    /// The attempt that it belongs to, until it ends.
    attempt: Option<u64>,
}

impl AnswerDraft {
    pub(super) fn watch(&self) -> watch::Receiver<DraftText> {
        self.written.subscribe()
    }

    /// Begins an attempt, which ends when it is dropped.
    pub(super) fn attempt(&self) -> DraftAttempt {
        let number = self.n_attempts.fetch_add(1, Ordering::Relaxed);
        DraftAttempt(Arc::new(AttemptText { draft: self.written.clone(), number, state: Mutex::default() }))
    }
}

/// One attempt at an answer.
#[derive(Debug)]
pub(super) struct DraftAttempt(Arc<AttemptText>);

impl DraftAttempt {
    /// The function that the model calls with its pieces.
    pub(super) fn on_piece(&self) -> OnPiece {
        let text = self.0.clone();
        Arc::new(move |piece| text.append(piece))
    }

    /// The function that the model calls where its pieces so far are void.
    pub(super) fn on_restart(&self) -> OnRestart {
        let text = self.0.clone();
        Arc::new(move || text.clear())
    }
}

impl Drop for DraftAttempt {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// All text of one attempt, shown or not.
#[derive(Debug)]
struct AttemptText {
    draft: watch::Sender<DraftText>,
    number: u64,
    state: Mutex<AttemptState>,
}

#[derive(Debug, Default)]
struct AttemptState {
    text: String,
    /// Whether the attempt has ended; the model may continue to write.
    is_over: bool,
}

impl AttemptText {
    fn append(&self, piece: &str) {
        let mut state = locked(&self.state);
        if state.is_over {
            return;
        }
        state.text.push_str(piece);
        self.draft.send_if_modified(|written| match written.attempt {
            Some(number) if number == self.number => {
                written.text.push_str(piece);
                true
            }
            // Of two attempts side by side only one is shown.
            Some(_) => false,
            None => {
                written.text.clone_from(&state.text);
                written.attempt = Some(self.number);
                true
            }
        });
    }

    fn clear(&self) {
        locked(&self.state).text.clear();
        self.release();
    }

    fn end(&self) {
        locked(&self.state).is_over = true;
        self.release();
    }

    /// If the draft shows this attempt, the next text of any attempt replaces it.
    fn release(&self) {
        self.draft.send_if_modified(|written| {
            written.attempt.take_if(|attempt| *attempt == self.number);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(draft: &AnswerDraft) -> String {
        draft.watch().borrow().text.clone()
    }

    #[test]
    fn an_attempt_after_a_failed_one_takes_its_place_from_the_beginning() {
        let draft = AnswerDraft::default();
        let first = draft.attempt();
        first.on_piece()("one ");
        first.on_piece()("two");
        let second = draft.attempt();
        second.on_piece()("uno ");
        assert_eq!(shown(&draft), "one two", "beside each other, the first is shown");
        drop(first);
        assert_eq!(shown(&draft), "one two", "it is shown until there is more");
        second.on_piece()("due");
        assert_eq!(shown(&draft), "uno due");
    }

    #[test]
    fn a_model_that_goes_on_writing_for_nobody_is_not_shown() {
        let draft = AnswerDraft::default();
        let attempt = draft.attempt();
        let on_piece = attempt.on_piece();
        on_piece("a");
        drop(attempt);
        on_piece("b");
        assert_eq!(shown(&draft), "a");
        draft.attempt().on_piece()("c");
        assert_eq!(shown(&draft), "c");
    }

    #[test]
    fn an_attempt_that_begins_anew_is_shown_from_its_beginning() {
        let draft = AnswerDraft::default();
        let attempt = draft.attempt();
        attempt.on_piece()("one ");
        attempt.on_restart()();
        assert_eq!(shown(&draft), "one ", "it is shown until there is more");
        attempt.on_piece()("uno ");
        attempt.on_piece()("due");
        assert_eq!(shown(&draft), "uno due");
    }

    #[test]
    fn whoever_looks_later_sees_all_of_it() {
        let draft = AnswerDraft::default();
        let attempt = draft.attempt();
        attempt.on_piece()("one ");
        let mut late = draft.watch();
        assert_eq!(late.borrow_and_update().text, "one ");
        attempt.on_piece()("two");
        assert!(late.has_changed().expect("it is being written"));
        assert_eq!(late.borrow().text, "one two");
    }
}
