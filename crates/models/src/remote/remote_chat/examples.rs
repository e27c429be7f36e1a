//! What the tests of all providers read: requests, answers and refusals as the
//! providers' documentation shows them, from `examples/<name>.json`.

use super::wire::{Form, WireEvent};
use crate::{ChatConfig, ChatModel, ChatRequest, ChatResponse, Error, Finish, Message, remote::testing::Bench};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use wiremock::ResponseTemplate;

/// The key that all of them are given.
pub(super) const KEY: &str = "sk-very-secret";

/// What a provider's documentation shows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Examples {
    #[serde(skip)]
    pub(super) name: String,
    /// Where they come from.
    pub(super) source: String,
    /// What must be compiled in.
    #[serde(default)]
    pub(super) feature: Option<String>,
    /// The path of its base URL.
    pub(super) base_path: String,
    pub(super) settings: Map<String, Value>,
    #[serde(default)]
    pub(super) tells_probabilities: bool,
    /// Whether limits are read from answers too, and not from refusals alone.
    #[serde(default)]
    pub(super) hears_every_answer: bool,
    pub(super) request: Request,
    /// What other settings change in the body of the request.
    #[serde(default)]
    pub(super) variations: Vec<Variation>,
    #[serde(default)]
    pub(super) refused_settings: Vec<Map<String, Value>>,
    pub(super) answers: Vec<AnswerExample>,
    /// The first of these, while it is written.
    pub(super) stream: Stream,
    #[serde(default)]
    pub(super) withheld: Vec<Value>,
    pub(super) malformed: Vec<Value>,
    pub(super) refusals: Vec<Refusal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variation {
    pub(super) settings: Map<String, Value>,
    #[serde(default)]
    pub(super) query: Option<String>,
    #[serde(default)]
    pub(super) has: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) lacks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerExample {
    pub(super) body: Value,
    pub(super) text: String,
    pub(super) finish: Finish,
    pub(super) prompt: u64,
    pub(super) cached: u64,
    pub(super) completion: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    pub(super) path: String,
    #[serde(default)]
    pub(super) query: Option<String>,
    /// What its request has.
    pub(super) has: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) form: Form,
    pub(super) events: Vec<WireEvent>,
    /// With only so many of these it is no answer.
    pub(super) unfinished: usize,
    /// Other streams, whose answer is withheld.
    #[serde(default)]
    pub(super) withheld: Vec<Vec<WireEvent>>,
    /// Errors that come in the middle.
    pub(super) errors: Vec<StreamError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamError {
    pub(super) is: RefusalKind,
    pub(super) event: WireEvent,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Refusal {
    pub(super) is: RefusalKind,
    pub(super) status: u16,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Value,
    #[serde(default)]
    pub(super) retry_after: Option<f64>,
    #[serde(default)]
    pub(super) remaining_requests: Option<f64>,
    #[serde(default)]
    pub(super) tokens: usize,
    #[serde(default)]
    pub(super) limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RefusalKind {
    RateLimited,
    QuotaExhausted,
    Authentication,
    ContextTooLong,
    ContentFiltered,
    Server,
    Refused,
    Other,
}

impl RefusalKind {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::RateLimited { .. } => Self::RateLimited,
            Error::QuotaExhausted { .. } => Self::QuotaExhausted,
            Error::Authentication { .. } => Self::Authentication,
            Error::ContextTooLong { .. } => Self::ContextTooLong,
            Error::ContentFiltered { .. } => Self::ContentFiltered,
            Error::Server { .. } => Self::Server,
            Error::Refused { .. } => Self::Refused,
            _ => Self::Other,
        }
    }
}

impl Refusal {
    pub(super) fn response(&self, body: &Value) -> ResponseTemplate {
        let response = ResponseTemplate::new(self.status).set_body_json(body);
        self.headers
            .iter()
            .fold(response, |response, (name, value)| response.insert_header(name.as_str(), value.as_str()))
    }
}

impl Examples {
    pub(super) fn config(&self, bench: &Bench, change: &Map<String, Value>) -> ChatConfig {
        let mut settings = self.settings.clone();
        settings.insert("base_url".to_owned(), json!(bench.address(&self.base_path)));
        settings.insert("api_key_env".to_owned(), json!("KEY"));
        settings.insert("timeout_seconds".to_owned(), json!(2));
        settings.extend(change.clone());
        serde_json::from_value(json!({ (&self.name): settings })).expect("settings")
    }

    pub(super) fn model(&self, bench: &Bench) -> Arc<dyn ChatModel> {
        self.config(bench, &Map::new()).build(&bench.context()).expect("a model")
    }

    pub(super) async fn answered(&self, body: &Value) -> Result<ChatResponse, Error> {
        let bench = Bench::new().await;
        bench.answer(200, body.clone()).await;
        self.model(&bench).chat(&request()).await
    }

    pub(super) async fn refused(&self, refusal: &Refusal, body: &Value) -> (Error, Arc<dyn ChatModel>) {
        let bench = Bench::new().await;
        bench.respond(refusal.response(body)).await;
        let model = self.model(&bench);
        (model.chat(&request()).await.expect_err("a refusal"), model)
    }
}

pub(super) fn request() -> ChatRequest {
    let messages = vec![
        Message::system("be short"),
        Message::user("hi"),
        Message::assistant("hello"),
        Message::user("how are you?"),
    ];
    ChatRequest {
        temperature: 0.1,
        top_p: 0.9,
        seed: 7,
        stop: vec!["END".to_owned()],
        schema: Some(json!({
            "type": "object",
            "properties": { "answer": { "type": "string" } },
            "required": ["answer"],
            "additionalProperties": false,
        })),
        ..ChatRequest::new(messages, 16)
    }
}

/// All providers behind an endpoint, whether they are compiled in or not.
pub(super) fn all() -> Vec<Examples> {
    let remote = ChatConfig::defaults().into_iter().filter_map(|config| {
        let written = serde_json::to_value(&config).expect("settings");
        let (name, settings) = written.as_object()?.iter().next()?;
        settings.get("base_url").map(|_| name.clone())
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/remote/examples");
    let examples = remote.map(|name| {
        let path = folder.join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}: write down what {name} documents", path.display()));
        let read: Examples = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Examples { name, ..read }
    });
    examples.collect()
}

/// Those that can be used.
pub(super) fn compiled() -> impl Iterator<Item = Examples> {
    all().into_iter().filter(|examples| examples.feature.is_none() || cfg!(feature = "providers"))
}
