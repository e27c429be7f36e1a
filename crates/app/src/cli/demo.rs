//! `reverie demo`: finds the best pipeline for a few manuals that the program carries, or for Debian's manuals.

mod carried;
mod manuals;

use crate::{command::CommandContext, environment, failure::CommandFailure, render};
use lab::Board;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Find the best of a few pipelines on manuals that the program carries: in seconds, without a model or a key.
///
/// Six pipelines answer 72 questions about six manuals. The leaderboard names the winner, one lost question is
/// explained, and the winner answers a question with its sources.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie demo
  reverie demo --folder /tmp/reverie-demo
  reverie demo --manuals

Writes the manuals, the questions and the experiment file into the folder. With
--manuals, 33 pipelines with embedding models are compared on seven manuals of
Debian, and the best three answer with a chat model that runs here. That downloads
690 MB the first time, and takes about three minutes on 2 cores after that.")]
pub struct DemoArguments {
    /// Where the corpus, the experiment and its store are put. Default: `demo` in reverie's home, or
    /// `demo-manuals` with --manuals.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Compare pipelines with models on Debian's manuals, which are downloaded
    #[arg(long)]
    manuals: bool,
}

pub async fn run(cx: &CommandContext, arguments: DemoArguments) -> Result<u8, CommandFailure> {
    let name = if arguments.manuals { "demo-manuals" } else { "demo" };
    let folder = arguments.folder.unwrap_or_else(|| environment::home().join(name));
    match arguments.manuals {
        true => manuals::run(cx, &folder).await,
        false => carried::run(cx, &folder).await,
    }
}

/// Prints a leaderboard; with `--json` everything is printed at the end.
fn show(cx: &CommandContext, board: &Board, report: &Path) -> Result<(), CommandFailure> {
    if cx.json {
        return Ok(());
    }
    cx.print_leaderboard(board, &render::TableLayout::of_terminal())?;
    cx.print(format_args!("report: file://{}\n", report.display()));
    Ok(())
}

/// The file that lists the files which the demo wrote, by name and digest.
const RECORD: &str = ".reverie-demo.json";

/// The files that the demo wrote: the digest of each by its name.
type OwnFiles = BTreeMap<String, String>;

fn digest(bytes: &[u8]) -> String {
    ::store::Key::of_bytes(bytes).hex()
}

/// Refuses a folder if the demo would replace files that it did not write, or that
/// were changed since. Returns the files that it wrote itself.
fn refuse_to_replace(folder: &Path, files: &[(&str, String)]) -> Result<OwnFiles, CommandFailure> {
    let record = std::fs::read(folder.join(RECORD)).ok();
    let own: OwnFiles = record.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let is_foreign = |(name, text): &&(&str, String)| match std::fs::read(folder.join(name)) {
        Ok(bytes) => bytes != text.as_bytes() && own.get(*name) != Some(&digest(&bytes)),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    let foreign: Vec<String> =
        files.iter().filter(is_foreign).map(|(name, _)| folder.join(name).display().to_string()).collect();
    if foreign.is_empty() {
        return Ok(own);
    }
    Err(CommandFailure::usage(format!(
        "{}: there already, and not as the demo writes it: choose another --folder, or move it away",
        foreign.join(", ")
    )))
}

/// Writes the demo's files, and records that they are its own.
fn write(folder: &Path, files: &[(&str, String)], mut own: OwnFiles) -> Result<OwnFiles, CommandFailure> {
    for (name, text) in files {
        own.insert((*name).to_owned(), digest(text.as_bytes()));
        lab::write_whole(&folder.join(name), text.as_bytes())?;
    }
    let record = serde_json::to_vec_pretty(&own).map_err(CommandFailure::runtime)?;
    lab::write_whole(&folder.join(RECORD), &record)?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> [(&'static str, String); 2] {
        [("experiment.toml", "the demo's".to_owned()), ("golden.jsonl", "{}".to_owned())]
    }

    #[test]
    fn what_a_person_wrote_is_named_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("experiment.toml"), "mine").unwrap();
        let refused = refuse_to_replace(folder.path(), &files()).unwrap_err();
        assert!(refused.message.contains("experiment.toml") && !refused.message.contains("golden.jsonl"));
        assert_eq!(refused.code, 2);
        assert_eq!(std::fs::read(folder.path().join("experiment.toml")).unwrap(), b"mine");
    }

    #[test]
    fn what_the_demo_wrote_is_replaced_until_a_person_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        let own = refuse_to_replace(folder.path(), &files()).unwrap();
        write(folder.path(), &files(), own).unwrap();
        // A later version writes other words.
        let later = [("experiment.toml", "the new demo's".to_owned()), ("golden.jsonl", "{}".to_owned())];
        let own = refuse_to_replace(folder.path(), &later).unwrap();
        write(folder.path(), &later, own).unwrap();
        assert_eq!(std::fs::read(folder.path().join("experiment.toml")).unwrap(), b"the new demo's");
        std::fs::write(folder.path().join("golden.jsonl"), "{}\n{}").unwrap();
        let refused = refuse_to_replace(folder.path(), &files()).unwrap_err();
        assert!(refused.message.contains("golden.jsonl") && !refused.message.contains("experiment.toml"));
    }
}
