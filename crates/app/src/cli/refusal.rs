//! The message about a command line with mistakes. It is clap's own, except for
//! options that had another name in earlier versions.

use crate::failure::CommandFailure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::{ffi::OsString, path::Path};

/// Flags of earlier versions, and their present names.
const RENAMED: &[(&str, &str)] =
    &[("--plan", "--dry-run"), ("--force", "--yes"), ("--config", "-f/--experiment FILE"), ("--to", "--output FILE")];

/// The message about what clap refused.
pub(super) fn explain(error: &clap::Error, arguments: &[OsString]) -> CommandFailure {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg)
    {
        let flag = unknown.split('=').next().unwrap_or_default();
        if let Some((_, now)) = RENAMED.iter().find(|(before, _)| *before == flag) {
            return CommandFailure::usage(format!("there is no `{flag}` any more: use {now}"));
        }
        if !unknown.starts_with('-') && may_be_experiment(unknown) {
            return CommandFailure::usage(positional_experiment(unknown, arguments));
        }
    }
    let text = error.render().to_string();
    CommandFailure::usage(text.strip_prefix("error: ").unwrap_or(&text).trim_end())
}

/// Whether a word looks like an experiment file.
fn may_be_experiment(text: &str) -> bool {
    text.ends_with(".toml") || Path::new(text).is_file()
}

/// The refusal of an experiment file without its flag, with the command line
/// that has it.
fn positional_experiment(file: &str, arguments: &[OsString]) -> String {
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    let line: Vec<String> =
        words.map(|word| if word == file { format!("-f {word}") } else { word.into_owned() }).collect();
    format!("`{file}`: pass the experiment file with -f: reverie {}", line.join(" "))
}
