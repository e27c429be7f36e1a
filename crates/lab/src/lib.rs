//! From an experiment file to a leaderboard: search space → plan of
//! content-addressed tasks → engine → artifacts → results. This crate neither
//! prints nor serves HTTP; it speaks HTTP only to tracking servers.

pub mod artifact;
mod blocks;
pub mod board;
mod budget;
pub mod bundle;
mod calibration;
pub mod check;
mod document;
pub mod engine;
mod estimate;
mod files;
mod frozen;
mod golden;
pub mod layout;
mod noise;
mod operator;
mod parts;
mod plan;
mod prepare;
mod progress;
mod qualification;
mod query;
mod ranges;
mod results;
mod run;
mod scoring;
pub mod search;
mod session;
mod settlement;
mod spec;
mod summary;
mod task;
mod timing;
pub mod track;
mod trial;
mod work;
mod workspace;

pub use blocks::file_blocks;
pub use board::{Board, Effect};
pub use budget::BudgetResult;
pub use bundle::{Bundle, Reach};
pub use calibration::{CalibratedTrial, Calibration, Label, LabelValue};
pub use check::Check;
pub use document::{document, documents};
pub use estimate::{CostEstimate, ModelEstimate};
pub use files::{write_new, write_whole};
pub use frozen::{
    Frozen, FrozenDocument, RunRecord, changed_since, chosen_record, latest_record, other_file, record_of, utc,
};
pub use golden::{Anchored, Documents, Golden, Manifest, generate_golden};
pub use noise::{NoiseDesign, NoiseResult, noise, noise_cost};
pub use operator::Operator;
pub use parts::{Elsewhere, Lost, Part};
pub use plan::{Plan, PlanSummary, PlannedTrial, TaskId};
pub use prepare::{LoadedCorpus, Prepared, corpus::load_corpus};
pub use progress::{ModelTraffic, OperatorProgress, OperatorStatus, Progress, seconds_left};
pub use qualification::{
    JudgeResult, QualificationRecord, judges, planted_cases, planted_wanted, qualify, qualify_cost,
};
pub use query::{Answered, OnEvent, RunPipeline};
pub use rag::{Axis, PipelineConfig};
pub use results::{
    Answering, Difference, FunctionFailure, MetricComparison, MetricResult, NotEnriched, QuestionResult, Results,
    TrialResult, TrialUsage, Winner,
};
pub use scoring::{MetricScores, RowScores, ScoreResults, ScoredAnswers, ScoredBy, Scorer, Scoring, records};
pub use session::{ClusterSetup, Connect, Control, Environment, Session, Setup};
pub use spec::{
    Choice, CorpusSpec, DatasetSpec, EngineSpec, EvaluateSpec, Experiment, GenerateSpec, LocalEngineSpec, Override,
    RayEngineSpec, ScoringSpec, Spaces, SpecError, StageSpec, nearest,
};
pub use summary::summary;
pub use task::{
    Task,
    read::{Content, content as read_file},
};
pub use timing::{ComponentTime, TimeEstimate};
pub use trial::Trial;
pub use workspace::{PastRun, Workspace};

/// An error with everything that caused it, and what to do about it, in one line.
pub use store::error_chain;

use std::fmt::Display;

/// What stops an experiment. Nothing that was finished is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Mistakes found before any work or money was spent, all of them.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A file outside the store failed.
    #[error("{operation} {path} failed")]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A model failed.
    #[error(transparent)]
    Model(#[from] models::Error),
    /// A stage failed.
    #[error(transparent)]
    Stage(#[from] rag::Error),
    /// A metric cannot work.
    #[error(transparent)]
    Metric(#[from] eval::metric::Error),
    /// A table of the store cannot be read or written.
    #[error("a table of the store cannot be used: {0}")]
    Table(String),
    /// A task failed, so that what depends on it could not run.
    #[error("{label} failed: {reason}")]
    Task {
        /// The task.
        label: String,
        /// Why.
        reason: String,
    },
    /// A worker could not do a task.
    #[error("{0}")]
    Remote(String),
    /// A worker could not do a task, because a user's function failed.
    #[error("{reason}")]
    Function {
        /// What happened, in words.
        reason: String,
        /// The function and what it did.
        failure: Box<rag::python::Failure>,
    },
    /// Golden questions were to be generated, and there is none.
    #[error("{}", golden::no_question(.model, .generated))]
    NoQuestions {
        /// The model that was to write.
        model: String,
        /// What was rejected, and why.
        generated: Box<eval::Generated>,
    },
    /// A worker could not keep what it made, so no worker goes on.
    #[error("{0}")]
    CannotKeep(String),
    /// Answers were paid and could not be kept.
    #[error("{answers} paid answers could not be kept, and the next run pays for them again")]
    Unkept {
        /// How many.
        answers: usize,
        /// Why.
        #[source]
        source: Box<Self>,
    },
    /// The run was interrupted; the next one goes on.
    #[error("interrupted: everything finished so far is kept, and the next `run` goes on from there")]
    Interrupted,
    /// There is nothing of this name.
    #[error("{0}")]
    NotFound(String),
    /// The experiment has no finished run.
    #[error("`{experiment}` has no {what} in {place}")]
    NoRun {
        /// The experiment's name.
        experiment: String,
        /// What is looked for: a run, or a finished one.
        what: &'static str,
        /// The store, or a folder of it.
        place: String,
    },
    /// There is a run, but its files cannot be used now.
    #[error("{0}")]
    Unusable(String),
    /// There are too few scores to tell anything from.
    #[error("only {scored} of {asked} questions have all their scores: at least two are needed")]
    TooFewScores {
        /// Questions with all their scores.
        scored: usize,
        /// Questions that were asked.
        asked: usize,
    },
    /// A tracker's server does not have all of a run.
    #[error("{place} does not have all of the run {run}: {reason}")]
    Behind {
        /// The tracker's server.
        place: String,
        /// The run.
        run: String,
        /// Why the rest is missing.
        reason: String,
    },
}

impl Error {
    fn table(reason: impl Display) -> Self {
        Self::Table(reason.to_string())
    }

    fn file(operation: &'static str, path: &std::path::Path, source: std::io::Error) -> Self {
        Self::File { operation, path: path.display().to_string(), source }
    }
}

/// The error of a model behind an error, if there is one.
pub fn model_error(error: &Error) -> Option<&models::Error> {
    match error {
        Error::Model(error) | Error::Stage(rag::Error::Model(error)) => Some(error),
        _ => None,
    }
}

/// The failure of a user's function behind an error, if there is one.
pub fn failed_function(error: &Error) -> Option<&rag::python::Failure> {
    match error {
        Error::Stage(rag::Error::Function { failure, .. }) | Error::Function { failure, .. } => Some(failure),
        _ => None,
    }
}
