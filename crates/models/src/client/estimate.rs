//! The highest cost that a call should have, which a budget reserves before the call: an answer may take
//! all of its `max_tokens`. Prompts are counted by the model's tokenizer; where it is not known, by
//! [`estimate_tokens`](crate::estimate_tokens).

use super::amount::BudgetAmount;
use crate::{ChatModel, ChatRequest, EmbeddingModel, RerankModel};

/// The assumed length of an answer without a limit.
const DEFAULT_OUTPUT_TOKENS: u64 = 4096;
/// Tokens that a chat template adds to each message, and to the whole conversation.
const TOKENS_PER_MESSAGE: u64 = 4;

pub(super) fn chat(model: &dyn ChatModel, request: &ChatRequest) -> BudgetAmount {
    let messages = request.messages.iter().map(|message| model.count_tokens(&message.content) as u64);
    let schema = request.schema.as_ref().map_or(0, |schema| model.count_tokens(&schema.to_string()) as u64);
    let prompt = messages.map(|count| count + TOKENS_PER_MESSAGE).sum::<u64>() + TOKENS_PER_MESSAGE + schema;
    let output = match request.max_tokens {
        0 => DEFAULT_OUTPUT_TOKENS,
        limit => u64::from(limit),
    };
    let (input_price, output_price) = model.price();
    let usd = (prompt as f64 * input_price + output as f64 * output_price) / 1e6;
    BudgetAmount::cost(usd, prompt + output)
}

pub(super) fn embedding(model: &dyn EmbeddingModel, texts: &[String]) -> BudgetAmount {
    let most = model.max_tokens();
    // Models add a mark before and after each text.
    let tokens = texts.iter().map(|text| model.estimate_tokens(text).saturating_add(2).min(most) as u64).sum();
    BudgetAmount::cost(tokens as f64 * model.price() / 1e6, tokens)
}

pub(super) fn rerank(model: &dyn RerankModel, query: &str, passages: &[String]) -> BudgetAmount {
    // Each passage is read together with the query.
    let query = model.estimate_tokens(query) + 4;
    let tokens = passages.iter().map(|passage| (model.estimate_tokens(passage) + query) as u64).sum();
    BudgetAmount::cost(tokens as f64 * model.price() / 1e6, tokens)
}
