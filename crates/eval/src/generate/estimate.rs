//! Estimates the cost of generation before the first call.
//!
//! The number of drafts that a model needs for a good question is not known before,
//! so there are two numbers: a typical one, with three drafts per question, and the
//! most that the limits allow.

use super::{GenerateOptions, draft, passages};
use super::{Scenario, voice::Voices};
use rag::Chunk;
use serde::Serialize;

/// Drafts per accepted question, with a good model.
const USUAL_DRAFTS: usize = 3;
/// How many passages are counted in tokens at most. Their mean size is used for all passages.
const COUNTED: usize = 100;
/// Tokens that the model writes for a draft, and for an answer without passages.
const DRAFT_TOKENS: usize = 110;
const ANSWER_TOKENS: usize = 20;
/// Instructions around a passage in a check.
const CHECK_TOKENS: usize = 120;

/// Calls and tokens of generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GenerateEstimate {
    /// The expected scenarios.
    pub attempts: usize,
    /// The expected calls.
    pub calls: usize,
    /// Tokens read by the expected calls.
    pub prompt_tokens: usize,
    /// Tokens written by the expected calls.
    pub completion_tokens: usize,
    /// The most calls.
    pub most_calls: usize,
    /// Suitable passages.
    pub n_passages: usize,
}

impl GenerateEstimate {
    /// The expected cost in US dollars, at these prices per million tokens read and
    /// written.
    pub fn cost_usd(&self, (read, written): (f64, f64)) -> f64 {
        (self.prompt_tokens as f64 * read + self.completion_tokens as f64 * written) / 1e6
    }

    /// Estimates calls and tokens for these passages. `count` returns how many tokens a text has for the model that
    /// writes the questions.
    pub fn of(options: &GenerateOptions, chunks: &[Chunk], count: &dyn Fn(&str) -> usize) -> Self {
        let (drawn, _) = passages::draw(chunks, options);
        let Some(&first) = drawn.first() else { return Self::default() };
        let counted = drawn.iter().step_by(drawn.len().div_ceil(COUNTED)).map(|chunk| count(&chunk.text));
        let (n_counted, tokens) = counted.fold((0, 0), |(n, sum), tokens| (n + 1, sum + tokens));
        let mean_tokens = tokens / n_counted.max(1);
        let mut estimate = Self { n_passages: drawn.len(), ..Self::default() };
        let first_tokens = count(&first.text);
        let mut voices = Voices::new(options, &options.personas, options.seed);
        for (kind, quota) in options.quotas().into_iter().filter(|(_, quota)| *quota > 0) {
            let hops = kind.hops();
            let scenario =
                Scenario { kind, passages: vec![first; hops], shared: None, voice: voices.next(), language: None };
            let request = draft::request(options, &scenario);
            let around: usize = request.messages.iter().map(|message| count(&message.content)).sum();
            let draft_tokens = (around + hops * mean_tokens).saturating_sub(hops * first_tokens);
            // An accepted question passes all checks; most rejected drafts fail early, by a rule.
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

    fn estimate(options: GenerateOptions, chunks: &[Chunk]) -> GenerateEstimate {
        GenerateEstimate::of(&options, chunks, &models::estimate_tokens)
    }

    #[test]
    fn a_model_that_counts_twice_as_many_tokens_reads_twice_as_many_of_each_draft() {
        let chunks: Vec<Chunk> = (0..400).map(|i| chunk("a.txt", i, PROSE)).collect();
        let of = |times: usize| {
            let options = GenerateOptions { size: 20, ..GenerateOptions::default() };
            GenerateEstimate::of(&options, &chunks, &|text| times * text.chars().count())
        };
        let (one, two) = (of(1), of(2));
        assert_eq!((one.calls, one.completion_tokens), (two.calls, two.completion_tokens));
        // Less than twice as many, because the instructions of checks count a fixed number of tokens.
        let grown = two.prompt_tokens as f64 / one.prompt_tokens as f64;
        assert!((1.8..=2.0).contains(&grown), "{grown}");
    }

    #[test]
    fn twice_as_many_questions_cost_twice_as_much() {
        let chunks: Vec<Chunk> = (0..40).map(|i| chunk("a.txt", i, PROSE)).collect();
        let of = |size| estimate(GenerateOptions { size, ..GenerateOptions::default() }, &chunks);
        let (ten, twenty) = (of(20), of(40));
        assert_eq!(twenty.calls, 2 * ten.calls);
        assert!(ten.calls > 20 && ten.most_calls > ten.calls && ten.prompt_tokens > ten.completion_tokens);
    }

    #[test]
    fn nothing_is_estimated_where_there_is_nothing_to_ask() {
        assert_eq!(estimate(GenerateOptions::default(), &[]), GenerateEstimate::default());
    }
}
