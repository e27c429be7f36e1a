//! What an agent may not: leave the folder, or name programs to be run.

use std::path::{Component, Path, PathBuf};
use toml::Value;

/// The sections of an experiment in which an agent may set values.
const SECTIONS: [&str; 6] = ["name", "space", "dataset", "evaluate", "search", "warnings"];
/// Keys in them by which an experiment runs programs or functions, sends texts to addresses, or spends money.
const REFUSED_KEYS: [&str; 11] = [
    "command",
    "program",
    "python",
    "function",
    "module",
    "base_url",
    "url",
    "environment",
    "headers",
    "api_key_env",
    "budget",
];

/// The folder that an agent may use.
#[derive(Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new(folder: PathBuf) -> std::io::Result<Self> {
        Ok(Self(folder.canonicalize()?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A path in the folder, as a command takes it.
    ///
    /// # Errors
    /// If it leaves the folder, also by a link.
    pub(crate) fn resolve(&self, path: &str) -> Result<String, String> {
        let outside = || format!("`{path}` is outside of the folder that this server may use ({})", self.0.display());
        let given = Path::new(path);
        if path.starts_with('-') || given.components().any(|part| matches!(part, Component::ParentDir)) {
            return Err(outside());
        }
        let joined = self.0.join(given);
        // What is not there yet is judged by its folder.
        let mut there: &Path = &joined;
        let real = loop {
            match there.canonicalize() {
                Ok(real) => break real,
                Err(_) => there = there.parent().ok_or_else(outside)?,
            }
        };
        if real.starts_with(&self.0) { Ok(path.to_owned()) } else { Err(outside()) }
    }
}

/// Checks a value that replaces one of the experiment file, such as `space.retriever.bm25.top_k=3`. It is read as `--set`
/// reads it: as TOML, or the value as a plain text.
///
/// # Errors
/// If it would run a program, call an address, leave the folder, raise a budget, or is none.
pub(crate) fn check_override(root: &Root, text: &str) -> Result<(), String> {
    let refuse = |name: &str| {
        Err(format!(
            "`{text}`: an agent may not set `{name}`, by which programs are run, addresses are called or money is spent; a \
             person can write it into the experiment file"
        ))
    };
    let no_pair = || format!("`{text}` is no KEY=VALUE");
    // A quoted key may have a `=` in it.
    let as_text = || {
        let mut keys = text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
        keys.find_map(|(key, value)| format!("{key}={}", Value::String(value.to_owned())).parse::<toml::Table>().ok())
    };
    let read = text.parse::<toml::Table>().ok().or_else(as_text).ok_or_else(no_pair)?;
    // More than one line may be more than one value.
    let (name, value) = read.iter().next().filter(|_| read.len() == 1).ok_or_else(no_pair)?;
    if !SECTIONS.contains(&name.as_str()) {
        return refuse(name);
    }
    match refused_key(value) {
        Some(name) => refuse(&name),
        None => check_paths(root, value),
    }
}

/// The first key of a value that an agent may not set.
fn refused_key(value: &Value) -> Option<String> {
    match value {
        Value::Table(table) => table.iter().find_map(|(key, value)| {
            if REFUSED_KEYS.contains(&key.as_str()) { Some(key.clone()) } else { refused_key(value) }
        }),
        Value::Array(items) => items.iter().find_map(refused_key),
        Value::String(text) if REFUSED_KEYS.contains(&text.as_str()) => Some(text.clone()),
        _ => None,
    }
}

/// Any text of a value may be a path, and then it must be one of the folder.
fn check_paths(root: &Root, value: &Value) -> Result<(), String> {
    match value {
        Value::Table(table) => table.values().try_for_each(|value| check_paths(root, value)),
        Value::Array(items) => items.iter().try_for_each(|value| check_paths(root, value)),
        Value::String(text) if text.contains("://") => Err(format!("`{text}`: an agent may not set an address")),
        Value::String(text) => root.resolve(text).map(drop),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_not_leave_the_folder() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        std::os::unix::fs::symlink(other.path(), folder.path().join("link")).unwrap();
        let root = Root::new(folder.path().to_owned()).unwrap();
        for path in ["docs", "docs/new.toml", "new/deep/er.toml", ".", "experiment.toml"] {
            assert_eq!(root.resolve(path).as_deref(), Ok(path));
        }
        let inside = folder.path().canonicalize().unwrap().join("docs").display().to_string();
        assert!(root.resolve(&inside).is_ok());
        for path in ["..", "docs/../../x", "/etc/passwd", "link", "link/x.toml", "--help", "-f"] {
            assert!(root.resolve(path).unwrap_err().contains("outside"), "{path}");
        }
    }

    #[test]
    fn a_value_may_not_run_a_program_call_an_address_leave_the_folder_or_raise_a_budget() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned()).unwrap();
        for text in [
            "space.chunker=[\"sentence\"]",
            "space.retriever.bm25.top_k=3",
            "dataset.limit=20",
            "evaluate.metrics=[\"recall\"]",
            "space.chunker=[{ sentence = { chunk_size = 64 } }]",
            "name=try",
            "dataset.path=golden.jsonl",
            "space.generator=[{ compact = { model = \"gpt\", prompt = \"Answer {question} = short\" } }]",
        ] {
            assert_eq!(check_override(&root, text), Ok(()), "{text}");
        }
        for text in [
            "space.parse={ command = { program = \"rm\" } }",
            "space.parse.command.program=rm",
            "space.chunker=[{ python = { function = \"os:system\" } }]",
            "systems.mine.http.url=http://evil",
            "models.gpt.chat.openai.base_url=http://evil",
            "models.gpt.chat.openai.api_key_env=SECRET",
            "track.mlflow.uri=http://evil",
            "engine.ray.address=auto",
            "space.parse=command",
            "\"models\".gpt.chat.openai.base_url=http://evil",
            "\"mod\\u0065ls\".gpt.chat.openai.base_url=http://evil",
            "dataset.limit=[1]\nmodels.gpt.chat.openai.base_url=\"http://evil\"",
            "space.retriever=[\"bm25\"]\nspace.parse=\"command\"",
            "corpus.source=/etc",
            "store=../elsewhere",
            "dataset.path=/etc/passwd",
            "dataset.path=../golden.jsonl",
            "dataset.path=s3://bucket/golden.jsonl",
            "evaluate.budget.usd=100",
            "evaluate={ metrics = [\"recall\"], budget = { usd = 100 } }",
            "nonsense",
            "=3",
        ] {
            assert!(check_override(&root, text).is_err(), "{text}");
        }
    }
}
