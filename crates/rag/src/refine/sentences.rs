//! `sentences`: of each passage, only the sentences near the question stay.
//!
//! Sentences are compared with the question by the vectors of the trial's
//! embedder, and those around a near one stay too. It saves tokens, and can help
//! small models that lose themselves in long passages. It does not pay where
//! what answers does not sound like the question (tables, code, references such
//! as "it" and "this"), nor with an endpoint whose every call costs time: all
//! sentences of all passages are embedded for every question. What was left out
//! is shown as ` … `, and metrics that look for evidence count only what stayed.
//! At least the best sentence of all passages stays; a passage without any goes.
//! Source: embedding filters as in LangChain's `EmbeddingsFilter` and
//! LlamaIndex's `SentenceEmbeddingOptimizer`.

use super::pieces::Sentences;
use crate::{
    Component, Context, Error, Passage, PassageStep,
    component::{ensure, settings},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;
use models::{Embedder, InputKind};

pub(super) const VERSION: u32 = 2;
const NAME: &str = "refine sentences";

settings! {
    /// Settings of `sentences`.
    pub struct Config {
        /// The least cosine of a sentence and the question, from -1 to 1. What is
        /// near differs from embedder to embedder. Default 0.3.
        pub least: f32 = 0.3,
        /// How many sentences stay before and after a near one. Default 1.
        pub neighbours: usize = 1,
    }
}

impl Component for Config {
    fn reads_chunks(&self) -> bool {
        false
    }

    fn needs_embedder(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        let reason = format!("least is {}, but a cosine lies between -1 and 1", self.least);
        ensure(NAME, (-1.0..=1.0).contains(&self.least), reason)?;
        Ok(Box::new(NearSentences { config: self.clone(), embedder: cx.embedder(NAME)? }))
    }
}

struct NearSentences {
    config: Config,
    embedder: Embedder,
}

#[async_trait]
impl PassageStep for NearSentences {
    async fn run(&self, query: Query<'_>, _: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let sentences: Vec<Sentences<'_>> = passages.iter().map(Sentences::of).collect();
        let texts: Vec<String> = sentences.iter().flat_map(Sentences::texts).map(str::to_owned).collect();
        if texts.is_empty() {
            return Ok(passages);
        }
        let cosines = self.cosines(query, &texts).await?;
        let best = (0..cosines.len()).reduce(|best, i| if cosines[i] > cosines[best] { i } else { best });
        let mut first = 0;
        let mut kept = Vec::with_capacity(passages.len());
        for (passage, sentences) in passages.iter().zip(&sentences) {
            let of_passage = first..first + sentences.len();
            let is_near = |i: usize| cosines[i] >= self.config.least || Some(i) == best;
            let keeps = |n: usize| {
                let at = of_passage.start + n;
                let from = at.saturating_sub(self.config.neighbours).max(of_passage.start);
                let to = at.saturating_add(self.config.neighbours).min(of_passage.end - 1);
                (from..=to).any(is_near)
            };
            kept.extend(sentences.keep(keeps).map(|joined| joined.into_passage(passage.clone())));
            first = of_passage.end;
        }
        Ok(kept)
    }
}

impl NearSentences {
    async fn cosines(&self, query: Query<'_>, texts: &[String]) -> Result<Vec<f32>, Error> {
        let vectors = self.embedder.embed(texts, InputKind::Document).await?;
        let asked;
        let question = match query.embedding.filter(|vector| vector.len() == vectors.columns) {
            Some(vector) => vector,
            None => {
                asked = self.embedder.embed(&[query.text.to_owned()], InputKind::Query).await?;
                &asked.data
            }
        };
        // Vectors have the length 1.
        Ok(vectors.iter().map(|vector| vector.iter().zip(question).map(|(a, b)| a * b).sum()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{generate::tests::passage, refine::pieces::tests::assert_true, rerank::tests::Fixture};

    const TEXT: &str = "Zzz zzz. Cats running. Yyy yyy. Www www. Jjj jjj. A cat running.";

    async fn kept(config: Config, texts: &[&str]) -> Vec<Passage> {
        let fixture = Fixture::new();
        let passages = texts.iter().map(|text| passage(text)).collect();
        // The vectors of the test's model count letters.
        let step = config.build(&fixture.context()).unwrap();
        step.run(fixture.query(), fixture.corpus(), passages).await.unwrap()
    }

    #[tokio::test]
    async fn near_sentences_stay_with_their_neighbours_and_gaps_are_seen() {
        let alone = kept(Config { least: 0.7, neighbours: 0 }, &[TEXT, "Zzz. Www."]).await;
        assert_eq!(alone.len(), 1);
        assert_eq!(alone[0].text, "Cats running. … A cat running.");
        assert_eq!((alone[0].parts.len(), alone[0].span.start, alone[0].span.end), (2, 9, TEXT.len()));
        assert_true(&alone[0], TEXT);
        let more = kept(Config { least: 0.7, neighbours: 1 }, &[TEXT]).await;
        assert_eq!(more[0].text, "Zzz zzz. Cats running. Yyy yyy. … Jjj jjj. A cat running.");
        assert_true(&more[0], TEXT);
        let all = kept(Config { least: -1.0, neighbours: 0 }, &[TEXT]).await;
        assert_eq!((all[0].text.as_str(), all[0].parts.len()), (TEXT, 0));
    }

    #[tokio::test]
    async fn the_best_sentence_stays_whatever_the_threshold() {
        let best = kept(Config { least: 1.0, neighbours: 0 }, &["Zzz zzz.", "Www. Cat runs. Vvv."]).await;
        assert_eq!(best.iter().map(|passage| passage.text.as_str()).collect::<Vec<_>>(), ["Cat runs."]);
        assert!(kept(Config::default(), &[]).await.is_empty());
    }

    #[test]
    fn it_needs_the_trials_embedder_and_a_cosine() {
        assert!(Config::default().needs_embedder());
        assert!(matches!(Config::default().build(&Context::default()).err(), Some(Error::Needs { .. })));
        let wrong = Config { least: 2.0, ..Config::default() }.build(&Context::default());
        assert!(matches!(wrong.err(), Some(Error::Config { .. })));
    }
}
