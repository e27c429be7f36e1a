//! What the verbs of the command line share: the context of a command, options, and work that several verbs do.
//! A verb imports from here and never from another verb.

mod context;
mod options;
mod plan;
mod pull;
mod question_file;
mod run_experiment;
mod trial_questions;

pub use context::{CommandContext, PAID_CALLS_GRACE};
pub use options::{Changes, Confirmation, DryRun, ExperimentFile, RunChoice, refuse_positional_experiment};
pub use plan::{print_plan, print_sampled_plan};
pub use pull::pull_models;
pub use question_file::{
    key_of, note_ignored_columns, note_unread_files, open_questions, open_questions_to_change, read_questions,
    refuse_to_replace, writable_format, write_new_file, write_questions,
};
pub use run_experiment::{CompleteRun, exit_code, finish_tracking, run_experiment};
pub use trial_questions::{ask_trial, note_answer, open_pipeline};
