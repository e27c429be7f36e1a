//! `query`: a question becomes what is searched for it.

use crate::{Error, Listed, component::components};
use async_trait::async_trait;
use models::{Embedder, InputKind, Matrix, Message};
use serde::{Deserialize, Serialize};

components! {
    /// Which way to write queries, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum QueryConfig builds Box<dyn QueryWriter> {
        None => none,
    }
}

impl Listed for QueryConfig {
    fn unlisted() -> Option<Self> {
        Self::nothing()
    }
}

/// One search: what is compared with the words of chunks, and what with their vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchQuery {
    /// What is searched by words.
    pub words: String,
    /// What is searched by meaning: its vector is compared.
    pub text: String,
    /// Passages that would answer. Where there are some, the mean of their vectors and that of `text` is compared.
    pub passages: Vec<String>,
}

impl<T: Into<String>> From<T> for SearchQuery {
    /// The same text for words and meaning.
    fn from(text: T) -> Self {
        let text = text.into();
        Self { words: text.clone(), text, passages: Vec::new() }
    }
}

/// What is searched for a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// At least one search; what several find is joined by reciprocal rank fusion.
    pub queries: Vec<SearchQuery>,
    /// Why the question is searched as it was asked, where its component wanted to write something else.
    pub fallback: Option<Fallback>,
}

/// Why a question is searched as it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// What happened.
    pub reason: String,
    /// Whether a model or a function failed, so that another try may give more. A reply that cannot be used stays
    /// what it is.
    pub failed: bool,
}

impl Written {
    /// These searches.
    pub fn of(queries: Vec<SearchQuery>) -> Self {
        Self { queries, fallback: None }
    }

    /// The question itself, because its component could write nothing else.
    pub fn as_asked(question: &str, reason: impl Into<String>) -> Self {
        let fallback = Some(Fallback { reason: reason.into(), failed: false });
        Self { queries: vec![question.into()], fallback }
    }

    /// The question itself, because a model failed.
    ///
    /// # Errors
    /// If the run is ending: then nothing is searched.
    pub fn after_failure(question: &str, error: &models::Error) -> Result<Self, Error> {
        if matches!(error, models::Error::Cancelled) {
            return Err(models::Error::Cancelled.into());
        }
        let fallback = Some(Fallback { reason: error.to_string(), failed: true });
        Ok(Self { queries: vec![question.into()], fallback })
    }
}

/// The question as it stands alone. Where something was said before it, and
/// none of the queries is the question as it was asked, the component put
/// another question in its place, which is its first query: rerankers, other
/// steps and generators, which know nothing of the conversation, are asked that
/// one. Else the question itself.
pub fn standalone<'a>(question: &'a str, history: &[Message], queries: &'a [SearchQuery]) -> &'a str {
    let is_asked = |query: &SearchQuery| query.text == question || query.words == question;
    match queries.first() {
        Some(first) if !history.is_empty() && !queries.iter().any(is_asked) => &first.text,
        _ => question,
    }
}

/// Writes the queries that are searched for a question.
#[async_trait]
pub trait QueryWriter: Send + Sync {
    /// What is searched. `history` is what was said before the question,
    /// oldest first; empty where a question stands alone. A model that fails,
    /// or writes nothing usable, never fails the question: it is searched as
    /// it was asked, and the result says why.
    ///
    /// # Errors
    /// If the run is ending.
    async fn write(&self, question: &str, history: &[Message]) -> Result<Written, Error>;
}

/// The vectors of searches, one row for each.
///
/// # Errors
/// If the model fails.
pub async fn vectors(embedder: &Embedder, queries: &[SearchQuery]) -> Result<Matrix, models::Error> {
    let texts: Vec<String> = queries.iter().map(|query| query.text.clone()).collect();
    let passages = passages(queries);
    let texts = embedder.embed(&texts, InputKind::Query).await?;
    if passages.is_empty() {
        return Ok(texts);
    }
    Ok(with_passages(texts, &embedder.embed(&passages, InputKind::Document).await?, queries))
}

/// The passages of all searches, in order.
pub fn passages(queries: &[SearchQuery]) -> Vec<String> {
    queries.iter().flat_map(|query| query.passages.iter().cloned()).collect()
}

/// The mean of each search's vector and those of its passages, of length 1.
/// `passages` has the vectors of [`passages`], in their order.
pub fn with_passages(mut texts: Matrix, passages: &Matrix, queries: &[SearchQuery]) -> Matrix {
    let width = texts.columns;
    let mut next = 0..passages.rows();
    for (row, query) in texts.data.chunks_exact_mut(width.max(1)).zip(queries) {
        for passage in next.by_ref().take(query.passages.len()) {
            row.iter_mut().zip(passages.row(passage)).for_each(|(sum, value)| *sum += value);
        }
        if !query.passages.is_empty() {
            let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
            row.iter_mut().for_each(|value| *value /= length.max(f32::MIN_POSITIVE));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;

    #[tokio::test]
    async fn a_writer_that_does_nothing_searches_the_question() {
        let writer = QueryConfig::nothing().unwrap().build(&Context::default()).unwrap();
        let written = writer.write("Who built the mill?", &[]).await.unwrap();
        assert_eq!(written, Written::of(vec!["Who built the mill?".into()]));
    }

    #[test]
    fn a_follow_up_stands_alone_where_its_component_rewrote_it() {
        let (asked, rewritten) = ("When?", "When was the mill built?");
        let history = [Message::user("Who built the mill?")];
        let queries = |texts: &[&str]| texts.iter().map(|&text| text.into()).collect::<Vec<SearchQuery>>();
        assert_eq!(standalone(asked, &history, &queries(&[rewritten])), rewritten);
        assert_eq!(standalone(asked, &history, &queries(&[asked, rewritten])), asked, "one of several wordings");
        assert_eq!(standalone(asked, &[], &queries(&[rewritten])), asked, "there is no conversation");
        assert_eq!(standalone(asked, &history, &[]), asked);
    }

    #[test]
    fn the_vector_of_a_search_with_passages_is_the_mean_of_all() {
        let matrix = |data: &[f32]| Matrix { columns: 2, data: data.to_vec() };
        let with = |passages: &[&str]| SearchQuery {
            passages: passages.iter().map(|&text| text.to_owned()).collect(),
            ..SearchQuery::from("q")
        };
        let queries = [with(&[]), with(&["a", "b"])];
        let found = with_passages(matrix(&[1.0, 0.0, 1.0, 0.0]), &matrix(&[0.0, 1.0, 0.0, 1.0]), &queries);
        assert_eq!(found.row(0), [1.0, 0.0], "no passages");
        let length = 5.0f32.sqrt();
        let expected = [1.0 / length, 2.0 / length];
        assert!(found.row(1).iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{:?}", found.row(1));
    }
}
