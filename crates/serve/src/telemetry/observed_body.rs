//! A body that reports whether it was read to its end.

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// Calls a function when the body is dropped, with whether it was read to its end.
pub(crate) struct ObservedBody<F: FnOnce(bool)> {
    inner: Body,
    has_ended: bool,
    on_drop: Option<F>,
}

impl<F: FnOnce(bool) + Send + Unpin + 'static> ObservedBody<F> {
    pub(crate) fn wrap(inner: Body, on_drop: F) -> Body {
        Body::new(Self { inner, has_ended: false, on_drop: Some(on_drop) })
    }
}

impl<F: FnOnce(bool) + Unpin> HttpBody for ObservedBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        self.has_ended |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<F: FnOnce(bool)> Drop for ObservedBody<F> {
    fn drop(&mut self) {
        // The reader of a body of known length does not poll past its end.
        let has_ended = self.has_ended || self.inner.is_end_stream();
        if let Some(on_drop) = self.on_drop.take() {
            on_drop(has_ended);
        }
    }
}
