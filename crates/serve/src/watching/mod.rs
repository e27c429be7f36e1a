//! What operators see of a service: metrics, traces, and log lines.

pub(crate) mod line_log;
pub(crate) mod metrics;
pub(crate) mod operator_log;
pub(crate) mod trace;

use std::time::SystemTime;

/// The time in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
