//! Options that several verbs share, so that each thing is said in one way.

use super::{Context, Failure};
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
    /// The run's record. That it was a try, or that another experiment file made
    /// it, is told on standard error.
    pub async fn record(&self, cx: &Context, session: &Session) -> Result<RunRecord, Failure> {
        let record = lab::chosen_record(session, self.run.as_deref()).await?;
        for remark in record.remarks(session, self.run.is_some()) {
            cx.note(format_args!("note: {remark}"));
        }
        Ok(record)
    }
}

/// A question instead of work.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct DryRun {
    /// Only tell what would be done and what it should cost.
    #[arg(long)]
    pub dry_run: bool,
}

/// Whether something may be removed or changed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Agreement {
    /// Only tell what would be done.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it.
    #[arg(long)]
    yes: bool,
}

impl Agreement {
    /// Whether to do it. Nothing is assumed where neither flag is given:
    /// `verb` and what it does are for the answer then.
    pub fn is_given(self, verb: &str, does: &str) -> Result<bool, Failure> {
        if self.yes || self.dry_run {
            return Ok(self.yes);
        }
        Err(Failure::usage(format!(
            "`reverie {verb}` {does}: add --dry-run to see what it would do, or --yes to do it"
        )))
    }
}

/// What is different from the experiment file in this one command.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Changes {
    /// Replace a value of the experiment file; may be given more than once. The
    /// key has dots as in the file; the value is TOML, or a plain text. In a
    /// list, a component is found by its name.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ask only the first so many golden questions.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    limit: Option<NonZeroUsize>,
}

/// Parses a number of things of which there must be one.
pub fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "write a whole number that is at least 1".to_owned())
}

impl Changes {
    /// In the order in which they count.
    pub fn overrides(&self) -> Vec<Override> {
        let set = self.set.iter().map(|text| Override::set(text.as_str()));
        set.chain(self.limit.map(|limit| Override::limit(limit.get()))).collect()
    }
}
