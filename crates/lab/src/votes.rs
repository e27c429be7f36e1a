//! Votes of people between the answers of two trials, whose names they do not see.
//!
//! Each vote is a line of a log beside the golden questions (`votes.jsonl`). A vote is about two texts and not about two
//! trials: it counts for each run whose trials answer that question with these texts. So texts are compared by their
//! digests, and trials with the same answer share its votes. Two equal texts are never shown.
//!
//! Of each person, the last vote on a question and two texts counts.

mod answers;
mod standing;

pub use answers::{RunAnswers, VotedAnswer, VotedQuestion};
pub use standing::{PairVotes, SideBias, TrialVotes, VoteStanding};

use crate::{
    Error,
    append_log::AppendLog,
    clock::now_ms,
    spec::Experiment,
    steering::{person_name, recorded_name},
};
use eval::statistics::Random;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};
use store::Key;

/// About one question in this many repeats one on which others have voted, to measure how far people agree.
const SECOND_OPINION: usize = 5;
/// The longest time for a vote that is recorded, in seconds.
const LONGEST_SECONDS: f64 = 86_400.0;

/// A side of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The left side.
    Left,
    /// The right side.
    Right,
}

/// What a person says about two answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoteVerdict {
    /// The left answer is better.
    Left,
    /// The right answer is better.
    Right,
    /// Both are equally good.
    BothGood,
    /// Both are bad.
    BothBad,
    /// The person does not want to say. It counts for nothing, and the pair is not shown to this person again.
    Skip,
}

/// A vote in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VoteLine {
    /// Its number in the log, from 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who voted.
    pub by: String,
    /// The run whose answers were shown.
    pub run: String,
    /// The question's id.
    pub question: String,
    /// The first of the two trials.
    pub trial_a: String,
    /// The second one.
    pub trial_b: String,
    /// The digest of the first trial's answer.
    pub digest_a: Key,
    /// The digest of the second trial's answer.
    pub digest_b: Key,
    /// The side on which the first trial's answer was shown.
    pub side_a: Side,
    /// What the person said.
    pub verdict: VoteVerdict,
    /// How long the person looked at the answers, in seconds.
    pub seconds: f64,
}

impl VoteLine {
    /// Whether it counts for a trial.
    fn counts(&self) -> bool {
        self.verdict != VoteVerdict::Skip
    }

    /// The part of the vote that the answer of this digest won: one half for a tie. None if it was skipped.
    fn won_by(&self, digest: Key) -> Option<f64> {
        let side = if (digest == self.digest_a) == (self.side_a == Side::Left) { Side::Left } else { Side::Right };
        match self.verdict {
            VoteVerdict::Left => Some(f64::from(u8::from(side == Side::Left))),
            VoteVerdict::Right => Some(f64::from(u8::from(side == Side::Right))),
            VoteVerdict::BothGood | VoteVerdict::BothBad => Some(0.5),
            VoteVerdict::Skip => None,
        }
    }

    fn texts(&self) -> TextPair {
        text_pair(self.digest_a, self.digest_b)
    }
}

/// The digests of two texts, in their order.
type TextPair = (Key, Key);

fn text_pair(one: Key, other: Key) -> TextPair {
    (one.min(other), one.max(other))
}

/// A vote as a page sends it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VoteRequest {
    /// Who votes, if no key says that.
    #[serde(default)]
    pub by: Option<String>,
    /// The question's id.
    pub question: String,
    /// The digest of the answer on the left.
    pub left: Key,
    /// The digest of the answer on the right.
    pub right: Key,
    /// What the person says.
    pub verdict: VoteVerdict,
    /// How long the person looked at the answers, in seconds.
    #[serde(default)]
    pub seconds: f64,
}

/// Two answers to vote on. Nothing in it names a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ballot {
    /// The question.
    pub question: VotedQuestion,
    /// The answer on the left.
    pub left: VotedAnswer,
    /// The answer on the right.
    pub right: VotedAnswer,
}

/// The progress of one person's voting on a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VoteProgress {
    /// Trials with answers.
    pub trials: usize,
    /// Votes of all people that count for this run.
    pub votes: usize,
    /// People with such votes.
    pub people: usize,
    /// Votes of this person.
    pub mine: usize,
    /// Pairs of texts on which this person has voted, or which this person has skipped.
    pub seen: usize,
    /// Pairs of different texts that this person has not seen.
    pub left: usize,
    /// Pairs of answers with the same text, over all pairs of trials and all questions. They are not shown.
    pub equal: usize,
}

/// What a person is shown next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextBallot {
    /// How far this person is.
    pub progress: VoteProgress,
    /// None if nothing is left.
    pub ballot: Option<Ballot>,
}

/// Why a vote was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum VoteError {
    /// The vote cannot be right.
    #[error("{0}")]
    Invalid(String),
    /// The log cannot be read or written.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// The votes of a log. Threads share it.
pub struct VoteDesk {
    state: Mutex<VoteLog>,
    /// The standing by answers of this content after the vote of this number.
    standing: Mutex<Option<((Key, u64), VoteStanding)>>,
}

struct VoteLog {
    log: AppendLog,
    book: VoteBook,
}

/// The votes that count: the last one of each person on each pair of texts.
#[derive(Default)]
struct VoteBook {
    last: u64,
    lines: Vec<VoteLine>,
    /// The place of a vote in `lines`, by question, texts and person.
    places: HashMap<(String, TextPair, String), usize>,
}

impl VoteBook {
    fn take(&mut self, line: VoteLine) {
        self.last = self.last.max(line.number);
        let place = self.places.entry((line.question.clone(), line.texts(), line.by.clone()));
        let place = *place.or_insert(self.lines.len());
        match self.lines.get_mut(place) {
            Some(earlier) => *earlier = line,
            None => self.lines.push(line),
        }
    }

    /// The votes about texts of a run: the question's place in the run, and the vote.
    fn of_run<'a>(&'a self, answers: &'a RunAnswers) -> impl Iterator<Item = (usize, &'a VoteLine)> {
        self.lines.iter().filter_map(|line| {
            let place = answers.place_of(&line.question)?;
            let has = |digest| !answers.trials_with(place, digest).is_empty();
            (has(line.digest_a) && has(line.digest_b)).then_some((place, line))
        })
    }
}

/// The file of the votes of an experiment: beside its golden questions, or beside the experiment file if the questions
/// stand in it or are in an object store.
pub fn votes_path(experiment: &Experiment) -> PathBuf {
    beside_questions(experiment, "votes.jsonl")
}

/// A file beside the golden questions, or else beside the experiment file.
pub(crate) fn beside_questions(experiment: &Experiment, name: &str) -> PathBuf {
    let dataset = experiment.dataset.as_ref().map(|dataset| dataset.path.as_str());
    match dataset.filter(|path| !path.is_empty() && !store::is_url(path)) {
        Some(path) => experiment.path(path).with_file_name(name),
        None => experiment.path(name),
    }
}

impl VoteDesk {
    /// The votes of a log, which may not be there yet.
    pub fn new(path: PathBuf) -> Self {
        let state = VoteLog { log: AppendLog::new(path), book: VoteBook::default() };
        Self { state: Mutex::new(state), standing: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, VoteLog> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The votes, with those that other programs have added.
    fn read(&self) -> Result<MutexGuard<'_, VoteLog>, Error> {
        let mut state = self.lock();
        for line in state.log.new_lines()? {
            state.book.take(line);
        }
        Ok(state)
    }

    /// Chooses what a person is shown next: a pair of trials with the fewest votes, and of its questions one on which this
    /// person has not voted and that has the fewest votes; every fifth time one on which others have voted. The sides are
    /// drawn.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn next(&self, answers: &RunAnswers, by: &str, random: &mut Random) -> Result<NextBallot, Error> {
        let by = recorded_name(by.trim());
        let state = self.read()?;
        let mut progress = VoteProgress {
            trials: answers.trials().len(),
            left: answers.different_pairs(),
            equal: answers.equal_pairs(),
            ..VoteProgress::default()
        };
        // The votes on each pair of texts, and on each pair of trials.
        let mut of_texts: HashMap<(usize, TextPair), usize> = HashMap::new();
        let mut of_trials: HashMap<(usize, usize), usize> = HashMap::new();
        let (mut seen, mut people) = (BTreeSet::new(), BTreeSet::new());
        for (place, line) in state.book.of_run(answers) {
            if line.by == by {
                seen.insert((place, line.texts()));
            }
            if !line.counts() {
                continue;
            }
            progress.votes += 1;
            progress.mine += usize::from(line.by == by);
            people.insert(line.by.as_str());
            *of_texts.entry((place, line.texts())).or_default() += 1;
            for pair in answers.pairs_with(place, line.digest_a, line.digest_b) {
                *of_trials.entry(pair).or_default() += 1;
            }
        }
        progress.people = people.len();
        progress.seen = seen.len();
        progress.left = progress.left.saturating_sub(seen.len());
        if progress.left == 0 {
            return Ok(NextBallot { progress, ballot: None });
        }
        let n = answers.trials().len();
        let mut pairs: Vec<(usize, usize)> = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
        random.shuffle(&mut pairs);
        pairs.sort_by_key(|pair| of_trials.get(pair).copied().unwrap_or_default());
        let unseen = |&(a, b): &(usize, usize)| -> Vec<(usize, usize, TextPair)> {
            let of_question = |place: usize| {
                let (one, other) = (answers.digest(a, place)?, answers.digest(b, place)?);
                let texts = text_pair(one, other);
                let is_open = one != other && !seen.contains(&(place, texts));
                is_open.then(|| (place, of_texts.get(&(place, texts)).copied().unwrap_or_default(), texts))
            };
            (0..answers.questions().len()).filter_map(of_question).collect()
        };
        let candidates = pairs.iter().map(unseen).find(|candidates| !candidates.is_empty()).unwrap_or_default();
        let ballot =
            choose_question(candidates, random).and_then(|(place, texts)| answers.ballot(place, texts, random));
        Ok(NextBallot { progress, ballot })
    }

    /// Records a vote. When this returns, it is on the disk.
    ///
    /// # Errors
    /// Why it was not recorded.
    pub fn vote(&self, answers: &RunAnswers, by: &str, request: VoteRequest) -> Result<VoteLine, VoteError> {
        let invalid = |reason: String| VoteError::Invalid(reason);
        let by = person_name(by).map_err(invalid)?;
        let VoteRequest { question, left, right, verdict, seconds, .. } = request;
        let place = answers.place_of(&question);
        let place = place.ok_or_else(|| invalid(format!("the run {} has no question `{question}`", answers.run())))?;
        let first = |digest| answers.trials_with(place, digest).first().copied();
        let (Some(on_left), Some(on_right)) = (first(left), first(right)) else {
            return Err(invalid(format!("the run {} has no such answers to `{question}`", answers.run())));
        };
        if left == right {
            return Err(invalid("both answers have the same text, so there is nothing to vote on".to_owned()));
        }
        if !(0.0..).contains(&seconds) {
            return Err(invalid("`seconds` must be 0 or more".to_owned()));
        }
        let trial = |number: usize| answers.trials()[number].clone();
        let is_first = on_left < on_right;
        let (a, b) = if is_first { (on_left, on_right) } else { (on_right, on_left) };
        let (digest_a, digest_b) = if is_first { (left, right) } else { (right, left) };
        let vote = VoteLine {
            number: 0,
            time_ms: now_ms(),
            by,
            run: answers.run().to_owned(),
            question,
            trial_a: trial(a),
            trial_b: trial(b),
            digest_a,
            digest_b,
            side_a: if is_first { Side::Left } else { Side::Right },
            verdict,
            seconds: seconds.min(LONGEST_SECONDS),
        };
        let mut state = self.lock();
        let VoteLog { log, book } = &mut *state;
        let line = log.append(|lines| {
            lines.into_iter().for_each(|line| book.take(line));
            Ok::<_, VoteError>(VoteLine { number: book.last + 1, ..vote })
        })?;
        book.take(line.clone());
        Ok(line)
    }

    /// What the votes say about the trials of a run.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn standing(&self, answers: &RunAnswers) -> Result<VoteStanding, Error> {
        // First, so that whoever waits for a standing that is being computed does not hold the votes.
        let mut known = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.read()?;
        let version = (answers.content(), state.book.last);
        if let Some((of, standing)) = &*known
            && *of == version
        {
            return Ok(standing.clone());
        }
        let votes: Vec<(usize, VoteLine)> =
            state.book.of_run(answers).map(|(place, line)| (place, line.clone())).collect();
        let log = state.log.path().to_owned();
        // Nobody who votes waits for the resamples.
        drop(state);
        let standing = VoteStanding::of(answers, &votes, &log);
        *known = Some((version, standing.clone()));
        Ok(standing)
    }

    /// The votes about answers of a run, with the texts: what other tools read.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn export(&self, answers: &RunAnswers) -> Result<Vec<ExportedVote>, Error> {
        let state = self.read()?;
        let text = |digest| answers.text(digest).unwrap_or_default().to_owned();
        let exported = state.book.of_run(answers).filter_map(|(place, line)| {
            Some(ExportedVote {
                question: answers.questions()[place].question.clone(),
                answer_a: text(line.digest_a),
                answer_b: text(line.digest_b),
                winner: VoteWinner::of(line)?,
                by: line.by.clone(),
            })
        });
        Ok(exported.collect())
    }

    /// The file of the votes.
    pub fn path(&self) -> PathBuf {
        self.lock().log.path().to_owned()
    }
}

/// Chooses one of some questions, each with its votes: one with the fewest, or every fifth time one that has some.
fn choose_question(mut candidates: Vec<(usize, usize, TextPair)>, random: &mut Random) -> Option<(usize, TextPair)> {
    let wants_second = random.below(SECOND_OPINION) == 0;
    if wants_second && candidates.iter().any(|(_, votes, _)| *votes > 0) {
        candidates.retain(|(_, votes, _)| *votes > 0);
    }
    let fewest = candidates.iter().map(|(_, votes, _)| *votes).min()?;
    candidates.retain(|(_, votes, _)| *votes == fewest);
    let (place, _, texts) = candidates.swap_remove(random.below(candidates.len()));
    Some((place, texts))
}

/// A vote with its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportedVote {
    /// The words of the question.
    pub question: String,
    /// The text of the first answer.
    pub answer_a: String,
    /// The text of the second answer.
    pub answer_b: String,
    /// Which one is better.
    pub winner: VoteWinner,
    /// Who voted.
    pub by: String,
}

/// Which of two answers won.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VoteWinner {
    /// The first one.
    A,
    /// The second one.
    B,
    /// Neither: both are equally good.
    Tie,
    /// Neither: both are bad.
    BothBad,
}

impl VoteWinner {
    fn of(line: &VoteLine) -> Option<Self> {
        match line.verdict {
            VoteVerdict::BothGood => Some(Self::Tie),
            VoteVerdict::BothBad => Some(Self::BothBad),
            VoteVerdict::Left | VoteVerdict::Right => {
                Some(if line.won_by(line.digest_a) == Some(1.0) { Self::A } else { Self::B })
            }
            VoteVerdict::Skip => None,
        }
    }
}

#[cfg(test)]
mod tests;
