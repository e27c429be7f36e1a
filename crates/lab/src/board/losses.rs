//! What trials lost: the remark on the steps, and where the lost evidence can be found.

use super::note::{About, Note};
use crate::number::count;
use crate::results::{LossStep, QuestionLoss, Results, TrialResult, count_losses};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Where the evidence of the questions that a trial lost can be found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostQuestions {
    /// How many questions it lost, at any step.
    pub questions: usize,
    /// How many of them it lost in the search: not found, or ranked out by the retriever.
    pub in_search: usize,
    /// For each of these whose evidence a deeper search found, the rank from 1 of the last piece, the lowest rank first.
    pub ranks: Vec<usize>,
    /// The trial that does not lose the most of these questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<FoundElsewhere>,
}

/// A trial that does not lose some questions that another one lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundElsewhere {
    /// That trial.
    pub trial: String,
    /// How many of the lost questions it does not lose.
    pub questions: usize,
    /// How many questions it loses that the other trial does not lose.
    pub loses_instead: usize,
}

/// For each trial; none if it lost no question.
pub(super) fn lost_questions(results: &Results) -> Vec<Option<LostQuestions>> {
    let is_lost = |trial: &TrialResult| -> Vec<Option<bool>> {
        trial.questions.iter().map(|question| Some(question.loss.as_ref()?.step.is_loss())).collect()
    };
    let all: Vec<Vec<Option<bool>>> = results.trials.iter().map(is_lost).collect();
    let of = |(own, trial): (usize, &TrialResult)| {
        let lost: Vec<&QuestionLoss> = known_losses(trial).filter(|loss| loss.step.is_loss()).collect();
        if lost.is_empty() {
            return None;
        }
        let in_search = || lost.iter().filter(|loss| is_in_search(loss));
        let mut ranks: Vec<usize> = in_search().filter_map(|loss| loss.rank).collect();
        ranks.sort_unstable();
        let others = results.trials.iter().zip(&all).enumerate().filter(|(other, _)| *other != own);
        let found = others.filter_map(|(_, (other, is_lost))| found_elsewhere(&all[own], is_lost, &other.trial.id));
        // Of several, the one that loses the fewest instead, then the first of the leaderboard.
        let elsewhere = found.min_by_key(|found| (Reverse(found.questions), found.loses_instead));
        Some(LostQuestions { questions: lost.len(), in_search: in_search().count(), ranks, elsewhere })
    };
    results.trials.iter().enumerate().map(of).collect()
}

fn known_losses(trial: &TrialResult) -> impl Iterator<Item = &QuestionLoss> {
    trial.questions.iter().filter_map(|question| question.loss.as_ref())
}

/// A reranker that lost the evidence is behind the search.
fn is_in_search(loss: &QuestionLoss) -> bool {
    loss.step == LossStep::NotFound || loss.rank.is_some()
}

/// None if the other trial does not get any question that this one lost. By question: whether a trial lost it.
fn found_elsewhere(own: &[Option<bool>], other: &[Option<bool>], trial: &str) -> Option<FoundElsewhere> {
    let (mut questions, mut loses_instead) = (0, 0);
    for pair in own.iter().zip(other) {
        match pair {
            (Some(true), Some(false)) => questions += 1,
            (Some(false), Some(true)) => loses_instead += 1,
            _ => {}
        }
    }
    (questions > 0).then(|| FoundElsewhere { trial: trial.to_owned(), questions, loses_instead })
}

/// The remark on the trial that answers for the run: its number of lost questions for each step.
/// None if it lost no question, or if no trial answers for the run.
pub(super) fn losses(results: &Results) -> Option<Note> {
    let first = results.answering(None).ok()?.trial;
    let trial = results.trials.iter().find(|trial| trial.trial.id == first)?;
    let known = || known_losses(trial);
    let lost: Vec<_> = count_losses(known()).into_iter().filter(|(step, _)| step.is_loss()).collect();
    let questions: usize = lost.iter().map(|(_, questions)| questions).sum();
    if questions == 0 {
        return None;
    }
    let steps: Vec<String> =
        lost.iter().map(|(step, questions)| format!("{} {}", count(*questions), step.title())).collect();
    let (lost, all) = (count(questions), known().count());
    let text = format!("{first} goes wrong at {lost} of {} questions: {}", count(all), steps.join(", "));
    Some(Note { about: About::Losses, subject: Some(first), text })
}

#[cfg(test)]
mod tests {
    use super::super::{About, Board, FoundElsewhere, LostQuestions};
    use crate::results::{LossStep, QuestionLoss, fixture};
    use std::collections::BTreeMap;

    #[test]
    fn a_board_counts_the_steps_of_each_trial_and_says_those_of_the_first() {
        let mut results = fixture::results(2);
        let notes = |board: &Board| -> Vec<String> {
            let of_losses = board.notes.iter().filter(|note| note.about == About::Losses);
            of_losses.map(|note| note.text.clone()).collect()
        };
        let before = Board::of(&results);
        assert!(notes(&before).is_empty() && before.rows.iter().all(|row| row.losses.is_empty()), "an earlier version");
        let steps = [
            LossStep::NotFound,
            LossStep::AnsweredRight,
            LossStep::NotFound,
            LossStep::AnsweredWrong,
            LossStep::RightWithoutEvidence,
        ];
        for (question, step) in results.trials[0].questions.iter_mut().zip(steps) {
            question.loss = Some(QuestionLoss { step, component: None, rank: None, evidence: Vec::new() });
        }
        let board = Board::of(&results);
        let expected = BTreeMap::from([
            (LossStep::NotFound, 2),
            (LossStep::AnsweredWrong, 1),
            (LossStep::RightWithoutEvidence, 1),
            (LossStep::AnsweredRight, 1),
        ]);
        assert_eq!(board.rows[0].losses, expected);
        assert_eq!(notes(&board), ["t01 goes wrong at 3 of 5 questions: 2 not found, 1 answered wrong"]);
        let written = serde_json::to_value(&board).unwrap();
        assert_eq!(written["rows"][0]["losses"]["not_found"], 2);
        assert_eq!(serde_json::from_value::<Board>(written).unwrap(), board);
        for question in &mut results.trials[0].questions {
            question.loss =
                Some(QuestionLoss { step: LossStep::InPassages, component: None, rank: None, evidence: Vec::new() });
        }
        assert!(notes(&Board::of(&results)).is_empty(), "nothing was lost");
    }
    #[test]
    fn lost_questions_say_by_which_rank_and_in_which_trial_their_evidence_is_found() {
        let mut results = fixture::results(3);
        assert_eq!(Board::of(&results).rows[0].lost, None, "an earlier version");
        let loss = |step, rank| Some(QuestionLoss { step, component: None, rank, evidence: Vec::new() });
        let losses = [
            (LossStep::NotFound, Some(31)),
            (LossStep::RankedOut, Some(7)),
            (LossStep::NotFound, None),
            (LossStep::RankedOut, None),
            (LossStep::AnsweredRight, None),
        ];
        for (question, (step, rank)) in results.trials[0].questions.iter_mut().zip(losses) {
            question.loss = loss(step, rank);
        }
        let steps = [
            [
                LossStep::AnsweredRight,
                LossStep::NotFound,
                LossStep::NotFound,
                LossStep::AnsweredRight,
                LossStep::NotRead,
            ],
            [
                LossStep::AnsweredRight,
                LossStep::AnsweredRight,
                LossStep::NotFound,
                LossStep::AnsweredWrong,
                LossStep::AnsweredRight,
            ],
        ];
        for (trial, steps) in results.trials[1..].iter_mut().zip(steps) {
            for (question, step) in trial.questions.iter_mut().zip(steps) {
                question.loss = loss(step, None);
            }
        }
        let expected = LostQuestions {
            questions: 4,
            in_search: 3,
            ranks: vec![7, 31],
            elsewhere: Some(FoundElsewhere { trial: "t03".to_owned(), questions: 2, loses_instead: 0 }),
        };
        assert_eq!(Board::of(&results).rows[0].lost, Some(expected));
    }
}
