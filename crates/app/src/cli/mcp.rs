//! `reverie mcp`: the verbs as tools for agents.

use crate::{command::CommandContext, failure::CommandFailure, mcp::McpServer, option_values::parse_dollars};
use std::path::PathBuf;

/// Let an agent use Reverie: the Model Context Protocol on standard input and output.
///
/// The agent can write an experiment file for a folder, plan, run within the budget that you set here, and read
/// leaderboards, effects, comparisons and single questions. It works in one folder, spends nothing unless you allow it, and
/// may not name programs or addresses.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie mcp                                      # for a client that starts it: runs that cost nothing
  reverie mcp --folder ~/books --budget-usd 2
  claude mcp add reverie -- reverie mcp --folder ~/books")]
pub struct McpArguments {
    /// The folder that the agent may use: documents, experiment files and stores are in it.
    #[arg(long, value_name = "FOLDER", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
    /// What all runs of the agent may cost together, in US dollars.
    #[arg(long, value_name = "DOLLARS", default_value = "0", value_parser = parse_dollars)]
    budget_usd: f64,
}

pub async fn run(cx: &CommandContext, arguments: McpArguments) -> Result<u8, CommandFailure> {
    let program = super::this_program(cx.is_in_python()).map_err(CommandFailure::runtime)?;
    let folder = arguments.folder.display().to_string();
    let server = McpServer::new(program, arguments.folder, arguments.budget_usd)
        .map_err(|error| CommandFailure::usage(format!("--folder {folder}: {error}")))?;
    server.serve().await.map_err(CommandFailure::runtime)?;
    Ok(0)
}
