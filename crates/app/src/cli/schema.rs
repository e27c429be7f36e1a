//! `reverie schema`: the experiment file, as editors want it.

use super::{Context, Failure};

/// Print the JSON Schema of the experiment file, by which an editor completes keys and marks mistakes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie schema > experiment.schema.json

In the first line of experiment.toml, for editors with Taplo or Even Better TOML:
  #:schema ./experiment.schema.json")]
pub struct Arguments {}

pub fn run(cx: &Context, _: &Arguments) -> Result<u8, Failure> {
    cx.print_json(&lab::Experiment::schema())?;
    Ok(0)
}
