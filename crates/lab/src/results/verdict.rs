//! The leaderboard's verdict, which is its sentences: who leads, who may be as
//! good, who is worse, and what more questions would tell. The terminal, the
//! page, Python and trackers show them. The verdict of a judge (`eval::verdict`)
//! and that of a check (`CheckVerdict`) are other things.

use super::{Results, RetrievalCount, TrialResult, Winner, winner::unproven};
use crate::number::{count, counted};
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
        // Trials that gave the same output as the leading trial count as one with it.
        let differs = |trial: &&TrialResult| !trial.is_same_as(id);
        let tied: Vec<&TrialResult> = self.trials.iter().filter(|trial| trial.tied).filter(differs).collect();
        // A trial to which a metric of the objective does not apply is not ranked.
        let ranked = |trial: &&TrialResult| trial.stopped.is_none() && trial.objective.is_some() && differs(trial);
        let others = self.trials.iter().filter(ranked).count();
        // Trials that a search stopped or never tried were compared by fewer questions or
        // not at all.
        let qualifier = if self.search.is_none() { "" } else { " that was asked everything" };
        let plural_qualifier = qualifier.replace("was", "were");
        let of_objective = |metric: &&super::MetricResult| metric.objective;
        let is_scaled = self.metrics.iter().filter(of_objective).any(|metric| metric.range != (0.0, 1.0));
        let scaled = if is_scaled && self.objective.len() > 1 { " (each as a share of its range)" } else { "" };
        let by = format!("by the mean of {}{scaled}", self.objective.join(", "));
        let mut sentences = Vec::new();
        let has_equals = self.trials.iter().any(|trial| trial.is_same_as(id));
        if others == 1 && has_equals {
            sentences
                .push(format!("{NO_CLEAR_WINNER}{id} leads, {by}, but all trials{plural_qualifier} gave the same"));
        } else if others == 1 {
            sentences.push(format!("{id} is the only trial that was asked everything, {by}"));
        } else if let (true, open @ 1..) = (tied.is_empty(), unproven(&self.trials)) {
            sentences.push(format!(
                "{NO_CLEAR_WINNER}{id} leads, {by}; all other trials{plural_qualifier} are worse (95 % confidence set), \
                 but {open} that were only behind when the calls ran out, or were never tried, may be as good"
            ));
        } else if tied.is_empty() {
            sentences.push(format!(
                "winner: {id}, {by}; all other trials{plural_qualifier} are worse (95 % confidence set)"
            ));
        } else if tied.len() + 1 == others {
            sentences
                .push(format!("{NO_CLEAR_WINNER}{id} leads, {by}, but no trial{qualifier} can be told from another"));
        } else {
            sentences.push(format!(
                "{id} is best or tied with {}, {by}; the other {} worse (95 % confidence set)",
                names(&tied),
                match others - tied.len() - 1 {
                    1 => format!("trial{qualifier} is"),
                    n => format!("{n} trials{plural_qualifier} are"),
                }
            ));
        }
        if !tied.is_empty() {
            sentences.push(self.questions_needed_text(&tied));
        }
        sentences.extend(self.stopped_by_people());
        sentences.extend(self.limits_of(id));
        sentences.extend(self.baselines());
        sentences
    }

    /// The limits of the leading trial, in sentences: the number of questions for which it retrieved nothing, and the
    /// trials that gave the same output.
    fn limits_of(&self, id: &str) -> impl Iterator<Item = String> {
        let trial = self.trials.iter().find(|trial| trial.trial.id == id);
        let nothing = trial.and_then(nothing_retrieved).map(|text| format!("{id}: {text}"));
        let same: Vec<&TrialResult> = self.trials.iter().filter(|trial| trial.is_same_as(id)).collect();
        let equal = (!same.is_empty()).then(|| {
            let verb = if same.len() == 1 { "counts" } else { "count" };
            let others = names(&same);
            format!("{others} gave the same as {id} for every question, and {verb} as one with it")
        });
        nothing.into_iter().chain(equal)
    }

    /// That trials which a person stopped are compared with no other; none if there are no such trials.
    fn stopped_by_people(&self) -> Option<String> {
        let stopped: Vec<&TrialResult> = self.trials.iter().filter(|trial| trial.is_stopped_by_person()).collect();
        let (were, are) = if stopped.len() == 1 { ("was", "is") } else { ("were", "are") };
        (!stopped.is_empty()).then(|| {
            format!("{} {were} stopped by a person and {are} compared with no other trial: it says nothing about how good {} {are}",
                names(&stopped), if stopped.len() == 1 { "it" } else { "they" })
        })
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
        let more = |n: usize| counted(n, "more question");
        match (&needed[..], tied.len()) {
            ([], _) => format!("no practical number of questions would tell them apart (up to {MOST_QUESTIONS})"),
            ([(n, id)], 1) => format!("about {} would separate {id}, if differences stay as they are", more(*n)),
            ([(n, id), ..], _) => {
                let all = match needed.last() {
                    Some((most, _)) if needed.len() == tied.len() => {
                        format!("about {most} more would separate all of them")
                    }
                    _ => "no practical number would separate all of them".to_owned(),
                };
                format!("about {} would separate {id}, and {all}, if differences stay as they are", more(*n))
            }
        }
    }
}

/// The number of questions for which a trial retrieved nothing, in a sentence. None if there are no such questions, or
/// the number is not known.
pub(crate) fn nothing_retrieved(trial: &TrialResult) -> Option<String> {
    let RetrievalCount { questions, empty } = trial.retrieval.filter(|count| count.empty > 0)?;
    let all = counted(questions, "question");
    Some(format!("nothing was retrieved for {} of {all}", count(empty)))
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

    /// Trials in these groups, each with the number of questions that would exclude it; five were asked.
    fn grouped(trials: &[(usize, Option<usize>)]) -> super::Results {
        let mut results = fixture::results(trials.len());
        fixture::score(&mut results, "recall", &vec![vec![Some(0.5); 5]; trials.len()]);
        results.metrics[0].objective = true;
        let groups: Vec<usize> = trials.iter().map(|(group, _)| *group).collect();
        fixture::choose(&mut results, "recall", &groups);
        for (trial, (_, needed)) in results.trials.iter_mut().zip(trials) {
            trial.questions_needed = *needed;
        }
        results
    }

    #[test]
    fn the_first_sentence_says_who_may_be_the_best() {
        const TIED: (usize, Option<usize>) = (1, None);
        type Case = (&'static [(usize, Option<usize>)], &'static str);
        let table: [Case; 7] = [
            (&[TIED], "t01 is the only trial that was asked everything, by the mean of recall"),
            (
                &[TIED, (2, None)],
                "winner: t01, by the mean of recall; all other trials are worse (95 % confidence set)",
            ),
            (&[TIED, TIED], "no clear winner: t01 leads, by the mean of recall, but no trial can be told from another"),
            (
                &[TIED, TIED, (2, None)],
                "t01 is best or tied with t02, by the mean of recall; the other trial is worse (95 % confidence set)",
            ),
            (
                &[TIED, TIED, TIED, (2, None), (3, None)],
                "t01 is best or tied with t02 and t03, by the mean of recall; the other 2 trials are worse (95 % \
                 confidence set)",
            ),
            (
                &[TIED, TIED, TIED, TIED, TIED, (2, None)],
                "t01 is best or tied with t02, t03, t04 and t05, by the mean of recall; the other trial is worse (95 % \
                 confidence set)",
            ),
            (
                &[TIED, TIED, TIED, TIED, TIED, TIED, (2, None)],
                "t01 is best or tied with 5 others, by the mean of recall; the other trial is worse (95 % confidence set)",
            ),
        ];
        for (trials, expected) in table {
            assert_eq!(grouped(trials).describe()[0], expected);
        }
    }

    #[test]
    fn the_second_sentence_says_how_many_more_questions_would_tell() {
        let only_as = "if differences stay as they are";
        let table: [(&[Option<usize>], String); 6] = [
            (&[None], "no practical number of questions would tell them apart (up to 10000)".to_owned()),
            (&[Some(12)], format!("about 7 more questions would separate t02, {only_as}")),
            // Less than one cannot be asked.
            (&[Some(5)], format!("about 1 more question would separate t02, {only_as}")),
            (
                &[Some(20), Some(8)],
                format!(
                    "about 3 more questions would separate t03, and about 15 more would separate all of them, {only_as}"
                ),
            ),
            (
                &[Some(20), None],
                format!(
                    "about 15 more questions would separate t02, and no practical number would separate all of them, {only_as}"
                ),
            ),
            (&[None, None], "no practical number of questions would tell them apart (up to 10000)".to_owned()),
        ];
        for (needed, expected) in table {
            let trials: Vec<_> =
                std::iter::once(None).chain(needed.iter().copied()).map(|needed| (1, needed)).collect();
            let verdict = grouped(&trials).describe();
            assert_eq!(verdict[1..], [expected]);
        }
        assert_eq!(grouped(&[(1, None), (2, None)]).describe().len(), 1, "nothing is tied");
    }

    #[test]
    fn questions_of_the_test_split_are_not_counted_as_asked() {
        let mut results = grouped(&[(1, None), (1, Some(12))]);
        results.questions[3].split = Some(eval::dataset::Split::Test);
        assert!(results.describe()[1].starts_with("about 8 more questions would separate t02"));
    }

    #[test]
    fn metrics_of_other_ranges_are_named_as_shares_where_there_are_several() {
        let mut results = grouped(&[(1, None), (2, None)]);
        results.metrics[0].range = (1.0, 5.0);
        assert!(results.describe()[0].contains(", by the mean of recall;"));
        results.objective.push("token_f1".to_owned());
        let shares = "by the mean of recall, token_f1 (each as a share of its range);";
        assert!(results.describe()[0].contains(shares), "{:?}", results.describe());
    }

    #[test]
    fn why_there_is_no_winner_is_the_refusal_or_the_sentence_without_its_beginning() {
        let mut results = grouped(&[(1, None), (2, None)]);
        assert_eq!(results.no_winner(), None);
        results.winner = Winner::Refused("scores are missing".to_owned());
        assert_eq!(results.no_winner().as_deref(), Some("scores are missing"));
        assert_eq!(results.describe(), ["no winner: scores are missing"]);
        results.winner = Winner::Leads("t01".to_owned());
        assert_eq!(results.no_winner().as_deref(), Some("t01 leads, but others may be as good"), "of earlier versions");
        results.verdict = vec!["no clear winner: t01 leads, but".to_owned()];
        assert_eq!(results.no_winner().as_deref(), Some("t01 leads, but"));
        results.verdict = vec!["t01 is best or tied with t02".to_owned()];
        assert_eq!(results.no_winner().as_deref(), Some("t01 is best or tied with t02"));
    }

    #[test]
    fn of_a_search_it_is_said_that_only_some_trials_were_asked_everything() {
        let mut results = grouped(&[(1, None), (1, None), (2, None), (2, None)]);
        let stops = BTreeMap::new();
        results.search = Some(SearchResult { strategy: "race".to_owned(), answers: 1, all_answers: 2, stops });
        assert_eq!(
            results.describe()[0],
            "t01 is best or tied with t02, by the mean of recall; the other 2 trials that were asked everything are \
             worse (95 % confidence set)"
        );
        let stop = Stop { kind: StopKind::Eliminated, questions: 2, reason: "late".to_owned() };
        results.trials[3].stopped = Some(stop);
        assert_eq!(
            results.describe()[0],
            "t01 is best or tied with t02, by the mean of recall; the other trial that was asked everything is worse \
             (95 % confidence set)"
        );
    }
}
