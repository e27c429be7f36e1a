//! `reverie finalists`: the best pipelines of a run, for the next experiment.

use super::{
    Context, Failure,
    options::{ExperimentFile, RunChoice, at_least_one},
};
use crate::environment;
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
pub struct Arguments {
    /// How many pipelines, from the first of the leaderboard.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    best: NonZeroUsize,
    /// A value on an axis of [space], for all of them; may be given more than once. The value is TOML.
    #[arg(long, value_name = "AXIS=VALUE", value_parser = with)]
    with: Vec<(Axis, Value)>,
    /// Write a whole experiment file, named after itself, instead of printing the space alone.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

fn with(text: &str) -> Result<(Axis, Value), String> {
    let axes = || format!("write AXIS=VALUE, with an axis of [space]: {}", Axis::NAMES.join(", "));
    let (name, value) = text.split_once('=').ok_or_else(axes)?;
    let axis = Axis::ALL.iter().find(|axis| axis.name() == name.trim()).ok_or_else(axes)?;
    Ok((*axis, lab::Experiment::value(value)?))
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let session = environment::open_to_read(&arguments.file.experiment, cx.setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let spaces = record.board().finalists(arguments.best.get(), &arguments.with).map_err(Failure::work)?;
    if let Some(output) = &arguments.output {
        write(&session.experiment.text, output, &spaces)?;
        cx.print(format_args!("{}: written; see it with: reverie plan -f {}", output.display(), output.display()));
    } else if cx.json {
        let rows = record.board().leading(arguments.best.get());
        cx.print_json(&rows.map(|row| (&row.id, &row.settings)).collect::<BTreeMap<_, _>>())?;
    } else {
        cx.print(spaces);
    }
    Ok(0)
}

/// Writes the experiment with another space, named after its file.
fn write(experiment: &str, output: &Path, spaces: &str) -> Result<(), Failure> {
    let told = output.display();
    if output.exists() {
        return Err(Failure::usage(format!("{told} is there already: choose another name, or remove it")));
    }
    let stem = output.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    let folder = output.parent().unwrap_or(Path::new(""));
    let text = lab::Experiment::with_space(experiment, folder, &name, spaces).map_err(|mistake| {
        Failure::usage(format!("{told} was not written, because it would have a mistake: {mistake}"))
    })?;
    lab::write_whole(output, text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_toml_and_its_axis_is_one_of_the_space() {
        assert_eq!(with("embedder=\"tiny\"").unwrap(), (Axis::Embedder, json!("tiny")));
        let (axis, value) = with("generator = [{ compact = { model = \"gpt\" } }, \"refine\"]").unwrap();
        assert_eq!((axis, value), (Axis::Generator, json!([{ "compact": { "model": "gpt" } }, "refine"])));
        assert!(with("generatr=\"compact\"").unwrap_err().contains("generator"));
        assert!(with("generator").is_err() && with("generator=[").is_err());
    }
}
