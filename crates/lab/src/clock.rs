//! Moments: milliseconds since 1970, and how people read them.

use chrono::DateTime;
use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// A moment in words: day and minute, in UTC. `time_ms` counts milliseconds since 1970.
pub fn utc(time_ms: i64) -> String {
    let time = DateTime::from_timestamp_millis(time_ms).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M UTC").to_string()
}

/// A moment as a name that sorts by time, such as `20261128-161500-042`, in UTC.
pub(crate) fn compact_utc(time_ms: i64) -> String {
    let time = DateTime::from_timestamp_millis(time_ms).unwrap_or_default();
    time.format("%Y%m%d-%H%M%S-%3f").to_string()
}

/// A run in words: its id and when it finished, in milliseconds since 1970.
pub(crate) fn run_title(run: &str, time_ms: i64) -> String {
    format!("run {run} of {}", utc(time_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_days_and_minutes_in_utc() {
        for (time_ms, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399_999, "2000-02-28 23:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_795_342_062_000, "2026-11-22 10:07 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00 UTC"),
            (-1, "1969-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(time_ms), expected);
        }
        assert_eq!(compact_utc(1_795_342_062_042), "20261122-100742-042");
    }
}
