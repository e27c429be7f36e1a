//! Options that several verbs share.

use super::CommandContext;
use crate::{failure::CommandFailure, option_values::parse_at_least_one};
use clap::ValueHint;
use lab::{Override, RunRecord, Session};
use std::{num::NonZeroUsize, path::PathBuf};

/// The experiment file.
#[derive(Debug, Clone, clap::Args)]
pub struct ExperimentFile {
    /// The experiment file.
    #[arg(short = 'f', long = "experiment", value_name = "FILE", default_value = "experiment.toml", value_hint = ValueHint::FilePath)]
    pub experiment: PathBuf,
}

/// The run that a verb looks at.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RunChoice {
    /// Another run than the last: its id or the beginning of it, as `reverie runs` lists them.
    #[arg(long = "run", value_name = "ID")]
    run: Option<String>,
}

impl RunChoice {
    /// Reads the run's record. A note on standard error says if the run had overrides
    /// (`--set`, `--limit`), or if another experiment file made it.
    pub async fn record(&self, cx: &CommandContext, session: &Session) -> Result<RunRecord, CommandFailure> {
        let record = lab::chosen_record(session, self.run.as_deref()).await?;
        for remark in record.remarks(session, self.run.is_some()) {
            cx.note(format_args!("note: {remark}"));
        }
        Ok(record)
    }
}

/// Shows what would be done, instead of doing it.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct DryRun {
    /// Only show what would be done and what it should cost.
    #[arg(long = "dry-run")]
    pub is_on: bool,
}

/// Confirms that something may be removed or changed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Confirmation {
    /// Only show what would be done.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it.
    #[arg(long)]
    yes: bool,
}

impl Confirmation {
    /// Whether to do it. One of the two flags is required; `verb` and what it `does`
    /// are for the message if both are missing.
    pub fn is_given(self, verb: &str, does: &str) -> Result<bool, CommandFailure> {
        if self.yes || self.dry_run {
            return Ok(self.yes);
        }
        Err(CommandFailure::usage(format!(
            "`reverie {verb}` {does}: add --dry-run to see what it would do, or --yes to do it"
        )))
    }
}

/// Overrides of the experiment file for this one command.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Changes {
    /// Replace a value of the experiment file; may be given more than once. The
    /// key has dots as in the file; the value is TOML, or a plain text. In a
    /// list, a component is found by its name.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ask only the first N golden questions.
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    limit: Option<NonZeroUsize>,
}

impl Changes {
    /// The overrides, in the order in which they apply.
    pub fn overrides(&self) -> Vec<Override> {
        let set = self.set.iter().map(|text| Override::set(text.as_str()));
        set.chain(self.limit.map(|limit| Override::limit(limit.get()))).collect()
    }
}

/// Refuses an experiment file among positional arguments, such as names of models: it
/// needs its flag.
pub fn refuse_positional_experiment(words: &[String], verb: &str) -> Result<(), CommandFailure> {
    match words.iter().find(|word| word.ends_with(".toml")) {
        Some(file) => {
            Err(CommandFailure::usage(format!("`{file}`: pass the experiment file with -f: reverie {verb} -f {file}")))
        }
        None => Ok(()),
    }
}
