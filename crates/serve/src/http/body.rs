//! A request's body that records whether it was read to its end.

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::Version,
};
use hyper::body::{Frame, SizeHint};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

struct ReadTracker {
    body: Body,
    is_unread: Arc<AtomicBool>,
}

impl HttpBody for ReadTracker {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) || frame.is_ready() && self.body.is_end_stream() {
            self.is_unread.store(false, Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Tracks the reading of a request's body. Returns a flag that is true until the
/// body was read to its end; `None` if there is no body, or if the connection
/// carries several requests at once (HTTP/2).
pub(crate) fn track_reading(request: Request) -> (Request, Option<Arc<AtomicBool>>) {
    if request.body().is_end_stream() || request.version() > Version::HTTP_11 {
        return (request, None);
    }
    let is_unread = Arc::new(AtomicBool::new(true));
    let flag = is_unread.clone();
    (request.map(|body| Body::new(ReadTracker { body, is_unread })), Some(flag))
}
