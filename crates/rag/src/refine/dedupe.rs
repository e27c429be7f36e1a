//! `dedupe`: passages whose text a better passage holds already are left out.
//!
//! Two texts are compared without regard to white space. It pays where the
//! corpus holds copies (versions of a document, boilerplate, mirrored pages), and
//! after steps that make passages overlap. Nothing is gained on a corpus
//! without copies. Of equal texts in two documents only the better ranked one
//! stays, so a metric that looks for evidence in the other document does not
//! find it. With `similarity`, near copies go too: a share that is too low also
//! removes passages that differ in one number, which may be the answer.
//! Source of the near copies: Broder, On the resemblance and containment of
//! documents, 1997 (shingles of words, Jaccard similarity).

use crate::{
    Component, Context, Error, Passage, PassageStep,
    analysis::{has_spaceless_script, words},
    component::{ensure, settings},
    corpus::{Corpus, Query},
    query::asker::one_line,
};
use async_trait::async_trait;
use memchr::memmem::Finder;
use std::collections::HashSet;

pub(super) const VERSION: u32 = 2;
const NAME: &str = "refine dedupe";
/// Words in a row that are compared.
const WORDS: usize = 5;

settings! {
    /// Settings of `dedupe`.
    pub struct Config {
        /// A passage is also removed if its Jaccard similarity with a better one is at
        /// least this: the share of common sequences of five words, without regard to
        /// case, or of five pairs of characters in scripts without spaces. Above 0, at
        /// most 1. Default: none, so that only equal and contained texts are removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub similarity: Option<f64> = None,
    }
}

impl Component for Config {
    fn reads_chunks(&self) -> bool {
        false
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        let is_share = self.similarity.is_none_or(|similarity| similarity > 0.0 && similarity <= 1.0);
        ensure(NAME, is_share, "similarity must be above 0 and at most 1")?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, _: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let mut texts: Vec<String> = Vec::with_capacity(passages.len());
        let mut sequences: Vec<HashSet<String>> = Vec::new();
        let mut is_new = |passage: &Passage| {
            let text = one_line(&passage.text);
            let finder = Finder::new(&text);
            if texts.iter().any(|better| holds(better, &finder)) {
                return false;
            }
            if let Some(similarity) = self.similarity {
                let these = sequences_of(&text);
                if sequences.iter().any(|better| jaccard(better, &these) >= similarity) {
                    return false;
                }
                sequences.push(these);
            }
            texts.push(text);
            true
        };
        let mut kept = Vec::with_capacity(passages.len());
        for passage in passages {
            if is_new(&passage) {
                kept.push(passage);
            }
            // Thousands of comparisons take long: this lets other tasks of the thread run and deadlines take effect.
            tokio::task::yield_now().await;
        }
        Ok(kept)
    }
}

/// Whether a better passage holds all of a text.
fn holds(better: &str, text: &Finder<'_>) -> bool {
    better.len() >= text.needle().len() && text.find(better.as_bytes()).is_some()
}

/// All sequences of five words; of a shorter text, its words as one.
fn sequences_of(folded: &str) -> HashSet<String> {
    let lower = folded.to_lowercase();
    let pieces = |word| if has_spaceless_script(word) { pairs(word) } else { vec![word] };
    let words: Vec<&str> = lower.split(' ').flat_map(pieces).collect();
    words.windows(WORDS.min(words.len())).map(|sequence| sequence.join(" ")).collect()
}

/// The words of a text with characters of a script without spaces: each pair of such neighbouring characters is one.
fn pairs(text: &str) -> Vec<&str> {
    words(text).into_iter().map(|(_, pair)| pair).collect()
}

fn jaccard(one: &HashSet<String>, other: &HashSet<String>) -> f64 {
    let shared = one.intersection(other).count();
    shared as f64 / (one.len() + other.len() - shared).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{generate::tests::passage, rerank::tests::Fixture};

    async fn kept(similarity: Option<f64>, texts: &[&str]) -> Vec<usize> {
        let fixture = Fixture::new();
        let passages = (0..).zip(texts).map(|(i, text)| Passage { rows: vec![i], ..passage(text) }).collect();
        let step = Config { similarity }.build(&Context::default()).unwrap();
        let kept = step.run(fixture.query(), fixture.corpus(), passages).await.unwrap();
        kept.iter().map(|passage| passage.rows[0] as usize).collect()
    }

    #[tokio::test]
    async fn equal_and_contained_texts_go_and_the_better_one_stays() {
        let texts =
            ["The mill is old and large.", "the mill", " The  mill is\nold and large. ", "is old and", "old barn"];
        assert_eq!(kept(None, &texts).await, [0, 1, 4]);
        assert_eq!(kept(None, &["is old", "The mill is old."]).await, [0, 1], "a better part does not hold the whole");
        assert_eq!(kept(None, &["", "mühle äöü", "ühle ä"]).await, [0, 1]);
    }

    #[tokio::test]
    async fn near_copies_go_only_where_that_is_wanted() {
        let one = "The old mill on the river was built in 1821 by two brothers";
        let other = "The old mill on the river was built in 1822 by two brothers";
        assert_eq!(kept(None, &[one, other]).await, [0, 1]);
        // Of nine sequences in each, five are shared: 5 of 13.
        assert_eq!(kept(Some(0.38), &[one, other]).await, [0]);
        assert_eq!(kept(Some(0.39), &[one, other]).await, [0, 1]);
        let (one_ja, other_ja) =
            ("この水車小屋は千八百二十一年に建てられました。", "この水車小屋は千八百二十二年に建てられました。");
        assert_eq!(kept(Some(0.45), &[one_ja, other_ja]).await, [0]);
        assert_eq!(kept(Some(0.9), &[one_ja, other_ja]).await, [0, 1]);
        assert_eq!(kept(Some(1.0), &[one, &one.to_uppercase(), "one two", "One Two"]).await, [0, 2]);
    }

    #[test]
    fn a_similarity_that_is_no_share_is_refused() {
        for wrong in [0.0, 1.5, f64::NAN] {
            let error = Config { similarity: Some(wrong) }.build(&Context::default()).err().unwrap().to_string();
            assert!(error.contains("similarity"), "{error}");
        }
    }
}
