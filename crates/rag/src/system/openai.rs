//! A system that speaks OpenAI's chat protocol, as many RAG servers do: it gets the conversation as `messages`, and
//! its answer is the message of the first choice.
//!
//! OpenAI's protocol has no passages. `passages` is the path to them where a server adds them to its reply, such as
//! `citations` or `choices[0].message.context.citations`. Replies are not streamed.

use super::{
    System, SystemContext, SystemSettings,
    endpoint::HttpKind,
    http::{self, key_settings},
    reply::{PassagePaths, UsagePaths},
    template::escaped,
};
use models::{EndpointAccess, EndpointLimits, Error, Identity, system_section};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) const VERSION: u32 = 1;

const OPENAI: HttpKind = HttpKind {
    provider: "openai",
    section: system_section,
    address_setting: "base_url",
    templates: "`extra` or `query`",
};

/// The path of a call below the base URL.
const CALL: &str = "/chat/completions";
/// Fields of a request that have settings of their own.
const OWN_FIELDS: [&str; 4] = ["model", "messages", "temperature", "max_tokens"];

/// Settings of a system that speaks OpenAI's chat protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The name of the model in requests; many servers ignore it.
    pub model: String,
    /// The address up to and without `/chat/completions`, such as `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// The variable that holds the key, which is sent as a bearer token. Default: no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Headers of every request. A value `env:NAME` is read from that variable; a secret must be written so.
    pub headers: BTreeMap<String, String>,
    /// Parameters of the address; each value may hold `{seed}`, `{id}`, or a parameter such as `{top_k}`.
    pub query: BTreeMap<String, String>,
    /// Instructions that precede the conversation, as a message of the role `system`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The temperature. Default: not sent, the system decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens of an answer. Default: not sent, the system decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// More fields of each request, a template: `{ top_k = "{top_k}", seed = "{seed}" }`.
    pub extra: BTreeMap<String, Value>,
    /// The path to the list of passages. Default: empty, the system returns none.
    pub passages: String,
    /// The paths to the parts of a passage, within the passage.
    pub passage: PassagePaths,
    /// How long one call may take, in seconds. Default 120; no part of any key.
    pub timeout_seconds: f64,
    /// How long the connection may take, in seconds. Default 10; no part of any key.
    pub connect_timeout_seconds: f64,
    /// Whether a call that timed out is made again. Default true; set it to false if a call has side effects.
    pub retry_timeouts: bool,
    /// The largest reply, in bytes. Default 16 MiB; no part of any key.
    pub max_response_bytes: usize,
    /// How many calls may be in flight at once; if left out, as many as the system turns out to take, up to 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// What is known of its limits; the rest is learned.
    pub limits: EndpointLimits,
    /// Whether a key may be sent to another machine over `http://`, where everybody on the way can read it. Default
    /// false: it is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
}

impl Default for Config {
    fn default() -> Self {
        let http = http::Config::default();
        Self {
            model: String::new(),
            base_url: String::new(),
            api_key_env: None,
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            system_prompt: None,
            temperature: None,
            max_tokens: None,
            extra: BTreeMap::new(),
            passages: String::new(),
            passage: PassagePaths::default(),
            timeout_seconds: http.timeout_seconds,
            connect_timeout_seconds: http.connect_timeout_seconds,
            retry_timeouts: http.retry_timeouts,
            max_response_bytes: http.max_response_bytes,
            concurrency: None,
            limits: http.limits,
            plain_http: false,
        }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &SystemContext<'_>) -> Result<Arc<dyn System>, Error> {
        self.check_fields().map_err(|reason| Error::Config(format!("{}: {reason}", system_section(cx.name))))?;
        Ok(Arc::new(self.http().system(OPENAI, cx)?))
    }

    /// The same system in the settings of any HTTP system.
    fn http(&self) -> http::Config {
        let path = |text: &str| Some(text.to_owned());
        let url = match self.base_url.trim_end_matches('/') {
            "" => String::new(),
            base => format!("{base}{CALL}"),
        };
        http::Config {
            url,
            headers: self.headers.clone(),
            api_key_env: self.api_key_env.clone(),
            query: self.query.clone(),
            body: Some(self.body()),
            answer: "choices[0].message.content".to_owned(),
            passages: self.passages.clone(),
            passage: self.passage.clone(),
            usage: UsagePaths {
                prompt_tokens: path("usage.prompt_tokens"),
                completion_tokens: path("usage.completion_tokens"),
                cost_usd: None,
            },
            trace: path("id"),
            timeout_seconds: self.timeout_seconds,
            connect_timeout_seconds: self.connect_timeout_seconds,
            retry_timeouts: self.retry_timeouts,
            max_response_bytes: self.max_response_bytes,
            concurrency: self.concurrency,
            limits: self.limits,
            plain_http: self.plain_http,
            ..http::Config::default()
        }
    }

    /// The template of a request.
    fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("model".to_owned(), escaped(&self.model).into());
        let conversation = json!("{messages}");
        let messages = match &self.system_prompt {
            Some(prompt) => json!([{ "role": "system", "content": escaped(prompt) }, conversation]),
            None => conversation,
        };
        body.insert("messages".to_owned(), messages);
        if let Some(temperature) = self.temperature {
            body.insert("temperature".to_owned(), json!(temperature));
        }
        if let Some(max_tokens) = self.max_tokens {
            body.insert("max_tokens".to_owned(), max_tokens.into());
        }
        body.extend(self.extra.clone());
        body.into()
    }

    fn check_fields(&self) -> Result<(), String> {
        if self.model.trim().is_empty() {
            return Err("`model` is empty: write the name of the model that requests carry".to_owned());
        }
        if let Some(name) = OWN_FIELDS.iter().find(|name| self.extra.contains_key(**name)) {
            return Err(format!(
                "`extra.{name}` is sent already: remove it, and set `{name}`{}",
                match *name {
                    "messages" => ", which is always the conversation",
                    _ => "",
                }
            ));
        }
        if self.extra.get("stream").is_some_and(|stream| *stream != Value::Bool(false)) {
            return Err("`extra.stream`: replies are not read as streams; remove it".to_owned());
        }
        Ok(())
    }
}

impl SystemSettings for Config {
    fn check(&self, parameters: &BTreeMap<String, Vec<Value>>) -> Result<(), String> {
        self.check_fields()?;
        self.http().check_as(OPENAI, parameters)
    }

    fn identity(&self, cx: &SystemContext<'_>) -> Result<Identity, Error> {
        self.http().identity_as(OPENAI, cx)
    }

    fn key_settings(&self) -> Value {
        key_settings(self)
    }

    fn returns_passages(&self) -> bool {
        !self.passages.is_empty()
    }

    fn parameters(&self) -> Option<BTreeSet<String>> {
        Some(self.http().used_parameters())
    }

    fn endpoint_access(&self) -> Option<EndpointAccess> {
        Some(self.http().access_as(OPENAI))
    }

    fn concurrency(&self) -> Option<usize> {
        self.concurrency
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{SystemQuestion, SystemReply, http::tests::Stage};
    use models::Message;
    use wiremock::ResponseTemplate;

    fn config(stage: &Stage) -> Config {
        Config { model: "our-{rag}".to_owned(), base_url: stage.address("/v1/"), ..Config::default() }
    }

    /// Asks a question after two messages, with the parameter `top_k` of 5.
    async fn ask(stage: &Stage, config: &Config) -> Result<SystemReply, Error> {
        let system = config.build(&stage.context())?;
        let parameters = BTreeMap::from([("top_k".to_owned(), json!(5))]);
        let history = [Message::user("Who?"), Message::assistant("Ada.")];
        let question =
            SystemQuestion { id: "q1", text: "{When}?", history: &history, seed: 3, parameters: &parameters };
        let reply = system.service().call(&system.request(&question)).await?;
        system.read(&question, &reply)
    }

    #[tokio::test]
    async fn a_conversation_is_sent_and_the_first_choice_is_the_answer() {
        let stage = Stage::new().await;
        stage
            .reply(json!({
                "id": "chatcmpl-1",
                "choices": [{ "message": { "role": "assistant", "content": "In 1843." } }],
                "usage": { "prompt_tokens": 90, "completion_tokens": 4 },
                "citations": [{ "content": "c", "url": "a.md" }, "plain"],
            }))
            .await;
        let passage =
            PassagePaths { text: "content".to_owned(), document: Some("url".to_owned()), ..PassagePaths::default() };
        let config = Config {
            system_prompt: Some("Answer as {json}.".to_owned()),
            temperature: Some(0.5),
            max_tokens: Some(100),
            extra: [("k".to_owned(), json!("{top_k}")), ("seed".to_owned(), json!("{seed}"))].into(),
            passages: "citations".to_owned(),
            passage,
            ..config(&stage)
        };
        let reply = ask(&stage, &config).await.expect("a reply");
        let sent = json!({
            "model": "our-{rag}",
            "messages": [
                { "role": "system", "content": "Answer as {json}." },
                { "role": "user", "content": "Who?" },
                { "role": "assistant", "content": "Ada." },
                { "role": "user", "content": "{When}?" },
            ],
            "temperature": 0.5, "max_tokens": 100, "k": 5, "seed": 3,
        });
        assert_eq!((stage.last_path().await.as_str(), stage.last_body().await), ("/v1/chat/completions", sent));
        assert_eq!((reply.answer.as_deref(), reply.trace.as_deref()), (Some("In 1843."), Some("chatcmpl-1")));
        let tokens = reply.usage.tokens.map(|tokens| (tokens.prompt_tokens, tokens.completion_tokens));
        assert_eq!((tokens, reply.usage.cost_usd), (Some((90, 4)), None));
        let passages = reply.passages.expect("passages");
        assert_eq!((passages[0].document.as_deref(), passages[1].text.as_str()), (Some("a.md"), "plain"));
    }

    #[tokio::test]
    async fn without_options_only_model_and_messages_are_sent() {
        let stage = Stage::new().await;
        stage.reply(json!({ "choices": [{ "message": { "content": "a" } }] })).await;
        let reply = ask(&stage, &config(&stage)).await.expect("a reply");
        let sent = stage.last_body().await;
        assert_eq!(
            sent.as_object().map(|fields| fields.keys().cloned().collect()),
            Some(vec!["model".to_owned(), "messages".to_owned()])
        );
        assert_eq!((reply.passages, reply.usage.tokens), (None, None));
    }

    #[tokio::test]
    async fn errors_name_the_base_url() {
        let stage = Stage::new().await;
        stage.respond(ResponseTemplate::new(200).set_body_raw("<html>", "text/html")).await;
        let error = ask(&stage, &config(&stage)).await.expect_err("a page").to_string();
        assert!(error.contains("it sent HTML, not JSON: check `base_url`"), "{error}");
        let unset = Config { base_url: String::new(), ..config(&stage) };
        let error = ask(&stage, &unset).await.expect_err("no address").to_string();
        assert!(error.starts_with("[systems.app]: `base_url` is missing"), "{error}");
    }

    #[test]
    fn settings_are_checked_before_a_call() {
        let none = BTreeMap::new();
        let good = Config { model: "m".to_owned(), base_url: "http://h/v1".to_owned(), ..Config::default() };
        assert_eq!(good.check(&none), Ok(()));
        let extra = |name: &str, value: Value| Config { extra: [(name.to_owned(), value)].into(), ..good.clone() };
        let refusal = |config: Config| config.check(&none).expect_err("a refusal");
        assert!(refusal(extra("model", json!("x"))).contains("`extra.model` is sent already"));
        assert!(refusal(extra("stream", json!(true))).contains("`extra.stream`"));
        assert!(refusal(extra("k", json!("{top_k}"))).contains("`{top_k}` in `extra` or `query` is no placeholder"));
        assert!(refusal(Config { model: String::new(), ..good.clone() }).contains("`model` is empty"));
        let used = extra("k", json!("{top_k}"));
        let parameters = BTreeMap::from([("top_k".to_owned(), vec![json!(3), json!(5)])]);
        assert_eq!(used.check(&parameters), Ok(()));
        assert_eq!(used.parameters(), Some(BTreeSet::from(["top_k".to_owned()])));
        assert!(used.sends_history() && used.writes_answers() && !used.returns_passages());
    }
}
