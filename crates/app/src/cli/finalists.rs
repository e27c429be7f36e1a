//! `reverie finalists`: the best pipelines of a run, for the next experiment.

use crate::{
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::CommandFailure,
    option_values::{parse_at_least_one, parse_axis_value},
};
use rag::Axis;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

/// Print the best pipelines of the last run as the space of a next experiment.
///
/// Search a large space by retrieval, which costs no call, and let only the
/// best pipelines answer. With --output, a whole experiment file is written:
/// this one with its space replaced. With the same store, nothing is computed
/// again.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie finalists
  reverie finalists --best 5 --with 'generator={ compact = { model = \"gpt\" } }' --output answers.toml
  reverie run -f answers.toml --set 'evaluate.metrics=[\"token_f1\", \"rouge_l\"]'")]
pub struct FinalistsArguments {
    /// How many pipelines, from the first of the leaderboard.
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_at_least_one)]
    best: NonZeroUsize,
    /// A value on an axis of [space], that every pipeline gets in place of its own; may be given more than once. The
    /// value is TOML.
    #[arg(long, value_name = "AXIS=VALUE", value_parser = parse_axis_value)]
    with: Vec<(Axis, Value)>,
    /// Write a whole experiment file instead of printing the space alone; the experiment is named after the file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

pub async fn run(cx: &CommandContext, arguments: FinalistsArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    // TOML: a table `[[space]]` for each pipeline.
    let tables = record.board().finalists(arguments.best.get(), &arguments.with).map_err(CommandFailure::runtime)?;
    if let Some(output) = &arguments.output {
        write(&session.experiment.text, output, &tables)?;
        cx.print(format_args!("{}: written; see it with: reverie plan -f {}", output.display(), output.display()));
    } else {
        let rows = record.board().leading(arguments.best.get());
        cx.show(&rows.map(|row| (&row.id, &row.settings)).collect::<BTreeMap<_, _>>(), |_| tables)?;
    }
    Ok(0)
}

/// Writes the experiment with these tables `[[space]]` as its space, named after its file.
fn write(experiment: &str, output: &Path, tables: &str) -> Result<(), CommandFailure> {
    let shown = output.display();
    if output.exists() {
        return Err(CommandFailure::usage(format!("{shown} is there already: choose another name, or remove it")));
    }
    let stem = output.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    let folder = output.parent().unwrap_or(Path::new(""));
    let text = lab::Experiment::with_space(experiment, folder, &name, tables).map_err(|mistake| {
        CommandFailure::usage(format!("{shown} was not written, because it would have a mistake: {mistake}"))
    })?;
    Ok(lab::write_whole(output, text.as_bytes())?)
}
