//! The results of a run, as a stream.

use crate::{Error, ExecutionDetails};
use futures::{Stream, stream::FusedStream};
use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc::UnboundedReceiver},
    time::Sleep,
};
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::AbortOnDropHandle,
};

/// A task of a run that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed<T, E> {
    /// The position of its input, from 0.
    pub index: usize,
    /// What it made, or why there is nothing.
    pub output: Result<T, Error<E>>,
    /// How it went.
    pub details: ExecutionDetails,
}

/// A result on its way, with its place in the window of the run: the place is
/// free again when the reader has the result.
pub(crate) struct Delivery<T, E> {
    pub(crate) completed: Completed<T, E>,
    pub(crate) place: OwnedSemaphorePermit,
}

/// The order in which results are given.
pub(crate) enum Order {
    AsCompleted,
    AsGiven,
}

/// The results of a run. The tasks make progress whether or not this stream is
/// read; when it is not, no new ones start once the window is full. Dropping
/// it ends the run.
#[must_use = "dropping the results ends the run"]
pub struct Completions<T, E> {
    receiver: UnboundedReceiver<Delivery<T, E>>,
    order: Order,
    /// Results that wait for an earlier one.
    early: BTreeMap<usize, Delivery<T, E>>,
    next: usize,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    grace: Duration,
    overdue: Option<Pin<Box<Sleep>>>,
    ended: bool,
    /// Ends the run together with the stream.
    _feeder: AbortOnDropHandle<()>,
}

impl<T, E> Completions<T, E> {
    pub(crate) fn new(
        receiver: UnboundedReceiver<Delivery<T, E>>,
        order: Order,
        cancel: CancellationToken,
        grace: Duration,
        feeder: AbortOnDropHandle<()>,
    ) -> Self {
        Self {
            receiver,
            order,
            early: BTreeMap::new(),
            next: 0,
            cancelled: Box::pin(cancel.cancelled_owned()),
            grace,
            overdue: None,
            ended: false,
            _feeder: feeder,
        }
    }

    /// Whether a cancellation is longer ago than the grace: what is still in
    /// flight then ignores it and is not waited for.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.overdue.is_none() {
            ready!(self.cancelled.as_mut().poll(cx));
        }
        let grace = self.grace;
        self.overdue.get_or_insert_with(|| Box::pin(tokio::time::sleep(grace))).as_mut().poll(cx)
    }

    fn deliver(&mut self, delivery: Delivery<T, E>) -> Completed<T, E> {
        self.next = delivery.completed.index + 1;
        drop(delivery.place);
        delivery.completed
    }
}

impl<T, E> Stream for Completions<T, E> {
    type Item = Completed<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let next = this.next;
            // At the end, results behind a gap have nothing left to wait for.
            let first = this.early.first_entry().filter(|entry| this.ended || *entry.key() == next);
            if let Some(delivery) = first.map(|entry| entry.remove()) {
                return Poll::Ready(Some(this.deliver(delivery)));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            match this.receiver.poll_recv(cx) {
                Poll::Ready(Some(delivery)) => match this.order {
                    Order::AsCompleted => return Poll::Ready(Some(this.deliver(delivery))),
                    Order::AsGiven => drop(this.early.insert(delivery.completed.index, delivery)),
                },
                Poll::Ready(None) => this.ended = true,
                Poll::Pending => {
                    ready!(this.poll_overdue(cx));
                    this.ended = true;
                }
            }
        }
    }
}

impl<T, E> FusedStream for Completions<T, E> {
    fn is_terminated(&self) -> bool {
        self.ended && self.early.is_empty()
    }
}

impl<T, E> fmt::Debug for Completions<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions").field("next", &self.next).field("ended", &self.ended).finish_non_exhaustive()
    }
}
