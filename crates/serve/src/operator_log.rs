//! Lines of JSON for who operates a service. A line about a failure or a refusal
//! has the id of the request, which the client has too. Failures may come by the
//! thousand: of each kind one line a second is written, with the number of the
//! others.

use crate::{Audit, answer::failure, error::ApiError, stream::seconds};
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// Where the lines are written.
#[derive(Default)]
pub(crate) struct OperatorLog {
    audit: OnceLock<Audit>,
    repeated: Repeated,
}

impl OperatorLog {
    /// Writes lines to this from now on. Until then they go nowhere.
    pub(crate) fn write_to(&self, audit: Audit) {
        // A service has one place for its lines.
        let _ = self.audit.set(audit);
    }

    /// The place of the lines.
    pub(crate) fn audit(&self) -> Audit {
        self.audit.get().cloned().unwrap_or_else(|| Arc::new(|_| {}))
    }

    /// Writes a line.
    pub(crate) fn write(&self, line: &Value) {
        if let Some(audit) = self.audit.get() {
            audit(line);
        }
    }

    /// Notes a failure of the service, or a refusal for want of a key, with the
    /// reason that the client does not get. A request that is refused for another
    /// reason is a mistake of its client, and is only counted.
    pub(crate) fn note(&self, error: &ApiError, id: &str) {
        let (has_detail, is_failure) = (error.detail().is_some(), error.status.is_server_error());
        let lacks_key = matches!(error.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !(has_detail || is_failure || lacks_key) {
            return;
        }
        let (outcome, kind) =
            if lacks_key && !has_detail { ("refused", error.code()) } else { ("failed", failure(error)) };
        let line = json!({ "time": seconds(), outcome: kind, "id": id, "detail": reason(error) });
        if has_detail { self.write(&line) } else { self.write_seldom(("", kind), line) }
    }

    /// Notes that a pipeline failed and another one answered in its place, so
    /// that the client does not learn of it.
    pub(crate) fn note_hidden(&self, error: &ApiError, id: &str, role: &'static str) {
        let kind = failure(error);
        let line = json!({ "time": seconds(), "hidden": kind, "id": id, "detail": reason(error), "role": role });
        self.write_seldom((role, kind), line);
    }

    fn write_seldom(&self, name: Name, mut line: Value) {
        let Some(unwritten) = self.repeated.may_be_written(name, Instant::now()) else { return };
        if unwritten > 0 {
            line["unwritten"] = unwritten.into();
        }
        self.write(&line);
    }
}

/// The reason of an error for the operator.
fn reason(error: &ApiError) -> &str {
    error.detail().unwrap_or(&error.message)
}

/// The time between two lines of one kind.
const EVERY: Duration = Duration::from_secs(1);

/// The kinds of lines that came.
#[derive(Debug, Default)]
struct Repeated(Mutex<HashMap<Name, Kind>>);

/// The role of a pipeline, if the line is about one, and the kind of failure.
type Name = (&'static str, &'static str);

#[derive(Debug)]
struct Kind {
    written: Instant,
    /// How many came since then.
    unwritten: u64,
}

impl Repeated {
    /// Whether a line of this kind may be written now: how many came since the
    /// last one that was written; none if it may not.
    fn may_be_written(&self, kind: Name, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = kinds.get_mut(&kind) else {
            kinds.insert(kind, Kind { written: now, unwritten: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(known.written) < EVERY {
            known.unwritten += 1;
            return None;
        }
        known.written = now;
        Some(std::mem::take(&mut known.unwritten))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_kind_one_line_a_second_is_written_with_the_count_of_the_others() {
        let (repeated, start) = (Repeated::default(), Instant::now());
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        assert_eq!(repeated.may_be_written(("", "shed"), at(0)), Some(0));
        assert_eq!(repeated.may_be_written(("", "timeout"), at(0)), Some(0));
        for milliseconds in 1..1000 {
            assert_eq!(repeated.may_be_written(("", "shed"), at(milliseconds)), None);
        }
        assert_eq!(repeated.may_be_written(("", "shed"), at(1000)), Some(999));
        assert_eq!(repeated.may_be_written(("", "timeout"), at(5000)), Some(0));
    }
}
