//! `reverie keys`: who may ask a service.

use crate::{command::CommandContext, failure::CommandFailure, option_values::InvalidValue};
use ::serve::{KeyEntry, KeyFile, KeyScope};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Make API keys for `reverie serve`, and list them.
///
/// A key is shown once. The file holds only digests, so whoever reads it cannot ask.
#[derive(clap::Args)]
pub struct KeysArguments {
    #[command(subcommand)]
    verb: KeysVerb,
}

#[derive(clap::Subcommand)]
enum KeysVerb {
    /// Make a key, add its digest to the file, and print it.
    New(NewKey),
    /// List the keys of the file: names, scopes, limits.
    List(KeyFileOption),
}

#[derive(clap::Args)]
struct KeyFileOption {
    /// The file of keys.
    #[arg(long, value_name = "FILE", default_value = "keys.toml", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie keys new alice
  reverie keys new prometheus --scope metrics
  reverie keys new deploy --scope admin --scope metrics
  reverie keys new ci --requests-per-minute 60")]
struct NewKey {
    /// Whose key it is, for logs.
    name: String,
    /// What it allows: ask, metrics, review, admin; may be given more than once. Default ask.
    #[arg(long, value_parser = parse_scope)]
    scope: Vec<KeyScope>,
    /// The most requests in a minute.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_minute: Option<u32>,
    #[command(flatten)]
    file: KeyFileOption,
}

fn parse_scope(text: &str) -> Result<KeyScope, InvalidValue> {
    serde_json::from_value(json!(text)).map_err(|_| InvalidValue::Form("one of ask, metrics, review, admin"))
}

pub async fn run(cx: &CommandContext, arguments: KeysArguments) -> Result<u8, CommandFailure> {
    match arguments.verb {
        KeysVerb::New(new) => make(cx, new),
        KeysVerb::List(file) => list(cx, &read(&file.file)?),
    }
}

fn make(cx: &CommandContext, new: NewKey) -> Result<u8, CommandFailure> {
    let path = &new.file.file;
    let mut file = if path.exists() { read(path)? } else { KeyFile::default() };
    if file.key.iter().any(|key| key.name == new.name) {
        let reason = format!("{} has a key `{}` already: choose another name, or remove it", path.display(), new.name);
        return Err(CommandFailure::usage(reason));
    }
    let scopes = if new.scope.is_empty() { vec![KeyScope::Ask] } else { new.scope };
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(CommandFailure::runtime)?;
    let (key, entry) = ::serve::create_key(&new.name, scopes, new.requests_per_minute, random);
    file.key.push(entry);
    lab::write_whole(path, toml::to_string(&file).map_err(CommandFailure::runtime)?.as_bytes())?;
    cx.finish(&json!({ "name": new.name, "key": key, "file": path }), |_| {
        cx.note(format_args!("the key, which is shown only this once ({} holds its digest):", path.display()));
        &key
    })
}

fn list(cx: &CommandContext, file: &KeyFile) -> Result<u8, CommandFailure> {
    if cx.json {
        cx.print_json(&file.key)?;
        return Ok(0);
    }
    for KeyEntry { name, scopes, requests_per_minute, .. } in &file.key {
        let scopes: Vec<String> =
            scopes.iter().map(|scope| json!(scope).as_str().unwrap_or_default().to_owned()).collect();
        let limit = requests_per_minute.map(|limit| format!(", {limit} requests a minute")).unwrap_or_default();
        cx.print(format_args!("{name}: {}{limit}", scopes.join(", ")));
    }
    Ok(0)
}

fn read(path: &Path) -> Result<KeyFile, CommandFailure> {
    let refused = |reason: &dyn std::fmt::Display| CommandFailure::usage(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
    KeyFile::read(&text).map_err(|error| refused(&error))
}
