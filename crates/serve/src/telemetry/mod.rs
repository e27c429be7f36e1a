//! What operators see of a service: metrics, traces, and log lines.

mod line_log;
mod metrics;
mod observed_body;
mod operator_log;
mod trace;

pub use {line_log::LineLog, metrics::SpanCounts, trace::ParentSpan};
pub(crate) use {
    metrics::{KindLabel, MetricLabel, MetricRoleLabels, Metrics, RequestTimer, RoleLabel, RoleOutcomeLabels},
    observed_body::ObservedBody,
    operator_log::{OperatorLog, OperatorSink},
    trace::{PendingRequest, pipeline_span, request_span, warm_up_span},
};

use std::time::SystemTime;

/// The time in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
