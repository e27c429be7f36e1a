//! The answers of a run's trials, by their texts.

use super::{Ballot, TextPair};
use crate::{Error, Results, Session};
use eval::{Question, statistics::Random};
use models::Message;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use store::{Key, KeyBuilder};

/// A question whose answers are compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VotedQuestion {
    /// Its id.
    pub id: String,
    /// Its words.
    pub question: String,
    /// The earlier messages of the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Message>,
    /// The reference answer.
    pub reference: Option<String>,
}

/// An answer, without the trial that wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VotedAnswer {
    /// The digest of the text.
    pub digest: Key,
    /// The text.
    pub text: String,
}

/// The answers of a run. Trials with the same text for a question share its votes.
pub struct RunAnswers {
    run: String,
    questions: Vec<VotedQuestion>,
    /// The place of a question, by its id.
    places: HashMap<String, usize>,
    /// The trials that answered something, by id. The order of the leaderboard would show who leads.
    trials: Vec<String>,
    /// Trial × question: the digest of the answer.
    digests: Vec<Vec<Option<Key>>>,
    /// By question: the trials with each text.
    sharing: Vec<BTreeMap<Key, Vec<usize>>>,
    texts: HashMap<Key, String>,
    content: Key,
}

impl RunAnswers {
    /// Reads the answers of a finished run.
    ///
    /// # Errors
    /// If there is no such run, or its results cannot be read.
    pub async fn load(session: &Session, run: &str) -> Result<Self, Error> {
        Ok(Self::of(&session.workspace().results(run).await?))
    }

    /// The answers in some results. An answer without a word is none.
    pub fn of(results: &Results) -> Self {
        let mut by_trial = BTreeMap::new();
        for trial in &results.trials {
            let texts: HashMap<&str, &str> = trial
                .questions
                .iter()
                .filter_map(|row| Some((row.question.as_str(), row.answer.as_ref()?.text.as_str())))
                .collect();
            let in_order = results.questions.iter().map(|question| texts.get(question.id.as_str()).copied());
            by_trial.insert(trial.trial.id.as_str(), in_order.collect::<Vec<_>>());
        }
        Self::new(&results.run, results.questions.iter().map(VotedQuestion::of).collect(), by_trial)
    }

    /// The answers of trials, for each question in order.
    pub(super) fn new(run: &str, questions: Vec<VotedQuestion>, by_trial: BTreeMap<&str, Vec<Option<&str>>>) -> Self {
        let mut texts = HashMap::new();
        let (mut trials, mut digests) = (Vec::new(), Vec::new());
        let mut sharing = vec![BTreeMap::<Key, Vec<usize>>::new(); questions.len()];
        for (trial, answers) in by_trial {
            let answers: Vec<Option<&str>> =
                answers.into_iter().map(|text| text.map(str::trim).filter(|text| !text.is_empty())).collect();
            if answers.iter().all(Option::is_none) {
                continue;
            }
            let digest = |text: &&str| Key::of_bytes(text.as_bytes());
            let of_trial: Vec<Option<Key>> = answers.iter().map(|text| text.as_ref().map(digest)).collect();
            for ((text, digest), sharing) in answers.iter().zip(&of_trial).zip(&mut sharing) {
                if let (Some(text), Some(digest)) = (text, digest) {
                    texts.entry(*digest).or_insert_with(|| (*text).to_owned());
                    sharing.entry(*digest).or_default().push(trials.len());
                }
            }
            trials.push(trial.to_owned());
            digests.push(of_trial);
        }
        let places = questions.iter().enumerate().map(|(place, question)| (question.id.clone(), place)).collect();
        let content = KeyBuilder::new("answers").field("run", run).field("trials", &trials).field("digests", &digests);
        let content = content.finish();
        Self { run: run.to_owned(), questions, places, trials, digests, sharing, texts, content }
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The questions.
    pub fn questions(&self) -> &[VotedQuestion] {
        &self.questions
    }

    /// The trials with answers, by id.
    pub fn trials(&self) -> &[String] {
        &self.trials
    }

    /// The key of all answers: a run that was repeated may have others.
    pub(super) fn content(&self) -> Key {
        self.content
    }

    /// The text of a digest.
    pub fn text(&self, digest: Key) -> Option<&str> {
        self.texts.get(&digest).map(String::as_str)
    }

    /// The place of a question.
    pub(super) fn place_of(&self, question: &str) -> Option<usize> {
        self.places.get(question).copied()
    }

    /// A trial's answer to the question at this place.
    pub(super) fn digest(&self, trial: usize, place: usize) -> Option<Key> {
        self.digests[trial][place]
    }

    /// The trials that answer the question at this place with this text.
    pub(super) fn trials_with(&self, place: usize, digest: Key) -> &[usize] {
        self.sharing[place].get(&digest).map_or(&[], Vec::as_slice)
    }

    /// The pairs of trials that answer with these two texts, the lower number first.
    pub(super) fn pairs_with(&self, place: usize, one: Key, other: Key) -> impl Iterator<Item = (usize, usize)> {
        let others = self.trials_with(place, other);
        let pairs = self.trials_with(place, one).iter().flat_map(move |&a| others.iter().map(move |&b| (a, b)));
        pairs.map(|(a, b)| (a.min(b), a.max(b)))
    }

    /// On how many questions two trials answer with the same text.
    pub(super) fn equal_answers(&self, first: usize, second: usize) -> usize {
        let is_equal = |(one, other): &(&Option<Key>, &Option<Key>)| one.is_some() && one == other;
        self.digests[first].iter().zip(&self.digests[second]).filter(is_equal).count()
    }

    /// Pairs of different texts, over all questions.
    pub(super) fn different_pairs(&self) -> usize {
        self.sharing.iter().map(|texts| pairs_of(texts.len())).sum()
    }

    /// Pairs of answers with the same text, over all questions.
    pub(super) fn equal_pairs(&self) -> usize {
        self.sharing.iter().flat_map(|texts| texts.values()).map(|trials| pairs_of(trials.len())).sum()
    }

    /// Two texts on drawn sides.
    pub(super) fn ballot(&self, place: usize, (one, other): TextPair, random: &mut Random) -> Option<Ballot> {
        let (left, right) = if random.below(2) == 0 { (one, other) } else { (other, one) };
        let answer = |digest| Some(VotedAnswer { digest, text: self.text(digest)?.to_owned() });
        Some(Ballot { question: self.questions.get(place)?.clone(), left: answer(left)?, right: answer(right)? })
    }
}

/// How many pairs n things make.
fn pairs_of(n: usize) -> usize {
    n * n.saturating_sub(1) / 2
}

impl VotedQuestion {
    fn of(question: &Question) -> Self {
        Self {
            id: question.id.clone(),
            question: question.question.clone(),
            turns: question.turns.clone(),
            reference: question.reference.clone(),
        }
    }
}
