//! Headers as OpenAI sends them.

use crate::{
    SimulatorSettings,
    limits::{LimitRefusal, RateStatus, RateStatuses},
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// `x-ratelimit-*`, for the limits that there are.
pub(crate) fn write_rates(headers: &mut HeaderMap, rates: RateStatuses) {
    const REQUESTS: [&str; 3] =
        ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
    const TOKENS: [&str; 3] = ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"];
    for (names, rate) in [(REQUESTS, rates.requests), (TOKENS, rates.tokens)] {
        let Some(RateStatus { limit, remaining, reset }) = rate else { continue };
        let [limit_name, remaining_name, reset_name] = names.map(HeaderName::from_static);
        headers.insert(limit_name, limit.into());
        headers.insert(remaining_name, remaining.into());
        if let Ok(value) = HeaderValue::try_from(duration(reset)) {
            headers.insert(reset_name, value);
        }
    }
}

/// When a refused request would fit, in milliseconds and in seconds.
pub(crate) fn write_retry_after(headers: &mut HeaderMap, refusal: LimitRefusal, settings: &SimulatorSettings) {
    let wait = match refusal {
        LimitRefusal::Concurrency => settings.concurrency_retry_after_ms.map(Duration::from_millis),
        LimitRefusal::Requests(wait) | LimitRefusal::Tokens(wait) => settings.rate_headers.then_some(wait),
        LimitRefusal::TooLarge => None,
    };
    if let Some(milliseconds) = wait.map(milliseconds) {
        headers.insert(HeaderName::from_static("retry-after-ms"), milliseconds.into());
        headers.insert(HeaderName::from_static("retry-after"), milliseconds.div_ceil(1_000).into());
    }
}

/// Rounded up, so that nobody who waits this long is too early.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// `250ms`, `1s`, `1.5s`, `6m0s`, `1h0m0s`.
pub(crate) fn duration(duration: Duration) -> String {
    let all = milliseconds(duration);
    let (hours, minutes, rest) = (all / 3_600_000, all / 60_000 % 60, all % 60_000);
    let seconds = rest as f64 / 1_000.0;
    match (hours, minutes) {
        (0, 0) if all > 0 && all < 1_000 => format!("{all}ms"),
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_openai_writes_them() {
        let written = [
            (0, "0s"),
            (250_000, "250ms"),
            (999_001, "1s"),
            (1_000_000, "1s"),
            (8_640_000, "8.64s"),
            (360_000_000, "6m0s"),
            (90_951_000, "1m30.951s"),
            (3_600_000_000, "1h0m0s"),
        ];
        for (microseconds, expected) in written {
            assert_eq!(duration(Duration::from_micros(microseconds)), expected);
        }
    }

    #[test]
    fn a_wait_is_rounded_up() {
        let mut headers = HeaderMap::new();
        let refusal = LimitRefusal::Requests(Duration::from_nanos(1_200_000_001));
        write_retry_after(&mut headers, refusal, &SimulatorSettings::default());
        assert_eq!(headers["retry-after-ms"], "1201");
        assert_eq!(headers["retry-after"], "2");
    }

    #[test]
    fn no_wait_is_told_where_none_should_be() {
        let quiet = SimulatorSettings { rate_headers: false, ..SimulatorSettings::default() };
        let mut headers = HeaderMap::new();
        write_retry_after(&mut headers, LimitRefusal::Requests(Duration::from_secs(1)), &quiet);
        write_retry_after(&mut headers, LimitRefusal::Concurrency, &SimulatorSettings::default());
        assert!(headers.is_empty());
        let polite = SimulatorSettings { concurrency_retry_after_ms: Some(40), ..quiet };
        write_retry_after(&mut headers, LimitRefusal::Concurrency, &polite);
        assert_eq!(headers["retry-after-ms"], "40");
    }
}
