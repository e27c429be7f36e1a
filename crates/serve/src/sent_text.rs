//! What a client has already of an answer that is written while it reads.

use models::AnswerPiece;
use std::sync::{Mutex, PoisonError};

/// The part of an answer that was sent already. It cannot be taken back, but a
/// model may begin its answer anew: as long as it writes the same again, the
/// stream goes on where it was.
#[derive(Debug, Default)]
pub(crate) struct SentText(Mutex<Words>);

#[derive(Debug, Default)]
struct Words {
    found: bool,
    sent: String,
    /// What the answer says since it last began.
    now: String,
    diverged: bool,
}

/// The answer no longer begins with what was sent.
#[derive(Debug, PartialEq)]
pub(crate) struct Diverged;

impl SentText {
    /// Whether some text was sent.
    pub(crate) fn has_begun(&self) -> bool {
        !self.words().sent.is_empty()
    }

    /// Sends the passages, once.
    pub(crate) fn passages(&self, tell: impl FnOnce()) {
        if !std::mem::replace(&mut self.words().found, true) {
            tell();
        }
    }

    /// What is to be sent after this piece.
    ///
    /// # Errors
    /// If the answer no longer begins with what was sent.
    pub(crate) fn piece(&self, piece: AnswerPiece) -> Result<Option<String>, Diverged> {
        let mut words = self.words();
        match piece {
            AnswerPiece::Restart => {
                words.now.clear();
                Ok(None)
            }
            AnswerPiece::Text(text) => {
                words.now += &text;
                words.next()
            }
        }
    }

    /// What is to be sent so that all of the text was.
    ///
    /// # Errors
    /// As [`Self::piece`].
    pub(crate) fn rest(&self, text: &str) -> Result<Option<String>, Diverged> {
        let mut words = self.words();
        text.clone_into(&mut words.now);
        match words.next() {
            _ if words.sent != text => Err(Diverged),
            next => next,
        }
    }

    fn words(&self) -> std::sync::MutexGuard<'_, Words> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Words {
    fn next(&mut self) -> Result<Option<String>, Diverged> {
        match self.now.strip_prefix(&self.sent) {
            _ if self.diverged => Err(Diverged),
            Some("") => Ok(None),
            Some(more) => {
                let more = more.to_owned();
                self.sent += &more;
                Ok(Some(more))
            }
            // It may still become the same.
            None if self.sent.starts_with(&self.now) => Ok(None),
            None => {
                self.diverged = true;
                Err(Diverged)
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
        assert_eq!(sent.piece(text("The mill ")), Ok(Some("The mill ".into())));
        assert_eq!(sent.piece(AnswerPiece::Restart), Ok(None));
        assert_eq!(sent.piece(text("The ")), Ok(None));
        assert_eq!(sent.piece(text("mill is old")), Ok(Some("is old".into())));
        assert_eq!(sent.rest("The mill is old [1]."), Ok(Some(" [1].".into())));
    }

    #[test]
    fn an_answer_in_other_words_than_were_sent_is_never_passed_off_as_one() {
        let sent = SentText::default();
        assert_eq!(sent.piece(text("The mill ")), Ok(Some("The mill ".into())));
        assert_eq!(sent.piece(AnswerPiece::Restart), Ok(None));
        assert_eq!(sent.piece(text("A mill ")), Err(Diverged));
        assert_eq!(sent.rest("A mill "), Err(Diverged));
        let shorter = SentText::default();
        assert_eq!(shorter.piece(text("The mill is")), Ok(Some("The mill is".into())));
        assert_eq!(shorter.rest("The mill"), Err(Diverged));
    }
}
