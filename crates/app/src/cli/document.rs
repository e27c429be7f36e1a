//! `reverie document`: the text of a document as it is parsed.

use crate::{
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
    render,
};

/// Print a document's text as it is parsed: what chunks are made of.
///
/// The evidence of golden questions is quoted from this text. Where the format
/// has pages, a line `── page 3 ──` stands before each; it is no part of the
/// text.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie document manuals/install.pdf
  reverie document manuals/install.pdf | less
  reverie document manuals/install.pdf --json | jq -r .text     # the text alone")]
pub struct DocumentArguments {
    /// The file below the corpus' root, as passages name it.
    path: String,
    #[command(flatten)]
    file: ExperimentFile,
}

pub async fn run(cx: &CommandContext, arguments: DocumentArguments) -> Result<u8, CommandFailure> {
    let session = environment::open_maybe_read_only(environment::read(&arguments.file.experiment)?, cx.setup())?;
    let document = lab::document(&session, &arguments.path).await?;
    cx.finish(&document, render::document)
}
