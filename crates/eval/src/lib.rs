//! Golden datasets, metrics and statistics. It knows nothing of experiments
//! or trackers.

pub mod attack;
pub mod dataset;
mod explain;
mod generate;
pub mod metric;
mod prompt;
pub mod qualify;
mod score;
pub mod statistics;
pub mod verdict;
mod words;

pub use dataset::{Dataset, Evidence, Length, Question, QuestionKind, QuestionStyle};
pub use explain::explain;
pub use generate::{
    GenerateEstimate, GenerateOptions, GenerateOptionsError, GenerateProgress, GeneratedQuestions, Persona, Rejection,
    RejectionReason, generate,
};
pub use metric::{Metric, MetricConfig, Sample, redact};
pub use score::{Missing, MissingPlace, Score, Scored};
