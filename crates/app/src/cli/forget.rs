//! `reverie forget`: documents that are to be forgotten, with everything that was made from them.

use crate::{
    command::{CommandContext, Confirmation, ExperimentFile},
    environment,
    failure::CommandFailure,
    render,
    report::write_report,
};
use lab::{ForgetRequest, Forgetting, Session};
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf};

/// Forget documents: remove them from the store with everything that was made from them.
///
/// Chunks, vectors, indexes, passages, answers, scores, partial outputs and scratch files go, and so do the answers
/// of models in the journal. Runs stay, with their scores: passages and answers of the documents become `[forgotten]`.
/// Bundles that hold a document are removed whole. A certificate says what was removed and what is out of reach; it
/// holds no text. What other documents need is computed again by the next run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie forget contracts/miller.pdf --dry-run
  reverie forget contracts/miller.pdf --bundles bundles --bundles s3://bucket/served --yes
  reverie forget --where customer=4711 --traffic traffic.jsonl --traffic feedback.jsonl --yes
  reverie forget --yes                                   # finishes a removal that was interrupted

A document is known by its path below the corpus, in all its versions; copies of the same bytes under other paths are
the same document. Delete the file first: the next run would read it again. No run may use the store meanwhile.
Stop services that keep --traffic files, or let them write into new ones.
If the command is killed, the same command finishes the removal; until then `run` and `store stats` say so.
Exit codes: 0 done, 1 something failed, and the same command goes on.")]
pub struct ForgetArguments {
    /// Documents: paths below the corpus, or of the files.
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    paths: Vec<String>,
    /// All documents whose metadata has this value; given more than once, documents that have all of them.
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = parse_condition)]
    conditions: Vec<(String, String)>,
    /// A file of `serve --traffic` or `--feedback`: lines with text of the documents are removed; may be given more than
    /// once.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    traffic: Vec<PathBuf>,
    /// A folder or URL with bundles: those that hold a document are removed; may be given more than once.
    #[arg(long, value_name = "PLACE", value_hint = clap::ValueHint::AnyPath)]
    bundles: Vec<String>,
    /// Go on although a document is still in the corpus: the next run reads it again.
    #[arg(long)]
    keep_file: bool,
    /// Also write the certificate into this file. It is always kept in the store, below `forgotten/`.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    certificate: Option<PathBuf>,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    confirmation: Confirmation,
}

fn parse_condition(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((field, value)) if !field.trim().is_empty() => Ok((field.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected a field and its value, such as customer=4711".to_owned()),
    }
}

pub async fn run(cx: &CommandContext, arguments: ForgetArguments) -> Result<u8, CommandFailure> {
    let ForgetArguments { paths, conditions, traffic, bundles, keep_file, certificate, file, confirmation } = arguments;
    let yes = confirmation.is_given("forget", "removes documents and what was made from them, for good")?;
    let session = environment::open(&file.experiment, cx.setup())?;
    let pending = session.workspace().pending_removals().await?;
    if paths.is_empty() && conditions.is_empty() && pending.is_empty() {
        return Err(CommandFailure::usage(
            "name the documents to forget: their paths, or `--where FIELD=VALUE`; no interrupted removal is to be finished",
        ));
    }
    for note in &pending {
        cx.note(format_args!(
            "note: {}; this command {} it",
            note.sentence(),
            if yes { "finishes" } else { "would finish" }
        ));
    }
    let request = ForgetRequest { paths, conditions, kept_lines: traffic, bundles };
    let forgetting = Forgetting::find(&session, &request, yes).await?;
    if forgetting.documents.is_empty() {
        let before = json!({ "forgotten_before": forgetting.before });
        return cx.finish(&before, |_| render::forgotten_before(&forgetting.before));
    }
    if !forgetting.in_corpus.is_empty() && !keep_file {
        return Err(CommandFailure::usage(format!(
            "still in the corpus: {}; the next run would read it again: delete it first. With --keep-file, what was made \
             from it is removed all the same; nothing was removed",
            forgetting.in_corpus.join(", ")
        )));
    }
    if !yes {
        let value = json!({
            "documents": forgetting.documents, "forgotten_before": forgetting.before,
            "counts": lab::removal_counts(&forgetting.removed), "would_remove": forgetting.removed,
            "beyond_reach": forgetting.beyond_reach, "removed": false,
        });
        return cx.finish(&value, |_| render::forgetting(&forgetting));
    }
    let (before, reports) = (forgetting.before.clone(), forgetting.reports.clone());
    let (done, name) = forgetting.carry_out(&session).await?;
    write_reports(cx, &session, &reports).await;
    if let Some(path) = &certificate {
        lab::write_whole(path, &done.to_json()?)?;
    }
    cx.finish(&done, |done| {
        let before = if before.is_empty() { String::new() } else { render::forgotten_before(&before) + "\n" };
        format!("{before}{}", render::forgotten(done, &name, certificate.as_deref()))
    })
}

/// Writes the reports of runs again, which were removed with the documents in them. A report that cannot be written is
/// written by the next `leaderboard`.
async fn write_reports(cx: &CommandContext, session: &Session, runs: &BTreeSet<String>) {
    for run in runs {
        let written = async {
            let results = lab::record_of(session, run).await?.results(session).await?;
            write_report(session, &results).await?;
            session.workspace().publish_report(run).await
        };
        if let Err(error) = written.await {
            cx.note(format_args!(
                "note: the report of {run} was removed, and not written again: {}",
                lab::error_chain(&error)
            ));
        }
    }
}
