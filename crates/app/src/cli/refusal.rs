//! Why a command line is refused. Clap says it well, except about what had
//! another name in earlier versions: that is told with the present name.

use super::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::{ffi::OsString, path::Path};

/// Earlier flags, and what says the same now.
const RENAMED: &[(&str, &str)] =
    &[("--plan", "--dry-run"), ("--force", "--yes"), ("--config", "-f/--experiment FILE"), ("--to", "--output FILE")];

/// What clap refused, as this program says it.
pub fn explained(error: &clap::Error, arguments: &[OsString]) -> Failure {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg)
    {
        let flag = unknown.split('=').next().unwrap_or_default();
        if let Some((_, now)) = RENAMED.iter().find(|(before, _)| *before == flag) {
            return Failure::usage(format!("there is no `{flag}` any more: use {now}"));
        }
        if !unknown.starts_with('-') && may_be_experiment(unknown) {
            return Failure::usage(positional_experiment(unknown, arguments));
        }
    }
    let text = error.render().to_string();
    Failure::usage(text.strip_prefix("error: ").unwrap_or(&text).trim_end())
}

/// Whether a text is meant as an experiment file.
pub fn may_be_experiment(text: &str) -> bool {
    text.ends_with(".toml") || Path::new(text).is_file()
}

/// The refusal of an experiment file without its flag, with the command line
/// that has it.
fn positional_experiment(file: &str, arguments: &[OsString]) -> String {
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    let line: Vec<String> =
        words.map(|word| if word == file { format!("-f {word}") } else { word.into_owned() }).collect();
    format!("`{file}` stands without a flag: the experiment file is -f/--experiment FILE: reverie {}", line.join(" "))
}

/// Refuses an experiment file among other words, such as names of models.
pub fn refuse_experiment(words: &[String], verb: &str) -> Result<(), Failure> {
    match words.iter().find(|word| word.ends_with(".toml")) {
        Some(file) => Err(Failure::usage(format!(
            "`{file}` stands without a flag: the experiment file is -f/--experiment FILE: reverie {verb} -f {file}"
        ))),
        None => Ok(()),
    }
}
