//! The most that a call should cost, before it is made: what a budget
//! reserves for it. Upper estimates: the answer may take all of its
//! `max_tokens`. Prompts of remote models are counted roughly, as their
//! tokenizers are not here.

use super::budget::Estimate;
use crate::{ChatModel, ChatRequest, EmbeddingModel, RerankModel, estimated_tokens};

/// What an answer without a limit of its own is taken to need.
const DEFAULT_OUTPUT_TOKENS: u64 = 4096;
/// What a chat template adds to each message, and to the whole.
const TOKENS_PER_MESSAGE: u64 = 4;

pub(super) fn chat(model: &dyn ChatModel, request: &ChatRequest) -> Estimate {
    let messages = request.messages.iter().map(|message| model.count_tokens(&message.content) as u64);
    let schema = request.schema.as_ref().map_or(0, |schema| estimated_tokens(&schema.to_string()) as u64);
    let prompt = messages.map(|count| count + TOKENS_PER_MESSAGE).sum::<u64>() + TOKENS_PER_MESSAGE + schema;
    let output = match request.max_tokens {
        0 => DEFAULT_OUTPUT_TOKENS,
        limit => u64::from(limit),
    };
    let (input_price, output_price) = model.price();
    let usd = (prompt as f64 * input_price + output as f64 * output_price) / 1e6;
    Estimate { usd, tokens: prompt + output }
}

pub(super) fn embedding(model: &dyn EmbeddingModel, texts: &[String]) -> Estimate {
    let most = model.max_tokens();
    // Models add a mark before and after each text.
    let tokens = texts.iter().map(|text| estimated_tokens(text).saturating_add(2).min(most) as u64).sum();
    Estimate { usd: tokens as f64 * model.price() / 1e6, tokens }
}

pub(super) fn rerank(model: &dyn RerankModel, query: &str, passages: &[String]) -> Estimate {
    // The query is read again with each passage.
    let query = estimated_tokens(query) + 4;
    let tokens = passages.iter().map(|passage| (estimated_tokens(passage) + query) as u64).sum();
    Estimate { usd: tokens as f64 * model.price() / 1e6, tokens }
}
