//! Merges nearly equal questions of the traffic, and selects some of them.
//!
//! Nearly equal questions share most of their words and of their pairs of neighbouring
//! words (Broder, On the resemblance and containment of documents, 1997). Questions with
//! different numbers or signs (`2.4` and `2.6`, `C` and `C++`) or different earlier
//! messages stay apart.

use super::{TrafficChoice, TrafficReport, UserVerdict};
use crate::dataset::{Question, import::id_of};
use crate::words::{folded, is_mark, is_punctuation, is_unspaced, language_of, tokens};
use models::Message;
use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};
use whatlang::Lang;

/// How many questions are read to detect the language of the traffic.
const SAMPLE: usize = 50;

/// A question with the number of times it was asked.
#[derive(Default)]
pub(super) struct CountedQuestion {
    question: String,
    turns: Vec<Message>,
    times: usize,
    ups: usize,
    downs: usize,
    /// The answer that may become a draft, and whether a user praised it.
    answer: Option<(String, bool)>,
}

impl CountedQuestion {
    pub(super) fn new(question: String, turns: Vec<Message>) -> Self {
        Self { question, turns, ..Self::default() }
    }

    pub(super) fn add(&mut self, verdict: Option<UserVerdict>, answer: Option<String>) {
        let [is_good, is_bad] = [UserVerdict::Up, UserVerdict::Down].map(|one| verdict == Some(one));
        self.times += 1;
        self.ups += usize::from(is_good);
        self.downs += usize::from(is_bad);
        let is_better = self.answer.as_ref().is_none_or(|(_, known)| is_good || !known);
        if let Some(answer) = answer.filter(|answer| !answer.trim().is_empty() && !is_bad && is_better) {
            self.answer = Some((answer.trim().to_owned(), is_good));
        }
    }

    pub(super) fn into_question(self, drafts: bool) -> Question {
        let voted = [("down", self.downs), ("up", self.ups)].into_iter().filter(|(_, times)| *times > 0);
        Question {
            id: id_of(&self.turns, &self.question),
            tags: ["traffic"].into_iter().chain(voted.map(|(tag, _)| tag)).map(str::to_owned).collect(),
            draft: self.answer.filter(|_| drafts).map(|(answer, _)| answer),
            question: self.question,
            turns: self.turns,
            ..Question::default()
        }
    }
}

/// The selected questions: those with bad answers first, then the most frequent, unless
/// they are spread. The others are counted in the report.
pub(super) fn select(
    mut asked: Vec<CountedQuestion>,
    choice: &TrafficChoice,
    report: &mut TrafficReport,
) -> Vec<CountedQuestion> {
    let order = |asked: &CountedQuestion| (Reverse(asked.downs), Reverse(asked.times));
    // Nearly equal questions take the words of the first one.
    asked.sort_by_key(order);
    let all = asked.len();
    let mut merged = merge_similar(asked, choice.similarity);
    merged.sort_by_key(|(asked, _)| order(asked));
    let n_merged = merged.len();
    merged.retain(|(asked, _)| match choice.only {
        None => true,
        Some(UserVerdict::Up) => asked.ups > 0,
        Some(UserVerdict::Down) => asked.downs > 0,
    });
    let n_wanted = merged.len();
    match (choice.size, choice.spread) {
        (None, _) => {}
        (Some(size), true) => merged = spread_out(merged, size),
        (Some(size), false) => merged.truncate(size),
    }
    report.similar = all - n_merged;
    report.without_verdict = n_merged - n_wanted;
    report.beyond_size = n_wanted - merged.len();
    merged.into_iter().map(|(asked, _)| asked).collect()
}

/// The earlier messages as one text.
pub(super) fn turns_text(turns: &[Message]) -> String {
    turns.iter().map(|message| format!("{:?} {}\n", message.role, normalize(&message.content))).collect()
}

/// A text in lower case, with single spaces, without its last punctuation.
pub(super) fn normalize(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    words.join(" ").trim_end_matches(['?', '.', '!', '…', ' ', '？', '。', '！', '．', '؟', '۔', '।']).to_owned()
}

/// What two questions are compared by.
#[derive(Clone)]
pub(super) struct Features {
    /// Stems, and pairs of neighbouring stems.
    words: BTreeSet<String>,
    /// What must be equal: words with digits, and signs that are not punctuation.
    marks: Vec<String>,
    /// The earlier messages.
    turns: String,
}

impl Features {
    /// The features of a question, with words stemmed by the rules of `language`. Only features of
    /// the same language can be compared.
    pub(super) fn of(asked: &CountedQuestion, language: Lang) -> Self {
        let stems = tokens(&asked.question, Some(language));
        let pairs = stems.windows(2).map(|pair| pair.join(" "));
        let lower = folded(&asked.question);
        let numbers = lower.split(|c: char| c.is_whitespace() || is_unspaced(c));
        let numbers = numbers.filter(|word| word.contains(|c: char| c.is_numeric()));
        let numbers = numbers.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned());
        let is_text = |c: char| c.is_alphanumeric() || c.is_whitespace() || is_mark(c) || "?.!,;:'\"()-".contains(c);
        let is_sign = |c: &char| !is_text(*c) && (c.is_ascii() || !is_punctuation(*c));
        let mut marks: Vec<String> = numbers.chain(lower.chars().filter(is_sign).map(String::from)).collect();
        marks.sort_unstable();
        Self { words: pairs.chain(stems.iter().cloned()).collect(), marks, turns: turns_text(&asked.turns) }
    }

    fn similarity(&self, other: &Self) -> f64 {
        let shared = self.words.intersection(&other.words).count();
        shared as f64 / (self.words.len() + other.words.len() - shared).max(1) as f64
    }

    pub(super) fn is_nearly_equal(&self, other: &Self, similarity: f64) -> bool {
        self.marks == other.marks && self.turns == other.turns && self.similarity(other) >= similarity
    }
}

/// Merges each question into the first earlier one that is nearly equal.
fn merge_similar(asked: Vec<CountedQuestion>, similarity: f64) -> Vec<(CountedQuestion, Features)> {
    let sample: Vec<&str> = asked.iter().take(SAMPLE).map(|asked| asked.question.as_str()).collect();
    let language = language_of(&sample);
    let features: Vec<Features> = asked.iter().map(|asked| Features::of(asked, language)).collect();
    let mut frequency: HashMap<&str, usize> = HashMap::new();
    for word in features.iter().flat_map(|features| &features.words) {
        *frequency.entry(word).or_default() += 1;
    }
    let mut holding: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut kept: Vec<(CountedQuestion, Features)> = Vec::new();
    for (asked, features) in asked.into_iter().zip(&features) {
        // Two sets that share this much share one of their rarest words, so only a few
        // sets must be compared.
        let mut words: Vec<(usize, &str)> =
            features.words.iter().map(|word| (frequency[word.as_str()], word.as_str())).collect();
        words.sort_unstable();
        let shared = (similarity * words.len() as f64 - 1e-9).ceil() as usize;
        words.truncate(words.len() + 1 - shared.clamp(1, words.len().max(1)));
        let near: BTreeSet<usize> = words.iter().filter_map(|(_, word)| holding.get(word)).flatten().copied().collect();
        match near.into_iter().find(|at| kept[*at].1.is_nearly_equal(features, similarity)) {
            Some(at) => {
                let known = &mut kept[at].0;
                known.times += asked.times;
                known.ups += asked.ups;
                known.downs += asked.downs;
            }
            None => {
                for (_, word) in words {
                    holding.entry(word).or_default().push(kept.len());
                }
                kept.push((asked, features.clone()));
            }
        }
    }
    kept
}

/// Selects `size` questions, each as far as possible from those before it; the
/// first stays the first. Source: Gonzalez, Clustering to minimize the maximum
/// intercluster distance, 1985.
fn spread_out(asked: Vec<(CountedQuestion, Features)>, size: usize) -> Vec<(CountedQuestion, Features)> {
    // Each with its similarity to the nearest chosen question.
    let mut left: Vec<((CountedQuestion, Features), f64)> = asked.into_iter().map(|one| (one, 0.0)).collect();
    let mut chosen = Vec::new();
    while chosen.len() < size
        && let Some(next) = (0..left.len()).min_by(|&a, &b| left[a].1.total_cmp(&left[b].1))
    {
        let (one, _) = left.remove(next);
        for ((_, features), nearest) in &mut left {
            *nearest = nearest.max(features.similarity(&one.1));
        }
        chosen.push(one);
    }
    chosen
}
