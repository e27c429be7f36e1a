//! `reverie journal`: statistics, verification and cleanup of the journal of paid
//! model calls.

use crate::{
    command::{CommandContext, Confirmation, ExperimentFile},
    environment,
    failure::CommandFailure,
    option_values::{parse_age, unix_ms_before},
    render,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use store::{DamagedEntry, Error, Journal, Selection};

/// Inspect and clean up the journal: every model call that was paid, with its answer.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie journal stats
  reverie journal stats -f books.toml --json | jq .saved_usd
  reverie journal verify
  reverie journal gc --older-than 90d --model old-model --dry-run
  reverie journal gc --older-than 90d --model old-model --yes

Several runs may use a journal at once. It lies in the folder of the store; where
the store is an object store, beside the experiment in .reverie, and each answer
is also an object of that store, which no verb of `journal` removes.")]
pub struct JournalArguments {
    #[command(subcommand)]
    verb: JournalVerb,
}

#[derive(clap::Subcommand)]
enum JournalVerb {
    /// Count calls, tokens and money by model, and what the journal has saved.
    #[command(after_help = "Examples:
  reverie journal stats
  reverie journal stats -f books.toml --json | jq '.models[] | {model, cost_usd}'")]
    Stats {
        #[command(flatten)]
        file: ExperimentFile,
    },
    /// Check every entry against its checksum, and name the damaged ones.
    #[command(after_help = "Examples:
  reverie journal verify
  reverie journal verify -f books.toml --json | jq '.damaged | length'

Exit codes: 0 all is intact, 1 something is damaged.
The next run asks for damaged answers again by itself.")]
    Verify {
        #[command(flatten)]
        file: ExperimentFile,
    },
    /// Remove damaged entries, and entries by age or model.
    #[command(after_help = "Examples:
  reverie journal gc --dry-run                         # what is damaged
  reverie journal gc --older-than 90d --dry-run        # and what is older than 90 days
  reverie journal gc --model a --model b --yes         # removes all answers of two models
  reverie journal gc --older-than 2w --model a --yes   # of one model, if older than two weeks

An answer that was removed is paid again if a run asks for it.
A journal whose file is damaged is rebuilt from what can still be read; no run
may be using it then.")]
    Gc {
        #[command(flatten)]
        file: ExperimentFile,
        /// Entries older than this: a number with s, m, h, d or w.
        #[arg(long, value_name = "AGE", value_parser = parse_age)]
        older_than: Option<Duration>,
        /// Entries of this model, as `journal stats` names it; may be given more than once.
        #[arg(long, value_name = "MODEL")]
        model: Vec<String>,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

pub async fn run(cx: &CommandContext, arguments: JournalArguments) -> Result<u8, CommandFailure> {
    match arguments.verb {
        JournalVerb::Stats { file } => stats(cx, &path(&file.experiment)?),
        JournalVerb::Verify { file } => verify(cx, &path(&file.experiment)?),
        JournalVerb::Gc { file, older_than, model, confirmation } => {
            let yes = confirmation.is_given("journal gc", "removes answers that were paid")?;
            let selection = Selection { before_unix_ms: older_than.map(unix_ms_before), models: model };
            gc(cx, &path(&file.experiment)?, &selection, yes)
        }
    }
}

/// The path of an experiment's journal, which must exist.
fn path(experiment: &Path) -> Result<PathBuf, CommandFailure> {
    let path = lab::Workspace::journal_path(&environment::read(experiment)?);
    if path.is_file() {
        return Ok(path);
    }
    Err(CommandFailure::usage(format!("there is no journal at {}: nothing was run yet", path.display())))
}

fn stats(cx: &CommandContext, path: &Path) -> Result<u8, CommandFailure> {
    let journal = Journal::open_to_read(path)?;
    let (statistics, models) = (journal.statistics()?, journal.models()?);
    let mut value = json!(statistics);
    (value["path"], value["models"]) = (json!(path), json!(models));
    cx.finish(&value, |_| render::journal(path, &statistics, &models))
}

fn verify(cx: &CommandContext, path: &Path) -> Result<u8, CommandFailure> {
    let (entries, damaged) = match Journal::open_to_read(path) {
        Ok(journal) => {
            let damaged = journal.verify()?;
            (journal.statistics().map_or(0, |statistics| statistics.entries), damaged)
        }
        Err(error @ Error::JournalDamaged { .. }) => {
            (0, vec![DamagedEntry { key: String::new(), reason: lab::error_chain(&error) }])
        }
        Err(error) => return Err(error.into()),
    };
    cx.show(&json!({ "path": path, "entries": entries, "damaged": damaged }), |_| {
        render::journal_damage(path, entries, &damaged)
    })?;
    Ok(u8::from(!damaged.is_empty()))
}

fn gc(cx: &CommandContext, path: &Path, selection: &Selection, yes: bool) -> Result<u8, CommandFailure> {
    let journal = match Journal::open(path) {
        Err(Error::JournalDamaged { .. }) => return salvage(cx, path, yes),
        journal => journal?,
    };
    let swept = if yes { journal.remove(selection) } else { journal.select(selection) };
    let sweep = match swept {
        Err(Error::JournalDamaged { .. }) => {
            drop(journal);
            return salvage(cx, path, yes);
        }
        sweep => sweep?,
    };
    let mut value = json!(sweep);
    value["removed"] = json!(yes);
    cx.finish(&value, |_| render::sweep(&sweep, yes))
}

/// Rebuilds a journal that SQLite can no longer read.
fn salvage(cx: &CommandContext, path: &Path, yes: bool) -> Result<u8, CommandFailure> {
    if !yes {
        return Err(CommandFailure::runtime(format!(
            "{} is damaged: with --yes a new journal is built of all answers that can still be read; the damaged \
             file is kept beside it",
            path.display()
        )));
    }
    let salvage = Journal::salvage(path)?;
    cx.finish(&json!({ "salvaged": salvage }), |_| {
        format!(
            "{}: built anew of {} answers that could still be read ({} not sent to the shared store yet); the damaged \
             file is now {}",
            path.display(),
            render::count(salvage.kept as usize),
            render::count(salvage.unsent as usize),
            salvage.damaged_file.display()
        )
    })
}
