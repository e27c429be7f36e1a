//! The slots of calls in flight, and the queue of calls that wait for one.
//!
//! This is a semaphore of our own, because the number of slots changes during a
//! run, waiting calls have priorities, and a slot alone is not enough if the
//! other side also limits how many calls may start.

use crate::{
    Call, Controller, Outcome, OutcomeKind, RateHints,
    refusals::{Patience, Refusals},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::oneshot, time::Instant};

/// Shared by all handles of a limiter.
#[derive(Debug)]
pub(crate) struct Slots {
    controller: Arc<dyn Controller>,
    queue: Mutex<CallQueue>,
    /// Changed only while the queue is locked.
    in_flight: AtomicUsize,
    calls: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) refusals: Refusals,
    this: Weak<Self>,
}

/// How attempts ended so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) hedged: AtomicU64,
    pub(crate) cost: AtomicU64,
}

#[derive(Debug, Default)]
struct CallQueue {
    sequence: u64,
    /// The latest round of the groups' turns from which a call was let in.
    round: u64,
    /// The round in which the next call of a group has its turn.
    turns: HashMap<u64, u64>,
    waiting: BTreeMap<QueuePosition, QueueEntry>,
    /// When the queue is looked at again, and by which runtime.
    wake: Option<Instant>,
    runtime: Option<Handle>,
}

/// The order of the queue: higher priority first; then calls that were not sent
/// to the end; then those with more attempts, so that a task that has begun is
/// finished before new ones start; then groups in turn; then the order of
/// arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    priority: Reverse<i32>,
    at_the_end: bool,
    attempts: Reverse<u32>,
    round: u64,
    sequence: u64,
}

#[derive(Debug)]
struct QueueEntry {
    cost: u64,
    sender: oneshot::Sender<QueueTurn>,
}

/// How waiting in the queue ends.
#[derive(Debug)]
enum QueueTurn {
    /// With a slot.
    Admitted(Admission),
    /// Without a slot, because no call gets through. The text is that of the last refusal.
    GivenUp(Arc<str>),
}

/// The circumstances when a call is let in.
#[derive(Debug, Clone, Copy)]
struct Admission {
    at: Instant,
    in_flight: usize,
}

impl Slots {
    pub(crate) fn new(controller: Arc<dyn Controller>) -> Arc<Self> {
        let slots = Arc::new_cyclic(|this: &Weak<Self>| Self {
            controller,
            queue: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            counters: Counters::default(),
            refusals: Refusals::default(),
            this: this.clone(),
        });
        // A weak reference: otherwise controller and slots would keep each other alive.
        let weak = slots.this.clone();
        slots.controller.on_change(Arc::new(move || {
            if let Some(slots) = weak.upgrade() {
                slots.admit(&mut slots.queue());
            }
        }));
        slots
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// A number for each call, from 0.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// The numbers of calls in flight and in the queue.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let queue = self.queue();
        (self.in_flight.load(Ordering::Relaxed), queue.waiting.len())
    }

    /// Passes an announcement about limits on to the controller.
    pub(crate) fn apply_hints(&self, hints: &RateHints) {
        self.controller.apply_hints(hints);
        self.admit(&mut self.queue());
    }

    /// Waits in the queue for a slot, which may be free at once. Dropping the
    /// future leaves the queue.
    ///
    /// # Errors
    /// The text of the last refusal, if waiting is given up because no call
    /// gets through.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        call: &Call,
        attempts: u32,
        at_the_end: bool,
    ) -> Result<Slot, Arc<str>> {
        let mut waiting = {
            let mut queue = self.queue();
            let round = queue.turns.get(&call.group).copied().unwrap_or_default().max(queue.round);
            queue.turns.insert(call.group, round + 1);
            let place = QueuePosition {
                priority: Reverse(call.priority),
                at_the_end,
                attempts: Reverse(attempts),
                round,
                sequence: queue.sequence,
            };
            queue.sequence += 1;
            queue.runtime = Handle::try_current().ok();
            let (sender, receiver) = oneshot::channel();
            queue.waiting.insert(place, QueueEntry { cost: call.cost, sender });
            self.controller.queued();
            self.admit(&mut queue);
            QueuedCall { slots: self, place, receiver, is_over: false }
        };
        // The sender is never dropped without sending while a call waits.
        let turn = (&mut waiting.receiver).await;
        waiting.is_over = true;
        match turn.unwrap_or_else(|_| QueueTurn::Admitted(Admission { at: Instant::now(), in_flight: 1 })) {
            QueueTurn::Admitted(admitted) => Ok(Slot { slots: self.clone(), cost: call.cost, admitted }),
            QueueTurn::GivenUp(refusal) => Err(refusal),
        }
    }

    /// Whether a call that was refused now, with this text, is given up because
    /// no call has got through for `patience`. All waiting calls are then given
    /// up with it.
    pub(crate) fn give_up(&self, patience: Duration, refusal: &str) -> bool {
        match self.refusals.record(patience, Instant::now()) {
            Patience::Left => return false,
            Patience::AlreadyExhausted => {}
            Patience::JustExhausted => {
                let refusal: Arc<str> = refusal.into();
                let mut queue = self.queue();
                for (_, waiter) in std::mem::take(&mut queue.waiting) {
                    // Never fails: a call that stops waiting leaves the queue first.
                    let _ = waiter.sender.send(QueueTurn::GivenUp(refusal.clone()));
                }
                queue.turns.clear();
                queue.round = 0;
            }
        }
        true
    }

    /// A slot, if one is free and no call waits for it.
    pub(crate) fn try_acquire(self: &Arc<Self>, call: &Call) -> Option<Slot> {
        let queue = self.queue();
        let admitted = queue.waiting.is_empty().then(|| self.try_admit(call.cost))??;
        drop(queue);
        Some(Slot { slots: self.clone(), cost: call.cost, admitted })
    }

    fn target(&self) -> usize {
        self.controller.target().max(1)
    }

    /// Takes a slot for a call. The queue must be locked.
    fn try_admit(&self, cost: u64) -> Option<Admission> {
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        if in_flight >= self.target() {
            return None;
        }
        let at = Instant::now();
        self.controller.admit(cost, at).ok()?;
        self.in_flight.store(in_flight + 1, Ordering::Relaxed);
        Some(Admission { at, in_flight: in_flight + 1 })
    }

    /// Lets in as many waiting calls as there is room for.
    fn admit(&self, queue: &mut CallQueue) {
        if queue.waiting.is_empty() {
            return;
        }
        let (target, now) = (self.target(), Instant::now());
        while self.in_flight.load(Ordering::Relaxed) < target
            && let Some(first) = queue.waiting.first_entry()
        {
            if let Err(at) = self.controller.admit(first.get().cost, now) {
                self.wake_at(queue, at.max(now));
                return;
            }
            let (place, waiter) = first.remove_entry();
            queue.round = queue.round.max(place.round);
            let in_flight = self.in_flight.load(Ordering::Relaxed) + 1;
            // Never fails: a call that stops waiting leaves the queue first.
            if waiter.sender.send(QueueTurn::Admitted(Admission { at: now, in_flight })).is_ok() {
                self.in_flight.store(in_flight, Ordering::Relaxed);
            }
        }
        if queue.waiting.is_empty() {
            queue.turns.clear();
            queue.round = 0;
        }
    }

    /// Makes sure that the queue is looked at again by that time.
    fn wake_at(&self, queue: &mut CallQueue, at: Instant) {
        if queue.wake.is_some_and(|wake| wake <= at) {
            return;
        }
        let Some(runtime) = &queue.runtime else { return };
        queue.wake = Some(at);
        let weak = self.this.clone();
        drop(runtime.spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(slots) = weak.upgrade() {
                let mut queue = slots.queue();
                if queue.wake.is_some_and(|wake| wake <= at) {
                    queue.wake = None;
                }
                slots.admit(&mut queue);
            }
        }));
    }

    fn release(&self) {
        let mut queue = self.queue();
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.admit(&mut queue);
    }

    fn queue(&self) -> MutexGuard<'_, CallQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to have one call in flight, until dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    cost: u64,
    admitted: Admission,
}

impl Slot {
    /// When the slot was given.
    pub(crate) fn since(&self) -> Instant {
        self.admitted.at
    }

    /// Tells the controller how the call ended, and gives the slot back.
    pub(crate) fn finish(self, outcome: Outcome) {
        let slots = &self.slots;
        let others = slots.in_flight.load(Ordering::Relaxed).saturating_sub(1);
        let outcome = Outcome { in_flight: self.admitted.in_flight, others, cost: self.cost, ..outcome };
        slots.counters.count(&outcome);
        if outcome.kind == OutcomeKind::Completed {
            slots.refusals.passed();
        }
        slots.controller.record(&outcome);
    }
}

impl Counters {
    fn count(&self, outcome: &Outcome) {
        let counter = match outcome.kind {
            OutcomeKind::Completed => {
                self.cost.fetch_add(outcome.cost, Ordering::Relaxed);
                &self.completed
            }
            kind if kind.is_refusal() => &self.refused,
            OutcomeKind::Failed(_) => &self.failed,
            OutcomeKind::TimedOut => &self.timed_out,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.release();
    }
}

/// A call in the queue.
struct QueuedCall<'a> {
    slots: &'a Slots,
    place: QueuePosition,
    receiver: oneshot::Receiver<QueueTurn>,
    is_over: bool,
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let left_queue = self.slots.queue().waiting.remove(&self.place).is_some();
        if !left_queue && !matches!(self.receiver.try_recv(), Ok(QueueTurn::GivenUp(_))) {
            // The call was let in just now, but is dropped and cannot use the slot.
            self.slots.release();
        }
    }
}

#[cfg(test)]
mod tests;
