//! `reverie golden import --from-traffic`: what people asked a service.

use crate::{
    command::{CommandContext, writable_format, write_new_file},
    failure::{CommandFailure, INCOMPLETE},
    option_values::{parse_name, parse_similarity},
    render,
};
use eval::dataset::{ColumnSet, TrafficChoice, TrafficQuestions, UserVerdict, import_traffic};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct TrafficArguments {
    /// Questions that people asked, as `reverie serve --traffic FILE` kept them; those with bad answers come first, then the
    /// most frequent.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    from_traffic: Option<PathBuf>,
    /// What people thought of the answers, as `reverie serve --feedback FILE` kept it.
    #[arg(long, value_name = "FILE", requires = "from_traffic", value_hint = clap::ValueHint::FilePath)]
    feedback: Option<PathBuf>,
    /// Only questions with an answer that was rated so: up or down.
    #[arg(long, value_name = "VERDICT", requires = "feedback", value_parser = parse_name::<UserVerdict>)]
    only: Option<UserVerdict>,
    /// The most questions.
    #[arg(long, value_name = "N", requires = "from_traffic")]
    size: Option<usize>,
    /// Choose questions that differ from each other, instead of the first.
    #[arg(long, requires = "size")]
    spread: bool,
    /// Joins questions that have at least this share of words and word pairs in common; 1 joins equal ones.
    #[arg(long, value_name = "SHARE", requires = "from_traffic", default_value = "0.8", value_parser = parse_similarity)]
    similarity: f64,
    /// Keep the answer that was given, as a draft of the reference: no metric uses it before somebody accepts it in a
    /// review.
    #[arg(long, requires = "from_traffic")]
    answers_as_draft: bool,
}

pub(super) fn run(
    cx: &CommandContext,
    arguments: &TrafficArguments,
    output: &Path,
    yes: bool,
    dry: bool,
) -> Result<u8, CommandFailure> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| CommandFailure::usage(format!("{}: {error}", path.display())))
    };
    let Some(file) = &arguments.from_traffic else { return Err(CommandFailure::usage("--from-traffic is missing")) };
    let traffic = read(file)?;
    let feedback = arguments.feedback.as_deref().map(read).transpose()?;
    let format = writable_format(output)?;
    let choice = TrafficChoice {
        only: arguments.only,
        size: arguments.size,
        spread: arguments.spread,
        similarity: arguments.similarity,
        drafts: arguments.answers_as_draft,
    };
    let TrafficQuestions { dataset, report } = import_traffic(&traffic, feedback.as_deref(), &choice);
    let files = [(Some(file), &report.bad_lines), (arguments.feedback.as_ref(), &report.bad_feedback)];
    for (file, bad) in files.into_iter().filter_map(|(file, bad)| Some((file?, bad))) {
        for line in bad {
            cx.warn(format_args!("{}:{}: left out: {}", file.display(), line.line, line.reason));
        }
    }
    let lines = render::traffic_report(&report);
    let is_whole = report.bad_lines.is_empty() && report.bad_feedback.is_empty();
    if dataset.questions.is_empty() {
        return Err(CommandFailure::runtime(format!("{}: no question is left\n{}", file.display(), lines.join("\n"))));
    }
    if !dry {
        write_new_file(output, &dataset.export(format, ColumnSet::Reverie).map_err(CommandFailure::runtime)?, yes)?;
    }
    cx.show(&json!({ "file": output, "report": report }), |_| format!("{}: {}", output.display(), lines.join("\n")))?;
    Ok(if is_whole { 0 } else { INCOMPLETE })
}
