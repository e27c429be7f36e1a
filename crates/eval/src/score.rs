//! A score is a value or a typed reason why there is none.
//!
//! A NaN never leaves a metric, and a row that failed is never mistaken for
//! one to which the metric does not apply: the first widens the bounds of a
//! mean, the second does not.

use serde::{Deserialize, Serialize};

/// Why there is no score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "reason", content = "detail")]
#[non_exhaustive]
pub enum Missing {
    /// The model that answers or judges failed.
    #[error("provider error: {0}")]
    ProviderError(String),
    /// The budget was reached before the model was asked. A larger budget allows the call.
    #[error("not asked: {0}")]
    Budget(String),
    /// A function of the user's own failed.
    #[error("{0}")]
    FunctionError(Box<rag::python::Failure>),
    /// The judge's reply does not answer its question.
    #[error("the judge's reply cannot be read: {0}")]
    JudgeUnparsable(String),
    /// There is nothing to score. [`MetricConfig::score`] turns it into the metric's
    /// worst value, because the system gave nothing.
    ///
    /// [`MetricConfig::score`]: crate::MetricConfig::score
    #[error("empty input: {0}")]
    EmptyInput(String),
    /// Golden evidence has no place in a document, so that no passage can be compared with it.
    #[error("not applicable: {0}")]
    NoPlace(String),
    /// The passages have no place in a document, so that they cannot be compared with golden evidence.
    #[error("not applicable: the passages have no place in a document")]
    PassagesWithoutPlace,
    /// The metric does not apply to this question.
    #[error("not applicable: {0}")]
    NotApplicable(String),
    /// The formula gave no finite number: a fault of the metric.
    #[error("the formula gave {0}")]
    NotFinite(String),
    /// The run was stopped first. Never stored as a result.
    #[error("cancelled before it was scored")]
    Cancelled,
    /// The question was left out on purpose (a limit on answered or judged questions).
    #[error("not asked: {0}")]
    NotAsked(String),
    /// The answers that exist already have none to this question.
    #[error("not answered: {0}")]
    NotAnswered(String),
}

/// What has no place in a document, so that retrieval cannot be scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingPlace {
    /// Golden evidence. It can be searched in the documents.
    Evidence,
    /// Passages. Only the system that retrieved them knows their places.
    Passages,
}

impl Missing {
    /// The reason in one word, for counting.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ProviderError(_) => "provider_error",
            Self::Budget(_) => "budget",
            Self::FunctionError(_) => "function_error",
            Self::JudgeUnparsable(_) => "judge_unparsable",
            Self::EmptyInput(_) => "empty_input",
            Self::NoPlace(_) | Self::PassagesWithoutPlace => "no_place",
            Self::NotApplicable(_) => "not_applicable",
            Self::NotFinite(_) => "not_finite",
            Self::Cancelled => "cancelled",
            Self::NotAsked(_) => "not_asked",
            Self::NotAnswered(_) => "not_answered",
        }
    }

    /// The reason in words after a number, as in `30 not asked: budget`.
    pub fn words(name: &str) -> String {
        match name {
            "budget" => "not asked: budget".to_owned(),
            name => name.replace('_', " "),
        }
    }

    /// What has no place in a document, if that is the reason.
    pub fn missing_place(&self) -> Option<MissingPlace> {
        match self {
            Self::NoPlace(_) => Some(MissingPlace::Evidence),
            Self::PassagesWithoutPlace => Some(MissingPlace::Passages),
            _ => None,
        }
    }

    /// Whether another run tries again: the call failed, was not paid for, or ran a
    /// function that may be fixed. Other scores stay missing.
    pub fn can_be_retried(&self) -> bool {
        matches!(self, Self::ProviderError(_) | Self::Budget(_) | Self::FunctionError(_) | Self::Cancelled)
    }

    /// Whether a score is missing that should exist. A metric that does not apply
    /// (a missing place too), or a question left out on purpose, is the same for every
    /// trial and no failure.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::NotApplicable(_) | Self::NotAsked(_)) && self.missing_place().is_none()
    }
}

impl From<models::Error> for Missing {
    fn from(error: models::Error) -> Self {
        match error {
            // The run ends, and reports the reason itself.
            error if error.ends_work() => Self::Cancelled,
            models::Error::Function(failed) => {
                Self::FunctionError(Box::new(rag::python::Failure::of_model("judge", *failed)))
            }
            // The judge answered, but not what it was asked for. An answer that breaks the protocol is
            // a provider error (below), because it may be right the next time.
            models::Error::SchemaMismatch { .. } => Self::JudgeUnparsable(error.to_string()),
            models::Error::BudgetExhausted { .. } => Self::Budget(error.to_string()),
            other => Self::ProviderError(other.to_string()),
        }
    }
}

/// A value, or why there is none. The value is finite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// A finite number.
    Value(f64),
    /// Why there is none.
    Missing(Missing),
}

impl Score {
    /// A value if the number is finite, else a reason.
    pub fn finite(value: f64) -> Self {
        if value.is_finite() { Self::Value(value) } else { Self::Missing(Missing::NotFinite(value.to_string())) }
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(*value),
            Self::Missing(_) => None,
        }
    }

    /// Whether there should be a value and there is none.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Missing(missing) if missing.is_failure())
    }

    /// The lowest and the highest possible value: the value itself, or the metric's
    /// range if it failed. `None` if there should be no value.
    pub fn bounds(&self, range: (f64, f64)) -> Option<(f64, f64)> {
        match self {
            Self::Value(value) => Some((*value, *value)),
            Self::Missing(missing) if missing.is_failure() => Some(range),
            Self::Missing(_) => None,
        }
    }
}

/// A score with its explanation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The score.
    pub score: Score,
    /// What a person needs to check it: verdicts, statements, matched spans.
    pub detail: serde_json::Value,
}

impl Scored {
    /// A score that needs no explanation.
    pub fn plain(score: Score) -> Self {
        Self { score, detail: serde_json::Value::Null }
    }

    /// No score, with the reason.
    pub fn missing(missing: Missing) -> Self {
        Self::plain(Score::Missing(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_score_can_be_anywhere_in_the_range_and_one_that_does_not_apply_nowhere() {
        let range = (-1.0, 1.0);
        assert_eq!(Score::finite(0.5).bounds(range), Some((0.5, 0.5)));
        assert_eq!(Score::finite(f64::NAN).bounds(range), Some(range));
        assert_eq!(Score::Missing(Missing::ProviderError("down".into())).bounds(range), Some(range));
        for missing in
            [Missing::NotApplicable("x".into()), Missing::NotAsked("x".into()), Missing::PassagesWithoutPlace]
        {
            assert_eq!(Score::Missing(missing.clone()).bounds(range), None, "{missing}");
        }
    }
}
