//! `rerank`: passages are put into a better order.

use crate::{
    AxisValue, Component, Context, Error, Passage, PassageStage, PassageStep,
    component::{components, ensure},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;

components! {
    /// Which reranker, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum RerankerConfig builds Box<dyn PassageReranker>, each crate::Component {
        None => none,
        CrossEncoder => cross_encoder,
        LateInteraction => late_interaction,
        Listwise => listwise,
        Pointwise => pointwise,
        Python => python,
    }
}

impl RerankerConfig {
    /// The same reranker with settings that keep all of `texts` texts; none if it
    /// does nothing.
    pub fn with_limit(&self, texts: usize) -> Option<Self> {
        if self.is_nothing() {
            return None;
        }
        let mut reranker = self.clone();
        reranker.set_limit(texts);
        Some(reranker)
    }
}

impl AxisValue for RerankerConfig {
    fn unlisted() -> Option<Self> {
        Self::nothing()
    }
    fn as_passage_stage(&self) -> Option<&dyn PassageStage> {
        Some(self)
    }
}

impl PassageStage for RerankerConfig {
    fn step(&self, cx: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        Ok(Box::new(self.build(cx)?))
    }
}

#[async_trait]
impl PassageStep for Box<dyn PassageReranker> {
    async fn run(&self, query: Query<'_>, corpus: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        self.rerank(query, corpus, passages).await
    }
}

/// Reorders passages and keeps the first `top_n`.
#[async_trait]
pub trait PassageReranker: Send + Sync {
    /// The passages, best first, with new scores.
    ///
    /// # Errors
    /// If its model fails, or something is missing that its settings name.
    async fn rerank(&self, query: Query<'_>, corpus: Corpus<'_>, passages: Vec<Passage>)
    -> Result<Vec<Passage>, Error>;
}

/// The passages with these scores, best first; equal scores keep their order.
/// A score that is not a finite number is the worst.
fn by_score(passages: Vec<Passage>, scores: &[f32], top_n: usize) -> Vec<Passage> {
    let score = |i: usize| scores.get(i).copied().filter(|score| score.is_finite()).unwrap_or(f32::MIN);
    let mut passages: Vec<Passage> =
        passages.into_iter().enumerate().map(|(i, passage)| Passage { score: score(i), ..passage }).collect();
    passages.sort_by(|a, b| b.score.total_cmp(&a.score));
    passages.truncate(top_n);
    passages
}

/// The methods of [`Component`] that follow from a reranker's `top_n` and `candidates`, inside their `impl`.
macro_rules! keeps_top_n {
    () => {
        fn estimate_output(&self, item: $crate::InputSize) -> $crate::InputSize {
            item.limit_passages(self.top_n)
        }
        fn candidates(&self, top_k: usize) -> Option<usize> {
            Some(self.candidates.unwrap_or_else(|| $crate::component::default_candidates(top_k)))
        }
        $crate::component::limited_by!(top_n, candidates);
    };
}
use keeps_top_n;

fn check_top_n(component: &'static str, top_n: usize, candidates: Option<usize>) -> Result<(), Error> {
    ensure(component, top_n > 0, "top_n must be at least 1")?;
    let candidates = candidates.unwrap_or(top_n);
    let reason = format!("candidates is {candidates}, but must be at least top_n ({top_n})");
    ensure(component, candidates >= top_n, reason)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        Hit,
        generate::tests::ScriptedChat,
        index::{OpenIndex, TokenIndex},
        retrieve,
    };
    use models::{Client, EmbeddingModel, Identity, InputKind, Matrix, Model, RerankModel, Usage};
    use std::sync::Arc;

    /// Three passages about animals, a question, and models that need no weights.
    pub(crate) struct Fixture {
        corpus: retrieve::tests::Fixture,
        pub(crate) passages: Vec<Passage>,
        pub(crate) models: Given,
    }

    impl Fixture {
        pub(crate) fn new() -> Self {
            let mut corpus = retrieve::tests::Fixture::new();
            let passages = (1..4).map(|row| corpus.table.passage(Hit { row, score: 1.0 / row as f32 })).collect();
            let chunks = corpus.table.searchable().iter().map(|&row| letters(corpus.table.chunk(row).text));
            let tokens = TokenIndex::from_matrices(&chunks.collect::<Vec<_>>()).unwrap();
            corpus.indexes.push(OpenIndex::new(tokens).into());
            let client = Client::new(None);
            let models = Given {
                reranker: client.reranker(Arc::new(LikesTheLast(identity()))),
                chat: ScriptedChat::new(4096, |_| "{\"ranking\": [2]}".to_owned()).handle(),
                embedder: client.embedder(Arc::new(LettersAsVectors(identity()))),
            };
            Self { corpus, passages, models }
        }

        pub(crate) fn context(&self) -> Context<'_> {
            Context { models: Some(&self.models), embedder: Some("letters"), ..Context::default() }
        }

        pub(crate) async fn rerank(&self, reranker: &dyn PassageReranker) -> Result<Vec<Passage>, Error> {
            reranker.rerank(self.query(), self.corpus(), self.passages.clone()).await
        }

        pub(crate) fn query(&self) -> Query<'_> {
            self.corpus.query("cats running", &[1.0, 0.0])
        }

        pub(crate) fn corpus(&self) -> Corpus<'_> {
            self.corpus.corpus()
        }
    }

    /// A model of each kind, whatever the name.
    pub(crate) struct Given {
        reranker: models::Reranker,
        pub(crate) chat: models::Chat,
        embedder: models::Embedder,
    }

    impl crate::Models for Given {
        fn chat(&self, _: &str) -> Result<models::Chat, Error> {
            Ok(self.chat.clone())
        }
        fn embedder(&self, _: &str) -> Result<models::Embedder, Error> {
            Ok(self.embedder.clone())
        }
        fn reranker(&self, _: &str) -> Result<models::Reranker, Error> {
            Ok(self.reranker.clone())
        }
    }

    /// The last words of passages.
    pub(crate) fn texts(passages: &[Passage]) -> Vec<&str> {
        let words =
            |passage: &Passage| ["mat", "chased", "running"].into_iter().find(|word| passage.text.contains(word));
        passages.iter().filter_map(words).collect()
    }

    fn identity() -> Identity {
        Identity {
            provider: "test".to_owned(),
            model: "test".to_owned(),
            revision: String::new(),
            parameters: serde_json::Value::Null,
        }
    }

    /// Likes the passages in the reverse of their usual order.
    struct LikesTheLast(Identity);

    impl Model for LikesTheLast {
        fn identity(&self) -> &Identity {
            &self.0
        }
    }

    #[async_trait]
    impl RerankModel for LikesTheLast {
        async fn rerank(&self, _: &str, passages: &[String]) -> Result<(Vec<f32>, Usage), models::Error> {
            let order = ["mat", "chased", "running"];
            let score = |text: &String| order.iter().position(|word| text.contains(word)).unwrap_or(0) as f32;
            Ok((passages.iter().map(score).collect(), Usage::default()))
        }
    }

    /// Gives the [`letters`] of texts.
    struct LettersAsVectors(Identity);

    impl Model for LettersAsVectors {
        fn identity(&self) -> &Identity {
            &self.0
        }
    }

    #[async_trait]
    impl EmbeddingModel for LettersAsVectors {
        fn dimensions(&self) -> usize {
            26
        }
        fn max_tokens(&self) -> usize {
            100
        }
        async fn embed(&self, texts: &[String], _: InputKind) -> Result<(Matrix, Usage), models::Error> {
            let mut matrix = Matrix { columns: 26, data: Vec::new() };
            for text in texts {
                let as_one: String = text.to_lowercase().split_whitespace().collect();
                let row = letters(&as_one).data;
                matrix.data.extend(if row.is_empty() { vec![0.0; 26] } else { row });
            }
            Ok((matrix, Usage::default()))
        }
        async fn embed_tokens(&self, texts: &[String], _: InputKind) -> Result<(Vec<Matrix>, Usage), models::Error> {
            Ok((texts.iter().map(|text| letters(text)).collect(), Usage::default()))
        }
    }

    /// A token is a word; its vector counts its letters.
    pub(super) fn letters(text: &str) -> Matrix {
        let mut matrix = Matrix { columns: 26, data: Vec::new() };
        for word in text.split_whitespace() {
            let mut letters = [0.0; 26];
            word.bytes().filter(u8::is_ascii_lowercase).for_each(|letter| letters[usize::from(letter - b'a')] += 1.0);
            matrix.data.extend(letters);
        }
        matrix.normalize();
        matrix
    }

    /// Every reranker as it comes, with this setting.
    fn configs(top_n: usize) -> Vec<RerankerConfig> {
        let with = |name: &&str| {
            let mut settings = serde_json::json!({ "top_n": top_n });
            if *name == "python" {
                settings["source"] = "def rerank(passages):\n    return [len(text) for text in passages]\n".into();
            }
            serde_json::from_value(serde_json::json!({ *name: settings })).unwrap()
        };
        RerankerConfig::NAMES.iter().map(with).collect()
    }

    #[tokio::test]
    async fn every_reranker_keeps_a_sorted_subset_and_gives_the_same_again() {
        let fixture = Fixture::new();
        for most in [3, 1] {
            for config in configs(most) {
                let name = config.name();
                let reranker = config.build(&fixture.context()).unwrap();
                let passages = fixture.rerank(&*reranker).await.unwrap();
                assert_eq!(passages, fixture.rerank(&*reranker).await.unwrap(), "{name}");
                assert_eq!(passages.len(), most, "{name}");
                assert!(passages.is_sorted_by(|a, b| a.score >= b.score), "{name}");
                let mut rows: Vec<&[u32]> = passages.iter().map(|passage| passage.rows.as_slice()).collect();
                rows.sort_unstable();
                rows.dedup();
                assert_eq!(rows.len(), most, "{name}: no passage twice");
                for passage in &passages {
                    let same = |original: &&Passage| original.rows == passage.rows && original.text == passage.text;
                    assert!(fixture.passages.iter().any(|original| same(&original)), "{name}");
                }
            }
        }
    }

    #[tokio::test]
    async fn every_reranker_gives_nothing_for_nothing() {
        let mut fixture = Fixture::new();
        fixture.passages.clear();
        for config in configs(3) {
            assert!(
                fixture.rerank(&*config.build(&fixture.context()).unwrap()).await.unwrap().is_empty(),
                "{}",
                config.name()
            );
        }
    }

    #[test]
    fn a_score_that_is_not_a_number_is_the_worst_and_equal_ones_keep_their_order() {
        let passages = Fixture::new().passages;
        let ordered = by_score(passages, &[f32::NAN, 0.5, 0.5], 9);
        assert_eq!(texts(&ordered), ["chased", "running", "mat"]);
    }
}
