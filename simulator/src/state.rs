//! The provider and its counts, shared by all connections. The lock is held
//! for a few hundred nanoseconds at a time and never across an await.

use crate::{
    Error, Fault, Settings, Stats,
    limits::{Rates, Refusal},
    provider::{Admission, Provider},
    stats::Counter,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct State {
    started: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    provider: Provider,
    counter: Counter,
}

impl Inner {
    fn since_first(&self, now: Duration) -> Duration {
        now.saturating_sub(self.provider.first().unwrap_or(now))
    }
}

/// What becomes of a request, and what its headers say.
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) rates: Rates,
    pub(crate) settings: Arc<Settings>,
}

pub(crate) enum Verdict {
    Refused(Refusal),
    Failed(Fault),
    Admitted(Ticket),
}

impl State {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let inner = Inner { provider: Provider::new(settings), counter: Counter::default() };
        Arc::new(Self { started: Instant::now(), inner: Mutex::new(inner) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether a request that will use this many tokens may come in.
    pub(crate) fn admit(self: &Arc<Self>, tokens: u64) -> Decision {
        let mut inner = self.lock();
        // Inside the lock, so that time never goes backwards.
        let now = self.now();
        let admission = inner.provider.admit(tokens, now);
        let since_first = inner.since_first(now);
        inner.counter.requested(since_first);
        let verdict = match admission {
            Admission::Refused(refusal) => {
                inner.counter.rejected(refusal, since_first);
                Verdict::Refused(refusal)
            }
            Admission::Failed(fault) => {
                inner.counter.failed(fault, since_first);
                Verdict::Failed(fault)
            }
            Admission::Admitted { latency, fault } => {
                let in_flight = inner.provider.in_flight();
                inner.counter.admitted(in_flight);
                if let Some(fault) = fault {
                    inner.counter.failed(fault, since_first);
                }
                Verdict::Admitted(Ticket { state: self.clone(), latency, fault, ended: false })
            }
        };
        Decision { verdict, rates: inner.provider.rates(now), settings: inner.provider.settings().clone() }
    }

    pub(crate) fn not_understood(&self) {
        self.lock().counter.not_understood();
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.lock().provider.settings().clone()
    }

    pub(crate) fn rates(&self) -> Rates {
        let mut inner = self.lock();
        inner.provider.rates(self.now())
    }

    pub(crate) fn stats(&self) -> Stats {
        let inner = self.lock();
        inner.counter.stats(inner.provider.in_flight())
    }

    /// Replaces the settings by what `change` makes of them.
    pub(crate) fn set(
        &self,
        change: impl FnOnce(&Settings) -> Result<Settings, Error>,
    ) -> Result<Arc<Settings>, Error> {
        let mut inner = self.lock();
        let settings = change(inner.provider.settings())?.checked()?;
        inner.provider.set(settings, self.now());
        Ok(inner.provider.settings().clone())
    }
}

/// A request in flight. When this is dropped, it no longer is.
pub(crate) struct Ticket {
    state: Arc<State>,
    pub(crate) latency: Duration,
    pub(crate) fault: Option<Fault>,
    ended: bool,
}

impl Ticket {
    /// It was answered with 200.
    pub(crate) fn answered(mut self, body: u128, prompt_tokens: u64, completion_tokens: u64) {
        self.ended = true;
        let mut inner = self.state.lock();
        let since_first = inner.since_first(self.state.now());
        inner.counter.answered(body, prompt_tokens, completion_tokens, since_first);
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
        if !self.ended && self.fault != Some(Fault::Hang) {
            inner.counter.abandoned();
        }
    }
}
