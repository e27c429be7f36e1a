//! This program as a child process: what a tool runs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The most characters of a command's output that an agent gets.
const MOST_CHARACTERS: usize = 60_000;

/// How this program is started.
#[derive(Debug, Clone)]
pub(crate) struct ReverieCommand {
    program: PathBuf,
    /// Before the words of a command line, such as `-m reverie` for a Python interpreter.
    first: Vec<OsString>,
}

impl ReverieCommand {
    pub(crate) fn new(program: PathBuf, first: impl IntoIterator<Item = &'static str>) -> Self {
        Self { program, first: first.into_iter().map(OsString::from).collect() }
    }

    /// A command line, which starts in a folder and asks for no colours.
    pub(crate) fn command(&self, folder: &Path, words: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.first).args(words).args(["--color", "never"]);
        command.current_dir(folder).stdin(Stdio::null()).env("COLUMNS", "160");
        command
    }

    /// Runs a command to its end. Returns what it printed, and whether it succeeded; `allowed` are exit codes besides 0 that
    /// are no failure.
    pub(crate) async fn output(&self, folder: &Path, words: &[String], allowed: &[i32]) -> Result<String, String> {
        let mut command = self.command(folder, words);
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        let output =
            ended.map_err(|error| error.to_string())?.map_err(|error| format!("the command did not start: {error}"))?;
        let text = |bytes: &[u8]| cut(String::from_utf8_lossy(bytes).trim().to_owned());
        let (printed, remarks) = (text(&output.stdout), text(&output.stderr));
        match output.status.code() {
            Some(code) if code == 0 || allowed.contains(&code) => Ok(match (printed.is_empty(), remarks.is_empty()) {
                (_, true) => printed,
                (true, false) => remarks,
                (false, false) => format!("{printed}\n\n{remarks}"),
            }),
            _ => Err(if remarks.is_empty() { printed } else { remarks }),
        }
    }
}

/// Cuts a long text in its middle, and says so.
pub(crate) fn cut(text: String) -> String {
    let characters = text.chars().count();
    if characters <= MOST_CHARACTERS {
        return text;
    }
    let half = MOST_CHARACTERS / 2;
    let first: String = text.chars().take(half).collect();
    let last: String = text.chars().skip(characters - half).collect();
    format!("{first}\n[… {} characters are left out …]\n{last}", characters - 2 * half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends_and_says_how_much_is_left_out() {
        let long = format!("{}{}", "a".repeat(MOST_CHARACTERS), "ö".repeat(10));
        let kept = cut(long);
        assert!(kept.starts_with('a') && kept.ends_with('ö') && kept.contains("[… 10 characters are left out …]"));
        assert_eq!(cut("short".to_owned()), "short");
    }
}
