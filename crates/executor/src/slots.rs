//! The places of calls in flight, and the line of those who wait for one.
//!
//! A semaphore of our own, because the number of places changes while it
//! runs, and those who wait have priorities.

use crate::{Controller, Outcome};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::oneshot;

/// Shared by all handles of a limiter.
#[derive(Debug)]
pub(crate) struct Slots {
    controller: Arc<dyn Controller>,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    in_flight: usize,
    calls: u64,
    sequence: u64,
    waiting: BTreeMap<Place, oneshot::Sender<()>>,
}

/// The order of the line: higher priority first; then who has tried more
/// often, so that a task begun is finished before new ones start; then who
/// came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    priority: Reverse<i32>,
    attempts: Reverse<u32>,
    sequence: u64,
}

impl Slots {
    pub(crate) fn new(controller: Arc<dyn Controller>) -> Arc<Self> {
        let slots = Arc::new(Self { controller, line: Mutex::default() });
        // Weak, or controller and slots would keep each other for ever.
        let weak: Weak<Self> = Arc::downgrade(&slots);
        slots.controller.on_change(Arc::new(move || {
            if let Some(slots) = weak.upgrade() {
                slots.admit(&mut slots.line());
            }
        }));
        slots
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// A number for each call, from 0.
    pub(crate) fn next_call(&self) -> u64 {
        let mut line = self.line();
        line.calls += 1;
        line.calls - 1
    }

    /// Calls in flight, and calls in line.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let line = self.line();
        (line.in_flight, line.waiting.len())
    }

    /// Waits for a slot. Whoever stops waiting leaves the line.
    pub(crate) async fn acquire(self: &Arc<Self>, priority: i32, attempts: u32) -> Slot {
        let mut waiting = {
            let mut line = self.line();
            if line.waiting.is_empty() && line.in_flight < self.target() {
                line.in_flight += 1;
                return Slot { slots: self.clone() };
            }
            let place = Place { priority: Reverse(priority), attempts: Reverse(attempts), sequence: line.sequence };
            line.sequence += 1;
            let (sender, receiver) = oneshot::channel();
            line.waiting.insert(place, sender);
            self.admit(&mut line);
            Waiting { slots: self, place, receiver, admitted: false }
        };
        // The sender is never dropped unsent while someone waits.
        let _ = (&mut waiting.receiver).await;
        waiting.admitted = true;
        Slot { slots: self.clone() }
    }

    fn target(&self) -> usize {
        self.controller.target().max(1)
    }

    /// Lets in as many as there is room for.
    fn admit(&self, line: &mut Line) {
        let target = self.target();
        while line.in_flight < target
            && let Some((_, sender)) = line.waiting.pop_first()
        {
            // Never fails: who stops waiting leaves the line first.
            if sender.send(()).is_ok() {
                line.in_flight += 1;
            }
        }
    }

    fn release(&self) {
        let mut line = self.line();
        line.in_flight -= 1;
        self.admit(&mut line);
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to have one call in flight, until dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
}

impl Slot {
    /// Tells the controller how the call ended, and gives the slot back.
    pub(crate) fn finish(self, outcome: &Outcome) {
        self.slots.controller.record(outcome);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.release();
    }
}

/// Someone in line.
struct Waiting<'a> {
    slots: &'a Slots,
    place: Place,
    receiver: oneshot::Receiver<()>,
    admitted: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.admitted {
            return;
        }
        let left_line = self.slots.line().waiting.remove(&self.place).is_some();
        if !left_line {
            // Let in just now, but nobody is there to use the slot.
            self.slots.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fixed;
    use futures::{FutureExt, poll};
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::Poll,
    };

    fn fixed(concurrency: usize) -> Arc<Slots> {
        Slots::new(Arc::new(Fixed::new(concurrency)))
    }

    #[tokio::test]
    async fn the_line_is_ordered_by_priority_then_attempts_then_arrival() {
        let slots = fixed(1);
        let mut held = slots.acquire(0, 0).now_or_never();
        assert!(held.is_some());
        let (order_sender, order) = std::sync::mpsc::channel();
        let mut line: Vec<_> = [(0, 0), (0, 0), (5, 0), (0, 1), (-1, 9), (5, 0)]
            .into_iter()
            .enumerate()
            .map(|(number, (priority, attempts))| {
                let (slots, order_sender) = (slots.clone(), order_sender.clone());
                Box::pin(async move {
                    let slot = slots.acquire(priority, attempts).await;
                    let _ = order_sender.send(number);
                    slot
                })
            })
            .collect();
        for waiting in &mut line {
            assert!(poll!(waiting).is_pending());
        }
        assert_eq!(slots.counts(), (1, 6));
        drop(held.take());
        for _ in 0..6 {
            // The slot of whoever got it is dropped at once, for the next.
            line.retain_mut(|waiting| waiting.now_or_never().is_none());
        }
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [2, 5, 3, 0, 1, 4]);
        assert_eq!(slots.counts(), (0, 0));
    }

    #[tokio::test]
    async fn who_stops_waiting_takes_no_slot_along() {
        let slots = fixed(1);
        let held = slots.acquire(0, 0).await;
        let mut in_line = Box::pin(slots.acquire(0, 0));
        let mut admitted = Box::pin(slots.acquire(1, 0));
        assert!(poll!(&mut in_line).is_pending());
        assert!(poll!(&mut admitted).is_pending());
        drop(held);
        // Admitted but never looked at, then given up: the next one gets it.
        assert_eq!(slots.counts(), (1, 1));
        drop(admitted);
        assert_eq!(slots.counts(), (1, 0));
        drop(in_line);
        assert_eq!(slots.counts(), (0, 0));
        let mut left = Box::pin(slots.acquire(0, 0));
        let held = poll!(&mut left);
        assert!(matches!(held, Poll::Ready(_)));
    }

    #[derive(Default)]
    struct Dial {
        target: AtomicUsize,
        listener: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    }

    impl std::fmt::Debug for Dial {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Dial")
        }
    }

    impl Controller for Dial {
        fn target(&self) -> usize {
            self.target.load(Ordering::SeqCst)
        }
        fn maximum(&self) -> usize {
            100
        }
        fn record(&self, _outcome: &Outcome) {}
        fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
            *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        }
    }

    #[tokio::test]
    async fn a_raised_target_lets_waiting_calls_in_at_once() {
        let dial = Arc::new(Dial::default());
        let slots = Slots::new(dial.clone());
        let held = slots.acquire(0, 0).await;
        let mut second = pin!(slots.acquire(0, 0));
        let mut third = pin!(slots.acquire(0, 0));
        assert!(poll!(&mut second).is_pending());
        assert!(poll!(&mut third).is_pending());
        dial.target.store(3, Ordering::SeqCst);
        let listener = dial.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        listener.iter().for_each(|listener| listener());
        assert_eq!(slots.counts(), (3, 0));
        drop((second.await, third.await, held));
        assert_eq!(slots.counts(), (0, 0));
    }
}
