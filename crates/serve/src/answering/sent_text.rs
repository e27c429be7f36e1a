//! The text of a streamed answer that was already sent to the client.

use models::AnswerPiece;
use std::sync::{Mutex, PoisonError};

/// The part of an answer that was sent and cannot be revoked. If the call of the model
/// is retried and the new text begins with the part that was sent, the stream
/// continues after it.
#[derive(Debug, Default)]
pub(crate) struct SentText(Mutex<TextState>);

#[derive(Debug, Default)]
struct TextState {
    has_passages: bool,
    sent: String,
    /// The text of the present attempt.
    current: String,
    has_diverged: bool,
}

/// A retried answer began differently from what was sent.
#[derive(Debug, PartialEq)]
pub(crate) struct Divergence;

impl SentText {
    /// Whether any text was sent.
    pub(crate) fn has_begun(&self) -> bool {
        !self.state().sent.is_empty()
    }

    /// Calls `send` the first time only: a retry finds passages again.
    pub(crate) fn send_passages_once(&self, send: impl FnOnce()) {
        if !std::mem::replace(&mut self.state().has_passages, true) {
            send();
        }
    }

    /// Adds a piece. Returns the text to send, if there is any.
    ///
    /// # Errors
    /// If the answer no longer begins with what was sent.
    pub(crate) fn add(&self, piece: AnswerPiece) -> Result<Option<String>, Divergence> {
        let mut state = self.state();
        match piece {
            AnswerPiece::Restart => {
                state.current.clear();
                Ok(None)
            }
            AnswerPiece::Text(text) => {
                state.current += &text;
                state.take_unsent()
            }
        }
    }

    /// Completes the answer with its whole text. Returns the text to send, if any is
    /// left.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(crate) fn complete(&self, text: &str) -> Result<Option<String>, Divergence> {
        let mut state = self.state();
        text.clone_into(&mut state.current);
        match state.take_unsent() {
            _ if state.sent != text => Err(Divergence),
            next => next,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, TextState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextState {
    fn take_unsent(&mut self) -> Result<Option<String>, Divergence> {
        match self.current.strip_prefix(&self.sent) {
            _ if self.has_diverged => Err(Divergence),
            Some("") => Ok(None),
            Some(more) => {
                let more = more.to_owned();
                self.sent += &more;
                Ok(Some(more))
            }
            // So far, the new attempt repeats text that the client has already.
            None if self.sent.starts_with(&self.current) => Ok(None),
            None => {
                self.has_diverged = true;
                Err(Divergence)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> AnswerPiece {
        AnswerPiece::Text(text.to_owned())
    }

    #[test]
    fn an_answer_that_begins_anew_in_the_same_words_goes_on_where_it_was() {
        let sent = SentText::default();
        assert_eq!(sent.add(text("The mill ")), Ok(Some("The mill ".into())));
        assert_eq!(sent.add(AnswerPiece::Restart), Ok(None));
        assert_eq!(sent.add(text("The ")), Ok(None));
        assert_eq!(sent.add(text("mill is old")), Ok(Some("is old".into())));
        assert_eq!(sent.complete("The mill is old [1]."), Ok(Some(" [1].".into())));
    }

    #[test]
    fn an_answer_in_other_words_than_were_sent_is_never_passed_off_as_one() {
        let sent = SentText::default();
        assert_eq!(sent.add(text("The mill ")), Ok(Some("The mill ".into())));
        assert_eq!(sent.add(AnswerPiece::Restart), Ok(None));
        assert_eq!(sent.add(text("A mill ")), Err(Divergence));
        assert_eq!(sent.complete("A mill "), Err(Divergence));
        let shorter = SentText::default();
        assert_eq!(shorter.add(text("The mill is")), Ok(Some("The mill is".into())));
        assert_eq!(shorter.complete("The mill"), Err(Divergence));
    }
}
