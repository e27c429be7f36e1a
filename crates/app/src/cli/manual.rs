//! `reverie manual`: the pages that `man` shows.

use super::{Context, Failure};
use std::path::PathBuf;

/// Write the manual pages of all verbs into a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie manual ~/.local/share/man/man1     # then: man reverie, man reverie-run")]
pub struct Arguments {
    /// The folder; it is made if it is not there.
    folder: PathBuf,
}

pub fn run(cx: &Context, arguments: &Arguments) -> Result<u8, Failure> {
    let folder = &arguments.folder;
    let failed = |error| Failure::work(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(super::command(), folder).map_err(failed)?;
    cx.print(format!("{}: the pages of `reverie` and its verbs", folder.display()));
    Ok(0)
}
