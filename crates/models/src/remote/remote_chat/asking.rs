//! A chat model behind an endpoint, after its settings were read: asks requests
//! in the model's protocol, and counts their tokens.

use crate::{
    ChatModel, ChatRequest, ChatResponse, Error, FunctionError, OnPiece, Usage, estimated_tokens,
    remote::{
        endpoint::RemoteModel,
        protocol::{ChatReply, ChatTarget, Speaker},
    },
};
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::time::Instant;

/// The longest text of an answer, in bytes: twice as much as any model writes.
const MAX_TEXT: usize = 1 << 20;

/// The part of a chat model that its endpoint does not have.
pub(super) struct ChatPart {
    pub(super) speaker: Box<dyn Speaker>,
    pub(super) omit: Vec<String>,
    pub(super) extra: Map<String, Value>,
    /// Prompt and answer together, in tokens.
    pub(super) context_length: usize,
    /// Dollars per million tokens read and written.
    pub(super) price: (f64, f64),
    /// The function of a program that the model is, if it is one.
    pub(super) function: Option<FunctionError>,
}

#[async_trait]
impl ChatModel for RemoteModel<ChatPart> {
    fn context_length(&self) -> usize {
        self.kind.context_length
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimated_tokens(text)
    }

    fn price(&self) -> (f64, f64) {
        self.kind.price
    }

    fn tells_probabilities(&self) -> bool {
        self.kind.speaker.tells_probabilities(&self.target())
    }

    fn function(&self) -> Option<FunctionError> {
        self.kind.function.clone()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        self.answer(request, None).await
    }

    async fn chat_streaming(&self, request: &ChatRequest, on_piece: &OnPiece) -> Result<ChatResponse, Error> {
        self.answer(request, Some(on_piece)).await
    }
}

impl RemoteModel<ChatPart> {
    fn target(&self) -> ChatTarget<'_> {
        ChatTarget { endpoint: &self.endpoint, omit: &self.kind.omit, extra: &self.kind.extra }
    }

    /// Fills in the counts that a refusal did not state.
    fn with_counts(&self, error: Error, request: &ChatRequest) -> Error {
        match error {
            Error::ContextTooLong { model, tokens, limit } => Error::ContextTooLong {
                model,
                tokens: if tokens > 0 { tokens } else { prompt_tokens(request) + request.max_tokens as usize },
                limit: if limit > 0 { limit } else { self.kind.context_length },
            },
            other => other,
        }
    }

    async fn answer(&self, request: &ChatRequest, on_piece: Option<&OnPiece>) -> Result<ChatResponse, Error> {
        let started = Instant::now();
        let reply = self.kind.speaker.ask(&self.target(), request, on_piece).await;
        let ChatReply { text, finish, usage, choices } = reply.map_err(|error| self.with_counts(error, request))?;
        if text.len() > MAX_TEXT {
            let reason = format!("its text has {} bytes, more than any model writes", text.len());
            return Err(self.endpoint.malformed(reason));
        }
        // If a server counts no tokens, they are estimated, so that a budget of
        // tokens or money still holds.
        let usage = Usage {
            prompt_tokens: usage.prompt.unwrap_or_else(|| prompt_tokens(request) as u64),
            cached_tokens: usage.cached,
            completion_tokens: usage.completion.unwrap_or_else(|| estimated_tokens(&text) as u64),
            ..Usage::default()
        };
        Ok(ChatResponse { text, finish, usage, choices, seconds: started.elapsed().as_secs_f64() })
    }
}

fn prompt_tokens(request: &ChatRequest) -> usize {
    // Each message is wrapped into a few tokens of the chat template.
    request.messages.iter().map(|message| estimated_tokens(&message.content) + 4).sum()
}
