//! `reverie plan`: what would run, what is stored already, and what the rest
//! should cost.

use crate::{
    command::{Changes, CommandContext, ExperimentFile, print_plan, print_sampled_plan},
    environment,
    failure::CommandFailure,
    option_values::{parse_dollars, parse_sampled_files},
};

/// Show what a run would do, without doing it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie plan
  reverie plan -f books.toml --budget-usd 2.50
  reverie plan --set space.retriever.bm25.top_k=3 --limit 20
  reverie plan --json | jq .cost
  reverie plan --json | jq '.operators[] | {operator, unique, stored}'
  reverie plan --sample                        # from 200 files, before everything was read
  reverie plan --sample 1000 --json | jq .cost.cost_usd

`reverie run --dry-run` shows the same.")]
pub struct PlanArguments {
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    changes: Changes,
    /// What a run may cost, in US dollars, whatever the file says.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    budget_usd: Option<f64>,
    /// Estimate the cost of a first run from a sample of the corpus' files, with 95 % intervals. Only the
    /// sample is read, and nothing is stored. Default: 200 files.
    #[arg(
        long, value_name = "FILES", num_args = 0..=1, default_missing_value = "200",
        value_parser = parse_sampled_files
    )]
    sample: Option<usize>,
}

pub async fn run(cx: &CommandContext, arguments: PlanArguments) -> Result<u8, CommandFailure> {
    let experiment = environment::read_with(&arguments.file.experiment, &arguments.changes.overrides())?;
    match arguments.sample {
        Some(files) => print_sampled_plan(cx, experiment, arguments.budget_usd, files).await?,
        None => print_plan(cx, experiment, arguments.budget_usd).await?,
    }
    Ok(0)
}
