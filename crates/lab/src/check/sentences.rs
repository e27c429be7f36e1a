//! What a check says in words. The terminal, pull requests and test reports
//! show these sentences.

use super::{Check, CheckVerdict, CheckedMetric, MetricOutcome};
use crate::action::Action;

/// What the sentence about a metric is made from, beside the metric.
pub(super) struct MetricFindings<'a> {
    /// The gain at each question.
    pub(super) gains: &'a [f64],
    /// The loss that does not count, in the metric's own numbers.
    pub(super) allowed: f64,
    /// How many metrics were tested.
    pub(super) tests: usize,
    /// Whether the run has the metric at all.
    pub(super) is_there: bool,
    /// The ends of the metric's range.
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Check {
    /// The verdict in a sentence.
    pub(super) fn in_words(&self) -> String {
        let by = |outcome: MetricOutcome| {
            let named = self.metrics.iter().filter(|metric| metric.outcome == outcome);
            named.map(|metric| metric.metric.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (ours, theirs) = (&self.run.trial, &self.bundle.trial);
        let margin = match self.margin {
            margin if margin > 0.0 => format!(" by more than {:.1} % of the range", margin * 100.0),
            _ => String::new(),
        };
        match self.verdict {
            CheckVerdict::Pass => {
                let by = by(MetricOutcome::Passed);
                format!("{ours} is not proven worse than {theirs} of the bundle{margin}, by {by}")
            }
            CheckVerdict::Fail => {
                let by = by(MetricOutcome::Worse);
                format!("{ours} is worse than {theirs} of the bundle{margin}, by {by}")
            }
            CheckVerdict::Inconclusive => {
                let too_few = by(MetricOutcome::TooFew);
                let too_few = (!too_few.is_empty()).then(|| {
                    format!(
                        "the mean of {ours} is worse than that of {theirs} of the bundle{margin}, by {too_few}, and there \
                         are too few questions to prove or disprove it"
                    )
                });
                let missing = by(MetricOutcome::Inconclusive);
                let missing = (!missing.is_empty()).then(|| {
                    format!("too many scores are missing to compare {ours} with {theirs} of the bundle, by {missing}")
                });
                too_few.into_iter().chain(missing).collect::<Vec<_>>().join("; ")
            }
        }
    }
}

impl CheckedMetric {
    /// What the metric says, in a sentence.
    pub(super) fn in_words(&self, findings: &MetricFindings<'_>) -> String {
        let Self { metric, scored, asked, .. } = self;
        match self.outcome {
            MetricOutcome::Inconclusive if !findings.is_there => format!("{metric}: the run has no scores by it"),
            MetricOutcome::Inconclusive if *asked == 0 => {
                format!("{metric}: it does not apply to these questions, or was not asked of them")
            }
            MetricOutcome::Inconclusive => format!(
                "{metric}: only {scored} of {asked} questions have both scores, and 90 % are needed; {} asks for what is \
                 missing",
                Action::Run
            ),
            MetricOutcome::TooFew => {
                let differing = findings.gains.iter().filter(|gain| **gain != 0.0).count();
                let worse = findings.gains.iter().filter(|gain| **gain < 0.0).count();
                format!(
                    "{metric} is worse by {}, but not proven ({}): {differing} of {scored} questions differ, {worse} of them \
                     are worse, and at least {} must be worse, or more if any is better. With few questions the interval \
                     is too narrow; rely on the p-value. Ask more questions, or allow the loss with --margin",
                    self.loss(findings),
                    self.test(findings),
                    self.fewest_losses
                )
            }
            MetricOutcome::Worse => format!("{metric} is worse by {} ({})", self.loss(findings), self.test(findings)),
            MetricOutcome::Passed if findings.gains.iter().all(|gain| *gain == 0.0) => {
                format!("{metric}: all {scored} scores are equal; {}", self.detectable(findings))
            }
            MetricOutcome::Passed if self.corrected.is_some_and(|p| p < super::ALPHA) => format!(
                "{metric} is worse by {} ({}), which the margin of {:.3} allows; {}",
                self.loss(findings),
                self.test(findings),
                findings.allowed,
                self.detectable(findings)
            ),
            MetricOutcome::Passed => {
                format!("{metric} is not proven worse ({}); {}", self.test(findings), self.detectable(findings))
            }
            MetricOutcome::Shown => format!("{metric} is not in the objective, so it does not affect the verdict"),
        }
    }

    fn loss(&self, findings: &MetricFindings<'_>) -> String {
        let loss = -findings.gains.iter().sum::<f64>() / findings.gains.len().max(1) as f64;
        let ends = self.interval.map(|it| if self.higher_is_better { (-it.high, -it.low) } else { (it.low, it.high) });
        let interval = ends.map_or_else(String::new, |(low, high)| format!(" [{low:.3}, {high:.3}]"));
        format!("{loss:.3}{interval}")
    }

    fn test(&self, findings: &MetricFindings<'_>) -> String {
        let p = self.corrected.unwrap_or(1.0);
        let p = if p < 0.001 { "p < 0.001".to_owned() } else { format!("p {p:.3}") };
        let corrected =
            if findings.tests > 1 { format!(", corrected for {} metrics", findings.tests) } else { String::new() };
        format!("{p}, one-sided{corrected}")
    }

    /// What loss the test could have found.
    fn detectable(&self, findings: &MetricFindings<'_>) -> String {
        let (scored, fewest) = (self.scored, self.fewest_losses);
        let within = if findings.allowed > 0.0 { ", and by more than the margin" } else { "" };
        match self.detectable_loss {
            _ if scored < fewest => {
                format!("with {scored} questions no loss can be proven, however large: at least {fewest} are needed")
            }
            Some(loss) if loss < findings.high - findings.low => {
                format!("with {scored} questions, a loss of {loss:.3} would have been found in 4 of 5 cases")
            }
            Some(_) => format!("with {scored} questions, even the largest loss might not have been found"),
            None => format!(
                "with {scored} questions, a loss is found only once {fewest} of them are worse, or more if any is \
                 better{within}"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
