//! `reverie init`: a commented experiment file for a folder.

use crate::{command::CommandContext, failure::CommandFailure};
use std::path::PathBuf;

/// Write a commented experiment file for a folder of documents.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie init ~/books
  reverie init ./manuals --output manuals.toml")]
pub struct InitArguments {
    /// The folder with the documents.
    folder: PathBuf,
    /// The file to write.
    #[arg(long, value_name = "FILE", default_value = "experiment.toml")]
    output: PathBuf,
}

const TEMPLATE: &str = include_str!("init.toml");

pub async fn run(cx: &CommandContext, arguments: InitArguments) -> Result<u8, CommandFailure> {
    let folder = &arguments.folder;
    if !folder.is_dir() {
        return Err(CommandFailure::usage(format!("{} is not a folder", folder.display())));
    }
    if arguments.output.exists() {
        return Err(CommandFailure::usage(format!(
            "{} is there already; name another with --output",
            arguments.output.display()
        )));
    }
    let absolute = folder.canonicalize().map_err(CommandFailure::at(folder))?;
    let name: String =
        absolute.file_name().map_or_else(|| "experiment".to_owned(), |name| name.to_string_lossy().into_owned());
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' }).collect();
    let source = serde_json::Value::String(absolute.display().to_string()).to_string();
    let text = TEMPLATE.replace("{name}", &name).replace("{source}", &source);
    lab::write_new(&arguments.output, text.as_bytes())?;
    let output = arguments.output.display().to_string();
    // The default name needs no flag.
    let flag = if output == "experiment.toml" { String::new() } else { format!(" -f {output}") };
    cx.print(format_args!("wrote {output}\nnext: reverie models pull all-minilm-l6-v2 onnxruntime pdfium && reverie plan{flag} && reverie run{flag}"));
    Ok(0)
}
