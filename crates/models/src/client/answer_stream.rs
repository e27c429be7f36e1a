//! Reading an answer while it is written.

use super::draft::{AnswerDraft, DraftText};
use crate::{ChatResponse, Error};
use futures::{Stream, StreamExt, future::BoxFuture};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPiece {
    /// The next part of the text.
    Text(String),
    /// All pieces so far are void: the answer begins again.
    Restart,
}

/// Divides the growing text of an answer into pieces. Together, the pieces
/// since the last [`AnswerPiece::Restart`] are always the beginning of the text, and
/// in the end the whole text.
#[derive(Debug, Clone, Default)]
pub struct PieceDivider {
    shown: String,
}

impl PieceDivider {
    /// The pieces that are new in the text so far. A text that begins as before
    /// but is shorter, as after a failed attempt, may still catch up: it gives
    /// no piece.
    pub fn grow(&mut self, so_far: &str) -> Vec<AnswerPiece> {
        if self.shown.starts_with(so_far) { Vec::new() } else { self.end(so_far) }
    }

    /// The pieces that are still missing; the text is now complete.
    pub fn end(&mut self, whole: &str) -> Vec<AnswerPiece> {
        let mut pieces = Vec::new();
        let rest = match whole.strip_prefix(self.shown.as_str()) {
            Some(rest) => rest,
            None => {
                pieces.push(AnswerPiece::Restart);
                self.shown.clear();
                whole
            }
        };
        if !rest.is_empty() {
            self.shown.push_str(rest);
            pieces.push(AnswerPiece::Text(rest.to_owned()));
        }
        pieces
    }
}

/// An answer while it is written: a stream of pieces, then
/// [`AnswerStream::finish`]. The call makes progress only while the stream is
/// read; dropping the stream ends the call, unless another caller waits for the
/// same answer.
///
/// Together, the pieces since the last [`AnswerPiece::Restart`] are the text of the
/// response. If an attempt fails after text was shown, the next attempt
/// continues it if its text begins the same, and otherwise restarts. When the
/// stream ends, the answer is in the journal. An answer from the journal is one
/// piece. An error is the last item.
#[must_use = "an answer is made only as it is read"]
pub struct AnswerStream {
    work: Option<BoxFuture<'static, Result<ChatResponse, Error>>>,
    outcome: Option<Result<ChatResponse, Error>>,
    pieces: mpsc::UnboundedReceiver<AnswerPiece>,
    /// Whether the error was given as an item.
    gave_error: bool,
}

impl AnswerStream {
    /// An answer that this work makes and shows in its view.
    pub(super) fn new<Fut>(work: impl FnOnce(DraftView) -> Fut) -> Self
    where
        Fut: Future<Output = Result<ChatResponse, Error>> + Send + 'static,
    {
        let (sender, pieces) = mpsc::unbounded_channel();
        let view = DraftView { draft: AnswerDraft::default(), pieces: PieceDivider::default(), sender };
        Self { work: Some(Box::pin(work(view))), outcome: None, pieces, gave_error: false }
    }

    /// The response. Pieces that were not read yet are skipped.
    ///
    /// # Errors
    /// Why there is no answer, after retries.
    pub async fn finish(mut self) -> Result<ChatResponse, Error> {
        while self.next().await.is_some() {}
        // The stream ends without a result only if the call was cancelled.
        self.outcome.unwrap_or(Err(Error::Cancelled))
    }
}

impl Stream for AnswerStream {
    type Item = Result<AnswerPiece, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(work) = &mut this.work
            && let Poll::Ready(outcome) = work.as_mut().poll(cx)
        {
            this.outcome = Some(outcome);
            // Its view goes with it, so the pieces come to an end.
            this.work = None;
        }
        match (this.pieces.poll_recv(cx), &this.outcome) {
            (Poll::Ready(Some(piece)), _) => Poll::Ready(Some(Ok(piece))),
            (Poll::Ready(None), Some(Err(error))) if !this.gave_error => {
                this.gave_error = true;
                Poll::Ready(Some(Err(error.clone())))
            }
            (Poll::Ready(None), _) => Poll::Ready(None),
            (Poll::Pending, _) => Poll::Pending,
        }
    }
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

/// Where the work of an [`AnswerStream`] shows the text so far.
pub(super) struct DraftView {
    /// The call writes into it, if the caller of this view began the call.
    pub(super) draft: AnswerDraft,
    pieces: PieceDivider,
    sender: mpsc::UnboundedSender<AnswerPiece>,
}

impl DraftView {
    pub(super) fn show(&mut self, written: &DraftText) {
        let pieces = self.pieces.grow(&written.text);
        self.send(pieces);
    }

    pub(super) fn end(mut self, text: &str) {
        let pieces = self.pieces.end(text);
        self.send(pieces);
    }

    fn send(&self, pieces: Vec<AnswerPiece>) {
        for piece in pieces {
            // Sending fails only if the stream was dropped, and then this work no longer runs.
            let _ = self.sender.send(piece);
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
    fn a_text_that_grows_is_given_once() {
        let mut pieces = PieceDivider::default();
        assert_eq!(pieces.grow(""), []);
        assert_eq!(pieces.grow("Hé"), [text("Hé")]);
        assert_eq!(pieces.grow("Hé"), []);
        assert_eq!(pieces.grow("Héllo"), [text("llo")]);
        assert_eq!(pieces.end("Héllo."), [text(".")]);
        assert_eq!(pieces.end("Héllo."), []);
    }

    #[test]
    fn a_text_that_begins_again_is_continued_where_it_is_the_same() {
        let mut pieces = PieceDivider::default();
        pieces.grow("one two");
        assert_eq!(pieces.grow("one"), []);
        assert_eq!(pieces.grow("one two three"), [text(" three")]);
    }

    #[test]
    fn a_text_that_becomes_another_is_given_from_its_beginning() {
        let mut pieces = PieceDivider::default();
        pieces.grow("one two");
        assert_eq!(pieces.grow("one d"), [AnswerPiece::Restart, text("one d")]);
        assert_eq!(pieces.end("one"), [AnswerPiece::Restart, text("one")], "a whole text that is shorter is another");
        assert_eq!(pieces.end(""), [AnswerPiece::Restart]);
    }
}
