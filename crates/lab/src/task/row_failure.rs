//! Why rows of a task have no result, for whoever watches a run.

use serde::{Deserialize, Serialize};

/// The most reasons that one task tells; the rest is told together.
const MOST_REASONS: usize = 8;
/// The most characters of a reason.
const LONGEST_REASON: usize = 500;

/// Rows of a task that have no result for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowFailure {
    /// Why.
    pub(crate) reason: String,
    /// How many rows.
    pub(crate) count: usize,
    /// The first of them: a question, or a document.
    pub(crate) example: String,
}

/// Groups rows without a result by the reason, in the order of the first of each.
pub(crate) fn group_failures<'a>(failed: impl IntoIterator<Item = (&'a str, String)>) -> Vec<RowFailure> {
    let mut groups: Vec<RowFailure> = Vec::new();
    for (row, reason) in failed {
        let mut reason: String = reason.chars().take(LONGEST_REASON).collect();
        if groups.len() >= MOST_REASONS && !groups.iter().any(|group| group.reason == reason) {
            "other reasons".clone_into(&mut reason);
        }
        match groups.iter_mut().find(|group| group.reason == reason) {
            Some(group) => group.count += 1,
            None => groups.push(RowFailure { reason, count: 1, example: row.to_owned() }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reasons_are_one_group_with_their_first_row_and_too_many_reasons_are_one_too() {
        let failed = [("q1", "no key"), ("q2", "too slow"), ("q3", "no key")];
        let groups = group_failures(failed.map(|(row, reason)| (row, reason.to_owned())));
        let told: Vec<(&str, usize, &str)> =
            groups.iter().map(|group| (group.reason.as_str(), group.count, group.example.as_str())).collect();
        assert_eq!(told, [("no key", 2, "q1"), ("too slow", 1, "q2")]);
        // A provider that names each request in its refusals.
        let names: Vec<String> = (0..50).map(|number| format!("q{number}")).collect();
        let groups = group_failures(names.iter().map(|name| (name.as_str(), format!("request {name} failed"))));
        assert_eq!((groups.len(), groups[8].reason.as_str(), groups[8].count), (9, "other reasons", 42));
        let groups = group_failures([("q1", "x".repeat(9000))]);
        assert_eq!(groups[0].reason.len(), LONGEST_REASON);
    }
}
