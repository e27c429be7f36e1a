//! What a leaderboard says in words: who leads, who may be as good, who is
//! worse, and what more questions would tell. The terminal, the page, Python
//! and trackers show these sentences.

use super::{Results, TrialResult, Winner, winner::unproven};
use eval::statistics::MOST_QUESTIONS;

/// The beginning of a verdict that names only a leading trial.
const NO_CLEAR_WINNER: &str = "no clear winner: ";

/// The most trials that are named; of more, the number is given.
const NAMED: usize = 4;

impl Results {
    /// Who may be the best, in sentences.
    pub(crate) fn describe(&self) -> Vec<String> {
        let id = match &self.winner {
            Winner::Trial(id) | Winner::Leads(id) => id,
            Winner::Refused(reason) => {
                return std::iter::once(format!("no winner: {reason}")).chain(self.baselines()).collect();
            }
        };
        let tied: Vec<&TrialResult> = self.trials.iter().filter(|trial| trial.tied).collect();
        // A trial to which a metric of the objective does not apply is not ranked.
        let ranked = |trial: &&TrialResult| trial.stopped.is_none() && trial.objective.is_some();
        let others = self.trials.iter().filter(ranked).count();
        // Trials that a search stopped or never tried were compared by fewer questions or
        // not at all.
        let whole = if self.search.is_none() { "" } else { " that was asked everything" };
        let wholes = whole.replace("was", "were");
        let of_objective = |metric: &&super::MetricResult| metric.objective;
        let is_scaled = self.metrics.iter().filter(of_objective).any(|metric| metric.range != (0.0, 1.0));
        let scaled = if is_scaled && self.objective.len() > 1 { " (each as a share of its range)" } else { "" };
        let by = format!("by the mean of {}{scaled}", self.objective.join(", "));
        let mut sentences = Vec::new();
        if others == 1 {
            sentences.push(format!("{id} is the only trial that was asked everything, {by}"));
        } else if let (true, open @ 1..) = (tied.is_empty(), unproven(&self.trials)) {
            sentences.push(format!(
                "{NO_CLEAR_WINNER}{id} leads, {by}; all other trials{wholes} are worse (95 % confidence set), but {open} that \
                 were only behind when the calls ran out, or were never tried, may be as good"
            ));
        } else if tied.is_empty() {
            sentences.push(format!("winner: {id}, {by}; all other trials{wholes} are worse (95 % confidence set)"));
        } else if tied.len() + 1 == others {
            sentences.push(format!("{NO_CLEAR_WINNER}{id} leads, {by}, but no trial{whole} can be told from another"));
        } else {
            sentences.push(format!(
                "{id} is best or tied with {}, {by}; the other {} worse (95 % confidence set)",
                names(&tied),
                match others - tied.len() - 1 {
                    1 => format!("trial{whole} is"),
                    n => format!("{n} trials{wholes} are"),
                }
            ));
        }
        if !tied.is_empty() {
            sentences.push(self.questions_needed_text(&tied));
        }
        sentences.extend(self.baselines());
        sentences
    }

    /// Why no winner is named; none where one is.
    pub fn no_winner(&self) -> Option<String> {
        match &self.winner {
            Winner::Trial(_) => None,
            Winner::Refused(reason) => Some(reason.clone()),
            Winner::Leads(id) => Some(match self.verdict.first() {
                Some(sentence) => sentence.strip_prefix(NO_CLEAR_WINNER).unwrap_or(sentence).to_owned(),
                None => format!("{id} leads, but others may be as good"),
            }),
        }
    }

    /// How many more questions would separate the tied trials.
    fn questions_needed_text(&self, tied: &[&TrialResult]) -> String {
        let asked = self.questions.iter().filter(|question| question.split != Some(eval::dataset::Split::Test)).count();
        let mut needed: Vec<(usize, &str)> = Vec::new();
        for trial in tied {
            if let Some(more) = trial.questions_needed.and_then(|needed| needed.checked_sub(asked)) {
                needed.push((more.max(1), &trial.trial.id));
            }
        }
        needed.sort_unstable();
        match (&needed[..], tied.len()) {
            ([], _) => format!("no practical number of questions would tell them apart (up to {MOST_QUESTIONS})"),
            ([(n, id)], 1) => format!("about {n} more questions would separate {id}, if differences stay as they are"),
            ([(n, id), ..], _) => {
                let all = match needed.last() {
                    Some((most, _)) if needed.len() == tied.len() => {
                        format!("about {most} more would separate all of them")
                    }
                    _ => "no practical number would separate all of them".to_owned(),
                };
                format!("about {n} more questions would separate {id}, and {all}, if differences stay as they are")
            }
        }
    }
}

fn names(trials: &[&TrialResult]) -> String {
    if trials.len() > NAMED {
        return format!("{} others", trials.len());
    }
    let ids: Vec<&str> = trials.iter().map(|trial| trial.trial.id.as_str()).collect();
    match ids.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => ids.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Winner, fixture};
    use crate::search::{SearchResult, Stop, StopKind};
    use std::collections::BTreeMap;

    /// The winner of a search whose third trial was stopped so.
    fn found(kind: StopKind) -> (Winner, Vec<String>) {
        let mut results = fixture::results(3);
        results.questions = vec![results.questions.clone(); 4].concat();
        results.trials.iter_mut().for_each(|trial| trial.questions = vec![trial.questions.clone(); 4].concat());
        let same = |value| vec![Some(value); 20];
        fixture::score(&mut results, "recall", &[same(0.9), same(0.2), same(0.5)]);
        results.metrics[0].objective = true;
        results.objective = vec!["recall".to_owned()];
        let stop = Stop { kind, questions: 2, reason: "late".to_owned() };
        results.apply_search(SearchResult {
            strategy: "race".to_owned(),
            answers: 1,
            all_answers: 2,
            stops: BTreeMap::from([("t03".to_owned(), stop)]),
        });
        (results.winner, results.verdict)
    }

    #[test]
    fn a_search_names_a_winner_only_where_all_others_were_beaten() {
        let (winner, verdict) = found(StopKind::Eliminated);
        assert!(matches!(winner, Winner::Trial(_)) && verdict[0].starts_with("winner: t01"), "{verdict:?}");
        let (winner, verdict) = found(StopKind::OutOfCalls);
        assert!(matches!(winner, Winner::Leads(_)), "{verdict:?}");
        assert!(
            verdict[0].starts_with("no clear winner: t01 leads") && verdict[0].contains("but 1 that"),
            "{verdict:?}"
        );
    }
}
