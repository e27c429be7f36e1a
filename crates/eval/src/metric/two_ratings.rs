//! A score from two ratings by differently worded prompts, as in Nvidia's
//! metrics of Ragas: the wording of one prompt counts only half.
//!
//! score = mean of both ratings / the greatest rating of the scale. A rating
//! that cannot be read means no score (`JudgeUnparsable`): the other alone
//! would be another measure.

use super::judge::{DEFAULT_THRESHOLD, Judge, Options, Transcript};
use super::judged::JudgedMetric;
use super::{Error, Metric, MetricContext, Sample};
use crate::Missing;
use serde_json::{Value, json};

/// The two prompts about a sample; none if the score is 0 without asking.
type Prompts = fn(&Sample<'_>) -> Result<Option<[String; 2]>, Missing>;

/// How often each judge is asked.
pub(super) const CALLS: u64 = 2;

struct TwoRatings {
    judge: Judge,
    /// Begins with 0 and rises.
    scale: [u8; 3],
    prompts: Prompts,
}

/// The metric of this name, with this scale and these prompts.
pub(super) fn build(
    metric: &'static str,
    cx: &MetricContext<'_>,
    scale: [u8; 3],
    prompts: Prompts,
) -> Result<Box<dyn Metric>, Error> {
    Ok(Box::new(TwoRatings { judge: super::judge(cx, metric, DEFAULT_THRESHOLD)?, scale, prompts }))
}

impl JudgedMetric for TwoRatings {
    async fn try_score(&self, sample: &Sample<'_>, transcript: &mut Transcript) -> Result<f64, Missing> {
        let Some(prompts) = (self.prompts)(sample)? else { return Ok(0.0) };
        let options = Options::Numbers(self.scale.to_vec());
        let mut choices = Vec::new();
        let mut details: Vec<Value> = Vec::new();
        for prompt in &prompts {
            let choice = self.judge.choose("rating", prompt, &options, transcript).await?;
            details.push(choice.detail());
            // Shown after each rating, in case the next one cannot be read.
            transcript.show("ratings", json!(details));
            choices.push(choice);
        }
        let [.., greatest] = self.scale;
        let mut sum = 0.0;
        for choice in &choices {
            sum += f64::from(self.scale[choice.complete()?]) / f64::from(greatest);
        }
        Ok(sum / choices.len() as f64)
    }
}
