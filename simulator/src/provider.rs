//! A provider without clocks or connections: limits, faults and changes of
//! settings, for the server and for the computed optimum alike.

use crate::{
    InjectedFault, SettingsChange, SimulatorSettings,
    limits::{LimitRefusal, ProviderLimits, RateStatuses},
};
use std::{collections::VecDeque, sync::Arc, time::Duration};

#[derive(Debug)]
pub(crate) struct SimulatedProvider {
    settings: Arc<SimulatorSettings>,
    limits: ProviderLimits,
    changes: VecDeque<SettingsChange>,
    /// When the first request came, or the first `set`: changes are counted from there.
    first: Option<Duration>,
    /// Requests that the limits let through.
    passed: u64,
}

/// The decision about a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ProviderAdmission {
    /// A limit refuses it.
    Refused(LimitRefusal),
    /// It fails at once.
    Failed(InjectedFault),
    /// It is in flight, and ends after the latency, in an answer or a fault.
    Admitted { latency: Duration, fault: Option<InjectedFault> },
}

impl SimulatedProvider {
    pub(crate) fn new(settings: SimulatorSettings) -> Self {
        let limits = ProviderLimits::new(&settings, Duration::ZERO);
        let changes = settings.changes.clone().into();
        Self { settings: Arc::new(settings), limits, changes, first: None, passed: 0 }
    }

    pub(crate) fn admit(&mut self, tokens: u64, now: Duration) -> ProviderAdmission {
        self.advance(now);
        if let Err(refusal) = self.limits.check(tokens, now) {
            return ProviderAdmission::Refused(refusal);
        }
        let number = self.passed;
        self.passed += 1;
        match self.settings.faults.draw(self.settings.seed, number) {
            Some(fault @ (InjectedFault::RateLimited | InjectedFault::Overloaded)) => ProviderAdmission::Failed(fault),
            fault => {
                self.limits.admit(tokens);
                ProviderAdmission::Admitted { latency: self.settings.latency.draw(self.settings.seed, number), fault }
            }
        }
    }

    pub(crate) fn release(&mut self) {
        self.limits.release();
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.limits.in_flight()
    }

    pub(crate) fn rates(&mut self, now: Duration) -> RateStatuses {
        self.limits.rates(now)
    }

    pub(crate) fn settings(&self) -> &Arc<SimulatorSettings> {
        &self.settings
    }

    /// When the first request came, or the first `set`.
    pub(crate) fn first(&self) -> Option<Duration> {
        self.first
    }

    /// When the settings change next.
    pub(crate) fn next_change(&self) -> Option<Duration> {
        Some(self.first? + Duration::try_from_secs_f64(self.changes.front()?.after_seconds).ok()?)
    }

    /// Replaces the settings. Pending changes stay, unless the new settings have
    /// others.
    pub(crate) fn set(&mut self, settings: SimulatorSettings, now: Duration) {
        self.advance(now);
        if settings.changes != self.settings.changes {
            self.changes = settings.changes.clone().into();
        }
        self.limits.change(&settings, now);
        self.settings = Arc::new(settings);
    }

    /// Makes the changes that are due, each at its own time.
    fn advance(&mut self, now: Duration) {
        self.first.get_or_insert(now);
        while let Some(at) = self.next_change().filter(|at| *at <= now) {
            let Some(change) = self.changes.pop_front() else { break };
            // Checked when the settings came.
            if let Ok(settings) = self.settings.merged(&change.set) {
                self.limits.change(&settings, at);
                self.settings = Arc::new(settings);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECOND: Duration = Duration::from_secs(1);

    fn provider(settings: serde_json::Value) -> SimulatedProvider {
        let settings: SimulatorSettings = serde_json::from_value(settings).expect("settings");
        SimulatedProvider::new(settings.checked().expect("they work"))
    }

    #[test]
    fn changes_happen_at_their_time_after_the_first_request_however_late_they_are_noticed() {
        let mut provider = provider(json!({
            "requests_per_minute": 60,
            "request_burst": 100,
            "changes": [
                { "after_seconds": 10, "set": { "requests_per_minute": 600 } },
                { "after_seconds": 20, "set": { "concurrency": 1, "requests_per_minute": null } },
            ],
        }));
        let start = 1_000 * SECOND;
        let passed =
            (0..200).filter(|_| matches!(provider.admit(0, start), ProviderAdmission::Admitted { .. })).count();
        assert_eq!(passed, 100, "idle time before the first request fills no bucket above its burst");
        (0..passed).for_each(|_| provider.release());
        // 10 s at 1/s, then 5 s at 10/s.
        let passed = (0..200)
            .filter(|_| matches!(provider.admit(0, start + 15 * SECOND), ProviderAdmission::Admitted { .. }))
            .count();
        assert_eq!(passed, 60);
        assert_eq!(provider.admit(0, start + 20 * SECOND), ProviderAdmission::Refused(LimitRefusal::Concurrency));
        assert_eq!(provider.next_change(), None);
    }

    #[test]
    fn a_setting_that_does_not_exist_is_refused_before_it_would_count() {
        let bad = json!({ "changes": [{ "after_seconds": 1, "set": { "requests_per_hour": 1 } }] });
        let settings: SimulatorSettings = serde_json::from_value(bad).expect("it has the right form");
        let error = settings.checked().expect_err("no such setting").to_string();
        assert!(error.contains("requests_per_hour"), "{error}");
        for bad in [
            json!({ "faults": { "hang": 0.6, "reset": 0.6 } }),
            json!({ "concurrency": 0 }),
            json!({ "latency": { "uniform": { "shortest": 2, "longest": 1 } } }),
        ] {
            assert!(serde_json::from_value::<SimulatorSettings>(bad).expect("the right form").checked().is_err());
        }
    }

    #[test]
    fn who_asks_too_early_changes_nobodys_fate() {
        let settings = json!({
            "latency": { "log_normal": { "median": 0.3, "sigma": 0.3 } },
            "faults": { "server_error": 0.3 },
            "requests_per_minute": 60,
            "request_burst": 1,
        });
        let fates = |asks_per_second: u32| {
            let mut provider = provider(settings.clone());
            let fates = (0..20 * asks_per_second).map(|ask| provider.admit(0, SECOND * ask / asks_per_second));
            fates.filter(|fate| !matches!(fate, ProviderAdmission::Refused(_))).collect::<Vec<_>>()
        };
        assert_eq!(fates(1).len(), 20);
        assert_eq!(fates(1), fates(10));
    }

    #[test]
    fn settings_replaced_while_it_runs_keep_the_changes_to_come() {
        let mut provider = provider(json!({ "changes": [{ "after_seconds": 5, "set": { "concurrency": 3 } }] }));
        provider.admit(0, Duration::ZERO);
        let other = SimulatorSettings { concurrency: Some(1), ..(**provider.settings()).clone() };
        provider.set(other, SECOND);
        assert_eq!(provider.admit(0, 2 * SECOND), ProviderAdmission::Refused(LimitRefusal::Concurrency));
        assert!(matches!(provider.admit(0, 5 * SECOND), ProviderAdmission::Admitted { .. }));
        assert_eq!(provider.in_flight(), 2);
    }
}
