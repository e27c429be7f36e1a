//! `reverie manual`: the pages that `man` shows.

use crate::{command::CommandContext, failure::CommandFailure};
use std::path::PathBuf;

/// Write the manual pages of all verbs into a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie manual ~/.local/share/man/man1     # then: man reverie, man reverie-run")]
pub struct ManualArguments {
    /// The folder; it is made if it is not there.
    folder: PathBuf,
}

pub async fn run(cx: &CommandContext, arguments: ManualArguments) -> Result<u8, CommandFailure> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).map_err(CommandFailure::at(folder))?;
    clap_mangen::generate_to((cx.command_line)(), folder).map_err(CommandFailure::at(folder))?;
    cx.print(format!("{}: the pages of `reverie` and its verbs", folder.display()));
    Ok(0)
}
