//! How trials do at each turn of conversations. The first turn has no history,
//! so it is the same for all ways to search a follow-up question.

use super::note::{About, Note};
use crate::number::count;
use crate::results::Results;
use eval::{Question, statistics};
use models::Role;
use std::collections::BTreeMap;

/// The most trials in a note, the best first.
const MOST_TRIALS: usize = 6;

/// A note for each turn, if there are several.
pub(super) fn turns(results: &Results) -> Vec<Note> {
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, question) in results.questions.iter().enumerate() {
        places.entry(turn(question)).or_default().push(place);
    }
    if places.len() < 2 || results.objective.is_empty() {
        return Vec::new();
    }
    let contributions = results.contributions(&BTreeMap::new());
    let mut notes = Vec::new();
    for (turn, places) in places {
        let mean = |id: &String| {
            let own = contributions.get(id)?;
            let known: Vec<f64> = places.iter().filter_map(|&place| *own.get(place)?).collect();
            statistics::mean(&known)
        };
        let trials = results.trials.iter().filter(|found| found.stopped.is_none()).map(|found| &found.trial.id);
        let mut means: Vec<(&String, f64)> = trials.filter_map(|id| Some((id, mean(id)?))).collect();
        // Of equals the one that comes first in the leaderboard.
        means.sort_by(|one, other| other.1.total_cmp(&one.1));
        if means.is_empty() {
            continue;
        }
        let listed: Vec<String> = means.iter().take(MOST_TRIALS).map(|(id, mean)| format!("{id} {mean:.3}")).collect();
        let more = means.len().saturating_sub(MOST_TRIALS);
        let rest = if more > 0 { format!(" and {} more", count(more)) } else { String::new() };
        let text = format!("turn {turn} (n = {}): {}{rest}", count(places.len()), listed.join(", "));
        notes.push(Note { about: About::Turns, subject: None, text });
    }
    notes
}

/// Which turn of its conversation a question is, from 1.
fn turn(question: &Question) -> usize {
    1 + question.turns.iter().filter(|message| message.role == Role::User).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;
    use models::Message;

    #[test]
    fn conversations_are_told_turn_by_turn_and_single_questions_are_not() {
        let mut results = fixture::results(2);
        let half = [Some(1.0), Some(1.0), Some(0.5), Some(0.0), Some(0.25)];
        fixture::score(&mut results, "recall", &[half.to_vec(), vec![Some(0.5); 5]]);
        results.metrics[0].objective = true;
        results.objective = vec!["recall".to_owned()];
        assert!(turns(&results).is_empty());
        for question in &mut results.questions[2..] {
            question.turns = vec![Message::user("Who built the mill?"), Message::assistant("Monks.")];
        }
        let listed: Vec<String> = turns(&results).into_iter().map(|note| note.text).collect();
        assert_eq!(listed, ["turn 1 (n = 2): t01 1.000, t02 0.500", "turn 2 (n = 3): t02 0.500, t01 0.250"]);
    }

    /// Trials with these scores of the five questions, of which the last two are second turns.
    fn talk(scores: &[[Option<f64>; 5]]) -> Results {
        let mut results = fixture::results(scores.len());
        let scores: Vec<Vec<Option<f64>>> = scores.iter().map(|scores| scores.to_vec()).collect();
        fixture::score(&mut results, "recall", &scores);
        results.metrics[0].objective = true;
        results.objective = vec!["recall".to_owned()];
        for question in &mut results.questions[3..] {
            question.turns = vec![Message::user("Who built it?"), Message::assistant("Monks.")];
        }
        results
    }

    fn texts(results: &Results) -> Vec<String> {
        turns(results).into_iter().map(|note| note.text).collect()
    }

    #[test]
    fn a_turn_is_one_more_than_the_earlier_messages_of_the_user() {
        let (user, assistant) = (Message::user("Who?"), Message::assistant("Monks."));
        let table = [
            (vec![], 1),
            (vec![assistant.clone()], 1),
            (vec![user.clone()], 2),
            (vec![user.clone(), assistant.clone(), user.clone(), assistant], 3),
        ];
        for (turns, expected) in table {
            assert_eq!(turn(&Question { turns, ..Question::default() }), expected);
        }
    }

    #[test]
    fn at_most_six_trials_are_told_the_best_first_and_of_equals_the_first() {
        let of = |score: f64| [Some(score); 5];
        let means = [0.5, 0.75, 0.5, 0.25, 1.0, 0.125, 0.0, 0.375];
        let told = texts(&talk(&means.map(of)));
        let six = "t5 1.000, t2 0.750, t1 0.500, t3 0.500, t8 0.375, t4 0.250".replace('t', "t0");
        assert_eq!(told[0], format!("turn 1 (n = 3): {six} and 2 more"));
        let told = texts(&talk(&[0.5; 6].map(of)));
        assert!(!told[0].contains("more"), "six are all: {told:?}");
    }

    #[test]
    fn a_trial_is_told_at_the_turns_of_which_it_has_scores() {
        let mut results = talk(&[
            [Some(1.0), None, Some(0.5), None, None],
            [Some(0.5), Some(0.5), Some(0.5), Some(0.25), None],
            [Some(1.0), Some(1.0), Some(1.0), Some(1.0), Some(1.0)],
        ]);
        results.trials[2].stopped = Some(crate::search::Stop {
            kind: crate::search::StopKind::Eliminated,
            questions: 5,
            reason: String::new(),
        });
        let expected = ["turn 1 (n = 3): t01 0.750, t02 0.500", "turn 2 (n = 2): t02 0.250"];
        assert_eq!(texts(&results), expected, "the third was stopped");
        let none = talk(&[[Some(1.0), Some(1.0), Some(1.0), None, None]]);
        assert_eq!(texts(&none), ["turn 1 (n = 3): t01 1.000"], "nothing is known of the second turn");
        results.objective.clear();
        assert_eq!(texts(&results), [""; 0], "nothing is compared");
    }
}
