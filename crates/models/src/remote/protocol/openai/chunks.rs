//! Puts the chunks of a streamed answer together to the answer that would
//! have come without a stream, so that both are read by the same code.

use super::content;
use crate::{OnPiece, remote::http::Redactor};
use serde_json::{Value, json};

/// The chunks of a streamed answer that have arrived.
pub(super) struct ChunkAssembler<'a> {
    on_piece: &'a OnPiece,
    /// A secret may be spread over chunks.
    redactor: Redactor,
    /// Whether any chunk had content, even an empty one.
    has_content: bool,
    text: String,
    refusal: String,
    /// Whether a chunk called a tool.
    calls_tool: bool,
    finish: Option<Value>,
    logprobs: Vec<Value>,
    usage: Value,
    /// Which model answers, as the endpoint says.
    model: Value,
}

impl<'a> ChunkAssembler<'a> {
    pub(super) fn new(on_piece: &'a OnPiece, redactor: Redactor) -> Self {
        Self {
            on_piece,
            redactor,
            has_content: false,
            text: String::new(),
            refusal: String::new(),
            calls_tool: false,
            finish: None,
            logprobs: Vec::new(),
            usage: Value::Null,
            model: Value::Null,
        }
    }

    pub(super) fn take(&mut self, chunk: &Value) {
        // Some servers count in every chunk; the last count is the whole.
        if let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) {
            self.usage = usage.clone();
        }
        if self.model.is_null()
            && let Some(model) = chunk.get("model")
        {
            self.model = model.clone();
        }
        let choices = chunk.get("choices").and_then(Value::as_array).into_iter().flatten();
        let is_ours = |choice: &&Value| choice.get("index").and_then(Value::as_u64).unwrap_or_default() == 0;
        for choice in choices.filter(is_ours) {
            let delta = choice.get("delta").unwrap_or(&Value::Null);
            if let Some(piece) = content(delta) {
                self.has_content = true;
                let piece = self.redactor.push(&piece);
                self.say(&piece);
            }
            self.refusal.push_str(delta.get("refusal").and_then(Value::as_str).unwrap_or_default());
            self.calls_tool |= calls_tool(delta);
            let tokens = choice.pointer("/logprobs/content").and_then(Value::as_array);
            self.logprobs.extend(tokens.into_iter().flatten().cloned());
            let finish =
                choice.get("finish_reason").filter(|finish| finish.as_str().is_some_and(|why| !why.is_empty()));
            self.finish = finish.cloned().or(self.finish.take());
        }
    }

    /// Whether something was handed out already.
    pub(super) fn has_begun(&self) -> bool {
        !self.text.is_empty()
    }

    /// Whether the answer has stated why it ends: then it is complete, whatever
    /// happens to its stream.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The complete answer; hands out the rest of its text.
    pub(super) fn whole(mut self) -> Value {
        let redactor = std::mem::take(&mut self.redactor);
        self.say(&redactor.end());
        let content = if self.has_content { json!(self.text) } else { Value::Null };
        let mut choice = json!({
            "index": 0,
            "message": { "role": "assistant", "content": content, "refusal": self.refusal },
            "finish_reason": self.finish,
        });
        if self.calls_tool {
            choice["message"]["tool_calls"] = json!([{}]);
        }
        if !self.logprobs.is_empty() {
            choice["logprobs"] = json!({ "content": self.logprobs });
        }
        json!({ "choices": [choice], "usage": self.usage, "model": self.model })
    }

    fn say(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.text.push_str(piece);
            (self.on_piece)(piece);
        }
    }
}

/// Whether a message, or a part of it, calls a tool.
pub(super) fn calls_tool(message: &Value) -> bool {
    let has_calls = message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
    has_calls || message.get("function_call").is_some_and(Value::is_object)
}
