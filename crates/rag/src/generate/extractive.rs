//! `extractive`: the answer is the sentences of the passages that share the most words with the question.
//!
//! When to use it: as the baseline that a chat model must beat, and where no model may be used. It costs nothing,
//! takes no time and makes nothing up, because every sentence is one of a passage, with its citation. It cannot
//! combine facts, count or rephrase, and it misses what is said in other words than the question.
//!
//! A sentence scores Σ ln(1 + N / n_t) over the question's terms t that it holds, without stop words and stemmed as
//! for `bm25`, where n_t of all N sentences of the passages hold t. The score is divided by log2(1 + rank of the
//! passage). The best `sentences` are given in the order in which they were found. If no sentence shares a term with
//! the question, the answer is that the sources do not answer it. Headings are never given as an answer.
//!
//! Source: the baseline of weighted word counts of Y. Yang et al., "WikiQA: A Challenge Dataset for Open-Domain
//! Question Answering", EMNLP 2015; the discount by rank is that of DCG.

use super::{Answer, Generator, OnText, PromptSettings};
use crate::{
    Component, Context, Error, Passage,
    analysis::{Analyzer, sentences, text_language},
    component::{ensure, settings},
    prompt::no_answer,
};
use async_trait::async_trait;
use std::collections::{HashMap, HashSet};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "generator extractive";

settings! {
    /// Settings of `extractive`.
    pub struct Config {
        /// The most sentences of an answer. Default 2.
        pub sentences: usize = 2,
        /// Whether a sentence is followed by the number of its passage, such as `[1]`. Default true.
        pub citations: bool = true,
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Generator>, Error> {
        ensure(NAME, self.sentences > 0, "sentences must be at least 1")?;
        Ok(Box::new(Extractive(self.clone())))
    }
}

impl PromptSettings for Config {}

impl Component for Config {}

struct Extractive(Config);

#[async_trait]
impl Generator for Extractive {
    async fn generate_streaming(
        &self,
        question: &str,
        passages: &[Passage],
        on_text: Option<OnText<'_>>,
    ) -> Result<Answer, Error> {
        let answer = self.answer(question, passages);
        if let Some(on_text) = on_text {
            on_text(&answer.text);
        }
        Ok(answer)
    }
}

/// A sentence of a passage.
struct Sentence<'a> {
    text: &'a str,
    /// The number of its passage, from 1.
    passage: u32,
    terms: HashSet<String>,
}

impl Extractive {
    fn answer(&self, question: &str, passages: &[Passage]) -> Answer {
        let mut analyzer = Analyzer::for_text(passages.first().map_or(question, |passage| &passage.text));
        let asked: HashSet<String> = analyzer.terms_of(question).into_iter().collect();
        let found: Vec<Sentence<'_>> = (1..)
            .zip(passages)
            .flat_map(|(number, passage)| sentences_of(passage).into_iter().map(move |text| (number, text)))
            .map(|(passage, text)| Sentence {
                text,
                passage,
                terms: analyzer.terms_of(text).into_iter().filter(|term| asked.contains(term)).collect(),
            })
            .collect();
        let best = self.best(&found);
        if best.is_empty() {
            return Answer { text: no_answer(question).to_owned(), ..Answer::default() };
        }
        let mut answer = Answer::default();
        let mut texts = Vec::with_capacity(best.len());
        for Sentence { text, passage, .. } in best {
            texts.push(if self.0.citations { cited(text, *passage) } else { one_line(text) });
            if self.0.citations && !answer.citations.contains(passage) {
                answer.citations.push(*passage);
            }
        }
        answer.text = texts.join(" ");
        answer
    }

    /// The sentences with the highest scores, in their order. Each text is given once.
    fn best<'s, 'a>(&self, sentences: &'s [Sentence<'a>]) -> Vec<&'s Sentence<'a>> {
        let mut holding: HashMap<&str, f64> = HashMap::new();
        for term in sentences.iter().flat_map(|sentence| &sentence.terms) {
            *holding.entry(term).or_default() += 1.0;
        }
        let n = sentences.len() as f64;
        let score = |sentence: &Sentence<'_>| {
            // In the order of the words, so that the sum of floats is the same each time.
            let mut terms: Vec<&str> = sentence.terms.iter().map(String::as_str).collect();
            terms.sort_unstable();
            let sum: f64 = terms.iter().map(|term| (n / holding[term]).ln_1p()).sum();
            sum / (1.0 + f64::from(sentence.passage)).log2()
        };
        let mut seen = HashSet::new();
        let mut scored: Vec<(usize, f64)> = sentences
            .iter()
            .enumerate()
            .filter(|(_, sentence)| !sentence.terms.is_empty() && seen.insert(sentence.text))
            .map(|(i, sentence)| (i, score(sentence)))
            .collect();
        // A stable sort: of equal scores, the first passage and the first sentence come first.
        scored.sort_by(|a, b| b.1.total_cmp(&a.1));
        scored.truncate(self.0.sentences);
        scored.sort_by_key(|(i, _)| *i);
        scored.into_iter().map(|(i, _)| &sentences[i]).collect()
    }
}

/// The sentences of a passage without its headings.
fn sentences_of(passage: &Passage) -> Vec<&str> {
    let text = passage.text.as_str();
    let language = text_language(text);
    let paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.starts_with('#'));
    let of = |paragraph| {
        let spans = sentences(paragraph, language).into_iter();
        spans.map(move |span| paragraph[span.start..span.end].trim()).filter(|sentence| !sentence.is_empty())
    };
    paragraphs.flat_map(of).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A sentence with its citation before the full stop.
fn cited(text: &str, passage: u32) -> String {
    let text = one_line(text);
    match text.strip_suffix('.') {
        Some(start) => format!("{start} [{passage}]."),
        None => format!("{text} [{passage}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{NO_ANSWER, tests::passage};

    async fn answer(config: Config, question: &str, texts: &[&str]) -> Answer {
        let passages: Vec<Passage> = texts.iter().map(|text| passage(text)).collect();
        config.build(&Context::default()).unwrap().generate(question, &passages).await.unwrap()
    }

    fn one() -> Config {
        Config { sentences: 1, ..Config::default() }
    }

    #[tokio::test]
    async fn the_sentence_that_shares_the_rarest_words_is_the_answer_with_its_passage() {
        let texts = [
            "# The station\n\nThe station has a mast. The station is white.",
            "# Batteries\n\nThe batteries of the station\nlast two years. Batteries are not included.",
        ];
        let given = answer(one(), "How long do the batteries of the station last?", &texts).await;
        assert_eq!(given.text, "The batteries of the station last two years [2].");
        assert_eq!((given.citations.as_slice(), given.calls), ([2].as_slice(), 0));
        let two = answer(Config::default(), "How long do the batteries of the station last?", &texts).await;
        assert_eq!(two.text, "The station has a mast [1]. The batteries of the station last two years [2].");
        let plain = answer(Config { citations: false, ..one() }, "Is the mast white?", &texts[..1]).await;
        assert_eq!((plain.text.as_str(), plain.citations.len()), ("The station has a mast.", 0));
    }

    #[tokio::test]
    async fn what_shares_no_word_with_the_question_is_no_answer() {
        assert_eq!(answer(one(), "Who wrote it?", &["The station is white."]).await.text, NO_ANSWER);
        assert_eq!(answer(one(), "Which mast?", &[]).await.text, NO_ANSWER);
        assert_eq!(answer(one(), "Which mast?", &["# The mast"]).await.text, NO_ANSWER);
    }

    #[tokio::test]
    async fn a_sentence_of_two_overlapping_passages_is_given_once() {
        let given = answer(Config::default(), "Which mast?", &["The mast is high.", "The mast is high."]).await;
        assert_eq!(given.text, "The mast is high [1].");
    }

    #[test]
    fn an_answer_has_at_least_one_sentence() {
        let wrong = Config { sentences: 0, ..Config::default() }.build(&Context::default());
        assert!(matches!(wrong.err(), Some(Error::Config { .. })));
    }
}
