//! What votes say about the trials of a run.

use super::{RunAnswers, TextPair, VoteLine, VoteVerdict};
use eval::statistics::{Agreement, FEWEST_VOTED_QUESTIONS, Interval, Preference, QuestionVotes, holm_of_known};
use serde::Serialize;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const SEED: u64 = 0x507E;
/// The fewest pairs of votes on the same answers from which an agreement is given.
const FEWEST_COMPARED: usize = 10;
/// Below this p-value, a difference is called real.
const LEVEL: f64 = 0.05;

/// The votes for one trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialVotes {
    /// The trial.
    pub trial: String,
    /// People who voted.
    pub people: usize,
    /// Votes that it won.
    pub won: usize,
    /// Votes that it lost.
    pub lost: usize,
    /// Votes for both. They count half.
    pub both_good: usize,
    /// Votes against both. They count half.
    pub both_bad: usize,
    /// The share of its votes that it won.
    pub preference: Preference,
}

/// The votes between two trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairVotes {
    /// The first trial.
    pub first: String,
    /// The second trial.
    pub second: String,
    /// Questions on which both answer with the same text. There are no votes on them.
    pub equal: usize,
    /// The share of the votes that the first trial won.
    pub preference: Preference,
    /// The p-value of a share of one half, corrected for the number of pairs; none if there are too few votes to tell.
    pub p_value: Option<f64>,
    /// Whether one of them is preferred; none if there are too few votes to tell.
    pub differs: Option<bool>,
}

/// How often the answer on the left won, of the votes that one side won.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideBias {
    /// Such votes.
    pub votes: usize,
    /// Questions with such votes.
    pub questions: usize,
    /// The share that the left side won; none if there are too few votes to tell.
    pub share: Option<f64>,
    /// Its 95 % interval over questions.
    pub interval: Option<Interval>,
    /// The p-value of a share of one half.
    pub p_value: Option<f64>,
}

/// The standing of a run's trials by the votes of people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VoteStanding {
    /// The run.
    pub run: String,
    /// The file of the votes.
    pub log: String,
    /// Votes that count for this run.
    pub votes: usize,
    /// Pairs that people skipped.
    pub skipped: usize,
    /// Questions with votes.
    pub questions: usize,
    /// Pairs of answers with the same text, over all pairs of trials and all questions. They are not shown.
    pub equal: usize,
    /// Votes by person.
    pub people: BTreeMap<String, usize>,
    /// The fewest questions with votes from which a share is given.
    pub fewest_questions: usize,
    /// The trials with votes, the most preferred first.
    pub trials: Vec<TrialVotes>,
    /// The pairs of trials with votes.
    pub pairs: Vec<PairVotes>,
    /// Pairs of votes by two people on the same two answers.
    pub compared: usize,
    /// How far people agree over these pairs; none if there are too few to tell.
    pub agreement: Option<Agreement>,
    /// Whether people prefer a side of the page.
    pub side: SideBias,
}

/// The votes for a trial or between two, while they are counted.
#[derive(Default)]
struct VoteTally<'a> {
    by_question: BTreeMap<usize, QuestionVotes>,
    people: BTreeSet<&'a str>,
    won: usize,
    lost: usize,
    both_good: usize,
    both_bad: usize,
}

impl<'a> VoteTally<'a> {
    fn add(&mut self, place: usize, line: &'a VoteLine, won: f64) {
        self.by_question.entry(place).or_default().add(won);
        self.people.insert(&line.by);
        match line.verdict {
            VoteVerdict::BothGood => self.both_good += 1,
            VoteVerdict::BothBad => self.both_bad += 1,
            _ if won > 0.5 => self.won += 1,
            _ => self.lost += 1,
        }
    }

    fn questions(&self) -> Vec<QuestionVotes> {
        self.by_question.values().copied().collect()
    }
}

impl VoteStanding {
    /// Counts votes: each with the place of its question in the run.
    pub(super) fn of(answers: &RunAnswers, votes: &[(usize, VoteLine)], log: &Path) -> Self {
        let mut trials: BTreeMap<usize, VoteTally<'_>> = BTreeMap::new();
        let mut pairs: BTreeMap<(usize, usize), VoteTally<'_>> = BTreeMap::new();
        let mut sides: BTreeMap<usize, QuestionVotes> = BTreeMap::new();
        let mut on_texts: BTreeMap<(usize, TextPair), Vec<&VoteLine>> = BTreeMap::new();
        let (mut people, mut questions, mut skipped) = (BTreeMap::new(), BTreeSet::new(), 0);
        for (place, line) in votes {
            let place = *place;
            let Some(won) = line.won_by(line.digest_a) else {
                skipped += 1;
                continue;
            };
            *people.entry(line.by.clone()).or_default() += 1;
            questions.insert(place);
            on_texts.entry((place, line.texts())).or_default().push(line);
            for (digest, won) in [(line.digest_a, won), (line.digest_b, 1.0 - won)] {
                for &trial in answers.trials_with(place, digest) {
                    trials.entry(trial).or_default().add(place, line, won);
                }
            }
            for &a in answers.trials_with(place, line.digest_a) {
                for &b in answers.trials_with(place, line.digest_b) {
                    let (pair, won) = if a < b { ((a, b), won) } else { ((b, a), 1.0 - won) };
                    pairs.entry(pair).or_default().add(place, line, won);
                }
            }
            if let VoteVerdict::Left | VoteVerdict::Right = line.verdict {
                sides.entry(place).or_default().add(f64::from(u8::from(line.verdict == VoteVerdict::Left)));
            }
        }
        let (compared, agreement) = agreement(on_texts.values());
        Self {
            run: answers.run().to_owned(),
            log: log.display().to_string(),
            votes: people.values().sum(),
            skipped,
            questions: questions.len(),
            equal: answers.equal_pairs(),
            people,
            fewest_questions: FEWEST_VOTED_QUESTIONS,
            trials: trial_votes(answers, &trials),
            pairs: pair_votes(answers, &pairs),
            compared,
            agreement,
            side: SideBias::of(&sides.into_values().collect::<Vec<_>>()),
        }
    }
}

fn trial_votes(answers: &RunAnswers, tallies: &BTreeMap<usize, VoteTally<'_>>) -> Vec<TrialVotes> {
    let mut trials: Vec<TrialVotes> = tallies
        .iter()
        .map(|(&trial, tally)| TrialVotes {
            trial: answers.trials()[trial].clone(),
            people: tally.people.len(),
            won: tally.won,
            lost: tally.lost,
            both_good: tally.both_good,
            both_bad: tally.both_bad,
            preference: Preference::of(&tally.questions(), SEED),
        })
        .collect();
    // Trials with too few votes are the last ones.
    let share = |trial: &TrialVotes| trial.preference.share.unwrap_or(-1.0);
    trials.sort_by(|a, b| share(b).partial_cmp(&share(a)).unwrap_or(Ordering::Equal));
    trials
}

fn pair_votes(answers: &RunAnswers, tallies: &BTreeMap<(usize, usize), VoteTally<'_>>) -> Vec<PairVotes> {
    let p_values: Vec<Option<f64>> =
        tallies.values().map(|tally| Preference::p_value(&tally.questions(), SEED)).collect();
    let corrected = holm_of_known(&p_values);
    let pairs = tallies.iter().zip(corrected).map(|((&(first, second), tally), p_value)| PairVotes {
        first: answers.trials()[first].clone(),
        second: answers.trials()[second].clone(),
        equal: answers.equal_answers(first, second),
        preference: Preference::of(&tally.questions(), SEED),
        p_value,
        differs: p_value.map(|p_value| p_value < LEVEL),
    });
    pairs.collect()
}

/// How far people agree who voted on the same two answers: the number of pairs of votes, and the agreement over them.
fn agreement<'a>(on_texts: impl Iterator<Item = &'a Vec<&'a VoteLine>>) -> (usize, Option<Agreement>) {
    let mut pairs = Vec::new();
    for lines in on_texts {
        let said: Vec<String> = lines.iter().map(|line| opinion(line).to_owned()).collect();
        for (place, one) in said.iter().enumerate() {
            pairs.extend(said[place + 1..].iter().map(|other| (one.clone(), other.clone())));
        }
    }
    let n = pairs.len();
    (n, Agreement::of(&pairs, SEED).filter(|_| n >= FEWEST_COMPARED))
}

/// What a vote says, whatever the sides were: which of the two digests is better, the lower or the higher one.
fn opinion(line: &VoteLine) -> &'static str {
    let lower = line.texts().0;
    match line.verdict {
        VoteVerdict::BothGood => "both good",
        VoteVerdict::BothBad => "both bad",
        _ if line.won_by(lower) == Some(1.0) => "first",
        _ => "second",
    }
}

impl SideBias {
    fn of(questions: &[QuestionVotes]) -> Self {
        let Preference { votes, questions: n, share, interval } = Preference::of(questions, SEED);
        Self { votes, questions: n, share, interval, p_value: Preference::p_value(questions, SEED) }
    }
}
