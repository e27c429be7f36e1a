//! The handle to a chat model.

use super::{
    Exchange, MOST_BATCHED,
    answer_stream::{AnswerStream, DraftView},
    caller::{BatchedCall, Caller, call_settings},
    estimate,
    reply::{CallAnswer, from_text, to_text},
    structured::{self, ReplyError},
};
use crate::{ChatModel, ChatRequest, ChatResponse, Error, Identity, OnPiece, trace};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// A handle to a chat model.
#[derive(Clone)]
pub struct Chat {
    pub(super) caller: Caller,
    pub(super) model: Arc<dyn ChatModel>,
}

call_settings!(Chat);

impl Chat {
    /// The identity of the model, which decides its answers.
    pub fn identity(&self) -> &Identity {
        &self.caller.identity
    }

    /// Prompt and answer together, in tokens.
    pub fn context_length(&self) -> usize {
        self.model.context_length()
    }

    /// How many calls the model serves best at once.
    pub fn concurrency(&self) -> usize {
        match self.caller.queue {
            Some(_) => MOST_BATCHED,
            None => self.model.concurrency(),
        }
    }

    /// Whether replies may hold the probabilities of a request's choices.
    pub fn tells_probabilities(&self) -> bool {
        self.model.tells_probabilities()
    }

    /// Price per million tokens, in dollars: (input, output).
    pub fn price(&self) -> (f64, f64) {
        let ((input, output), share) = (self.model.price(), self.caller.price_share);
        (input * share, output * share)
    }

    /// Waits for a turn to make calls whose prompts share a long beginning. A
    /// model in this process has room for few prompts, and two such callers
    /// would each push out what the other one needs; other models have no turns.
    /// The turn ends when the guard is dropped.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.model.turns()?.clone().acquire_owned().await.ok()
    }

    /// How many tokens a text is, by the model's tokenizer. An estimate
    /// ([`estimate_tokens`](crate::estimate_tokens)) for a remote model whose tokenizer is not known.
    pub fn count_tokens(&self, text: &str) -> usize {
        self.model.count_tokens(text)
    }

    /// Answers one request, unless an equal one was answered before. With a
    /// schema, the text is JSON that matches it. If a remote model wrote
    /// something else, it is asked once more, and the response has the cost of
    /// both calls.
    ///
    /// # Errors
    /// Why there is no answer, after retries; [`Error::SchemaMismatch`] if the
    /// reply is not what the schema asks for.
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        self.answer(request, None).await
    }

    /// [`Chat::chat`], to be read while it is written. Both are the same call:
    /// each uses the journal's answer to an equal request of the other.
    pub fn stream(&self, request: &ChatRequest) -> AnswerStream {
        let (chat, request) = (self.clone(), request.clone());
        AnswerStream::new(|mut view| async move {
            let response = chat.answer(&request, Some(&mut view)).await?;
            view.end(&response.text);
            Ok(response)
        })
    }

    async fn answer(&self, request: &ChatRequest, view: Option<&mut DraftView>) -> Result<ChatResponse, Error> {
        let mut first = self.call(request, view).await?;
        let Err(reason) = structured::accept(request, &mut first) else { return Ok(first) };
        let mismatch = |reason: &ReplyError, reply: &ChatResponse| match self.model.function_error() {
            Some(function) => structured::function_mismatch(function, request, reason, &reply.text),
            None => structured::mismatch(&self.identity().model, reason, &reply.text),
        };
        // A model of this process is held to the schema, so its reply was cut off.
        if !self.caller.is_remote() {
            return Err(mismatch(&reason, &first));
        }
        let again = structured::correction_request(request, &first.text, &reason);
        let mut second = match self.call(&again, None).await {
            // Both replies together do not fit the context: the error is about the first.
            Err(Error::ContextTooLong { .. }) => return Err(mismatch(&reason, &first)),
            second => second?,
        };
        second.usage += first.usage;
        second.seconds += first.seconds;
        match structured::accept(&again, &mut second) {
            Ok(()) => Ok(second),
            Err(reason) => Err(mismatch(&reason, &second)),
        }
    }

    async fn call(&self, request: &ChatRequest, view: Option<&mut DraftView>) -> Result<ChatResponse, Error> {
        let outcome = self.answer_once(request, view).await;
        if let Some(listener) = &self.caller.client.listener {
            listener(&Exchange { model: self.identity(), request, outcome: &outcome });
        }
        outcome
    }

    async fn answer_once(&self, request: &ChatRequest, view: Option<&mut DraftView>) -> Result<ChatResponse, Error> {
        let key = self.caller.key(request);
        let (model, request) = (self.model.clone(), Arc::new(request.clone()));
        let (estimated, asked, price) = (model.clone(), request.clone(), self.price());
        let estimate = move || estimate::chat(estimated.as_ref(), price, &asked);
        let draft = view.as_ref().map(|view| view.draft.clone());
        // A streamed answer is read while it is written, so it is not sent in a batch.
        let queue = self.caller.queue.clone().filter(|_| view.is_none());
        let batched = queue.map(|queue| {
            let (model, request) = (model.clone(), request.clone());
            let read = move |answer: &Value| call_answer(model.read_batched(&request, answer)?, price);
            BatchedCall { queue, submitted: Arc::default(), read: Arc::new(read) }
        });
        let sent = batched.clone();
        let make = move || {
            let (model, request) = (model.clone(), request.clone());
            let batched = sent.clone();
            let attempt = draft.as_ref().map(|draft| draft.attempt());
            async move {
                trace::record_request(&request, attempt.is_some());
                if let Some(BatchedCall { queue, submitted, read }) = batched {
                    return read(&queue.call(key, &model.batch_body(&request), submitted).await?);
                }
                let response = match &attempt {
                    Some(attempt) => {
                        let on_piece = record_first_piece(attempt.on_piece());
                        model.chat_with_restarts(&request, &on_piece, &attempt.on_restart()).await?
                    }
                    None => model.chat(&request).await?,
                };
                trace::record_response(&response);
                call_answer(response, price)
            }
        };
        from_text(&self.caller.answer(key, estimate, make, view, batched).await?)
    }
}

/// A response with its cost; `price` is in dollars per million tokens read and written.
fn call_answer(response: ChatResponse, (input, output): (f64, f64)) -> Result<CallAnswer, Error> {
    let usage = response.usage;
    let cost_usd = (usage.prompt_tokens as f64 * input + usage.completion_tokens as f64 * output) / 1e6;
    let (seconds, response) = (response.seconds, to_text(&response)?);
    Ok(CallAnswer { usage, cost_usd, seconds, response, parts: Vec::new() })
}

/// Takes pieces like `on_piece`, and records in the span of the call when the first one came.
fn record_first_piece(on_piece: OnPiece) -> OnPiece {
    let first = trace::FirstPiece::new();
    Arc::new(move |piece| {
        first.record();
        on_piece(piece);
    })
}
