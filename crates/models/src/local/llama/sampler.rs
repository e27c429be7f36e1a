//! Chooses the next token: greedy or by chance, within a grammar if there is
//! one. llama.cpp's own sampling call is not used: where this sampler returns
//! `None`, llama.cpp's grammar throws a C++ exception, which would end the
//! process.

use crate::{ChatRequest, Error};
use llama_cpp_2::{
    model::LlamaModel,
    sampling::LlamaSampler,
    token::{LlamaToken, data::LlamaTokenData, data_array::LlamaTokenDataArray},
};

/// Chooses tokens for one answer.
#[derive(Debug)]
pub(crate) struct Sampler {
    grammar: Option<LlamaSampler>,
    /// Draws by probability; `None` takes the most probable token.
    chance: Option<LlamaSampler>,
}

/// How many of the most probable tokens are tried against a grammar before the
/// whole vocabulary is tried, which takes a hundred times as long.
const SHORTLIST: usize = 64;

impl Sampler {
    /// The sampler for a request. `model` must outlive it: a grammar keeps a
    /// reference to the vocabulary that the type system does not see.
    pub(crate) fn new(request: &ChatRequest, grammar: Option<&str>, model: &LlamaModel) -> Result<Self, Error> {
        let grammar =
            grammar.map(|grammar| LlamaSampler::grammar(model, grammar, "root")).transpose().map_err(|error| {
                Error::Config(format!("the JSON Schema cannot be used to constrain an answer: {error}"))
            })?;
        let chance = (request.temperature > 0.0).then(|| {
            // The highest seed means "any" to llama.cpp, and would not repeat.
            let seed = ((request.seed ^ (request.seed >> 32)) as u32).min(u32::MAX - 1);
            let top_p = (request.top_p < 1.0).then(|| LlamaSampler::top_p(request.top_p, 1));
            let rest = [LlamaSampler::temp(request.temperature), LlamaSampler::dist(seed)];
            LlamaSampler::chain(top_p.into_iter().chain(rest), true)
        });
        Ok(Self { grammar, chance })
    }

    /// The next token, or `None` where the grammar allows nothing.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> Option<LlamaToken> {
        let choice = match &mut self.chance {
            None => Some(greedy(logits)),
            Some(chance) => draw(chance, all(logits)),
        };
        let Some(grammar) = &mut self.grammar else { return choice };
        // The choice among all tokens is nearly always allowed, and is then as good as
        // a choice among the allowed tokens.
        let choice = choice.filter(|token| !allowed(grammar, logits, [token.0]).is_empty());
        let token = match (&mut self.chance, choice) {
            (_, Some(token)) => token,
            (None, None) => {
                let shortlist = allowed(grammar, logits, most_probable(logits));
                let shortlist =
                    if shortlist.is_empty() { allowed(grammar, logits, 0..logits.len() as i32) } else { shortlist };
                shortlist.iter().max_by(|left, right| left.logit().total_cmp(&right.logit()))?.id()
            }
            (Some(chance), None) => draw(chance, allowed(grammar, logits, 0..logits.len() as i32))?,
        };
        // A token that the grammar does not allow would end the process.
        grammar.accept(token);
        Some(token)
    }
}

fn all(logits: &[f32]) -> Vec<LlamaTokenData> {
    logits.iter().enumerate().map(|(id, logit)| LlamaTokenData::new(LlamaToken(id as i32), *logit, 0.0)).collect()
}

fn draw(chance: &mut LlamaSampler, candidates: Vec<LlamaTokenData>) -> Option<LlamaToken> {
    if candidates.is_empty() {
        return None;
    }
    let mut candidates = LlamaTokenDataArray::new(candidates, false);
    candidates.apply_sampler(chance);
    candidates.selected_token()
}

/// The tokens of these that the grammar allows next.
fn allowed(grammar: &mut LlamaSampler, logits: &[f32], tokens: impl IntoIterator<Item = i32>) -> Vec<LlamaTokenData> {
    let candidates =
        tokens.into_iter().map(|id| LlamaTokenData::new(LlamaToken(id), logits[id as usize], 0.0)).collect();
    let mut candidates = LlamaTokenDataArray::new(candidates, false);
    candidates.apply_sampler(grammar);
    candidates.data.retain(|candidate| candidate.logit() != f32::NEG_INFINITY);
    candidates.data
}

/// The first token with the highest logit.
pub(super) fn greedy(logits: &[f32]) -> LlamaToken {
    // Lanes let the compiler use vector registers: a vocabulary has 150,000
    // entries, and this runs for every token of every answer.
    let mut lanes = [f32::NEG_INFINITY; 16];
    let chunks = logits.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, logit) in lanes.iter_mut().zip(chunk) {
            *lane = if *logit > *lane { *logit } else { *lane };
        }
    }
    let highest = lanes
        .iter()
        .chain(rest)
        .copied()
        .fold(f32::NEG_INFINITY, |left, right| if right > left { right } else { left });
    LlamaToken(logits.iter().position(|logit| *logit == highest).unwrap_or(0) as i32)
}

fn most_probable(logits: &[f32]) -> Vec<i32> {
    let mut ids: Vec<i32> = (0..logits.len() as i32).collect();
    if ids.len() > SHORTLIST {
        ids.select_nth_unstable_by(SHORTLIST, |left, right| logits[*right as usize].total_cmp(&logits[*left as usize]));
        ids.truncate(SHORTLIST);
    }
    ids
}

/// The probability of each group of tokens, normalised over the groups. The
/// sum is taken in logarithms, so that improbable groups still compare.
pub(super) fn group_probabilities(logits: &[f32], groups: &[Vec<i32>]) -> Vec<f64> {
    let sums: Vec<f64> =
        groups.iter().map(|group| log_sum(group.iter().map(|id| f64::from(logits[*id as usize])))).collect();
    let total = log_sum(sums.iter().copied());
    sums.iter().map(|sum| (sum - total).exp()).collect()
}

fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let highest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if highest == f64::NEG_INFINITY {
        return highest;
    }
    highest + values.map(|value| (value - highest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_takes_the_first_of_the_highest() {
        let mut logits = vec![0.0; 50];
        (logits[20], logits[33], logits[49]) = (3.0, 3.0, 2.0);
        assert_eq!(greedy(&logits), LlamaToken(20));
        logits[49] = 4.0;
        assert_eq!(greedy(&logits), LlamaToken(49));
    }

    #[test]
    fn the_shortlist_holds_the_most_probable_tokens() {
        let logits: Vec<f32> = (0..500).map(|i| ((i * 37) % 500) as f32).collect();
        let shortlist = most_probable(&logits);
        assert_eq!(shortlist.len(), SHORTLIST);
        assert!(shortlist.iter().all(|id| logits[*id as usize] >= (500 - SHORTLIST) as f32));
    }

    #[test]
    fn group_probabilities_add_the_variants_and_sum_to_one() {
        let logits = [0.0, 0.0, (2.0f32).ln(), -1e9];
        let probabilities = group_probabilities(&logits, &[vec![0, 1], vec![2], vec![3]]);
        assert!((probabilities[0] - 0.5).abs() < 1e-6 && (probabilities[1] - 0.5).abs() < 1e-6);
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn groups_that_are_all_improbable_still_compare() {
        let logits = [-2000.0, -2001.0, 50.0];
        let probabilities = group_probabilities(&logits, &[vec![0], vec![1]]);
        assert!((probabilities[0] - 0.731_058).abs() < 1e-5);
    }
}
