//! What the operator is told of failures and refusals: one line of JSON each, with
//! the id that the client has. Lines that may come by the thousand are written
//! once a second for each kind, with the count of the others.

use crate::{Audit, answer::failure, error::ApiError, stream::seconds};
use axum::http::StatusCode;
use serde_json::json;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

/// Where failures are written.
pub(crate) struct FailureLog {
    audit: RwLock<Audit>,
    repeated: Repeated,
}

impl Default for FailureLog {
    /// One that writes nothing.
    fn default() -> Self {
        Self { audit: RwLock::new(Arc::new(|_| {})), repeated: Repeated::default() }
    }
}

impl fmt::Debug for FailureLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureLog").finish_non_exhaustive()
    }
}

impl FailureLog {
    /// Writes to this from now on.
    pub(crate) fn write_to(&self, audit: Audit) {
        *self.audit.write().unwrap_or_else(PoisonError::into_inner) = audit;
    }

    /// Notes a failure of the service, or a refusal for want of a key, with the
    /// reason that the client is not told. Other refusals are the client's own
    /// affair, and are counted alone.
    pub(crate) fn note(&self, error: &ApiError, id: &str) {
        let is_refused = matches!(error.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        match error.detail() {
            Some(detail) => self.write("failed", failure(error), id, detail, None, 0),
            None if is_refused => self.write_seldom("refused", error.code(), id, &error.message, None),
            None if error.status.is_server_error() => {
                self.write_seldom("failed", failure(error), id, &error.message, None);
            }
            None => {}
        }
    }

    /// Notes a failure of a pipeline that the client is not told of, because
    /// another one answers.
    pub(crate) fn note_hidden(&self, error: &ApiError, id: &str, role: &'static str) {
        self.write_seldom("hidden", failure(error), id, error.detail().unwrap_or(&error.message), Some(role));
    }

    fn write_seldom(
        &self,
        outcome: &'static str,
        kind: &'static str,
        id: &str,
        detail: &str,
        role: Option<&'static str>,
    ) {
        if let Some(unwritten) = self.repeated.may_be_written((role.unwrap_or_default(), kind), Instant::now()) {
            self.write(outcome, kind, id, detail, role, unwritten);
        }
    }

    fn write(
        &self,
        outcome: &'static str,
        kind: &'static str,
        id: &str,
        detail: &str,
        role: Option<&'static str>,
        unwritten: u64,
    ) {
        let mut line = json!({ "time": seconds(), outcome: kind, "id": id, "detail": detail });
        if let Some(role) = role {
            line["role"] = role.into();
        }
        if unwritten > 0 {
            line["unwritten"] = unwritten.into();
        }
        let audit = self.audit.read().unwrap_or_else(PoisonError::into_inner).clone();
        audit(&line);
    }
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
