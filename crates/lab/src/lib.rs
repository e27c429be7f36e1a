//! From an experiment file to a leaderboard: search space → plan of
//! content-addressed tasks → engine → artifacts → results. This crate neither
//! prints nor serves HTTP; it speaks HTTP only to tracking servers.

mod action;
mod answers_file;
mod append_log;
pub mod artifact;
mod blocking;
pub mod board;
mod budget;
pub mod bundle;
mod calibration;
pub mod check;
mod clock;
pub mod cluster;
mod collections;
mod corpus;
mod detectable;
mod document;
mod document_chunks;
mod dry_run;
pub mod engine;
mod error;
mod files;
mod follow;
mod forget;
mod gather;
mod golden;
mod healing;
mod history;
mod known_runs;
mod labels;
pub mod layout;
mod lineage;
mod live;
mod noise;
mod number;
mod operator;
mod own_files;
mod page_view;
mod parser_needs;
mod parts;
mod plan;
mod prepare;
mod progress;
mod promotion;
mod qualification;
mod query;
mod record;
mod results;
mod review;
mod run;
mod run_summary;
mod sampled_plan;
mod scoring;
pub mod search;
mod session;
mod settlement;
mod setup;
mod spec;
mod steer;
mod steering;
mod task;
pub mod track;
mod versions;
mod votes;
mod warning;
mod worker;
mod workspace;

pub use action::{Action, ActionNames, set_action_names};
pub use answers_file::{TableRowsError, UnreadableType, rows_of_batch};
pub use board::{Board, Effect, inline_toml};
pub use budget::BudgetResult;
pub use bundle::{Bundle, PromotedIndex, Reach, SearchAgreement};
pub use calibration::{AnswerLabel, CalibratedTrial, Calibration, LabelValue};
pub use check::Check;
pub use clock::{now_ms, utc};
pub use collections::{
    AliasSwap, DatabaseCollection, OpenDatabase, UnusedCollection, remove_collections, unused_collections,
};
pub use corpus::{CorpusState, LoadedCorpus, load_corpus};
pub use detectable::{DetectableDifference, DetectableDifferences};
pub use document::{document, documents, parser_name, parser_names};
pub use document_chunks::{ChunkBorders, ChunkedDocument, document_chunks, found_passages};
pub use dry_run::plan_summary;
pub use error::{Error, failed_function, model_error};
pub use files::{write_new, write_whole};
pub use follow::{CorpusChanges, CorpusFollower, CorpusUpdate};
pub use forget::{
    BeyondReach, BundleOfDocument, ForgetCertificate, ForgetRequest, Forgetting, ForgottenBefore, ForgottenDocument,
    PendingRemoval, RemovedLines, RemovedObjects, counts as removal_counts, pending_removals,
};
pub use golden::{AnchoredQuestions, Documents, Golden, GoldenManifest, estimate_golden, generate_golden};
pub use known_runs::{KnownRun, PlannedChoices, known_runs, live_run, planned_choices};
pub use labels::{
    JudgeAgreement, JudgeVote, LabelDesk, LabelError, LabelLine, LabelRequest, QuestionLabels, VerdictLabel,
    labelled_cases, labels_path,
};
pub use live::{
    LiveFailure, LiveHistory, LiveProblem, LiveRun, LiveScore, LiveSpending, LiveState, LiveTrial, LiveTrialState,
};
pub use models::provider::Environment;
pub use noise::{NoiseDesign, NoiseDesignError, NoiseResult, noise, noise_cost};
pub use operator::Operator;
pub use page_view::{CorpusPages, DocumentPages, VIEW_DOTS, has_drawn_pages, page_view};
pub use parts::{Part, PartTransport, PartUnavailable};
pub use plan::{
    ComponentTime, CostEstimate, ModelEstimate, Plan, PlanSummary, PlannedTrial, SystemTrial, Task, TaskId,
    TimeEstimate, Trial, TrialKind, file_blocks, label_names,
};
pub use prepare::{LostEvidence, PreparedRun};
pub use progress::{ModelTraffic, OperatorProgress, OperatorStatus, Progress, seconds_left};
pub use promotion::{DatabaseCheck, Promotion};
pub use qualification::{judges, planted_cases, planted_count, qualify, qualify_cost};
pub use query::{OnEvent, RunPipeline, TrialAnswer};
pub use rag::{Axis, PipelineConfig};
pub use record::{
    IndexedDocument, RunProvenance, RunRecord, changed_since, chosen_record, latest_record, record_of,
    same_name_warning,
};
pub use results::{
    Answering, CutShare, Difference, EqualTrial, EvidenceChunk, EvidenceLoss, FunctionFailure, JudgeResult, LossStep,
    MetricComparison, MetricResult, NotEnriched, ParserPlaces, QualificationRecord, QuestionLoss, QuestionResult,
    RANKED_CHUNKS, RIGHT_FROM, ReplyFindings, Results, RetrievalCount, StoredRows, TrialResult, TrialUsage, Winner,
    cut_share,
};
pub use review::{
    Decision, DecisionError, ImportedQuestions, ReviewDesk, ReviewLine, ReviewedQuestion, ReviewerAgreement,
    has_unwritten_decisions, review_state,
};
pub use sampled_plan::{
    ChunkEstimate, Estimate, FEWEST_SAMPLED_FILES, SampledCost, SampledEnding, SampledModelCost, SampledPlan,
    SampledRejection, SampledRejections, sample_plan,
};
pub use scoring::{CompareError, MetricScores, RowScores, ScoreResults, ScoredAnswers, Scorer, Scoring, ScoringMetric};
pub use session::Session;
pub use setup::{ClusterSetup, Connect, Control, Setup};
pub use spec::{
    AnswersSpec, BudgetSpec, CorpusSpec, DatasetSpec, EngineSpec, EvaluateSpec, Experiment, GenerateSpec,
    LocalEngineSpec, Override, RayEngineSpec, ReplySource, ScoringChoice, ScoringSpec, Spaces, SpecError,
    SpecTextError, StageSpec, SystemSpec, SystemVersion, TrackerConfig, TrackerSettingsError, Unanchored, WarningSpec,
    nearest,
};
pub use steer::{find_live_run, steer};
pub use steering::{Act, AppliedAct, PostedAct, Steering, post_act, posted_acts};
pub use task::{
    read::{ReadContent, content as read_file},
    remove_orphaned_indexes,
};
pub use versions::{CurrentVersion, PipelineVersion, VersionPlace};
pub use votes::{
    Ballot, ExportedVote, NextBallot, PairVotes, RunAnswers, Side, SideBias, TrialVotes, VoteDesk, VoteError, VoteLine,
    VoteProgress, VoteRequest, VoteStanding, VoteVerdict, VoteWinner, VotedAnswer, VotedQuestion, votes_path,
};
pub use warning::{Warning, WarningCode, WarningKind, WarningTime};
pub use worker::Worker;
pub use workspace::{PastRun, Workspace, run_begins_with};

/// An error with everything that caused it, and what to do about it, in one line.
pub use store::error_chain;
