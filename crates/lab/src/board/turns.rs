//! How trials do at each turn of conversations. The first turn has no history,
//! so it is the same for all ways to search a follow-up question.

use super::note::{About, Note, count};
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
}
