//! What the simulated provider has seen.

use crate::{BatchCounts, InjectedFault, limits::LimitRefusal};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, time::Duration};

/// The most seconds that are counted one by one; later ones are added to the last.
const MOST_SECONDS: usize = 7_200;

/// What the simulated provider has seen since it started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Requests for answers or vectors.
    pub requests: u64,
    /// Answered with 200, completely.
    pub answered: u64,
    /// Different request bodies that were answered.
    pub unique_answered: u64,
    /// Different request bodies that were answered more than once.
    pub answered_twice: u64,
    /// Refused with 429 because of a limit.
    pub rejected: RejectedCounts,
    /// What went wrong on purpose.
    pub faults: FaultCounts,
    /// Refused with 400.
    pub not_understood: u64,
    /// Requests whose client left before their end, other than hung ones.
    pub abandoned: u64,
    /// In flight now.
    pub in_flight: u64,
    /// The most that were in flight at once.
    pub max_in_flight: u64,
    /// Tokens of the requests that were answered.
    pub prompt_tokens: u64,
    /// Tokens of their answers.
    pub completion_tokens: u64,
    /// What was asked of the Batch API. Lines of batches that were answered are among `answered`.
    #[serde(default)]
    pub batches: BatchCounts,
    /// From the first request on, second by second.
    pub seconds: Vec<Second>,
}

/// Requests refused with 429, by the limit that refused them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedCounts {
    /// Too many in flight.
    pub concurrency: u64,
    /// Too many requests per minute.
    pub requests: u64,
    /// Too many tokens per minute.
    pub tokens: u64,
}

impl RejectedCounts {
    /// All together.
    pub fn total(&self) -> u64 {
        self.concurrency + self.requests + self.tokens
    }
}

/// Faults by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCounts {
    /// 429 although no limit was reached.
    pub rate_limited: u64,
    /// 503.
    pub overloaded: u64,
    /// 500.
    pub server_error: u64,
    /// No answer.
    pub hang: u64,
    /// Connections that were reset.
    pub reset: u64,
    /// Answers that broke off.
    pub truncated: u64,
    /// Answers that are no JSON.
    pub malformed: u64,
}

/// One second of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Requests that came.
    pub requests: u64,
    /// Refused with 429, for whatever reason.
    pub rejected: u64,
    /// Answered with 200, completely.
    pub answered: u64,
}

impl Stats {
    /// Requests, refusals and answers from this second of the run on.
    pub fn from_second(&self, first: usize) -> Second {
        self.seconds.iter().skip(first).fold(Second::default(), |sum, second| Second {
            requests: sum.requests + second.requests,
            rejected: sum.rejected + second.rejected,
            answered: sum.answered + second.answered,
        })
    }
}

/// A running count.
#[derive(Debug, Default)]
pub(crate) struct StatsCounter {
    pub(crate) stats: Stats,
    /// How often each request body was answered, by its fingerprint.
    bodies: HashMap<u128, u32>,
}

impl StatsCounter {
    pub(crate) fn requested(&mut self, since_first: Duration) {
        self.stats.requests += 1;
        self.second(since_first).requests += 1;
    }

    pub(crate) fn rejected(&mut self, refusal: LimitRefusal, since_first: Duration) {
        match refusal {
            LimitRefusal::Concurrency => self.stats.rejected.concurrency += 1,
            LimitRefusal::Requests(_) => self.stats.rejected.requests += 1,
            LimitRefusal::Tokens(_) | LimitRefusal::TooLarge => self.stats.rejected.tokens += 1,
        }
        self.second(since_first).rejected += 1;
    }

    pub(crate) fn failed(&mut self, fault: InjectedFault, since_first: Duration) {
        let faults = &mut self.stats.faults;
        *match fault {
            InjectedFault::RateLimited => &mut faults.rate_limited,
            InjectedFault::Overloaded => &mut faults.overloaded,
            InjectedFault::ServerError => &mut faults.server_error,
            InjectedFault::Hang => &mut faults.hang,
            InjectedFault::Reset => &mut faults.reset,
            InjectedFault::Truncated => &mut faults.truncated,
            InjectedFault::Malformed => &mut faults.malformed,
        } += 1;
        if fault == InjectedFault::RateLimited {
            self.second(since_first).rejected += 1;
        }
    }

    pub(crate) fn answered(
        &mut self,
        fingerprint: u128,
        prompt_tokens: u64,
        completion_tokens: u64,
        since_first: Duration,
    ) {
        self.stats.answered += 1;
        self.stats.prompt_tokens += prompt_tokens;
        self.stats.completion_tokens += completion_tokens;
        self.second(since_first).answered += 1;
        let times = self.bodies.entry(fingerprint).or_default();
        *times += 1;
        match times {
            1 => self.stats.unique_answered += 1,
            2 => self.stats.answered_twice += 1,
            _ => {}
        }
    }

    fn second(&mut self, since_first: Duration) -> &mut Second {
        let index = usize::try_from(since_first.as_secs()).unwrap_or(usize::MAX).min(MOST_SECONDS - 1);
        if self.stats.seconds.len() <= index {
            self.stats.seconds.resize(index + 1, Second::default());
        }
        &mut self.stats.seconds[index]
    }
}
