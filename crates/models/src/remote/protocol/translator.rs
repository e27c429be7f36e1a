//! Providers with a protocol of their own, through the crate `genai`, which
//! puts a request into their terms and reads their answers and streams.
//!
//! Everything else is the code of this crate: `genai` gets the HTTP client, whose
//! headers hold the key, and the complete address of the call. So it reads no
//! environment variable and uses no default of its own, and a refusal that it
//! returns is classified like any other.
//!
//! `genai` shows only the headers of refusals, so limits that a provider
//! announces in every answer are not seen until a call is refused. If a
//! model's name ends in `-low`, `-high` or another effort, `genai` reads that
//! as a request for this effort.

mod failure;
mod stream;

use super::{
    Extra, GenaiProtocol, Translation,
    speaker::{ChatReply, ChatTarget, Speaker, TokenCounts, decimal},
};
use crate::{
    ChatRequest, Error, Finish, Message, OnPiece, Role,
    remote::{http::plausible_tokens, refusal::refuses_schema},
    schema, trace,
};
use async_trait::async_trait;
use genai::{
    Client, Headers, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatOptions, JsonSpec, ReasoningEffort, StopReason, Usage},
    resolver::{AuthData, Endpoint as Address},
};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::{Instant, timeout};

/// The one parameter that every provider has in some form.
const EFFORT: &str = "reasoning_effort";
/// The parameters that a request can do without.
const OPTIONAL: [&str; 5] = ["temperature", "top_p", "seed", "stop", "response_format"];
/// Reasons of withheld answers that `genai` does not know.
const WITHHELD: [&str; 2] = ["guardrail_intervened", "content_filtered"];

/// Speaks the protocol of a provider.
pub(super) struct Translator {
    client: Client,
    target: ServiceTarget,
    /// For streams.
    stream_target: ServiceTarget,
    /// Whether the instructions ask for schemas: because the provider has no
    /// other way, the settings say so, or the model refused them.
    schema_in_words: AtomicBool,
    effort: Option<ReasoningEffort>,
    /// The fields of `extra` that are added to the body.
    extra: Option<Value>,
}

impl Translator {
    pub(super) fn new(translation: Translation, model: &ChatTarget<'_>) -> Result<Self, Error> {
        let Translation { protocol, path, stream_path, takes_schema, extra } = translation;
        let kind = match protocol {
            GenaiProtocol::Anthropic => AdapterKind::Anthropic,
            GenaiProtocol::Gemini => AdapterKind::Gemini,
            GenaiProtocol::BedrockConverse => AdapterKind::BedrockApi,
        };
        model.omits_only(&OPTIONAL)?;
        let mut wanted = model.extra.clone();
        let effort = wanted.shift_remove(EFFORT).map(|effort| reasoning(model, &effort)).transpose()?;
        let refuse = |name: &str| {
            let reason = format_args!("`extra.{name}` cannot be sent to this provider; `extra.{EFFORT}` can");
            Err(Error::bad_settings(model.name(), reason))
        };
        match extra {
            Extra::Nothing if let Some(name) = wanted.keys().next() => return refuse(name),
            Extra::AllBut(held) if let Some(name) = held.iter().find(|name| wanted.contains_key(**name)) => {
                return refuse(name);
            }
            _ => {}
        }
        let client = Client::builder().with_reqwest(model.endpoint.client.clone()).build();
        // The address and the headers replace those that `genai` would make
        // from a key, so it needs no key.
        let target = |path: &str| {
            let url = model.endpoint.url(path);
            ServiceTarget {
                endpoint: Address::from_owned(url.as_str()),
                auth: AuthData::RequestOverride { url, headers: Headers::default() },
                model: ModelIden::new(kind, model.name()),
            }
        };
        Ok(Self {
            client: client.map_err(|error| Error::bad_settings(model.name(), error))?,
            target: target(&path(model.name())),
            stream_target: target(&stream_path(model.name())),
            schema_in_words: AtomicBool::new(!takes_schema || model.omits("response_format")),
            effort,
            extra: (!wanted.is_empty()).then(|| Value::Object(wanted)),
        })
    }

    /// A target with the headers that name the current span.
    fn with_span(target: &ServiceTarget) -> ServiceTarget {
        let mut target = target.clone();
        if let AuthData::RequestOverride { headers, .. } = &mut target.auth {
            *headers = trace::headers().into();
        }
        target
    }

    fn request(request: &ChatRequest, in_words: bool) -> genai::chat::ChatRequest {
        let message = |message: Message| match message.role {
            Role::System => ChatMessage::system(message.content),
            Role::User => ChatMessage::user(message.content),
            Role::Assistant => ChatMessage::assistant(message.content),
        };
        genai::chat::ChatRequest::new(schema::messages(request, in_words).into_iter().map(message).collect())
    }

    fn options(&self, model: &ChatTarget<'_>, request: &ChatRequest, in_words: bool) -> ChatOptions {
        let wanted = |parameter: &str| !model.omits(parameter);
        let schema = request.schema.as_ref().filter(|_| !in_words);
        ChatOptions {
            max_tokens: Some(request.max_tokens),
            temperature: wanted("temperature").then(|| decimal(request.temperature)),
            top_p: (request.top_p < 1.0 && wanted("top_p")).then(|| decimal(request.top_p)),
            // Gemini's is a signed number of 32 bits.
            seed: wanted("seed").then_some(request.seed & 0x7fff_ffff),
            stop_sequences: request.stop.iter().filter(|_| wanted("stop")).cloned().collect(),
            response_format: schema.map(|schema| JsonSpec::new("answer", schema.clone()).into()),
            reasoning_effort: self.effort.clone(),
            extra_body: self.extra.clone(),
            ..ChatOptions::default()
        }
    }

    async fn ask_once(
        &self,
        model: &ChatTarget<'_>,
        request: &ChatRequest,
        in_words: bool,
        on_piece: Option<&OnPiece>,
    ) -> Result<ChatReply, Error> {
        match on_piece {
            Some(on_piece) => self.streamed(model, request, in_words, on_piece).await,
            None => self.whole(model, request, in_words).await,
        }
    }

    async fn whole(&self, model: &ChatTarget<'_>, request: &ChatRequest, in_words: bool) -> Result<ChatReply, Error> {
        let sent = Instant::now();
        let options = self.options(model, request, in_words).with_capture_raw_body(true);
        let answer =
            self.client.exec_chat(Self::with_span(&self.target), Self::request(request, in_words), Some(&options));
        let answer = timeout(model.endpoint.timeout, answer).await.map_err(|_| model.endpoint.timed_out())?;
        let answer = answer.map_err(|error| failure::of_a_call(model, error, sent))?;
        trace::record_model(Some(&answer.provider_model_iden.model_name));
        let body = answer.captured_raw_body.as_ref();
        if let Some(error) = body.and_then(|body| model.endpoint.error_in(body)) {
            return Err(error);
        }
        let Some(reason) = &answer.stop_reason else {
            // An answer in another format may look like an empty one.
            return Err(model.endpoint.malformed("it does not say why the answer ended"));
        };
        let text = answer.content.texts().concat();
        if matches!(reason, StopReason::ToolCall(_)) && text.trim().is_empty() {
            return Err(model.endpoint.called_tool());
        }
        Ok(ChatReply {
            text: model.endpoint.without_secrets(text),
            finish: finish(model, reason)?,
            usage: counted(&answer.usage),
            choices: Vec::new(),
        })
    }
}

#[async_trait]
impl Speaker for Translator {
    fn tells_probabilities(&self, _: &ChatTarget<'_>) -> bool {
        false
    }

    async fn ask(
        &self,
        model: &ChatTarget<'_>,
        request: &ChatRequest,
        on_piece: Option<&OnPiece>,
    ) -> Result<ChatReply, Error> {
        let in_words = request.schema.is_some() && self.schema_in_words.load(Ordering::Relaxed);
        let answer = self.ask_once(model, request, in_words, on_piece).await;
        if let Err(Error::Refused { message, .. }) = &answer
            && request.schema.is_some()
            && !in_words
            && let Some(lasts) = refuses_schema(message)
        {
            self.schema_in_words.fetch_or(lasts, Ordering::Relaxed);
            return self.ask_once(model, request, true, on_piece).await;
        }
        answer
    }
}

fn finish(model: &ChatTarget<'_>, reason: &StopReason) -> Result<Finish, Error> {
    match reason {
        StopReason::MaxTokens(_) => Ok(Finish::Length),
        StopReason::ContentFilter(reason) => Err(model.endpoint.filtered(reason)),
        StopReason::Other(reason) if WITHHELD.contains(&reason.as_str()) => Err(model.endpoint.filtered(reason)),
        _ => Ok(Finish::Stop),
    }
}

fn counted(usage: &Usage) -> TokenCounts {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| plausible_tokens(u64::try_from(tokens).ok()?));
    let total = count(usage.total_tokens);
    let (prompt, completion) = (count(usage.prompt_tokens), count(usage.completion_tokens));
    let rest = |part: Option<u64>| total.zip(part).map(|(total, part)| total.saturating_sub(part));
    let cached = usage.prompt_tokens_details.as_ref().and_then(|details| count(details.cached_tokens));
    TokenCounts {
        // Bedrock counts cached tokens only in the total.
        prompt: prompt.max(rest(completion)),
        cached: cached.unwrap_or_default(),
        completion: completion.or_else(|| rest(prompt)),
    }
}

/// `"low"`, …, or a number of tokens.
fn reasoning(model: &ChatTarget<'_>, effort: &Value) -> Result<ReasoningEffort, Error> {
    let tokens = effort.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).map(ReasoningEffort::Budget);
    let effort = tokens.or_else(|| ReasoningEffort::from_keyword(effort.as_str()?));
    effort.ok_or_else(|| {
        let efforts = r#""none", "minimal", "low", "medium", "high", "xhigh", "max""#;
        Error::bad_settings(model.name(), format_args!("`extra.{EFFORT}` must be {efforts}, or a number of tokens"))
    })
}
