//! Streamed answers through `genai`, which reads the events. The rules for how
//! long they may take, and when an answer is complete, are those of every
//! endpoint.

use super::{ChatReply, ChatTarget, TokenCounts, Translator, counted, failure, finish};
use crate::{ChatRequest, Error, OnPiece, locked, remote::http::without_refusal};
use futures::StreamExt;
use genai::chat::{ChatStreamEvent, StopReason};
use std::sync::{Arc, Mutex};
use tokio::time::{Instant, timeout_at};

/// The text that has arrived so far.
struct StreamedText<'a> {
    text: String,
    on_piece: &'a OnPiece,
}

impl StreamedText<'_> {
    fn take(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.text.push_str(piece);
            (self.on_piece)(piece);
        }
    }
}

impl Translator {
    /// Asks for a stream, and hands its text out while it comes.
    pub(super) async fn streamed(
        &self,
        model: &ChatTarget<'_>,
        request: &ChatRequest,
        in_words: bool,
        on_piece: &OnPiece,
    ) -> Result<ChatReply, Error> {
        let mut heard = StreamedText { text: String::new(), on_piece };
        match self.listen(model, request, in_words, &mut heard).await {
            Err(error) if !heard.text.is_empty() => Err(without_refusal(error)),
            answer => answer,
        }
    }

    async fn listen(
        &self,
        model: &ChatTarget<'_>,
        request: &ChatRequest,
        in_words: bool,
        heard: &mut StreamedText<'_>,
    ) -> Result<ChatReply, Error> {
        let endpoint = &model.endpoint;
        let sent = Instant::now();
        // Some errors hold less than the event that they are about.
        let last_event = Arc::new(Mutex::new(String::new()));
        let seen = last_event.clone();
        let options = self
            .options(model, request, in_words)
            .with_capture_usage(true)
            .with_raw_frame_fn(move |_, event| event.data.clone_into(&mut locked(&seen)));
        let asked = Self::request(request, in_words);
        let stream = self.client.exec_chat_stream(Self::with_span(&self.stream_target), asked, Some(&options)).await;
        let mut stream = stream.map_err(|error| failure::of_a_call(model, error, sent))?.stream;
        let mut redactor = endpoint.redactor();
        // Signs of life keep a connection open, but do not count as progress.
        let mut last = sent;
        loop {
            let deadline = (last + endpoint.timeout).min(sent + endpoint.patience());
            let event = timeout_at(deadline, stream.next()).await.map_err(|_| endpoint.timed_out())?;
            let event = event.ok_or_else(|| endpoint.broken_off())?.map_err(|error| {
                let last_event = locked(&last_event);
                failure::of_a_stream(model, error, &last_event, sent)
            })?;
            match event {
                ChatStreamEvent::Chunk(chunk) => {
                    endpoint.within_limit(chunk.content.len() as u64, heard.text.len())?;
                    heard.take(&redactor.push(&chunk.content));
                }
                ChatStreamEvent::End(end) => {
                    // Without a reason, the connection ended and not the answer.
                    let reason = end.captured_stop_reason.ok_or_else(|| endpoint.broken_off())?;
                    let finish = finish(model, &reason)?;
                    heard.take(&redactor.end());
                    if matches!(reason, StopReason::ToolCall(_)) && heard.text.trim().is_empty() {
                        return Err(endpoint.called_tool());
                    }
                    let usage = end.captured_usage.as_ref().map_or_else(TokenCounts::default, counted);
                    return Ok(ChatReply { text: heard.text.clone(), finish, usage, choices: Vec::new() });
                }
                ChatStreamEvent::Start | ChatStreamEvent::Heartbeat => continue,
                // Thoughts, and calls of tools, although no tools were offered.
                _ => {}
            }
            last = Instant::now();
        }
    }
}
