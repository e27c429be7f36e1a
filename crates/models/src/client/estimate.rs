//! Estimates the highest cost of a call, which a budget reserves before the call. It assumes that an answer takes
//! all of its `max_tokens`. Tokens of prompts are counted by the model's tokenizer, or by
//! [`estimate_tokens`](crate::estimate_tokens) if that is not known.

use super::amount::BudgetAmount;
use crate::{ChatModel, ChatRequest, EmbeddingModel, InputKind, ModelUsage, RerankModel};

/// The assumed length of an answer without a limit.
const DEFAULT_OUTPUT_TOKENS: u64 = 4096;
/// Tokens that a chat template adds to each message, and to the whole conversation.
const TOKENS_PER_MESSAGE: u64 = 4;

/// `price` is in dollars per million tokens read and written.
pub(super) fn chat(model: &dyn ChatModel, price: (f64, f64), request: &ChatRequest) -> BudgetAmount {
    let messages = request.messages.iter().map(|message| model.count_tokens(&message.content) as u64);
    let schema = request.schema.as_ref().map_or(0, |schema| model.count_tokens(&schema.to_string()) as u64);
    let prompt = messages.map(|count| count + TOKENS_PER_MESSAGE).sum::<u64>() + TOKENS_PER_MESSAGE + schema;
    let output = match request.max_tokens {
        0 => DEFAULT_OUTPUT_TOKENS,
        limit => u64::from(limit),
    };
    let (input_price, output_price) = price;
    let usd = (prompt as f64 * input_price + output as f64 * output_price) / 1e6;
    BudgetAmount::cost(usd, prompt + output)
}

/// `price` is in dollars per million tokens.
pub(super) fn embedding(model: &dyn EmbeddingModel, price: f64, texts: &[String]) -> BudgetAmount {
    let most = model.max_tokens();
    // Models add a mark before and after each text.
    let tokens = texts.iter().map(|text| model.estimate_tokens(text).saturating_add(2).min(most) as u64).sum();
    BudgetAmount::cost(tokens as f64 * price / 1e6, tokens)
}

/// Counts for the ledger: how many texts were embedded, the model's limit and, for a remote model (`is_remote`), how
/// many texts are longer than that limit and by how many tokens, which may be an estimate. Models of this process
/// count their long texts themselves.
pub(super) fn texts(model: &dyn EmbeddingModel, texts: &[String], kind: InputKind, is_remote: bool) -> ModelUsage {
    let limit = model.max_tokens();
    let mut counts = ModelUsage { texts: texts.len() as u64, max_tokens: stated(limit), ..ModelUsage::default() };
    if is_remote {
        let limit = limit.saturating_sub(model.prefix_tokens(kind));
        // A byte is at most two tokens, so a text of up to limit / 2 bytes fits and need not be counted.
        let may_be_longer = texts.iter().filter(|text| text.len() > limit / 2);
        for lost in may_be_longer.map(|text| model.estimate_tokens(text).saturating_sub(limit)).filter(|lost| *lost > 0)
        {
            counts.cut_texts += 1;
            counts.cut_tokens += lost as u64;
        }
    }
    counts
}

/// A limit of tokens as a ledger stores it: 0 if there is no limit (`usize::MAX`).
pub(super) fn stated(limit: usize) -> u64 {
    if limit == usize::MAX { 0 } else { limit as u64 }
}

pub(super) fn rerank(model: &dyn RerankModel, query: &str, passages: &[String]) -> BudgetAmount {
    // Each passage is read together with the query.
    let query = model.estimate_tokens(query) + 4;
    let tokens = passages.iter().map(|passage| (model.estimate_tokens(passage) + query) as u64).sum();
    BudgetAmount::cost(tokens as f64 * model.price() / 1e6, tokens)
}
