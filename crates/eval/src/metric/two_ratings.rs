//! A score from two ratings by differently worded prompts, as in Nvidia's
//! metrics of Ragas: what hangs on a prompt's wording is halved.
//!
//! score = mean of both ratings / the greatest rating of the scale. A rating
//! that cannot be read means no score (`JudgeUnparsable`): the other alone
//! would be another measure.

use super::judge::{Judge, Options, Transcript};
use crate::Missing;
use serde_json::{Value, json};

/// The mean of two ratings, from 0 to 1. The scale begins with 0 and rises.
pub(super) async fn mean_of(
    judge: &Judge,
    prompts: [String; 2],
    scale: &[u8],
    transcript: &mut Transcript,
    parts: &mut Value,
) -> Result<f64, Missing> {
    let options = Options::Numbers(scale.to_vec());
    let mut choices = Vec::new();
    let mut details: Vec<Value> = Vec::new();
    for prompt in &prompts {
        let choice = judge.choose("rating", prompt, &options, transcript).await?;
        details.push(choice.detail());
        // Also where the next one cannot be read.
        *parts = json!({ "ratings": details });
        choices.push(choice);
    }
    let greatest = scale.last().copied().unwrap_or(1);
    let mut sum = 0.0;
    for choice in &choices {
        sum += f64::from(scale[choice.complete()?]) / f64::from(greatest);
    }
    Ok(sum / choices.len() as f64)
}
