//! The shortest time in which a provider can answer a number of tasks: the time of a
//! client that knows all limits and changes ahead, sends each request in the very moment
//! in which it is let through, loses no time of its own, and never sends a task twice at
//! once.
//!
//! It is computed event by event with the limits, latencies and faults that
//! the server would draw. Without faults it is about
//! (tasks − burst) / rate + the last latency if the rate is limited, and
//! tasks · mean latency / limit if the concurrency is.

use crate::{
    Error, InjectedFault, SimulatorSettings,
    limits::LimitRefusal,
    provider::{ProviderAdmission, SimulatedProvider},
};
use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// If the tasks take more requests than this on average, the settings are refused.
const MOST_REQUESTS: u64 = 1_000;

/// The shortest time for this many tasks of this many tokens each, by a
/// client that gives up a request after `timeout`.
///
/// # Errors
/// Where that never ends, such as with a server that always fails.
pub fn optimum(settings: &SimulatorSettings, tasks: u64, tokens: u64, timeout: Duration) -> Result<Duration, Error> {
    let hopeless = || Error::Settings("with these settings the tasks never end".to_owned());
    let mut provider = SimulatedProvider::new(settings.clone().checked()?);
    let (mut now, mut end) = (Duration::ZERO, Duration::ZERO);
    let (mut ready, mut done, mut requests) = (tasks, 0, 0);
    // When requests end, and whether their task must be tried again.
    let mut in_flight: BinaryHeap<Reverse<(Duration, bool)>> = BinaryHeap::new();
    while done < tasks {
        while let Some(Reverse((_, again))) = in_flight.peek().filter(|next| next.0.0 <= now) {
            ready += u64::from(*again);
            in_flight.pop();
            provider.release();
        }
        let mut wait = None;
        if ready > 0 {
            requests += 1;
            if requests > tasks.saturating_mul(MOST_REQUESTS) {
                return Err(hopeless());
            }
            match provider.admit(tokens, now) {
                ProviderAdmission::Admitted { latency, fault } => {
                    let latency = if fault == Some(InjectedFault::Hang) { timeout } else { latency };
                    let answered = fault.is_none() && latency <= timeout;
                    let ends = now + latency.min(timeout);
                    ready -= 1;
                    if answered {
                        done += 1;
                        end = end.max(ends);
                    }
                    in_flight.push(Reverse((ends, !answered)));
                    continue;
                }
                ProviderAdmission::Failed(_) => continue,
                ProviderAdmission::Refused(LimitRefusal::Requests(after) | LimitRefusal::Tokens(after)) => {
                    wait = Some(now + after)
                }
                ProviderAdmission::Refused(LimitRefusal::Concurrency | LimitRefusal::TooLarge) => {}
            }
        }
        let next_end = in_flight.peek().map(|next| next.0.0);
        let next = [wait, next_end, provider.next_change()].into_iter().flatten().min();
        now = next.filter(|next| *next > now).ok_or_else(hopeless)?;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seconds(settings: serde_json::Value) -> f64 {
        let settings: SimulatorSettings = serde_json::from_value(settings).expect("settings");
        optimum(&settings, 600, 50, Duration::from_secs(2)).expect("it ends").as_secs_f64()
    }

    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} instead of {expected}");
    }

    #[test]
    fn it_is_the_formula_where_there_is_one() {
        let latency = json!({ "constant": { "seconds": 0.3 } });
        let rate = json!({ "latency": latency, "requests_per_minute": 1_200, "request_burst": 5 });
        assert_near(seconds(rate), (600.0 - 5.0) / 20.0 + 0.3, 1e-6);
        let tokens = json!({ "latency": latency, "tokens_per_minute": 60_000, "token_burst": 250 });
        assert_near(seconds(tokens), (600.0 - 5.0) * 50.0 / 1_000.0 + 0.3, 1e-6);
        assert_near(seconds(json!({ "latency": latency, "concurrency": 8 })), 600.0 / 8.0 * 0.3, 1e-6);
        let changing = json!({
            "latency": latency,
            "requests_per_minute": 2_400,
            "request_burst": 10,
            "changes": [
                { "after_seconds": 5, "set": { "requests_per_minute": 1_200, "request_burst": 5 } },
                { "after_seconds": 15, "set": { "requests_per_minute": 2_400, "request_burst": 10 } },
            ],
        });
        // 10 + 5 · 40 + 10 · 20 tasks, then the rest at 40 per second.
        assert_near(seconds(changing), 15.0 + 190.0 / 40.0 + 0.3, 0.03);
    }

    #[test]
    fn with_a_concurrency_the_mean_latency_counts() {
        let latency = json!({ "log_normal": { "median": 0.3, "sigma": 0.3 } });
        let mean = 0.3 * (0.3f64 * 0.3 / 2.0).exp();
        assert_near(seconds(json!({ "latency": latency, "concurrency": 8 })), 600.0 / 8.0 * mean, 0.6);
    }

    #[test]
    fn failed_requests_are_made_again_and_hung_ones_are_waited_for() {
        let settings = json!({
            "latency": { "constant": { "seconds": 0.3 } },
            "requests_per_minute": 1_200,
            "request_burst": 5,
            "faults": { "server_error": 0.25 },
        });
        let failing = seconds(settings.clone());
        assert!((800.0 / 20.0..900.0 / 20.0).contains(&failing), "{failing}");
        let mut hanging = settings;
        hanging["faults"] = json!({ "hang": 1.0 });
        let settings: SimulatorSettings = serde_json::from_value(hanging).expect("settings");
        assert!(optimum(&settings, 600, 50, Duration::from_secs(2)).is_err());
    }
}
