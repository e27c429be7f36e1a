//! The smallest difference between two trials that a set of golden questions can show, before anything is run.
//!
//! When to use it: to decide whether there are enough questions. A smaller difference shows up as a tie, even if it is
//! real.
//!
//! The calculation needs the spread: how much the difference of two trials' scores varies from question to question. It
//! is taken from a finished run that asked these questions. Without such a run it is assumed: scores are 0 or 1, and
//! two trials differ on 10 to 30 % of the questions. The method is [`eval::statistics::detectable_difference`], at the
//! level of one trial among all ([`eval::statistics::corrected_level`]).

use crate::{
    board::Board,
    number::counted,
    results::{Results, ScoreTable},
    run_summary::RunSummary,
};
use eval::{
    Question,
    dataset::Split,
    statistics::{
        corrected_level, detectable_difference, detectable_difference_of_binary_scores, fewest_losses, median,
    },
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The share of experiments in which equal trials are called different (α).
const LEVEL: f64 = 0.05;
/// The share of cases in which a difference of this size is found.
const POWER: f64 = 0.8;
/// The shares of questions on which two trials are assumed to differ, if no run shows the spread.
const SHARES: [f64; 2] = [0.1, 0.3];

/// The differences that a set of golden questions can show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DetectableDifferences {
    /// The number of questions that choose the winner: those of the tune split, or all.
    pub questions: usize,
    /// The confidence with which two trials are called different, such as 0.95.
    pub confidence: f64,
    /// The share of cases in which a difference of this size is found.
    pub power: f64,
    /// The number of trials in the experiment's grid; none if the experiment is not known.
    pub trials: Option<usize>,
    /// The run whose scores show the spread; none if the spread is assumed.
    pub run: Option<String>,
    /// A run whose scores do not show the spread, because its trials differ on too few of these questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_without_spread: Option<String>,
    /// One for each metric of the objective. If the spread is assumed, one for each assumed share of differing
    /// questions.
    pub differences: Vec<DetectableDifference>,
}

/// The smallest difference of means that the questions can show, as a positive number in the
/// metric's own unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DetectableDifference {
    /// The metric; none if scores of 0 or 1 are assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The share of questions on which two trials are assumed to differ; none if a run shows the spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differing_share: Option<f64>,
    /// The number of questions that should have a score: fewer than all if the metric did not apply to each question.
    pub questions: usize,
    /// The difference that is shown between two trials. None if the questions show none, or if two such trials cannot
    /// differ by as much as it takes.
    pub two_trials: Option<f64>,
    /// The difference that is shown between one trial and all others of the experiment, if the others are equal. If
    /// another trial lies in between, it takes a larger difference. None if the questions show none, or if the
    /// experiment is not known.
    pub all_trials: Option<f64>,
}

impl DetectableDifferences {
    /// The differences if no run has asked the questions, with the assumed spread. `trials` is the size of the
    /// experiment's grid.
    pub fn stated(questions: &[Question], trials: Option<usize>) -> Self {
        let questions = questions.iter().filter(|question| chooses(question)).count();
        let of = |share: f64| DetectableDifference {
            metric: None,
            differing_share: Some(share),
            questions,
            two_trials: detectable_difference_of_binary_scores(questions, share, corrected_level(LEVEL, 2)),
            all_trials: trials.and_then(|trials| {
                detectable_difference_of_binary_scores(questions, share, corrected_level(LEVEL, trials))
            }),
        };
        let differences = SHARES.into_iter().map(of).collect();
        Self {
            questions,
            confidence: 1.0 - LEVEL,
            power: POWER,
            trials,
            run: None,
            run_without_spread: None,
            differences,
        }
    }

    /// The differences with the spread of a run that asked these questions, or some of them. The spread is assumed if
    /// the run does not show it: because it asked other questions, has only one trial, or its trials differ on fewer
    /// questions than a test needs.
    pub fn of_results(questions: &[Question], trials: Option<usize>, results: &Results) -> Self {
        Self::of_summary(questions, trials, &RunSummary::of(results, 0))
    }

    pub(crate) fn of_summary(questions: &[Question], trials: Option<usize>, run: &RunSummary) -> Self {
        let stated = Self::stated(questions, trials);
        let shared = shared_questions(questions, &run.questions);
        let of = |metric: &String| {
            let pairs = paired_differences(&run.board, &run.scores, metric, &shared);
            let scored = pairs.iter().map(Vec::len).max()?;
            // If the metric applied to a share of the run's questions, it is expected to apply to the same share of
            // these.
            let questions = (stated.questions * scored).div_ceil(shared.len().max(1));
            let smallest = |trials: usize| {
                let level = corrected_level(LEVEL, trials);
                median(pairs.iter().filter_map(|pair| detectable_difference(pair, questions, level)).collect())
            };
            Some(DetectableDifference {
                metric: Some(metric.clone()),
                differing_share: None,
                questions,
                two_trials: smallest(2),
                all_trials: trials.and_then(smallest),
            })
        };
        let differences: Vec<DetectableDifference> = run.board.objective.iter().filter_map(of).collect();
        if differences.iter().all(|difference| difference.two_trials.is_none()) {
            return Self { run_without_spread: Some(run.board.run.clone()), ..stated };
        }
        Self { run: Some(run.board.run.clone()), differences, ..stated }
    }

    /// The differences in sentences that begin with a small letter and have no full stop.
    pub fn describe(&self) -> Vec<String> {
        let grid = self.trials.filter(|trials| *trials > 2);
        let head =
            format!("what {} can show (95 % confidence, found in 4 of 5 cases)", counted(self.questions, "question"));
        let Some(run) = &self.run else {
            let range = |of: fn(&DetectableDifference) -> Option<f64>, between: &str| {
                let ends: Vec<Option<f64>> = self.differences.iter().map(of).collect();
                match ends[..] {
                    [Some(first), .., Some(last)] if short(first) != short(last) => {
                        format!("a difference of {} to {} {between}", short(first), short(last))
                    }
                    [Some(one), ..] => format!("a difference of {} {between}", short(one)),
                    // At the smaller share, two trials cannot differ by as much as it takes.
                    [.., Some(last)] => {
                        let share = SHARES[1] * 100.0;
                        format!("at best a difference of {} {between}, if they differ on {share:.0} %", short(last))
                    }
                    _ => format!("no difference {between}"),
                }
            };
            let mut sentence = format!("{head}: {}", range(|it| it.two_trials, "between two trials"));
            if let Some(trials) = grid {
                let between = format!("between one of {trials} trials and all others");
                sentence += &format!(", {}", range(|it| it.all_trials, &between));
            }
            let assumption = format!(
                "this is for scores of 0 or 1, and trials that differ on {:.0} to {:.0} % of the questions; {}",
                SHARES[0] * 100.0,
                SHARES[1] * 100.0,
                self.reason()
            );
            return vec![sentence, assumption];
        };
        let of = |found: &DetectableDifference| {
            let metric = found.metric.as_deref().unwrap_or_default();
            let Some(two) = found.two_trials else {
                return format!("{metric}: not known, because trials differ on too few questions");
            };
            let mut text = format!("{metric}: a difference of {} between two trials", short(two));
            match (grid, found.all_trials) {
                (Some(trials), Some(all)) => {
                    text += &format!(", {} between one of {trials} trials and all others", short(all));
                }
                (Some(trials), None) => text += &format!(", none between one of {trials} trials and all others"),
                (None, _) => {}
            }
            if found.questions < self.questions {
                text += &format!(" ({} have a score)", found.questions);
            }
            text
        };
        std::iter::once(format!("{head}, by the scores of run {run}:")).chain(self.differences.iter().map(of)).collect()
    }

    /// Why the spread is assumed.
    fn reason(&self) -> String {
        match &self.run_without_spread {
            Some(run) => format!(
                "the scores of run {run} are not used, because its trials differ on fewer than {} of these questions",
                fewest_losses(corrected_level(LEVEL, 2))
            ),
            None => "after a run of these questions, its scores are used instead".to_owned(),
        }
    }
}

fn chooses(question: &Question) -> bool {
    question.split != Some(Split::Test)
}

/// A difference with three decimals if it is below 0.1, else with two.
fn short(difference: f64) -> String {
    if difference < 0.1 { format!("{difference:.3}") } else { format!("{difference:.2}") }
}

/// The positions in `asked`, the run's questions, of those that are still in `questions` with the same text and choose
/// the winner there.
fn shared_questions(questions: &[Question], asked: &[Question]) -> Vec<usize> {
    let words: BTreeMap<&str, &str> =
        questions.iter().filter(|it| chooses(it)).map(|it| (it.id.as_str(), it.question.as_str())).collect();
    let is_shared = |question: &Question| words.get(question.id.as_str()) == Some(&question.question.as_str());
    asked.iter().enumerate().filter(|(_, question)| is_shared(question)).map(|(place, _)| place).collect()
}

/// For each trial that was asked everything, except the leading one, the differences between its scores and those of
/// the leading trial, on the questions where both have a score.
fn paired_differences(board: &Board, scores: &ScoreTable, metric: &str, questions: &[usize]) -> Vec<Vec<f64>> {
    let trials = board.rows.iter().filter(|row| row.stopped.is_none()).map(|row| row.id.as_str());
    let Some(leading) = board.leads.as_deref().or_else(|| trials.clone().next()) else { return Vec::new() };
    let of = |trial: &str| Some(scores.by_metric(trial)?.remove(metric)?.1);
    let Some(first) = of(leading) else { return Vec::new() };
    let mut pairs = Vec::new();
    for trial in trials.filter(|trial| *trial != leading) {
        let Some(second) = of(trial) else { continue };
        let difference = |&place: &usize| Some(second.get(place)?.value()? - first.get(place)?.value()?);
        pairs.push(questions.iter().filter_map(difference).collect());
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    fn questions(n: usize) -> Vec<Question> {
        (0..n).map(|i| Question { id: format!("q{i}"), question: format!("Why {i}?"), ..Question::default() }).collect()
    }

    /// A run of 40 questions. A trial's score is 0 for the questions that it loses, else 1.
    fn run(trials: usize, loses: fn(usize, usize) -> bool) -> Results {
        let mut results = fixture::results(trials);
        results.questions = questions(40);
        for trial in &mut results.trials {
            let one = trial.questions[0].clone();
            trial.questions = results.questions.iter().map(|asked| result_of(&one, &asked.id)).collect();
        }
        let scores: Vec<Vec<Option<f64>>> = (0..trials)
            .map(|trial| (0..40).map(|at| Some(if loses(trial, at) { 0.0 } else { 1.0 })).collect())
            .collect();
        fixture::score(&mut results, "recall", &scores);
        results.metrics[0].objective = true;
        results.objective = vec!["recall".to_owned()];
        results
    }

    fn result_of(one: &crate::results::QuestionResult, id: &str) -> crate::results::QuestionResult {
        crate::results::QuestionResult { question: id.to_owned(), ..one.clone() }
    }

    fn second_loses(trial: usize, question: usize) -> bool {
        trial == 1 && question.is_multiple_of(3)
    }

    #[test]
    fn without_a_run_the_range_is_that_of_scores_of_0_or_1() {
        let found = DetectableDifferences::stated(&questions(400), Some(24));
        assert_eq!((found.questions, found.run.as_deref(), found.differences.len()), (400, None, 2));
        let text = found.describe().join("\n");
        assert!(
            text.starts_with(
                "what 400 questions can show (95 % confidence, found in 4 of 5 cases): a difference of 0.044 to 0.077 between two trials"
            ),
            "{text}"
        );
        assert!(text.contains("between one of 24 trials and all others") && text.contains("10 to 30 %"), "{text}");
        let [few, many] = &found.differences[..] else { panic!("{found:?}") };
        assert!(few.all_trials > few.two_trials && many.all_trials > many.two_trials, "more trials need more");
    }

    #[test]
    fn a_difference_that_trials_cannot_have_is_not_said_to_be_shown() {
        let found = DetectableDifferences::stated(&questions(60), Some(24));
        let [few, many] = &found.differences[..] else { panic!("{found:?}") };
        assert_eq!((few.two_trials, few.all_trials), (None, None), "0.12 of at most 0.10");
        assert!(many.two_trials.is_some() && many.all_trials > many.two_trials);
        let text = &found.describe()[0];
        assert!(
            text.contains(": at best a difference of 0.20 between two trials, if they differ on 30 %, at best"),
            "{text}"
        );
        assert!(text.ends_with("between one of 24 trials and all others, if they differ on 30 %"), "{text}");
    }

    #[test]
    fn few_questions_show_no_difference_and_held_back_ones_do_not_count() {
        let found = DetectableDifferences::stated(&questions(4), None);
        assert!(found.describe()[0].ends_with(": no difference between two trials"), "{:?}", found.describe());
        let mut split = questions(60);
        split[20..].iter_mut().for_each(|question| question.split = Some(Split::Test));
        assert_eq!(DetectableDifferences::stated(&split, None).questions, 20);
        assert_eq!(DetectableDifferences::stated(&[], None).questions, 0);
    }

    #[test]
    fn the_spread_of_a_run_replaces_the_stated_one() {
        let results = run(2, second_loses);
        let found = DetectableDifferences::of_results(&questions(40), Some(2), &results);
        assert_eq!((found.run.as_deref(), found.differences.len()), (Some("zoo-1"), 1));
        let one = &found.differences[0];
        assert_eq!((one.metric.as_deref(), one.questions, one.two_trials), (Some("recall"), 40, one.all_trials));
        // 14 of 40 differ: sd 0.483, times (2.02 + 0.85) / √40.
        assert!((one.two_trials.unwrap() - 0.219).abs() < 0.005, "{one:?}");
        assert_eq!(found.describe().len(), 2);
        assert!(found.describe()[0].ends_with("by the scores of run zoo-1:"), "{:?}", found.describe());
    }

    #[test]
    fn more_questions_than_the_run_asked_show_more_and_equal_trials_do_not_count() {
        let results = run(3, second_loses);
        let of =
            |n| DetectableDifferences::of_results(&questions(n), None, &results).differences[0].two_trials.unwrap();
        assert!((of(40) / of(160) - 2.0).abs() < 0.05, "{} {}", of(40), of(160));
        let two = DetectableDifferences::of_results(&questions(40), None, &run(2, second_loses));
        assert_eq!(two.differences[0].two_trials, Some(of(40)), "the third trial is equal to the first");
    }

    #[test]
    fn a_run_of_other_questions_or_of_equal_trials_shows_no_spread() {
        let stated = DetectableDifferences::stated(&questions(40), None);
        let mut other = questions(40);
        other.iter_mut().for_each(|question| question.question.push_str(" Really?"));
        let results = run(2, second_loses);
        assert_eq!(DetectableDifferences::of_results(&other, None, &results).differences, stated.differences);
        let equal = DetectableDifferences::of_results(&questions(40), None, &run(2, |_, _| false));
        assert_eq!((&equal.differences, equal.run_without_spread.as_deref()), (&stated.differences, Some("zoo-1")));
        assert!(equal.describe()[1].contains("run zoo-1 are not used"), "{:?}", equal.describe());
        let one = DetectableDifferences::of_results(&questions(40), None, &run(1, second_loses));
        assert_eq!(one.differences, stated.differences);
        assert_eq!(DetectableDifferences::of_results(&[], None, &results).questions, 0);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_ones() {
        assert_eq!((median(vec![]), median(vec![3.0]), median(vec![4.0, 1.0])), (None, Some(3.0), Some(2.5)));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
    }
}
