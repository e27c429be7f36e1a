//! The remark on the steps at which the first trial lost golden evidence.

use super::note::{About, Note};
use crate::number::count;
use crate::results::{Results, count_losses};

/// The remark on the trial that answers for the run: its number of lost questions for each step.
/// None if it lost no question, or if no trial answers for the run.
pub(super) fn losses(results: &Results) -> Option<Note> {
    let first = results.answering(None).ok()?.trial;
    let trial = results.trials.iter().find(|trial| trial.trial.id == first)?;
    let known = || trial.questions.iter().filter_map(|question| question.loss.as_ref());
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
    use super::super::{About, Board};
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
            question.loss = Some(QuestionLoss { step, component: None, evidence: Vec::new() });
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
            question.loss = Some(QuestionLoss { step: LossStep::InPassages, component: None, evidence: Vec::new() });
        }
        assert!(notes(&Board::of(&results)).is_empty(), "nothing was lost");
    }
}
