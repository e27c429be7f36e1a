//! `reverie journal`: what was paid for and is kept, whether it is intact, and
//! taking out what is not wanted any more.

use super::{
    Context, Failure,
    options::{Agreement, ExperimentFile},
};
use crate::{environment, render};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use store::{DamagedEntry, Error, Journal, Selection};

/// Look after the journal: every model call that was paid, with its answer.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie journal stats
  reverie journal stats -f books.toml --json | jq .saved_usd
  reverie journal verify
  reverie journal gc --older-than 90d --model old-model --dry-run
  reverie journal gc --older-than 90d --model old-model --yes

Several runs may use a journal at once. It lies in the folder of the store; where
the store is an object store, beside the experiment in .reverie, and each answer
is also an object there, which no verb of `journal` takes out.")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
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
    /// Take out damaged entries, and those of an age or of models.
    #[command(after_help = "Examples:
  reverie journal gc --dry-run                         # what is damaged
  reverie journal gc --older-than 90d --dry-run        # and what is older than 90 days
  reverie journal gc --model a --model b --yes         # takes out all answers of two models
  reverie journal gc --older-than 2w --model a --yes   # of one model, if older than two weeks

An answer that was taken out is paid again if a run asks for it.
A journal whose file is damaged is built anew from what can still be read; no
run may be using it then.")]
    Gc {
        #[command(flatten)]
        file: ExperimentFile,
        /// Entries older than this: a number with s, m, h, d or w.
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
        /// Entries of this model, as `journal stats` names it; may be given more than once.
        #[arg(long, value_name = "MODEL")]
        model: Vec<String>,
        #[command(flatten)]
        agreement: Agreement,
    },
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    match arguments.verb {
        Verb::Stats { file } => stats(cx, &path(&file.experiment)?),
        Verb::Verify { file } => verify(cx, &path(&file.experiment)?),
        Verb::Gc { file, older_than, model, agreement } => {
            let yes = agreement.is_given("journal gc", "takes out answers that were paid")?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let before = older_than.map(|age| now.saturating_sub(age).as_millis());
            let before_unix_ms = before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
            gc(cx, &path(&file.experiment)?, &Selection { before_unix_ms, models: model }, yes)
        }
    }
}

/// The journal of an experiment that has one.
fn path(experiment: &Path) -> Result<PathBuf, Failure> {
    let path = lab::Workspace::journal_path(&environment::read(experiment)?);
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::usage(format!("there is no journal at {}: nothing was run yet", path.display())))
}

fn stats(cx: &Context, path: &Path) -> Result<u8, Failure> {
    let journal = Journal::open_to_read(path)?;
    let (statistics, models) = (journal.statistics()?, journal.models()?);
    if cx.json {
        let mut value = serde_json::to_value(statistics).map_err(Failure::work)?;
        value["path"] = json!(path);
        value["models"] = json!(models);
        cx.print_json(&value)?;
    } else {
        cx.print(render::journal(path, &statistics, &models));
    }
    Ok(0)
}

fn verify(cx: &Context, path: &Path) -> Result<u8, Failure> {
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
    if cx.json {
        cx.print_json(&json!({ "path": path, "entries": entries, "damaged": damaged }))?;
    } else if damaged.is_empty() {
        cx.print(format_args!("{}: all of {} are intact", path.display(), render::count(entries as usize)));
    } else {
        for DamagedEntry { key, reason } in &damaged {
            cx.print(format_args!("damaged: {}: {reason}", if key.is_empty() { "the file" } else { key }));
        }
        cx.print(format_args!(
            "{} of {} damaged: the next run asks for them again; `reverie journal gc --yes` takes them out",
            render::count(damaged.len()),
            render::count(entries as usize)
        ));
    }
    Ok(u8::from(!damaged.is_empty()))
}

fn gc(cx: &Context, path: &Path, selection: &Selection, yes: bool) -> Result<u8, Failure> {
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
    if cx.json {
        let mut value = serde_json::to_value(sweep).map_err(Failure::work)?;
        value["removed"] = json!(yes);
        cx.print_json(&value)?;
    } else {
        cx.print(render::sweep(&sweep, yes));
    }
    Ok(0)
}

/// For a file that SQLite can no longer read.
fn salvage(cx: &Context, path: &Path, yes: bool) -> Result<u8, Failure> {
    if !yes {
        return Err(Failure::work(format!(
            "{} is damaged: with --yes a new journal is built of all answers that can still be read; the damaged \
             file is kept beside it",
            path.display()
        )));
    }
    let salvage = Journal::salvage(path)?;
    if cx.json {
        cx.print_json(&json!({ "salvaged": salvage }))?;
    } else {
        cx.print(format_args!(
            "{}: built anew of {} answers that could still be read ({} not sent to the shared store yet); the damaged \
             file is now {}",
            path.display(),
            render::count(salvage.kept as usize),
            render::count(salvage.unsent as usize),
            salvage.damaged_file.display()
        ));
    }
    Ok(0)
}

/// `90d`, `2w`, `12h`, `30m`, `45s`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no age: write a number with s, m, h, d or w, such as 90d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_number_and_a_unit() {
        assert_eq!(age("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(age("2w"), age("14d"));
        for text in ["", "d", "9", "9y", "-1d", "1.5d", "99999999999999999999w", "9ä"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
