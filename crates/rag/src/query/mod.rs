//! `query`: a question becomes what is searched for it.

pub(crate) mod asker;

use crate::{AxisValue, Error, component::components};
use async_trait::async_trait;
use models::{Embedder, InputKind, Matrix, Message};
use serde::{Deserialize, Serialize};

components! {
    /// Which way to write queries, and its settings.
    #[derive(schemars::JsonSchema)]
    pub enum QueryConfig builds Box<dyn QueryWriter>, each crate::Component {
        None => none,
        Filter => filter,
        SelfQuery => self_query,
        MultiQuery => multi_query,
        Hyde => hyde,
        Query2doc => query2doc,
        StepBack => step_back,
        Decompose => decompose,
        Condense => condense,
        Join => join,
    }
}

impl AxisValue for QueryConfig {
    fn unlisted() -> Option<Self> {
        Self::nothing()
    }
}

/// One search: what is compared with the words of chunks, and what with their vectors.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SearchQuery {
    /// What is searched by words.
    pub words: String,
    /// What is searched by meaning: its vector is compared.
    pub text: String,
    /// Passages that would answer. Where there are some, the mean of their vectors and that of `text` is compared.
    #[serde(rename = "passages")]
    pub hypothetical_passages: Vec<String>,
    /// Which chunks are searched; all if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<crate::Filter>,
}

impl<T: Into<String>> From<T> for SearchQuery {
    fn from(text: T) -> Self {
        let text = text.into();
        Self { words: text.clone(), text, hypothetical_passages: Vec::new(), filter: None }
    }
}

/// The searches that are made for a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenQueries {
    /// At least one search; what several find is joined by reciprocal rank fusion.
    pub queries: Vec<SearchQuery>,
    /// Why the question is searched unchanged, or with fewer queries than its component wanted to write.
    pub fallback: Option<Fallback>,
}

/// Why a component did less than it wanted: a question is searched unchanged, or a chunk gets no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// What happened.
    pub reason: String,
    /// Whether a model or a function failed, so that another try may give more. False for a reply that cannot be
    /// used, because the same call gives the same reply.
    pub failed: bool,
}

impl Fallback {
    /// The fallback after a model failed. Fails if the run is ending, which the kind
    /// of error says ([`models::Error::ends_work`]).
    pub(crate) fn after(error: &models::Error) -> Result<Self, Error> {
        if error.ends_work() {
            return Err(error.clone().into());
        }
        // The same call would be refused again.
        let is_final = matches!(
            error,
            models::Error::ContextTooLong { .. }
                | models::Error::ContentFiltered { .. }
                | models::Error::SchemaMismatch { .. }
        );
        Ok(Self { reason: error.to_string(), failed: !is_final })
    }
}

impl WrittenQueries {
    /// The result with these searches.
    pub fn of(queries: Vec<SearchQuery>) -> Self {
        Self { queries, fallback: None }
    }

    /// The result with the question and further texts.
    fn with_question(question: &str, others: Vec<String>) -> Self {
        Self::of(std::iter::once(question.into()).chain(others.into_iter().map(SearchQuery::from)).collect())
    }

    /// The question itself, because its component could write nothing else.
    pub(crate) fn as_asked(question: &str, reason: impl Into<String>) -> Self {
        let fallback = Some(Fallback { reason: reason.into(), failed: false });
        Self { queries: vec![question.into()], fallback }
    }
}

/// The standalone question, for rerankers, other steps and generators, which do not
/// see the conversation: the first query if there is a history and no query is the
/// question itself (the component has replaced it then), else the question.
pub fn standalone<'a>(question: &'a str, history: &[Message], queries: &'a [SearchQuery]) -> &'a str {
    let is_asked = |query: &SearchQuery| query.text == question || query.words == question;
    match queries.first() {
        Some(first) if !history.is_empty() && !queries.iter().any(is_asked) => &first.text,
        _ => question,
    }
}

/// Writes the queries for a question.
#[async_trait]
pub trait QueryWriter: Send + Sync {
    /// The queries for a question. `history` holds the messages before it,
    /// oldest first. If a model fails or writes nothing usable, the question is
    /// searched unchanged, and the result says why.
    ///
    /// # Errors
    /// If the run is ending: a model error of the kinds of [`models::Error::ends_work`].
    async fn write(&self, question: &str, history: &[Message]) -> Result<WrittenQueries, Error>;
}

/// The vectors of searches, one row for each.
///
/// # Errors
/// If the model fails.
pub async fn vectors(embedder: &Embedder, queries: &[SearchQuery]) -> Result<Matrix, models::Error> {
    let texts: Vec<String> = queries.iter().map(|query| query.text.clone()).collect();
    let passages = hypothetical_passages(queries);
    let texts = embedder.embed(&texts, InputKind::Query).await?;
    if passages.is_empty() {
        return Ok(texts);
    }
    Ok(with_hypothetical_passages(texts, &embedder.embed(&passages, InputKind::Document).await?, queries))
}

/// The passages of all searches, in order.
pub fn hypothetical_passages(queries: &[SearchQuery]) -> Vec<String> {
    queries.iter().flat_map(|query| query.hypothetical_passages.iter().cloned()).collect()
}

/// The mean of each search's vector and those of its passages, of length 1.
/// `passages` has the vectors of [`hypothetical_passages`], in their order.
pub fn with_hypothetical_passages(mut texts: Matrix, passages: &Matrix, queries: &[SearchQuery]) -> Matrix {
    let width = texts.columns;
    let mut next = 0..passages.rows();
    for (row, query) in texts.data.chunks_exact_mut(width.max(1)).zip(queries) {
        for passage in next.by_ref().take(query.hypothetical_passages.len()) {
            row.iter_mut().zip(passages.row(passage)).for_each(|(sum, value)| *sum += value);
        }
        if !query.hypothetical_passages.is_empty() {
            let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
            row.iter_mut().for_each(|value| *value /= length.max(f32::MIN_POSITIVE));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Component as _, Context,
        generate::tests::{ScriptedChat, reply},
    };
    use models::{ChatRequest, ChatResponse, Finish};

    #[tokio::test]
    async fn a_writer_that_does_nothing_searches_the_question() {
        let writer = QueryConfig::nothing().unwrap().build(&Context::default()).unwrap();
        let written = writer.write("Who built the mill?", &[]).await.unwrap();
        assert_eq!(written, WrittenQueries::of(vec!["Who built the mill?".into()]));
    }

    const QUESTION: &str = "Which of the mills is older?";

    fn history() -> [Message; 2] {
        [Message::user("There are two mills."), Message::assistant("Yes, at Ode and at Rye.")]
    }

    /// Every component as it comes, with what it must be given.
    fn configs() -> Vec<QueryConfig> {
        let with = |config: QueryConfig| match config {
            QueryConfig::SelfQuery(_) => {
                let given = serde_json::json!({ "self_query": { "fields": { "year": "number" } } });
                serde_json::from_value(given).unwrap()
            }
            config => config,
        };
        QueryConfig::defaults().into_iter().map(with).collect()
    }

    /// What each component that asks a model writes for a question of a
    /// conversation, twice, if the model replies so.
    async fn written(
        reply: impl Fn(usize, &ChatRequest) -> Result<ChatResponse, models::Error> + Send + Sync + Copy + 'static,
    ) -> Vec<(&'static str, WrittenQueries)> {
        let mut all = Vec::new();
        for config in configs().into_iter().filter(|config| !config.models().is_empty()) {
            let script = ScriptedChat::replying(4096, reply);
            let writer = config.build(&script.context()).unwrap();
            let first = writer.write(QUESTION, &history()).await.unwrap();
            assert!(!script.requests().is_empty(), "{}", config.name());
            assert_eq!(first, writer.write(QUESTION, &history()).await.unwrap(), "{}: the same again", config.name());
            all.push((config.name(), first));
        }
        assert!(all.len() >= 6);
        all
    }

    #[tokio::test]
    async fn whatever_the_model_writes_the_question_is_searched_and_the_reason_told() {
        let useless = async |reply: fn() -> ChatResponse, case: &str| {
            for (name, written) in written(move |_, _| Ok(reply())).await {
                assert_eq!(written.queries, [QUESTION.into()], "{name}: {case}");
                let fallback = written.fallback.unwrap_or_else(|| panic!("{name}: {case} is not told"));
                assert!(!fallback.failed && fallback.reason.len() > 20, "{name}: {case}: {fallback:?}");
            }
        };
        useless(|| reply("?! ..."), "nonsense").await;
        useless(|| reply(""), "nothing").await;
        useless(|| ChatResponse { finish: Finish::Length, ..reply("and so on ".repeat(200)) }, "endless").await;
        fn unended() -> ChatResponse {
            let text = format!(r#"{{"queries": ["{}"#, "and so on ".repeat(200));
            ChatResponse { finish: Finish::Length, ..reply(text) }
        }
        useless(unended, "endless JSON").await;
    }

    #[tokio::test]
    async fn a_question_that_is_only_repeated_is_told_except_where_that_is_its_own_form() {
        let repeated = |_: usize, request: &ChatRequest| {
            Ok(reply(match &request.schema {
                Some(schema) if schema["properties"].get("queries").is_some() => {
                    format!(r#"{{"queries": ["{QUESTION}"]}}"#)
                }
                Some(_) => format!(r#"{{"question": "{QUESTION}"}}"#),
                None => QUESTION.to_owned(),
            }))
        };
        for (name, written) in written(repeated).await {
            assert_eq!(written.queries, [QUESTION.into()], "{name}");
            assert_eq!(written.fallback.is_some(), name != "condense", "{name}");
        }
    }

    #[tokio::test]
    async fn a_model_that_fails_leaves_the_question_and_a_run_that_ends_searches_nothing() {
        for (name, written) in written(|_, _| Err(models::Error::Config("it is down".to_owned()))).await {
            assert_eq!(written.queries, [QUESTION.into()], "{name}");
            let fallback = Fallback { reason: "it is down".to_owned(), failed: true };
            assert_eq!(written.fallback, Some(fallback), "{name}");
        }
        for config in configs().into_iter().filter(|config| !config.models().is_empty()) {
            let script = ScriptedChat::replying(4096, |_, _| Err(models::Error::Cancelled));
            let ended = config.build(&script.context()).unwrap().write(QUESTION, &history()).await;
            assert!(matches!(ended, Err(Error::Model(models::Error::Cancelled))), "{}", config.name());
        }
    }

    #[tokio::test]
    async fn a_question_without_history_is_always_among_what_is_searched() {
        let good = |_: usize, request: &ChatRequest| {
            let list = r#"{"queries": ["The mill at Ode", "The mill at Rye"]}"#;
            let one = r#"{"queries": ["Mills"]}"#;
            let schema = request.schema.as_ref();
            Ok(reply(match schema.map(|schema| &schema["properties"]["queries"]["maxItems"]) {
                Some(most) if most.is_null() => r#"{"filter": {}}"#,
                Some(most) if *most == 1 => one,
                Some(_) => list,
                None => "The mill at Ode was built in 1712.",
            }))
        };
        for config in configs() {
            let script = ScriptedChat::replying(4096, good);
            let written = config.build(&script.context()).unwrap().write(QUESTION, &[]).await.unwrap();
            assert_eq!(written.fallback, None, "{}", config.name());
            let first = &written.queries[0];
            assert!(first.text.starts_with(QUESTION) && first.words.starts_with(QUESTION), "{}", config.name());
        }
    }

    #[test]
    fn impossible_settings_are_refused_and_unknown_ones_named() {
        for config in configs().into_iter().filter(|config| !config.models().is_empty()) {
            let name = config.name();
            for (setting, value, reason) in [
                ("max_tokens", serde_json::json!(0), "at least 1"),
                ("temperature", serde_json::json!(3), "between 0 and 2"),
            ] {
                let mut config = serde_json::json!({ name: { setting: value } });
                if name == "self_query" {
                    config[name]["fields"] = serde_json::json!({ "year": "number" });
                }
                let config: QueryConfig = serde_json::from_value(config).unwrap();
                let error = config.build(&Context::default()).err().unwrap().to_string();
                assert!(error.contains(reason) && error.contains(name), "{error}");
            }
            let unknown = serde_json::from_value::<QueryConfig>(serde_json::json!({ name: { "modle": "m" } }));
            assert!(unknown.unwrap_err().to_string().contains("modle"), "{name}");
        }
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
            hypothetical_passages: passages.iter().map(|&text| text.to_owned()).collect(),
            ..SearchQuery::from("q")
        };
        let queries = [with(&[]), with(&["a", "b"])];
        let found = with_hypothetical_passages(matrix(&[1.0, 0.0, 1.0, 0.0]), &matrix(&[0.0, 1.0, 0.0, 1.0]), &queries);
        assert_eq!(found.row(0), [1.0, 0.0], "no passages");
        let length = 5.0f32.sqrt();
        let expected = [1.0 / length, 2.0 / length];
        assert!(found.row(1).iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{:?}", found.row(1));
    }
}
