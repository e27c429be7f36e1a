//! Interprets the refusal of an endpoint, in all usual forms and wordings.
//! Sources: the error references of OpenAI, Azure, Anthropic, Google
//! (`google.rpc.Status`), AWS, Mistral and Cohere, and what vLLM and
//! llama.cpp's server send.

use super::rate_headers::wait;
use crate::FunctionError;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::Duration;

/// The header in which AWS names the error; its body holds only the message.
const AWS_ERROR: &str = "x-amzn-errortype";

/// The content of a refusal.
#[derive(Debug, Default)]
pub(super) struct RefusalBody {
    pub(super) message: String,
    /// The type and code of the error, for recognising it.
    kind: String,
    code: String,
    body: Value,
}

impl RefusalBody {
    /// Reads `{"error": {…}}`, a list with it, `{"error": "…"}`, the flat form
    /// of older vLLM, `{"detail": …}`, `{"message": …}`, or plain text.
    pub(super) fn read(text: &str) -> Self {
        let Ok(body) = serde_json::from_str::<Value>(text) else {
            return Self { message: text.to_owned(), ..Self::default() };
        };
        let body = body.get(0).cloned().unwrap_or(body);
        let error = match body.get("error") {
            Some(Value::Object(_)) => body["error"].clone(),
            _ => body.clone(),
        };
        let field = |name: &str| match error.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let plain = body.get("error").and_then(Value::as_str).map(str::to_owned);
        let detail =
            || error.get("detail").map(|detail| detail.as_str().map_or_else(|| detail.to_string(), str::to_owned));
        let message = plain.or_else(|| field("message")).or_else(|| field("Message")).or_else(detail);
        let kind = field("type").or_else(|| field("error_type")).unwrap_or_default();
        Self {
            message: message.unwrap_or_else(|| text.to_owned()),
            kind,
            code: field("code").unwrap_or_default(),
            body: error,
        }
    }

    /// Takes the kind of the error from the headers if the body has none.
    pub(super) fn with_kind_of(mut self, headers: &HeaderMap) -> Self {
        if self.kind.is_empty()
            && let Some(name) = headers.get(AWS_ERROR).and_then(|name| name.to_str().ok())
        {
            name.split(':').next().unwrap_or_default().clone_into(&mut self.kind);
        }
        self
    }

    /// The status that fits the error, if it came with 200.
    pub(super) fn status(&self) -> u16 {
        let coded = self.code.parse().ok().filter(|code| (400..600).contains(code));
        coded.unwrap_or(match self.kind.as_str() {
            // Anthropic's, in a stream.
            "rate_limit_error" => 429,
            "overloaded_error" => 529,
            _ => 500,
        })
    }

    pub(super) fn is_content_filter(&self) -> bool {
        const KNOWN: [&str; 4] =
            ["content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "moderation_blocked"];
        let inner = self.body.pointer("/innererror/code").and_then(Value::as_str).unwrap_or_default();
        [self.code.as_str(), &self.kind, inner].iter().any(|text| KNOWN.iter().any(|known| text.contains(known)))
    }

    /// Whether the account or a daily or monthly quota is used up: this looks like a rate limit or a bad request,
    /// but waiting does not help within a run.
    pub(super) fn is_quota(&self) -> bool {
        const KNOWN: [&str; 6] = [
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_balance",
            "quota_exceeded",
            "ServiceQuotaExceededException",
        ];
        const WORDS: [&str; 6] = [
            "exceeded your current quota",
            "credit balance is too low",
            "out of call volume quota",
            "your specified api usage limits",
            "per day, please wait",
            "calls / month",
        ];
        // Google's message is the same for quotas per minute and per day; the
        // id differs.
        let violations = self.details().filter_map(|detail| detail.get("violations")?.as_array()).flatten();
        let mut shares = violations.filter_map(|violation| violation.get("quotaId")?.as_str()).peekable();
        if shares.peek().is_some() {
            return shares.any(|share| share.contains("PerDay") || share.contains("PerMonth"));
        }
        if self.retry_after().is_some() {
            return false;
        }
        let message = self.message.to_lowercase();
        KNOWN.iter().any(|known| self.code == *known || self.kind == *known)
            || WORDS.iter().any(|words| message.contains(words))
    }

    /// Whether the key is not known, which Google calls a bad request.
    pub(super) fn is_bad_key(&self) -> bool {
        let mut reasons = self.details().filter_map(|detail| detail.get("reason")?.as_str());
        reasons.any(|reason| reason == "API_KEY_INVALID") || self.message.contains("API key not valid")
    }

    /// The failure of a function that a program serves as a model.
    pub(super) fn function(&self) -> Option<FunctionError> {
        serde_json::from_value(self.body.get("function_failed")?.clone()).ok()
    }

    /// How long to wait before the next attempt, if the body says it instead of a header (Google).
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let delay = self.details().find_map(|detail| detail.get("retryDelay")?.as_str())?;
        wait(delay.strip_suffix('s')?.parse().ok()?)
    }

    /// Google's details of an error.
    fn details(&self) -> impl Iterator<Item = &Value> {
        self.body.get("details").and_then(Value::as_array).into_iter().flatten()
    }

    /// Tokens asked for and tokens that fit, if that is what was refused;
    /// 0 where the message does not say.
    pub(super) fn context_overflow(&self) -> Option<(usize, usize)> {
        const MARKS: [&str; 9] = [
            "maximum context length",
            "context_length_exceeded",
            "exceeds the context",
            "exceed context limit",
            "context size",
            "prompt is too long",
            "input is too long",
            "too many tokens",
            "exceeds the maximum number of tokens",
        ];
        let message = self.message.to_lowercase();
        // llama.cpp's server says it in fields, the others in words.
        let field = |name: &str| self.body.get(name).and_then(Value::as_u64).map(|number| number as usize);
        if self.kind == "exceed_context_size_error" {
            return Some((field("n_prompt_tokens").unwrap_or_default(), field("n_ctx").unwrap_or_default()));
        }
        if self.code != "context_length_exceeded" && !MARKS.iter().any(|mark| message.contains(mark)) {
            return None;
        }
        // Anthropic adds up prompt and answer: "… limit: 197202 + 8192 > 200000".
        if let Some((_, sum)) = message.split_once("context limit:")
            && let [prompt, answer, limit, ..] = numbers(sum, 0)[..]
        {
            return Some((prompt.saturating_add(answer), limit));
        }
        // OpenAI names the limit first, Anthropic, Gemini and Mistral last:
        // what was asked for is more than what fits.
        let numbers = numbers(&message, LEAST_COUNT);
        let first = numbers.first().copied().unwrap_or_default();
        let more = numbers.iter().copied().find(|number| *number > first);
        let less = numbers.iter().copied().find(|number| *number < first);
        Some(match (more, less) {
            (Some(more), _) => (more, first),
            (None, Some(less)) => (first, less),
            (None, None) => (0, first),
        })
    }
}

/// Whether a message refuses to hold answers to a schema, and if so, whether
/// it would refuse any other schema too.
pub(super) fn refuses_schema(message: &str) -> Option<bool> {
    const NAMES: [&str; 6] = [
        "response format",
        "json schema",
        "responsejsonschema",
        "structured output",
        // Anthropic's name, and the one that it had before.
        "output config",
        "output format",
    ];
    let plain = message.to_lowercase().replace(['_', '-'], " ");
    let is_refused = NAMES.iter().any(|name| plain.contains(name));
    is_refused.then(|| !plain.contains("invalid schema"))
}

/// Smaller numbers in a message are no counts of tokens of a prompt.
const LEAST_COUNT: usize = 16;

/// The whole numbers of a text that are at least so large.
fn numbers(text: &str, least: usize) -> Vec<usize> {
    let digits = text.replace(',', "");
    digits
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .filter(|number| *number >= least)
        .collect()
}
