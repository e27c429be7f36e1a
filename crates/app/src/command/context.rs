//! The context of a command: where its results, remarks and warnings go, and how it is cancelled.

use crate::{environment, failure::CommandFailure, jobs::ResultLines, render};
use lab::{Connect, RunRecord, Session, Setup};
use std::{
    fmt::Display,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// How long a command that calls models may take to end after Ctrl-C. Calls in flight
/// are awaited for at most ten seconds.
pub const PAID_CALLS_GRACE: Duration = Duration::from_secs(12);

/// How long other commands may take, in milliseconds.
const GRACE_MS: u64 = 1500;

/// What every command gets.
pub struct CommandContext {
    /// Whether results are printed as JSON.
    pub json: bool,
    /// Cancelled by Ctrl-C.
    pub cancel: CancellationToken,
    /// The whole command line, of which manual pages and completions are made.
    pub command_line: fn() -> clap::Command,
    /// Joins a Ray cluster; `None` in a program that cannot.
    connect: Option<Connect>,
    /// In a job of a cluster: prints results so that they stand apart from everything
    /// else in the job's log.
    result_lines: Option<ResultLines>,
    grace_ms: Arc<AtomicU64>,
}

impl CommandContext {
    /// The context of a command line.
    pub fn new(json: bool, connect: Option<Connect>, command_line: fn() -> clap::Command) -> Self {
        Self {
            json,
            cancel: CancellationToken::new(),
            command_line,
            connect,
            result_lines: ResultLines::from_environment(),
            grace_ms: Arc::new(AtomicU64::new(GRACE_MS)),
        }
    }

    /// Whether this program is a Python interpreter with the package.
    pub fn is_in_python(&self) -> bool {
        self.connect.is_some()
    }

    /// The setup of a session.
    pub fn setup(&self) -> Setup {
        let mut setup = environment::setup(self.cancel.clone());
        setup.cluster.connect.clone_from(&self.connect);
        setup
    }

    /// Prints a result. Control characters in text of documents, models and
    /// servers are made visible.
    pub fn print(&self, text: impl Display) {
        self.write(&render::visible(&text.to_string()));
    }

    /// Prints a leaderboard.
    ///
    /// # Errors
    /// If the layout names a column that the leaderboard does not have.
    pub fn print_leaderboard(&self, board: &lab::Board, layout: &render::TableLayout) -> Result<(), CommandFailure> {
        self.print(render::leaderboard(board, layout).map_err(CommandFailure::usage)?);
        Ok(())
    }

    /// Prints a result as JSON.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn print_json(&self, value: &impl serde::Serialize) -> Result<(), CommandFailure> {
        let text = serde_json::to_string_pretty(value).map_err(CommandFailure::runtime)?;
        self.write(&render::visible_json(&text));
        Ok(())
    }

    /// Prints a result as JSON, or else as the text that `render` makes of it.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn show<T: serde::Serialize, Text: Display>(
        &self,
        result: &T,
        render: impl FnOnce(&T) -> Text,
    ) -> Result<(), CommandFailure> {
        if self.json {
            return self.print_json(result);
        }
        self.print(render(result));
        Ok(())
    }

    /// Prints the result of a command, as [`Self::show`] does, and returns the exit code 0.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub fn finish<T: serde::Serialize, Text: Display>(
        &self,
        result: &T,
        render: impl FnOnce(&T) -> Text,
    ) -> Result<u8, CommandFailure> {
        self.show(result, render).map(|()| 0)
    }

    fn write(&self, result: &str) {
        match &self.result_lines {
            Some(lines) => lines.print(&format!("{result}\n")),
            // A closed pipe (`reverie leaderboard | head`) is not an error.
            None => drop(writeln!(std::io::stdout(), "{result}")),
        }
    }

    /// Sets how long this command may take to end after Ctrl-C; a second Ctrl-C
    /// ends it at once.
    pub fn set_grace(&self, time: Duration) {
        self.grace_ms.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Waits as long as this command may take to end after Ctrl-C.
    pub fn wait_for_grace(&self) -> impl Future<Output = ()> + Send + use<> {
        let grace_ms = self.grace_ms.clone();
        async move { tokio::time::sleep(Duration::from_millis(grace_ms.load(Ordering::SeqCst))).await }
    }

    /// Prints progress or a remark on standard error, unless `--quiet` was given.
    pub fn note(&self, text: impl Display) {
        if !environment::is_quiet() {
            self.warn(text);
        }
    }

    /// Prints a warning on standard error, also with `--quiet`.
    pub fn warn(&self, text: impl Display) {
        let _ = writeln!(std::io::stderr(), "{}", render::visible(&text.to_string()));
    }

    /// Prints on standard error what has changed since a run, one line for each
    /// change, and returns the lines. The changes do not affect what the command
    /// shows.
    pub async fn note_changes_since(&self, session: &Session, record: &RunRecord) -> Vec<String> {
        let lines = lab::changed_since(session, record).await;
        for line in &lines {
            self.note(format_args!("since that run: {line}"));
        }
        lines
    }
}
