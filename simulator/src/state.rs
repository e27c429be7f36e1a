//! The provider and its counts, shared by all connections. The lock is held
//! for a few hundred nanoseconds at a time and never across an await.

use crate::{
    Error, InjectedFault, SimulatorSettings, Stats,
    batches::BatchDesk,
    limits::{LimitRefusal, RateStatuses},
    provider::{ProviderAdmission, SimulatedProvider},
    stats::StatsCounter,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct SimulatorState {
    started: Instant,
    inner: Mutex<ProviderState>,
    pub(crate) batches: BatchDesk,
}

#[derive(Debug)]
struct ProviderState {
    provider: SimulatedProvider,
    counter: StatsCounter,
}

impl ProviderState {
    fn since_first(&self, now: Duration) -> Duration {
        now.saturating_sub(self.provider.first().unwrap_or(now))
    }
}

/// The decision about a request, and the limits that its answer announces.
pub(crate) struct AdmissionDecision {
    pub(crate) verdict: AdmissionVerdict,
    pub(crate) rates: RateStatuses,
    pub(crate) settings: Arc<SimulatorSettings>,
}

pub(crate) enum AdmissionVerdict {
    Refused(LimitRefusal),
    Failed(InjectedFault),
    Admitted(Ticket),
}

impl SimulatorState {
    pub(crate) fn new(settings: SimulatorSettings) -> Arc<Self> {
        let inner = ProviderState { provider: SimulatedProvider::new(settings), counter: StatsCounter::default() };
        Arc::new(Self { started: Instant::now(), inner: Mutex::new(inner), batches: BatchDesk::default() })
    }

    fn lock(&self) -> MutexGuard<'_, ProviderState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Decides about a request that will use this many tokens.
    pub(crate) fn admit(self: &Arc<Self>, tokens: u64) -> AdmissionDecision {
        let mut inner = self.lock();
        // Inside the lock, so that time never goes backwards.
        let now = self.now();
        let admission = inner.provider.admit(tokens, now);
        let since_first = inner.since_first(now);
        inner.counter.requested(since_first);
        let verdict = match admission {
            ProviderAdmission::Refused(refusal) => {
                inner.counter.rejected(refusal, since_first);
                AdmissionVerdict::Refused(refusal)
            }
            ProviderAdmission::Failed(fault) => {
                inner.counter.failed(fault, since_first);
                AdmissionVerdict::Failed(fault)
            }
            ProviderAdmission::Admitted { latency, fault } => {
                let in_flight = inner.provider.in_flight();
                inner.counter.stats.max_in_flight = inner.counter.stats.max_in_flight.max(in_flight);
                if let Some(fault) = fault {
                    inner.counter.failed(fault, since_first);
                }
                AdmissionVerdict::Admitted(Ticket { state: self.clone(), latency, fault, ended: false })
            }
        };
        AdmissionDecision { verdict, rates: inner.provider.rates(now), settings: inner.provider.settings().clone() }
    }

    /// A line of a batch was answered.
    pub(crate) fn answered_in_batch(&self, fingerprint: u128, prompt_tokens: u64, completion_tokens: u64) {
        let mut inner = self.lock();
        let since_first = inner.since_first(self.now());
        inner.counter.answered(fingerprint, prompt_tokens, completion_tokens, since_first);
    }

    pub(crate) fn not_understood(&self) {
        self.lock().counter.stats.not_understood += 1;
    }

    pub(crate) fn settings(&self) -> Arc<SimulatorSettings> {
        self.lock().provider.settings().clone()
    }

    pub(crate) fn rates(&self) -> RateStatuses {
        let mut inner = self.lock();
        inner.provider.rates(self.now())
    }

    pub(crate) fn stats(&self) -> Stats {
        // Before the lock, because a batch that is created takes both locks in the other order.
        let batches = self.batches.counts();
        let inner = self.lock();
        let in_flight = inner.provider.in_flight();
        Stats { in_flight, batches, ..inner.counter.stats.clone() }
    }

    /// Replaces the settings by what `change` makes of them.
    pub(crate) fn set(
        &self,
        change: impl FnOnce(&SimulatorSettings) -> Result<SimulatorSettings, Error>,
    ) -> Result<Arc<SimulatorSettings>, Error> {
        let mut inner = self.lock();
        let settings = change(inner.provider.settings())?.checked()?;
        inner.provider.set(settings, self.now());
        Ok(inner.provider.settings().clone())
    }
}

/// A request in flight. When this is dropped, it no longer is.
pub(crate) struct Ticket {
    state: Arc<SimulatorState>,
    pub(crate) latency: Duration,
    pub(crate) fault: Option<InjectedFault>,
    ended: bool,
}

impl Ticket {
    /// It was answered with 200.
    pub(crate) fn answered(mut self, fingerprint: u128, prompt_tokens: u64, completion_tokens: u64) {
        self.ended = true;
        let mut inner = self.state.lock();
        let since_first = inner.since_first(self.state.now());
        inner.counter.answered(fingerprint, prompt_tokens, completion_tokens, since_first);
    }

    /// It failed, and its fault was counted already.
    pub(crate) fn failed(mut self) {
        self.ended = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.state.lock();
        inner.provider.release();
        if !self.ended && self.fault != Some(InjectedFault::Hang) {
            inner.counter.stats.abandoned += 1;
        }
    }
}
