//! Lines of JSON for who operates a service. A line about a failure or a refusal
//! has the id of the request, which the client has too. Failures may come by the
//! thousand: of each kind so many lines a second are written, with the number of
//! the others.

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
        let lacks_key = matches!(error.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !(error.detail().is_some() || error.is_failure() || lacks_key) {
            return;
        }
        let (outcome, kind) = if error.is_failure() { ("failed", failure(error)) } else { ("refused", error.code()) };
        let line = json!({ "time": seconds(), outcome: kind, "id": id, "detail": reason(error) });
        self.write_seldom((error.code(), kind), line);
    }

    /// Notes that a pipeline failed and another one answered in its place, so
    /// that the client does not learn of it.
    pub(crate) fn note_hidden(&self, error: &ApiError, id: &str, role: &'static str) {
        let kind = failure(error);
        let line = json!({ "time": seconds(), "hidden": kind, "id": id, "detail": reason(error), "role": role });
        self.write_seldom((role, kind), line);
    }

    fn write_seldom(&self, name: Name, mut line: Value) {
        let now = Instant::now();
        let written = self.repeated.may_be_written(name, now);
        if let Some(unwritten) = written {
            if unwritten > 0 {
                line["unwritten"] = unwritten.into();
            }
            self.write(&line);
        }
        // The last ones of a flood are told with the next line, of whatever kind.
        self.tell_unwritten(self.repeated.settled(now));
    }

    /// Tells how many lines were not written. Called when the service ends.
    pub(crate) fn flush(&self) {
        self.tell_unwritten(self.repeated.all());
    }

    fn tell_unwritten(&self, kinds: Vec<(Name, u64)>) {
        for ((of, kind), unwritten) in kinds {
            self.write(&json!({ "time": seconds(), "more": kind, "of": of, "unwritten": unwritten }));
        }
    }
}

/// The reason of an error for the operator.
fn reason(error: &ApiError) -> &str {
    error.detail().unwrap_or(&error.message)
}

/// In so much time at most so many lines of one kind are written.
const EVERY: Duration = Duration::from_secs(1);
const AT_MOST: u32 = 10;

/// The kinds of lines that came.
#[derive(Debug, Default)]
struct Repeated(Mutex<HashMap<Name, Kind>>);

/// The role of a pipeline, if the line is about one, or else the error in a word;
/// and the kind of failure.
type Name = (&'static str, &'static str);

#[derive(Debug)]
struct Kind {
    /// When the present second began.
    since: Instant,
    /// How many were written in it.
    written: u32,
    /// How many came and were not told since.
    unwritten: u64,
}

impl Repeated {
    /// Whether a line of this kind may be written now: how many came since the
    /// last one that was written; none if it may not.
    fn may_be_written(&self, kind: Name, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = kinds.get_mut(&kind) else {
            kinds.insert(kind, Kind { since: now, written: 1, unwritten: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(known.since) >= EVERY {
            (known.since, known.written) = (now, 0);
        }
        if known.written == AT_MOST {
            known.unwritten += 1;
            return None;
        }
        known.written += 1;
        Some(std::mem::take(&mut known.unwritten))
    }

    /// The kinds of which no more came in the second after some were not written.
    fn settled(&self, now: Instant) -> Vec<(Name, u64)> {
        self.take(|kind| now.saturating_duration_since(kind.since) >= EVERY)
    }

    /// All kinds of which some were not written.
    fn all(&self) -> Vec<(Name, u64)> {
        self.take(|_| true)
    }

    fn take(&self, holds: impl Fn(&Kind) -> bool) -> Vec<(Name, u64)> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let some = kinds.iter_mut().filter(|(_, kind)| kind.unwritten > 0 && holds(kind));
        some.map(|(name, kind)| (*name, std::mem::take(&mut kind.unwritten))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_kind_ten_lines_a_second_are_written_and_the_others_are_counted() {
        let (repeated, start) = (Repeated::default(), Instant::now());
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        for milliseconds in 0..10 {
            assert_eq!(repeated.may_be_written(("", "shed"), at(milliseconds)), Some(0));
            assert_eq!(repeated.may_be_written(("", "timeout"), at(milliseconds)), Some(0));
        }
        for milliseconds in 10..1000 {
            assert_eq!(repeated.may_be_written(("", "shed"), at(milliseconds)), None);
        }
        assert_eq!(repeated.settled(at(999)), []);
        assert_eq!(repeated.may_be_written(("", "shed"), at(1000)), Some(990));
        assert_eq!(repeated.may_be_written(("", "timeout"), at(5000)), Some(0));
    }

    #[test]
    fn the_last_of_a_flood_are_told_too() {
        let (repeated, start) = (Repeated::default(), Instant::now());
        for _ in 0..200 {
            repeated.may_be_written(("", "shed"), start);
        }
        assert_eq!(repeated.settled(start + EVERY), [(("", "shed"), 190)]);
        assert_eq!(repeated.settled(start + EVERY), [], "once");
        for _ in 0..12 {
            repeated.may_be_written(("", "shed"), start + EVERY);
        }
        assert_eq!(repeated.all(), [(("", "shed"), 2)]);
    }
}
