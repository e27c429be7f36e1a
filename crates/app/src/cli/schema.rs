//! `reverie schema`: the JSON Schema of the experiment file, for editors.

use crate::{command::CommandContext, failure::CommandFailure};

/// Print the JSON Schema of the experiment file, by which an editor completes keys and marks mistakes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie schema > experiment.schema.json

In the first line of experiment.toml, for editors with Taplo or Even Better TOML:
  #:schema ./experiment.schema.json")]
pub struct SchemaArguments {}

pub async fn run(cx: &CommandContext, _: SchemaArguments) -> Result<u8, CommandFailure> {
    cx.print_json(&lab::Experiment::schema())?;
    Ok(0)
}
