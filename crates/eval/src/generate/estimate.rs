//! What generation should cost, told before the first call.
//!
//! How many drafts a model needs for a good question is only known once it has
//! written some, so there are two figures: a usual one, with three drafts for
//! each question, and the most that the limits allow.

use super::{GenerateOptions, draft, passages};
use super::{Scenario, voice::Voices};
use rag::Chunk;
use serde::Serialize;

/// Drafts for a question that is taken, with a model that does well.
const USUAL_DRAFTS: usize = 3;
/// Bytes of text per token.
const BYTES_PER_TOKEN: usize = 4;
/// What a draft has in tokens, and an answer without passages.
const DRAFT_TOKENS: usize = 110;
const ANSWER_TOKENS: usize = 20;
/// Instructions around a passage in a check.
const CHECK_TOKENS: usize = 120;

/// Calls and tokens that questions take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GenerateEstimate {
    /// Scenarios that should be tried.
    pub attempts: usize,
    /// Calls that should be made.
    pub calls: usize,
    /// Tokens read, for so many calls.
    pub prompt_tokens: usize,
    /// Tokens written, for so many calls.
    pub completion_tokens: usize,
    /// Calls that are made at most.
    pub most_calls: usize,
    /// Passages that are worth a question.
    pub n_passages: usize,
}

impl GenerateEstimate {
    /// What it should cost in US dollars, at these prices of a million tokens
    /// read and written.
    pub fn cost_usd(&self, (read, written): (f64, f64)) -> f64 {
        (self.prompt_tokens as f64 * read + self.completion_tokens as f64 * written) / 1e6
    }

    /// The estimate for these passages.
    pub fn of(options: &GenerateOptions, chunks: &[Chunk]) -> Self {
        let (drawn, _) = passages::draw(chunks, options);
        let Some(&first) = drawn.first() else { return Self::default() };
        let mean_tokens = drawn.iter().map(|chunk| chunk.text.len()).sum::<usize>() / drawn.len() / BYTES_PER_TOKEN;
        let mut estimate = Self { n_passages: drawn.len(), ..Self::default() };
        let mut voices = Voices::new(options, &options.personas, options.seed);
        for (kind, quota) in options.quotas().into_iter().filter(|(_, quota)| *quota > 0) {
            let hops = kind.hops();
            let scenario =
                Scenario { kind, passages: vec![first; hops], shared: None, voice: voices.next(), language: None };
            let request = draft::request(options, &scenario);
            let around = request.messages.iter().map(|message| message.content.len()).sum::<usize>() / BYTES_PER_TOKEN;
            let draft_tokens = (around + hops * mean_tokens).saturating_sub(hops * first.text.len() / BYTES_PER_TOKEN);
            // All checks of a question that is taken; drafts that fail fail
            // early, mostly by a rule.
            let checks = if kind.is_answerable() { if hops > 1 { 1 + hops } else { 1 } } else { 1 + super::NEAREST };
            let closed = usize::from(options.closed_book && kind.is_answerable());
            let most = options.attempts(quota);
            let drafts = (USUAL_DRAFTS * quota).min(most);
            estimate.attempts += drafts;
            estimate.calls += drafts + quota * (checks + closed);
            estimate.most_calls += most * (1 + checks + closed);
            estimate.prompt_tokens += drafts * draft_tokens + quota * checks * (mean_tokens + CHECK_TOKENS);
            estimate.completion_tokens += drafts * DRAFT_TOKENS + quota * (checks + closed * ANSWER_TOKENS);
        }
        let personas = usize::from(options.personas.is_empty() && options.n_personas > 0);
        estimate.calls += personas;
        estimate.most_calls += personas;
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PROSE, chunk};
    use super::*;

    #[test]
    fn twice_as_many_questions_cost_twice_as_much() {
        let chunks: Vec<Chunk> = (0..40).map(|i| chunk("a.txt", i, PROSE)).collect();
        let of = |size| GenerateEstimate::of(&GenerateOptions { size, ..GenerateOptions::default() }, &chunks);
        let (ten, twenty) = (of(20), of(40));
        assert_eq!(twenty.calls, 2 * ten.calls);
        assert!(ten.calls > 20 && ten.most_calls > ten.calls && ten.prompt_tokens > ten.completion_tokens);
    }

    #[test]
    fn nothing_is_estimated_where_there_is_nothing_to_ask() {
        assert_eq!(GenerateEstimate::of(&GenerateOptions::default(), &[]), GenerateEstimate::default());
    }
}
