//! `http`: asks a program behind HTTP for passages, such as a search service of your own.
//!
//! Use it if no other retriever knows your database, or if your service does more than search. Any method will do, with
//! JSON or parameters of the address as the request, and JSON as the reply:
//!
//! ```toml
//! [space]
//! retriever = [{ http = { url = "http://127.0.0.1:8000/search", passages = "hits", passage = { text = "body", document = "meta.source" }, version = "2026-11" } }]
//! ```
//!
//! `body` and `query` are templates. `{question}` stands for the text that is searched for, `{top_k}` for the setting,
//! `{vector}` for the vector that the trial's embedder makes of the question, `{filter}` for the filter of the question as
//! the experiment writes it, or null. A string that is one placeholder becomes the value with its type. `{{` and `}}` are
//! braces. The trial has an embedder only if `{vector}` is sent. A question with a filter is refused if `{filter}` is not
//! sent.
//!
//! `passages` and those of `passage` are paths into the reply, such as `data.hits`, or `['a.b']` for a name with a dot;
//! `$` is the whole reply. Passages stay in the order of the reply, and those after `top_k` are dropped. They are looked
//! for in the corpus by their text, in the document that `passage.document` names, so that evidence can be found in them;
//! a passage that is in no document counts as irrelevant.
//!
//! Calls have limits, retries and time-outs like those of a model. The first question is asked alone, so that settings
//! that do not fit the reply cost one call. A question without a reply ends the search of its
//! trial; the replies so far are kept, and the next run asks for the missing ones. `query` and `serve` always ask. What a
//! call costs is not known, and counts as nothing in budgets and prices.

use super::{Retriever, SearchOutput, check_top_k, finds_top_k, placing::PlacedTexts, touched};
use crate::{
    Component, Context, Error, ExistingIndexSettings, Filter, Hit, IndexPlace, Passage, SearchServiceSettings, Span,
    component::settings,
    corpus::{Corpus, Query},
    system::{HttpKind, HttpSettings, PassagePaths, ReplyPassage, System, SystemContext, SystemQuestion},
};
use async_trait::async_trait;
use futures::future::join_all;
use models::{EndpointAccess, EndpointLimits, Identity, ServiceHandle, provider::ModelContext, retriever_section};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "retriever http";
const HTTP: HttpKind =
    HttpKind { provider: "http", section: retriever_section, address_setting: "url", templates: "`body` or `query`" };
/// The values that a request may hold beside the question. A request that holds the vector needs no question.
const VALUES: [&str; 3] = [VECTOR, "top_k", FILTER];
const VECTOR: &str = "vector";
const FILTER: &str = "filter";

settings! {
    /// Settings of `http`.
    pub struct Config {
        /// The whole address, without parameters. It is used as it is: a slash at its end is kept.
        pub url: String = String::new(),
        /// The HTTP method. Default `POST`.
        pub method: String = "POST".to_owned(),
        /// Headers of every request. A value `env:NAME` is read from that variable; a secret must be written so.
        #[schemars(with = "Option<BTreeMap<String, String>>", extend("default" = null))]
        pub headers: BTreeMap<String, String> = BTreeMap::new(),
        /// The variable that holds the key, which is sent as a bearer token. Default: no key.
        pub api_key_env: Option<String> = None,
        /// Parameters of the address; each value is a template.
        #[schemars(with = "Option<BTreeMap<String, String>>", extend("default" = null))]
        pub query: BTreeMap<String, String> = BTreeMap::new(),
        /// The body, a template of JSON. Default: `{ question = "{question}", top_k = "{top_k}" }`, unless `query` is
        /// set or the method is one without a body, such as `GET`.
        pub body: Option<Value> = None,
        /// The path to the list of passages. Default `passages`.
        pub passages: String = "passages".to_owned(),
        /// The paths to the parts of a passage, within the passage: `text` (default `text`), `document`, `start`, `end`,
        /// `page`, `id` and `score`.
        pub passage: PassagePaths = PassagePaths::default(),
        /// The path at which the reply repeats the question. If it repeats another one, the reply is an error.
        pub question: Option<String> = None,
        /// The most passages to return. Default 5.
        pub top_k: usize = 5,
        /// What stands for the content of the index in keys. Without it, later runs take the passages from the store even
        /// if the index has changed.
        pub version: Option<String> = None,
        /// How long one call may take, in seconds. Default 120.
        pub timeout_seconds: f64 = HttpSettings::default().timeout_seconds,
        /// How long the connection may take, in seconds. Default 10.
        pub connect_timeout_seconds: f64 = HttpSettings::default().connect_timeout_seconds,
        /// The largest reply, in bytes. Default 16 MiB.
        pub max_response_bytes: usize = HttpSettings::default().max_response_bytes,
        /// How many calls may be in flight at once; if left out, as many as the program turns out to take.
        pub concurrency: Option<usize> = None,
        /// What is known of its limits; the rest is learned.
        pub limits: EndpointLimits = EndpointLimits::default(),
        /// Whether a key may be sent to another machine over `http://`. Default false.
        pub plain_http: bool = false,
    }
}

impl Component for Config {
    finds_top_k!();

    fn existing_index(&self) -> Option<&dyn ExistingIndexSettings> {
        Some(self)
    }

    fn compares_question(&self) -> bool {
        self.sends(VECTOR)
    }

    fn needs_embedder(&self) -> bool {
        self.sends(VECTOR)
    }

    fn settings_outside_key(&self) -> &'static [&'static str] {
        &[
            "url",
            "headers",
            "api_key_env",
            "version",
            "timeout_seconds",
            "connect_timeout_seconds",
            "max_response_bytes",
            "concurrency",
            "limits",
            "plain_http",
        ]
    }
}

impl ExistingIndexSettings for Config {
    fn endpoint_access(&self) -> EndpointAccess {
        self.http().access_as(HTTP)
    }

    fn index_name(&self) -> String {
        // Several may have one address: another tenant, or another method.
        json!([self.url, self.method, self.headers, self.api_key_env, self.version]).to_string()
    }

    fn stated_version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    fn place(&self) -> IndexPlace<'_> {
        IndexPlace::Service(self)
    }
}

impl SearchServiceSettings for Config {
    fn identity(&self, cx: &ModelContext) -> Result<Identity, models::Error> {
        // Building it reads the secrets.
        let context = self.context(cx);
        self.http().system(HTTP, &context)?;
        self.http().identity_as(HTTP, &context)
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Retriever>, Error> {
        let refused = |reason: String| Error::Config { component: NAME, reason };
        check_top_k(NAME, self.top_k)?;
        if self.url.is_empty() {
            return Err(refused("url is missing; give the address that searches".to_owned()));
        }
        if self.passages.is_empty() {
            return Err(refused("`passages` is empty; give the path to the list in the reply".to_owned()));
        }
        if self.passage.text.is_empty() {
            return Err(refused("`passage.text` is empty: an answer is written from the texts of passages".to_owned()));
        }
        if self.version.as_ref().is_some_and(|version| version.trim().is_empty()) {
            return Err(refused("`version` is empty; state one, or leave it out".to_owned()));
        }
        self.http().check_with_values(HTTP, &VALUES).map_err(refused)?;
        let program = match cx.models.zip(cx.models.and_then(|models| models.model_context())) {
            None => None,
            Some((models, context)) => {
                let system: Arc<dyn System> = Arc::new(self.http().system(HTTP, &self.context(context))?);
                models.service(system.service()).map(|service| SearchProgram { system, service })
            }
        };
        let (top_k, sends_filter) = (self.top_k, self.sends(FILTER));
        Ok(Box::new(HttpRetriever { program, top_k, sends_filter, has_replied: AtomicBool::new(false) }))
    }

    /// The same program in the settings of a system.
    fn http(&self) -> HttpSettings {
        let standard = || json!({ "question": "{question}", "top_k": "{top_k}" });
        let has_body = !matches!(self.method.to_uppercase().as_str(), "GET" | "HEAD");
        HttpSettings {
            url: self.url.clone(),
            method: self.method.clone(),
            headers: self.headers.clone(),
            api_key_env: self.api_key_env.clone(),
            query: self.query.clone(),
            body: self.body.clone().or_else(|| (self.query.is_empty() && has_body).then(standard)),
            answer: String::new(),
            passages: self.passages.clone(),
            passage: self.passage.clone(),
            question: self.question.clone(),
            timeout_seconds: self.timeout_seconds,
            connect_timeout_seconds: self.connect_timeout_seconds,
            max_response_bytes: self.max_response_bytes,
            concurrency: self.concurrency,
            limits: self.limits,
            plain_http: self.plain_http,
            ..HttpSettings::default()
        }
    }

    fn context<'a>(&'a self, models: &'a ModelContext) -> SystemContext<'a> {
        let version = self.version.as_deref().unwrap_or_default();
        SystemContext { name: "http", models, version, version_header: None, price: None, base: Path::new("") }
    }

    fn sends(&self, value: &str) -> bool {
        self.http().used_parameters().contains(value)
    }
}

/// A program that is called.
struct SearchProgram {
    /// Writes requests, and reads replies.
    system: Arc<dyn System>,
    /// Makes the calls.
    service: ServiceHandle,
}

struct HttpRetriever {
    /// None where only the settings are checked.
    program: Option<SearchProgram>,
    top_k: usize,
    sends_filter: bool,
    /// Whether a reply could be read.
    has_replied: AtomicBool,
}

impl HttpRetriever {
    async fn ask(&self, query: &Query<'_>) -> Result<Vec<ReplyPassage>, Error> {
        let SearchProgram { system, service } =
            self.program.as_ref().ok_or(Error::Needs { component: NAME, part: "the program that it calls" })?;
        if query.filter.is_some() && !self.sends_filter {
            let reason =
                "the question has a filter, which is not sent: write {filter} into `body` or `query`".to_owned();
            return Err(Error::Config { component: NAME, reason });
        }
        let parameters = values(self.top_k, query.embedding, query.filter)?;
        let question = SystemQuestion { id: "", text: query.text, history: &[], seed: 0, parameters: &parameters };
        let reply = service.ask(&system.request(&question)).await?;
        Ok(system.read(&question, &reply)?.passages.unwrap_or_default())
    }

    async fn passages(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Passage>>, Error> {
        let mut replies = Vec::with_capacity(queries.len());
        if let Some(first) = queries.first().filter(|_| !self.has_replied.load(Ordering::Relaxed)) {
            // Alone: if its reply cannot be read, all others would be paid in vain.
            replies.push(self.ask(first).await?);
            self.has_replied.store(true, Ordering::Relaxed);
        }
        // All of them, also if one fails: a call that is given up is paid and lost.
        let others = join_all(queries[replies.len()..].iter().map(|query| self.ask(query))).await;
        replies.extend(others.into_iter().collect::<Result<Vec<_>, _>>()?);
        let texts = PlacedTexts::new(corpus.table);
        let placed = |passages: Vec<ReplyPassage>| {
            let ranked = (1u32..).zip(passages).take(self.top_k);
            ranked.map(|(rank, passage)| placed(passage, rank, &texts)).collect()
        };
        Ok(replies.into_iter().map(placed).collect())
    }
}

/// The values of [`VALUES`] for a question.
fn values(top_k: usize, vector: Option<&[f32]>, filter: Option<&Filter>) -> Result<BTreeMap<String, Value>, Error> {
    let unwritable = |error: serde_json::Error| Error::Failed { component: NAME, reason: error.to_string() };
    let filter = serde_json::to_value(filter).map_err(unwritable)?;
    Ok(VALUES.map(str::to_owned).into_iter().zip([json!(vector), top_k.into(), filter]).collect())
}

/// The passage at this rank, from 1, at its place in the corpus if it has one.
fn placed(passage: ReplyPassage, rank: u32, texts: &PlacedTexts<'_>) -> Passage {
    let ReplyPassage { text, document: named, page, id, score, .. } = passage;
    let (document, place) = texts.place_named(&text, named.as_deref());
    let (document, span, rows) = match place {
        Some(place) => (place.document, place.span, place.rows),
        None => (document.or(named).or(id).unwrap_or_default(), Span::default(), Vec::new()),
    };
    // Without scores the order counts.
    let score = score.map_or(1.0 / rank as f32, |score| score as f32);
    Passage { document, span, text, score, page, book: None, heading: None, rows, parts: Vec::new() }
}

#[async_trait]
impl Retriever for HttpRetriever {
    async fn retrieve(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<Vec<Vec<Hit>>, Error> {
        let found = self.passages(queries, corpus).await?;
        Ok(found.iter().map(|passages| touched(passages)).collect())
    }

    async fn search(&self, queries: &[Query<'_>], corpus: &Corpus<'_>) -> Result<SearchOutput, Error> {
        self.passages(queries, corpus).await.map(SearchOutput::Passages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Models, retrieve::tests::Fixture};
    use models::{Chat, Client, CpuBudget, Embedder, JsonService, ModelDirectory, Reranker};
    use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

    /// No models, and calls to programs.
    struct Programs {
        context: ModelContext,
        client: Client,
    }

    impl Models for Programs {
        fn chat(&self, _: &str) -> Result<Chat, Error> {
            Err(Error::Needs { component: "test", part: "a chat model" })
        }
        fn embedder(&self, _: &str) -> Result<Embedder, Error> {
            Err(Error::Needs { component: "test", part: "an embedder" })
        }
        fn reranker(&self, _: &str) -> Result<Reranker, Error> {
            Err(Error::Needs { component: "test", part: "a reranker" })
        }
        fn model_context(&self) -> Option<&ModelContext> {
            Some(&self.context)
        }
        fn service(&self, service: Arc<dyn JsonService>) -> Option<ServiceHandle> {
            Some(self.client.service(service))
        }
    }

    fn programs() -> Programs {
        let directory = ModelDirectory::new("/nonexistent".into(), Vec::new());
        let environment = Arc::new(|name: &str| (name == "KEY").then(|| "a-key-of-this-test".to_owned()));
        let context = ModelContext { directory, cpu: CpuBudget::new(1), environment };
        Programs { context, client: Client::new(None) }
    }

    async fn server(reply: Value) -> MockServer {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(ResponseTemplate::new(200).set_body_json(reply)).mount(&server).await;
        server
    }

    fn config(server: &MockServer, settings: Value) -> Config {
        let mut settings = settings;
        settings["url"] = format!("{}/search", server.uri()).into();
        serde_json::from_value(settings).unwrap()
    }

    async fn found(config: &Config, query: Query<'_>) -> Result<Vec<Passage>, String> {
        let (fixture, programs) = (Fixture::new(), programs());
        let cx = Context { models: Some(&programs), ..Context::default() };
        let retriever = config.build(&cx).map_err(|error| error.to_string())?;
        match retriever.search(&[query], &fixture.corpus()).await.map_err(|error| error.to_string())? {
            SearchOutput::Passages(mut found) => Ok(found.remove(0)),
            SearchOutput::Hits(hits) => panic!("{hits:?}"),
        }
    }

    fn query<'a>(text: &'a str, vector: Option<&'a [f32]>, filter: Option<&'a Filter>) -> Query<'a> {
        Query { text, embedding: vector, tokens: None, filter }
    }

    async fn last_body(server: &MockServer) -> Value {
        let requests = server.received_requests().await.unwrap();
        serde_json::from_slice(&requests.last().unwrap().body).unwrap()
    }

    #[tokio::test]
    async fn passages_stand_where_their_texts_do_in_the_order_of_the_reply() {
        let reply = json!({ "hits": [
            { "body": "the dog chased the cat", "meta": { "source": "animals" }, "score": 0.2, "page": 3 },
            { "body": "of another corpus", "id": 17 },
            { "body": "a quick brown fox", "meta": { "source": "plants.txt" }, "score": 0.9 },
            { "body": "the cat sat on the mat" },
        ] });
        let server = server(reply).await;
        let passage =
            json!({ "text": "body", "document": "meta.source", "page": "page", "score": "score", "id": "id" });
        let config = config(&server, json!({ "passages": "hits", "passage": passage, "top_k": 3 }));
        let found = found(&config, query("cat {dog}", None, None)).await.unwrap();
        assert_eq!(last_body(&server).await, json!({ "question": "cat {dog}", "top_k": 3 }));
        let [dog, other, fox] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((dog.document.as_str(), dog.rows.as_slice(), dog.page), ("animals.txt", [2].as_slice(), Some(3)));
        assert_eq!((dog.span, dog.score), (Span { start: 60, end: 82 }, 0.2));
        assert_eq!((other.document.as_str(), other.rows.len(), other.score), ("17", 0, 0.5), "no score: 1 / rank");
        assert_eq!((fox.document.as_str(), fox.rows.len()), ("plants.txt", 0), "it is in no such document");
    }

    #[tokio::test]
    async fn vector_and_filter_are_sent_where_the_templates_name_them() {
        let server = server(json!([])).await;
        let settings = json!({ "passages": "$", "body": { "near": "{vector}", "where": "{filter}" } });
        let config = config(&server, settings);
        assert!(config.needs_embedder() && config.compares_question());
        let filter: Filter = serde_json::from_value(json!({ "year": { "ge": 2020 } })).unwrap();
        assert!(found(&config, query("cat", Some(&[0.5, 1.0]), Some(&filter))).await.unwrap().is_empty());
        assert_eq!(last_body(&server).await, json!({ "near": [0.5, 1.0], "where": { "year": { "ge": 2020 } } }));
        found(&config, query("cat", Some(&[0.5, 1.0]), None)).await.unwrap();
        assert_eq!(last_body(&server).await["where"], Value::Null);
        let without = Config { body: Some(json!("{question}")), ..config };
        assert!(!without.needs_embedder() && !without.compares_question());
        let error = found(&without, query("cat", None, Some(&filter))).await.unwrap_err();
        assert!(error.contains("filter, which is not sent: write {filter} into"), "{error}");
    }

    #[tokio::test]
    async fn a_reply_that_cannot_be_read_names_the_setting() {
        let server = server(json!({ "results": [{ "content": "a" }], "asked": "dog" })).await;
        let error =
            async |settings: Value| found(&config(&server, settings), query("cat", None, None)).await.unwrap_err();
        let missing = error(json!({})).await;
        assert!(missing.contains("[retriever.http]") && missing.contains("`passages`"), "{missing}");
        let text = error(json!({ "passages": "results" })).await;
        assert!(text.contains("passage 1 of `results`") && text.contains("`passage.text = "), "{text}");
        let other = json!({ "passages": "results", "passage": { "text": "content" }, "question": "asked" });
        assert!(error(other).await.contains("replied to another question"));
    }

    #[tokio::test]
    async fn the_identity_holds_the_version_and_no_secret_and_a_missing_variable_is_named() {
        let server = server(json!([])).await;
        let identity = |settings: Value| config(&server, settings).identity(&programs().context);
        let first = identity(json!({ "version": "1", "api_key_env": "KEY" })).unwrap();
        assert_ne!(first, identity(json!({ "version": "2", "api_key_env": "KEY" })).unwrap());
        assert!(!json!(first).to_string().contains("a-key-of-this-test"));
        let error = identity(json!({ "api_key_env": "UNSET" })).unwrap_err().to_string();
        assert!(error.contains("[retriever.http]") && error.contains("`UNSET`"), "{error}");
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let refused = |settings: Value| {
            let mut all = json!({ "url": "http://127.0.0.1:1/search" });
            all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
            let config: Config = serde_json::from_value(all).unwrap();
            config.build(&Context::default()).err().unwrap().to_string()
        };
        assert!(refused(json!({ "url": "" })).contains("url is missing"));
        assert!(refused(json!({ "url": "http://h/{question}" })).contains("`url` takes no placeholders"));
        assert!(refused(json!({ "body": { "k": "{top_k}" } })).contains("{question} is not sent"));
        assert!(refused(json!({ "method": "GET" })).contains("{question} is not sent"));
        let unknown = refused(json!({ "body": ["{question}", "{k}"] }));
        assert!(unknown.contains("`{k}`") && unknown.contains("{question}, {vector}, {top_k}, {filter}"), "{unknown}");
        assert!(refused(json!({ "body": ["{question}", "{seed}"] })).contains("`{seed}`"));
        assert!(refused(json!({ "passages": "" })).contains("`passages`"));
        assert!(refused(json!({ "passages": "a[" })).contains("`passages`"));
        assert!(refused(json!({ "passage": { "text": "" } })).contains("`passage.text` is empty"));
        assert!(refused(json!({ "version": " " })).contains("`version` is empty"));
        assert!(refused(json!({ "top_k": 0 })).contains("top_k"));
    }
}
