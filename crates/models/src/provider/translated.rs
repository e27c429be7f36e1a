//! Providers with a protocol of their own, through the crate `genai`, which
//! puts a request into their terms and reads their answers.
//!
//! Everything else stays ours: `genai` gets our HTTP client, whose headers
//! hold the key, and the whole address of the call. So it reads no variable of
//! the environment and follows no default of its own, and what it brings back
//! of a refusal is classified as everywhere.
//!
//! It shows the headers of refusals only, so limits that a provider tells in
//! every answer are heard of when the first call is refused. A model's name
//! that ends in `-low`, `-high` or another effort is read as such a wish.

use super::{
    rate_headers::RateHints,
    remote_chat::{Counted, Extra, Language, Model, Reply, Speaker, Translation, decimal},
};
use crate::{ChatRequest, Error, Finish, Message, Role};
use async_trait::async_trait;
use genai::{
    Client, Headers, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatOptions, JsonSpec, ReasoningEffort, StopReason},
    resolver::{AuthData, Endpoint as Address},
};
use serde_json::Value;
use tokio::time::Instant;

/// The one parameter that every provider has in some form.
const EFFORT: &str = "reasoning_effort";
/// What requests can do without.
const OPTIONAL: [&str; 5] = ["temperature", "top_p", "seed", "stop", "response_format"];
/// What stops an answer like a filter, in words that `genai` does not know.
const WITHHELD: [&str; 2] = ["guardrail_intervened", "content_filtered"];

/// Speaks the protocol of a provider.
pub(super) struct Translator {
    client: Client,
    target: ServiceTarget,
    takes_schema: bool,
    effort: Option<ReasoningEffort>,
    /// What of `extra` is put into the body.
    extra: Option<Value>,
}

impl Translator {
    pub(super) fn new(translation: Translation, model: &Model) -> Result<Self, Error> {
        let Translation { language, path, takes_schema, extra } = translation;
        let kind = match language {
            Language::Anthropic => AdapterKind::Anthropic,
            Language::Gemini => AdapterKind::Gemini,
            Language::BedrockConverse => AdapterKind::BedrockApi,
        };
        if let Some(name) = model.omit.iter().find(|name| !OPTIONAL.contains(&name.as_str())) {
            let known = OPTIONAL.join("`, `");
            return Err(Error::Config(format!("{}: `omit` knows `{known}` here, not `{name}`", model.name())));
        }
        let mut wanted = model.extra.clone();
        let effort = wanted.shift_remove(EFFORT).map(|effort| reasoning(model, &effort)).transpose()?;
        let refuse = |name: &str| {
            let reason = format!("`extra.{name}` cannot be sent to this provider; `extra.{EFFORT}` can");
            Err(Error::Config(format!("{}: {reason}", model.name())))
        };
        match extra {
            Extra::Nothing if let Some(name) = wanted.keys().next() => return refuse(name),
            Extra::AllBut(held) if let Some(name) = held.iter().find(|name| wanted.contains_key(**name)) => {
                return refuse(name);
            }
            _ => {}
        }
        let client = Client::builder().with_reqwest(model.endpoint.client().clone()).build();
        // The address and the headers take the place of those that it would
        // make up from a key, which it therefore need not have.
        let url = model.endpoint.url(&path(model.name()));
        Ok(Self {
            client: client.map_err(|error| Error::Config(format!("{}: {error}", model.name())))?,
            target: ServiceTarget {
                endpoint: Address::from_owned(url.as_str()),
                auth: AuthData::RequestOverride { url, headers: Headers::default() },
                model: ModelIden::new(kind, model.name()),
            },
            takes_schema: takes_schema && !model.omits("response_format"),
            effort,
            extra: (!wanted.is_empty()).then(|| Value::Object(wanted)),
        })
    }

    fn request(&self, request: &ChatRequest) -> genai::chat::ChatRequest {
        let in_words = request.schema.as_ref().filter(|_| !self.takes_schema).map(schema_in_words);
        let message = |message: &Message| match message.role {
            Role::System => ChatMessage::system(message.content.as_str()),
            Role::User => ChatMessage::user(message.content.as_str()),
            Role::Assistant => ChatMessage::assistant(message.content.as_str()),
        };
        // Instructions are gathered from wherever they stand.
        genai::chat::ChatRequest::new(request.messages.iter().chain(&in_words).map(message).collect())
    }

    fn options(&self, model: &Model, request: &ChatRequest) -> ChatOptions {
        let wanted = |parameter: &str| !model.omits(parameter);
        let mut options = ChatOptions::default().with_capture_raw_body(true).with_max_tokens(request.max_tokens);
        if wanted("temperature") {
            options = options.with_temperature(decimal(request.temperature));
        }
        if request.top_p < 1.0 && wanted("top_p") {
            options = options.with_top_p(decimal(request.top_p));
        }
        if wanted("seed") {
            // Gemini's is a signed number of 32 bits.
            options = options.with_seed(request.seed & 0x7fff_ffff);
        }
        if wanted("stop") {
            options = options.with_stop_sequences(request.stop.clone());
        }
        if let Some(schema) = request.schema.as_ref().filter(|_| self.takes_schema) {
            options = options.with_response_format(JsonSpec::new("answer", schema.clone()));
        }
        if let Some(effort) = &self.effort {
            options = options.with_reasoning_effort(effort.clone());
        }
        if let Some(extra) = &self.extra {
            options = options.with_extra_body(extra.clone());
        }
        options
    }
}

#[async_trait]
impl Speaker for Translator {
    async fn ask(&self, model: &Model, request: &ChatRequest) -> Result<Reply, Error> {
        let sent = Instant::now();
        let options = self.options(model, request);
        let answer = self.client.exec_chat(self.target.clone(), self.request(request), Some(&options)).await;
        let answer = answer.map_err(|error| failure(model, error, sent))?;
        let body = answer.captured_raw_body.as_ref();
        if let Some(error) = body.and_then(|body| model.endpoint.error_in(body, RateHints::default())) {
            return Err(error);
        }
        let text: String = answer.content.texts().concat();
        let finish = match &answer.stop_reason {
            Some(StopReason::MaxTokens(_)) => Finish::Length,
            Some(StopReason::ContentFilter(reason)) => return Err(model.endpoint.filtered(reason)),
            Some(StopReason::Other(reason)) if WITHHELD.contains(&reason.as_str()) => {
                return Err(model.endpoint.filtered(reason));
            }
            Some(_) => Finish::Stop,
            // An answer in other terms may look like an empty one.
            None => return Err(model.endpoint.malformed("it does not say why the answer ended")),
        };
        let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
        let total = count(answer.usage.total_tokens);
        let (prompt, completion) = (count(answer.usage.prompt_tokens), count(answer.usage.completion_tokens));
        let rest = |part: Option<u64>| total.zip(part).map(|(total, part)| total.saturating_sub(part));
        let cached = answer.usage.prompt_tokens_details.as_ref().and_then(|details| count(details.cached_tokens));
        let usage = Counted {
            // Bedrock counts what came from a cache in the total only.
            prompt: prompt.max(rest(completion)),
            cached: cached.unwrap_or_default(),
            completion: completion.or_else(|| rest(prompt)),
        };
        Ok(Reply { text: model.endpoint.without_secrets(text), finish, usage, choices: Vec::new() })
    }
}

/// Asks in words for what a provider cannot be held to.
fn schema_in_words(schema: &Value) -> Message {
    Message::system(format!("Answer with nothing but JSON that matches this JSON Schema:\n{schema}"))
}

/// `"low"`, …, or a number of tokens.
fn reasoning(model: &Model, effort: &Value) -> Result<ReasoningEffort, Error> {
    let tokens = effort.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).map(ReasoningEffort::Budget);
    let effort = tokens.or_else(|| ReasoningEffort::from_keyword(effort.as_str()?));
    effort.ok_or_else(|| {
        Error::Config(format!(
            "{}: `extra.{EFFORT}` must be \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\", \"max\", or \
             a number of tokens",
            model.name()
        ))
    })
}

fn failure(model: &Model, error: genai::Error, sent: Instant) -> Error {
    use genai::webc::Error as Web;
    let endpoint = &model.endpoint;
    match error {
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            match webc_error {
                Web::ResponseFailedStatus { status, body, headers } => endpoint.refused(status, &headers, &body, sent),
                Web::Reqwest(error) => endpoint.broken(&error, sent),
                Web::ResponseFailedNotJson { content_type, .. } => {
                    endpoint.malformed(format!("not JSON but `{content_type}`"))
                }
                Web::ResponseFailedInvalidJson { cause, .. } => endpoint.malformed(format!("not JSON: {cause}")),
                other @ Web::JsonValueExt(_) => endpoint.malformed(other),
            }
        }
        genai::Error::ChatResponseGeneration { response_body, cause, .. } => {
            if let Some(error) = endpoint.error_in(&response_body, RateHints::default()) {
                return error;
            }
            match response_body.pointer("/promptFeedback/blockReason").and_then(Value::as_str) {
                Some(reason) => endpoint.filtered(&format!("the prompt was blocked: {reason}")),
                None => endpoint.malformed(cause),
            }
        }
        // The rest is about requests that cannot be put into the provider's terms.
        other => Error::Config(format!("{}: {other}", model.name())),
    }
}
