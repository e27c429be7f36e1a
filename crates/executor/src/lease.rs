//! One limit, shared by processes on many machines.
//!
//! One [`Authority`] knows the limit. Each process has a [`Leaseholder`] as its
//! limiter's controller. While it has calls, it sends the authority a
//! [`LeaseReport`] of what it does and needs; the answer is a [`Lease`]: its share
//! of the limit, for a while. The caller decides how reports and leases travel.
//!
//! Shares are fair by need: no process gets more than it can use, and the rest
//! is divided evenly among the others (max–min fairness). All leases that may
//! still be in use never exceed the limit together, so a share grows only after
//! another share was given back or ran out. A process that dies stops
//! reporting, and its share is free when its lease has run out.

mod holder;

pub use holder::Leaseholder;

use crate::{AdaptiveController, AdaptiveSettings, Controller, Outcome, RateHints};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// An authority that no process has asked for this long is forgotten.
const UNUSED: Duration = Duration::from_secs(300);

/// A share of a limit, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// The most calls in flight. Zero means none now: ask again soon.
    pub concurrency: usize,
    /// The share of the limit on calls, if that is known.
    pub requests_per_minute: Option<f64>,
    /// The share of the limit on tokens, if that is known.
    pub tokens_per_minute: Option<f64>,
    /// How long the lease holds from when it is given. Renew it well before the end.
    pub valid: Duration,
}

/// What a process reports to the authority.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LeaseReport {
    /// Its calls in flight.
    pub in_flight: usize,
    /// Its calls that wait for a slot.
    pub waiting: usize,
    /// How attempts ended since the last report.
    pub outcomes: Vec<Outcome>,
    /// The last announcement of the other side's limits.
    pub hints: Option<RateHints>,
}

/// Divides a limit among processes. Callers pass the current time; the clocks of
/// the processes may differ from it.
#[derive(Debug)]
pub struct Authority {
    limit: AdaptiveController,
    initial: usize,
    valid: Duration,
    answered: bool,
    members: BTreeMap<u64, Member>,
    /// What each process states about the limit, until its lease has run out.
    stated: BTreeMap<u64, (AdaptiveSettings, Instant)>,
    /// When a process last asked.
    asked: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    needs: usize,
    in_flight: usize,
    granted: usize,
    requests: f64,
    tokens: f64,
    until: Instant,
}

impl Authority {
    /// An authority over a limit with these known settings; its leases hold for
    /// `valid`.
    pub fn new(settings: AdaptiveSettings, valid: Duration) -> Self {
        let initial = settings.initial;
        let (members, stated) = (BTreeMap::new(), BTreeMap::new());
        Self { limit: AdaptiveController::new(settings), initial, valid, answered: false, members, stated, asked: None }
    }

    /// How many calls may be in flight, over all processes.
    pub fn target(&self) -> usize {
        if self.answered { self.limit.target() } else { self.initial.min(self.limit.maximum()).max(1) }
    }

    /// Takes a process's report and gives it its share.
    pub fn renew(&mut self, process: u64, report: &LeaseReport, now: Instant) -> Lease {
        self.asked = Some(now);
        self.members.retain(|_, member| member.until > now);
        let elsewhere: usize = self.others(process).map(|member| member.in_flight).sum();
        if let Some(hints) = &report.hints {
            self.limit.apply_hints(hints);
        }
        for outcome in &report.outcomes {
            self.answered = true;
            let (in_flight, others) = (outcome.in_flight + elsewhere, outcome.others + elsewhere);
            self.limit.record(&Outcome { in_flight, others, ..*outcome });
        }
        let needs = report.in_flight + report.waiting;
        // Calls that began under a larger share keep their places.
        let taken: usize = self.others(process).map(|member| member.granted.max(member.in_flight)).sum();
        // Shares that other processes may still ask for are kept for them: rounded down, so
        // that all can have them.
        let even = self.share(process, needs, |left, count| left / count);
        let kept: usize =
            self.others(process).map(|member| even.min(member.needs).saturating_sub(member.granted)).sum();
        let free = self.target().saturating_sub(taken + kept);
        // Rounded up, so that the remainder is used too; the free places bound it.
        let granted = self.share(process, needs, usize::div_ceil).min(needs).min(free);
        // Of the rates, the process gets the same fraction as of the granted places, and no more than others leave.
        let (requests, tokens) = self.limit.rates();
        let part = granted as f64 / (taken + granted).max(1) as f64;
        let rate = |limit: Option<f64>, used: f64| limit.map(|limit| (limit * part).min(limit - used).max(0.0));
        let requests = rate(requests, self.others(process).map(|member| member.requests).sum());
        let tokens = rate(tokens, self.others(process).map(|member| member.tokens).sum());
        let member = Member {
            needs,
            in_flight: report.in_flight,
            granted,
            requests: requests.unwrap_or_default(),
            tokens: tokens.unwrap_or_default(),
            until: now + self.valid,
        };
        self.members.insert(process, member);
        let per_minute = |rate: Option<f64>| rate.map(|rate| rate * 60.0);
        Lease {
            concurrency: granted,
            requests_per_minute: per_minute(requests),
            tokens_per_minute: per_minute(tokens),
            valid: self.valid,
        }
    }

    /// Applies what a process states about the limit. The smallest value of each number
    /// holds, among all processes whose lease is valid; a process that has ended or has
    /// no calls does not count.
    pub fn declare_for(&mut self, process: u64, settings: AdaptiveSettings, now: Instant) {
        self.stated.retain(|_, (_, until)| *until > now);
        self.stated.insert(process, (settings, now + self.valid));
        let all = self.stated.values().map(|(settings, _)| *settings);
        let Some(strictest) = all.reduce(AdaptiveSettings::stricter) else { return };
        self.initial = strictest.initial;
        self.limit.declare(&strictest);
    }

    /// Takes a process' share back at once: it has ended.
    pub fn leave(&mut self, process: u64) {
        self.members.remove(&process);
        self.stated.remove(&process);
    }

    fn others(&self, process: u64) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |(other, _)| **other != process).map(|(_, member)| member)
    }

    /// The max–min fair share of a process with these needs; no bound if there is enough
    /// for all. `divide` divides what is left among the other processes.
    fn share(&self, process: u64, needs: usize, divide: fn(usize, usize) -> usize) -> usize {
        let mut all: Vec<usize> = self.others(process).map(|member| member.needs).chain([needs]).collect();
        all.sort_unstable();
        let mut left = self.target();
        let mut count = all.len();
        for need in all {
            let even = divide(left, count);
            if need >= even {
                return even;
            }
            left -= need;
            count -= 1;
        }
        usize::MAX
    }
}

/// The authorities over several limits. One that no process asks for some
/// minutes is forgotten, with all that it has learned.
#[derive(Debug, Default)]
pub struct Authorities {
    by_limit: BTreeMap<String, Authority>,
}

impl Authorities {
    /// Takes what a process states and reports of a limit, and gives it its
    /// share; leases of a new authority hold for `valid`.
    pub fn renew(
        &mut self,
        limit: &str,
        (process, settings): (u64, AdaptiveSettings),
        report: &LeaseReport,
        (now, valid): (Instant, Duration),
    ) -> Lease {
        self.by_limit.retain(|_, authority| authority.asked.is_none_or(|asked| now.duration_since(asked) < UNUSED));
        let new = || Authority::new(settings, valid);
        let authority = self.by_limit.entry(limit.to_owned()).or_insert_with(new);
        authority.declare_for(process, settings, now);
        authority.renew(process, report, now)
    }

    /// How many calls may be in flight at each limit, over all processes.
    pub fn targets(&self) -> BTreeMap<String, usize> {
        self.by_limit.iter().map(|(limit, authority)| (limit.clone(), authority.target())).collect()
    }
}

#[cfg(test)]
mod tests;
