//! An answer that is being written, for all who look on. An answer may take
//! several attempts, even two at a time; the draft shows one of them.

use crate::OnPiece;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::watch;

/// The draft of one call. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    written: watch::Sender<Written>,
    n_attempts: Arc<AtomicU64>,
}

/// What the draft says now.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The beginning of an answer.
    pub(super) text: String,
    /// The attempt that it belongs to, until it ends.
    attempt: Option<u64>,
}

impl Draft {
    pub(super) fn new() -> Self {
        Self { written: watch::Sender::new(Written::default()), n_attempts: Arc::default() }
    }

    /// Looks on from now.
    pub(super) fn look(&self) -> watch::Receiver<Written> {
        self.written.subscribe()
    }

    /// Begins an attempt, which ends when it is dropped.
    pub(super) fn attempt(&self) -> Attempt {
        let number = self.n_attempts.fetch_add(1, Ordering::Relaxed);
        Attempt(Arc::new(Pen { written: self.written.clone(), number, said: Mutex::default() }))
    }
}

/// One attempt at an answer.
#[derive(Debug)]
pub(super) struct Attempt(Arc<Pen>);

impl Attempt {
    /// What the model calls with its pieces.
    pub(super) fn on_piece(&self) -> OnPiece {
        let pen = self.0.clone();
        Arc::new(move |piece| pen.write(piece))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.put_down();
    }
}

#[derive(Debug)]
struct Pen {
    written: watch::Sender<Written>,
    number: u64,
    said: Mutex<Said>,
}

/// All that an attempt has said, shown or not.
#[derive(Debug, Default)]
struct Said {
    text: String,
    /// A model may still write when nobody waits for it any more.
    is_over: bool,
}

impl Pen {
    fn write(&self, piece: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_over {
            return;
        }
        said.text.push_str(piece);
        self.written.send_if_modified(|written| match written.attempt {
            Some(number) if number == self.number => {
                written.text.push_str(piece);
                true
            }
            // Two attempts side by side: one is shown.
            Some(_) => false,
            None => {
                written.text.clone_from(&said.text);
                written.attempt = Some(self.number);
                true
            }
        });
    }

    fn put_down(&self) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.written.send_if_modified(|written| {
            if written.attempt == Some(self.number) {
                written.attempt = None;
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(draft: &Draft) -> String {
        draft.look().borrow().text.clone()
    }

    #[test]
    fn an_attempt_after_a_failed_one_takes_its_place_from_the_beginning() {
        let draft = Draft::new();
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
        let draft = Draft::new();
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
    fn whoever_looks_later_sees_all_of_it() {
        let draft = Draft::new();
        let attempt = draft.attempt();
        attempt.on_piece()("one ");
        let mut late = draft.look();
        assert_eq!(late.borrow_and_update().text, "one ");
        attempt.on_piece()("two");
        assert!(late.has_changed().expect("it is being written"));
        assert_eq!(late.borrow().text, "one two");
    }
}
