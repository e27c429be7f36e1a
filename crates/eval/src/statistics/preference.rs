//! How often one of two things is preferred, from votes of people: the share of its votes that it won, with an interval,
//! and the probability of votes like these if both were equally good.
//!
//! When to use it: where several people vote on pairs of answers to the same questions. Votes on one question depend on
//! each other, because all of them are about the same two texts. So questions are resampled and their signs are flipped,
//! and never single votes.
//!
//! With votes on fewer than [`FEWEST_VOTED_QUESTIONS`] questions there is no share: a bootstrap interval of so few is only
//! a hint ([`bootstrap`](super::bootstrap())).

use super::{Interval, bootstrap_ratio, paired::sign_flip_p_value};
use serde::{Deserialize, Serialize};

/// The fewest questions with votes from which a share is given.
pub const FEWEST_VOTED_QUESTIONS: usize = 10;

/// The votes on one question for one of two things.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QuestionVotes {
    /// The votes that it won; half a vote for each tie.
    pub won: f64,
    /// All votes, at least one.
    pub votes: usize,
}

impl QuestionVotes {
    /// Adds a vote: 1 if it was won, 0 if it was lost, one half for a tie.
    pub fn add(&mut self, won: f64) {
        self.won += won;
        self.votes += 1;
    }
}

/// The share of its votes that one thing won.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Preference {
    /// Votes.
    pub votes: usize,
    /// Questions with votes.
    pub questions: usize,
    /// The share of the votes that were won, in [0, 1]; none if there are too few to tell.
    pub share: Option<f64>,
    /// Its 95 % interval over questions.
    pub interval: Option<Interval>,
}

impl Preference {
    /// The share over these questions, each of which has a vote.
    pub fn of(questions: &[QuestionVotes], seed: u64) -> Self {
        let votes: usize = questions.iter().map(|question| question.votes).sum();
        let counts = Self { votes, questions: questions.len(), share: None, interval: None };
        if questions.len() < FEWEST_VOTED_QUESTIONS {
            return counts;
        }
        let won: Vec<f64> = questions.iter().map(|question| question.won).collect();
        let all: Vec<f64> = questions.iter().map(|question| question.votes as f64).collect();
        Self {
            share: Some(won.iter().sum::<f64>() / votes as f64),
            interval: bootstrap_ratio(&won, &all, (0.0, 1.0), seed),
            ..counts
        }
    }

    /// The two-sided p-value of a share of one half, by a sign-flip test over questions; none if there are too few votes
    /// to tell.
    pub fn p_value(questions: &[QuestionVotes], seed: u64) -> Option<f64> {
        // How far a question is from one half, in votes.
        let margins: Vec<f64> = questions.iter().map(|question| question.won - question.votes as f64 / 2.0).collect();
        (questions.len() >= FEWEST_VOTED_QUESTIONS).then(|| sign_flip_p_value(&margins, seed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Random, holm};
    use super::*;

    /// Questions with so many votes each, of which this share is won on average.
    fn drawn(random: &mut Random, questions: usize, votes: usize, share: f64) -> Vec<QuestionVotes> {
        let question = |random: &mut Random| {
            let mut counted = QuestionVotes::default();
            (0..votes).for_each(|_| counted.add(f64::from(u8::from(random.open_unit() <= share))));
            counted
        };
        (0..questions).map(|_| question(random)).collect()
    }

    #[test]
    fn a_planted_preference_is_found_within_its_interval() {
        let mut random = Random::new(11);
        let mut covered = 0;
        for seed in 0..20 {
            let questions = drawn(&mut random, 60, 3, 0.7);
            let found = Preference::of(&questions, seed);
            let interval = found.interval.unwrap();
            assert!((found.share.unwrap() - 0.7).abs() < 0.12, "{found:?}");
            assert!(interval.high - interval.low < 0.25, "{interval:?}");
            covered += usize::from((interval.low..=interval.high).contains(&0.7));
            assert!(Preference::p_value(&questions, seed).unwrap() < 0.05);
        }
        assert!(covered >= 17, "{covered} of 20");
    }

    #[test]
    fn equal_trials_are_told_apart_in_at_most_one_set_of_twenty() {
        let mut random = Random::new(3);
        let mut told_apart = 0;
        for set in 0..200 {
            // The three pairs of three trials, corrected for their number.
            let p_values: Vec<f64> =
                (0..3).map(|_| Preference::p_value(&drawn(&mut random, 14, 2, 0.5), set).unwrap()).collect();
            told_apart += usize::from(holm(&p_values).iter().any(|p_value| *p_value < 0.05));
        }
        assert!(told_apart <= 10, "{told_apart} of 200");
    }

    #[test]
    fn votes_on_one_question_count_as_one_observation() {
        // Ten people agree on each of ten questions; five questions go to either side.
        let crowd = |won: f64| QuestionVotes { won, votes: 10 };
        let split: Vec<_> = (0..10).map(|i| crowd(if i % 2 == 0 { 10.0 } else { 0.0 })).collect();
        let interval = Preference::of(&split, 0).interval.unwrap();
        assert!(interval.low < 0.2 && interval.high > 0.8, "as wide as that of ten votes: {interval:?}");
        assert!(Preference::p_value(&split, 0).unwrap() > 0.9);
    }

    #[test]
    fn an_answer_that_always_wins_has_an_interval_below_one() {
        let found = Preference::of(&[QuestionVotes { won: 2.0, votes: 2 }; 12], 0);
        let interval = found.interval.unwrap();
        assert_eq!((found.share, interval.high), (Some(1.0), 1.0));
        assert!((0.6..0.95).contains(&interval.low), "{interval:?}");
    }

    #[test]
    fn too_few_questions_have_counts_and_no_share() {
        let few = [QuestionVotes { won: 5.0, votes: 5 }; 9];
        let found = Preference::of(&few, 0);
        assert_eq!((found.votes, found.questions, found.share, found.interval), (45, 9, None, None));
        assert_eq!(Preference::p_value(&few, 0), None);
        assert_eq!(Preference::of(&[], 0), Preference::default());
    }
}
