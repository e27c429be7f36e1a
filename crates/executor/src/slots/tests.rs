//! Tests of the queue for slots.

use super::*;
use crate::FixedController;
use futures::{FutureExt, poll};
use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
};

const CALL: Call = Call { priority: 0, group: 0, cost: 0, deadline: None };
const URGENT: Call = Call { priority: 1, ..CALL };

fn fixed(concurrency: usize) -> Arc<Slots> {
    Slots::new(Arc::new(FixedController::new(concurrency)))
}

#[tokio::test]
async fn the_line_is_ordered_by_priority_then_attempts_then_arrival() {
    let slots = fixed(1);
    let mut held = slots.acquire(&CALL, 0, false).now_or_never();
    assert!(held.is_some());
    let (order_sender, order) = std::sync::mpsc::channel();
    let mut queue: Vec<_> = [(0, 0), (0, 0), (5, 0), (0, 1), (-1, 9), (5, 0)]
        .into_iter()
        .enumerate()
        .map(|(number, (priority, attempts))| {
            let (slots, order_sender) = (slots.clone(), order_sender.clone());
            Box::pin(async move {
                let slot = slots.acquire(&Call::from(priority), attempts, false).await;
                let _ = order_sender.send(number);
                slot
            })
        })
        .collect();
    for waiting in &mut queue {
        assert!(poll!(waiting).is_pending());
    }
    assert_eq!(slots.counts(), (1, 6));
    drop(held.take());
    for _ in 0..6 {
        // The slot of whoever got it is dropped at once, for the next.
        queue.retain_mut(|waiting| waiting.now_or_never().is_none());
    }
    assert_eq!(order.try_iter().collect::<Vec<_>>(), [2, 5, 3, 0, 1, 4]);
    assert_eq!(slots.counts(), (0, 0));
}

#[tokio::test]
async fn who_stops_waiting_takes_no_slot_along() {
    let slots = fixed(1);
    let held = slots.acquire(&CALL, 0, false).await;
    let mut in_line = Box::pin(slots.acquire(&CALL, 0, false));
    let mut admitted = Box::pin(slots.acquire(&URGENT, 0, false));
    assert!(poll!(&mut in_line).is_pending());
    assert!(poll!(&mut admitted).is_pending());
    drop(held);
    // Admitted but never looked at, then given up: the next one gets it.
    assert_eq!(slots.counts(), (1, 1));
    drop(admitted);
    assert_eq!(slots.counts(), (1, 0));
    drop(in_line);
    assert_eq!(slots.counts(), (0, 0));
    let mut left = Box::pin(slots.acquire(&CALL, 0, false));
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
    let held = slots.acquire(&CALL, 0, false).await;
    let mut second = pin!(slots.acquire(&CALL, 0, false));
    let mut third = pin!(slots.acquire(&CALL, 0, false));
    assert!(poll!(&mut second).is_pending());
    assert!(poll!(&mut third).is_pending());
    dial.target.store(3, Ordering::SeqCst);
    let listener = dial.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
    listener.iter().for_each(|listener| listener());
    assert_eq!(slots.counts(), (3, 0));
    drop((second.await, third.await, held));
    assert_eq!(slots.counts(), (0, 0));
}
