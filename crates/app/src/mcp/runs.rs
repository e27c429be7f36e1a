//! The runs that an agent has started, and the budget that they share.

use super::command::{ReverieCommand, cut};
use serde_json::Value;
use std::{
    path::Path,
    process::{Child, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

const LOOK: Duration = Duration::from_millis(200);

/// The runs of a server, one after another.
pub(crate) struct StartedRuns {
    budget_usd: f64,
    state: Mutex<RunsState>,
}

#[derive(Default)]
struct RunsState {
    /// What ended runs have cost.
    spent_usd: f64,
    running: Option<RunningCommand>,
    /// How the last run ended.
    last: Option<Result<String, String>>,
}

/// A run at work.
struct RunningCommand {
    child: Child,
    /// What it may cost.
    granted_usd: f64,
    /// What it prints: its results, and its progress.
    results: tempfile::NamedTempFile,
    progress: tempfile::NamedTempFile,
}

impl StartedRuns {
    pub(crate) fn new(budget_usd: f64) -> Self {
        Self { budget_usd, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, RunsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The budget in a sentence.
    pub(crate) fn budget_text(&self) -> String {
        let left = self.left();
        match self.budget_usd {
            0.0 => {
                "The person allows runs that cost nothing: models on this machine, and answers that are paid already."
                    .to_owned()
            }
            budget => format!("The person allows ${budget:.2} for all runs together; ${left:.2} are left."),
        }
    }

    fn left(&self) -> f64 {
        let state = self.lock();
        let held = state.running.as_ref().map_or(0.0, |running| running.granted_usd);
        (self.budget_usd - state.spent_usd - held).max(0.0)
    }

    /// Starts a run. It may cost what is left of the budget, or `at_most`, and never more.
    pub(crate) fn start(
        &self,
        program: &ReverieCommand,
        folder: &Path,
        words: Vec<String>,
        at_most: Option<f64>,
    ) -> Result<(), String> {
        self.look();
        let left = self.left();
        let mut state = self.lock();
        if state.running.is_some() {
            return Err("a run goes on: `wait` for it, or `stop` it".to_owned());
        }
        let granted_usd = at_most.unwrap_or(left).min(left);
        let words =
            [vec!["run".to_owned(), "--json".to_owned(), "--budget-usd".to_owned(), granted_usd.to_string()], words]
                .concat();
        let file = || tempfile::NamedTempFile::new().map_err(|error| error.to_string());
        let (results, progress) = (file()?, file()?);
        let handle = |file: &tempfile::NamedTempFile| file.reopen().map(Stdio::from).map_err(|error| error.to_string());
        let mut command = program.command(folder, &words);
        command.stdout(handle(&results)?).stderr(handle(&progress)?);
        let child = command.spawn().map_err(|error| format!("the run did not start: {error}"))?;
        (state.running, state.last) = (Some(RunningCommand { child, granted_usd, results, progress }), None);
        Ok(())
    }

    /// Takes note of a run that has ended.
    fn look(&self) {
        let mut state = self.lock();
        let ended = state.running.as_mut().is_some_and(|running| !matches!(running.child.try_wait(), Ok(None)));
        if ended && let Some(running) = state.running.take() {
            let (spent, last) = running.ended();
            state.spent_usd += spent;
            state.last = Some(last);
        }
    }

    /// Waits for the run that goes on, but no longer than this. Returns how it ended, or where it is now.
    pub(crate) async fn wait(&self, time: Duration) -> Result<String, String> {
        let began = Instant::now();
        loop {
            self.look();
            {
                let state = self.lock();
                match (&state.running, &state.last) {
                    (None, Some(last)) => return last.clone(),
                    (None, None) => return Err("no run was started".to_owned()),
                    (Some(running), _) if began.elapsed() >= time => {
                        return Ok(format!("the run goes on; `wait` again. Its last lines:\n{}", running.last_lines()));
                    }
                    (Some(_), _) => {}
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends the run that goes on. Everything that it has finished is kept.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.lock();
        let Some(running) = state.running.as_mut() else { return false };
        // As Ctrl-C does, so that paid calls in flight are awaited.
        let interrupted = i32::try_from(running.child.id()).is_ok_and(interrupt);
        if !interrupted {
            let _ = running.child.kill();
        }
        true
    }
}

#[expect(unsafe_code, reason = "the standard library sends no signal but kill")]
fn interrupt(process: i32) -> bool {
    // SAFETY: `kill` takes two numbers. The child was not waited for, so its number is still its own.
    unsafe { libc::kill(process, libc::SIGINT) == 0 }
}

impl RunningCommand {
    fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(self.progress.path()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(12).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// What it cost, and how it ended. A run that did not say what it cost counts with all that it was allowed.
    fn ended(mut self) -> (f64, Result<String, String>) {
        let code = self.child.wait().ok().and_then(|status| status.code());
        let results = std::fs::read_to_string(self.results.path()).unwrap_or_default();
        let results: Option<Value> = serde_json::from_str(&results).ok();
        let spent = results.as_ref().and_then(|results| results["budget"]["spent"]["usd"].as_f64());
        let outcome = match (&results, code) {
            (Some(results), _) => {
                let sentences = results["verdict"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let partial = results["partial"].as_str().map(|partial| format!("PARTIAL: {partial}\n"));
                Ok(format!(
                    "{}{}\nrun {}, {} trials; `leaderboard` and `effects` have the rest",
                    partial.unwrap_or_default(),
                    sentences.collect::<Vec<_>>().join(". "),
                    results["run"].as_str().unwrap_or_default(),
                    results["trials"].as_array().map_or(0, Vec::len)
                ))
            }
            (None, Some(130)) => {
                Ok("the run was stopped; what it finished is kept, and another run goes on from there".to_owned())
            }
            (None, _) => Err(cut(std::fs::read_to_string(self.progress.path()).unwrap_or_default().trim().to_owned())),
        };
        (spent.unwrap_or(self.granted_usd), outcome)
    }
}
