//! `system-version`: replies of a system that name another version than the run asked.

use super::{Finding, RunFacts, WarningKind, WarningTime};
use crate::number::count;

pub(super) const KIND: WarningKind = WarningKind {
    title: "a system that changed while it was asked",
    meaning: "Replies name a version (`version.header`). Some of them name another one than that of the run, or they name \
              several: a deployment came in between, or machines behind one address differ. The scores mix versions.",
    action: "run again once all machines have one version: the new version is asked anew",
    found: WarningTime::After,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.find_in_trials(|trial, found| {
        let replies = found.replies.as_ref()?;
        let asked = &replies.version;
        let others: Vec<(&String, usize)> = replies
            .versions
            .iter()
            .map(|(version, &n)| (version, n))
            .filter(|(version, _)| *version != asked)
            .collect();
        let mixed = replies.versions.len() > 1;
        let changed: usize = others.iter().map(|(_, n)| n).sum();
        if changed == 0 || (asked.is_empty() && !mixed) {
            return None;
        }
        let named: Vec<String> =
            others.iter().map(|(version, n)| format!("`{version}` ({} times)", count(*n))).collect();
        let known = if asked.is_empty() { String::new() } else { format!("; the run asked `{asked}`") };
        let text = format!("replies name {}{known}", named.join(", "));
        Some(Finding::of_trial(trial, text, changed, Some(replies.questions)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        ReplyFacts, TrialFindings, WarningCode,
        fixture::{run, told, trial},
    };

    const CODE: WarningCode = WarningCode::SystemVersion;

    fn found(asked: &str, versions: &[(&str, usize)]) -> TrialFindings {
        let versions = versions.iter().map(|(version, n)| ((*version).to_owned(), *n)).collect();
        let replies = ReplyFacts { questions: 40, versions, version: asked.to_owned(), ..ReplyFacts::default() };
        TrialFindings { replies: Some(replies), ..TrialFindings::default() }
    }

    #[test]
    fn a_version_that_changed_is_named_with_the_replies_of_it() {
        let trials = vec![trial("t01", found("1", &[("1", 30), ("2", 10)])), trial("t02", found("1", &[("1", 40)]))];
        assert_eq!(told(CODE, &run(trials)), ["t01: replies name `2` (10 times); the run asked `1`"]);
    }

    #[test]
    fn replies_that_all_name_one_version_are_told_only_if_the_run_asked_another() {
        assert!(told(CODE, &run(vec![trial("t01", found("", &[("7", 40)])), trial("t02", found("", &[]))])).is_empty());
        assert_eq!(told(CODE, &run(vec![trial("t01", found("", &[("7", 1), ("8", 39)]))])).len(), 1);
    }
}
