//! All runs of a store: those at work, those that ended, and those that were cut off.

use crate::{
    Error, Session,
    clock::now_ms,
    layout::{self, RunFileName},
    live::{LiveRun, LiveState, read_live},
    run_summary::RunHead,
    track::recorded_experiment,
    workspace::RunStart,
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};
use store::Event;

/// A run whose state was written in this time may be at work, although it has results of an earlier start.
const RECENT_MS: i64 = 30_000;
/// How much of the end of an event log is read for how the run ended, in bytes.
const TAIL_BYTES: u64 = 64 << 10;

/// A run of a store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownRun {
    /// The run's id.
    pub run: String,
    /// The experiment's name.
    pub experiment: String,
    /// Its state.
    pub state: LiveState,
    /// When it began, in milliseconds since 1970; none if that is not known.
    pub started_ms: Option<i64>,
    /// When it finished; none for a run that did not.
    pub finished_ms: Option<i64>,
    /// What the command line replaced in the experiment file; empty for a run of what the file says.
    pub overrides: Vec<String>,
    /// How many trials it has; none if that is not known.
    pub trials: Option<usize>,
    /// The first sentence of its verdict.
    pub headline: Option<String>,
    /// Whether there are results to look at.
    pub has_results: bool,
}

/// All runs of a session's store that this machine knows, those at work first, then the latest.
///
/// # Errors
/// If the store cannot be listed. A run whose files cannot be read is left out.
pub async fn known_runs(session: &Session) -> Result<Vec<KnownRun>, Error> {
    let workspace = session.workspace();
    let folder = layout::runs_folder(workspace.root());
    let looked = tokio::task::spawn_blocking(move || runs_here(&folder)).await.map_err(Error::table)?;
    let mut runs: BTreeMap<String, KnownRun> = looked?.into_iter().map(|run| (run.run.clone(), run)).collect();
    for object in workspace.store().objects(&layout::live_folder()).await? {
        let Some(run) = object.name.rsplit('/').next().and_then(|file| file.strip_suffix(".json")) else { continue };
        let is_recent = now_ms() - object.modified_unix_ms < RECENT_MS;
        let is_over = runs.get(run).is_some_and(|known| known.has_results);
        // What is damaged, or of another version, says nothing.
        if (is_recent || !is_over)
            && let Ok(Some(live)) = read_live(workspace.store(), run).await
        {
            let before = runs.remove(run);
            runs.insert(run.to_owned(), of_live(live, before));
        }
    }
    let mut runs: Vec<KnownRun> = runs.into_values().collect();
    let latest = |run: &KnownRun| run.finished_ms.or(run.started_ms).unwrap_or_default();
    runs.sort_by(|one, other| {
        let order = other.state.is_live().cmp(&one.state.is_live());
        order.then(latest(other).cmp(&latest(one))).then_with(|| one.run.cmp(&other.run))
    });
    Ok(runs)
}

/// How a run of a session's store is doing, if its process wrote that.
///
/// # Errors
/// If the store cannot be read, or what was written is damaged.
pub async fn live_run(session: &Session, run: &str) -> Result<Option<LiveRun>, Error> {
    read_live(session.workspace().store(), run).await
}

/// A trial that a run has planned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedChoices {
    /// Its id.
    pub trial: String,
    /// The component on each axis, and each setting by its dotted key, as short texts.
    pub choices: BTreeMap<String, String>,
}

/// The trials of a run as they were planned, from its experiment file.
///
/// # Errors
/// If this machine does not have the file, or it cannot be read.
pub async fn planned_choices(session: &Session, run: &str) -> Result<Vec<PlannedChoices>, Error> {
    let experiment = recorded_experiment(session, &session.workspace().run_folder(run))?;
    let planned = |trial: &crate::Trial| PlannedChoices { trial: trial.id.clone(), choices: trial.choices() };
    Ok(experiment.trials().iter().map(planned).collect())
}

fn of_live(live: LiveRun, before: Option<KnownRun>) -> KnownRun {
    let is_finished = live.state == LiveState::Finished;
    let known = before.as_ref();
    KnownRun {
        state: live.state,
        started_ms: Some(live.started_ms),
        finished_ms: if is_finished { known.and_then(|run| run.finished_ms).or(Some(live.written_ms)) } else { None },
        overrides: known.map(|run| run.overrides.clone()).unwrap_or_default(),
        trials: Some(live.trials.len()),
        headline: known.and_then(|run| run.headline.clone()),
        has_results: known.is_some_and(|run| run.has_results),
        run: live.run,
        experiment: live.experiment,
    }
}

fn runs_here(folder: &Path) -> Result<Vec<KnownRun>, Error> {
    let entries = Error::allow_missing(folder, std::fs::read_dir(folder))?;
    let folders = entries.into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    Ok(folders.filter_map(|folder| finished_run(&folder).or_else(|| run_without_summary(&folder))).collect())
}

fn finished_run(folder: &Path) -> Option<KnownRun> {
    let head = RunHead::of_folder(folder)?;
    Some(KnownRun {
        run: head.run().to_owned(),
        experiment: head.experiment().to_owned(),
        state: LiveState::Finished,
        started_ms: first_start(folder),
        finished_ms: Some(head.time_ms),
        overrides: RunStart::read(folder).map(|start| start.overrides).unwrap_or_default(),
        trials: Some(head.n_trials()),
        headline: head.headline(),
        has_results: true,
    })
}

/// A run that has a log and no summary: it did not finish, or another version wrote its results, or they are damaged.
fn run_without_summary(folder: &Path) -> Option<KnownRun> {
    let run = folder.file_name()?.to_str()?.to_owned();
    let started_ms = first_start(folder)?;
    let results = RunFileName::Results.within(folder).metadata().ok().filter(std::fs::Metadata::is_file);
    let experiment = run.rsplit_once('-').map_or(run.as_str(), |(name, _)| name).to_owned();
    let state = match last_end(&RunFileName::Events.within(folder)).as_deref() {
        Some("run_failed") => LiveState::Failed,
        Some("run_interrupted" | "run_continued") => LiveState::Interrupted,
        Some("run_finished") if results.is_some() => LiveState::Finished,
        // It finished, but its results are not there.
        Some(_) => LiveState::Failed,
        None => LiveState::Stalled,
    };
    Some(KnownRun {
        run,
        experiment,
        state,
        started_ms: Some(started_ms),
        finished_ms: if state == LiveState::Finished { written_ms(results.as_ref()) } else { None },
        overrides: RunStart::read(folder).map(|start| start.overrides).unwrap_or_default(),
        trials: None,
        headline: None,
        has_results: results.is_some(),
    })
}

/// When a file was written, in milliseconds since 1970.
fn written_ms(file: Option<&std::fs::Metadata>) -> Option<i64> {
    let since_1970 = file?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since_1970.as_millis()).ok()
}

/// When a run began first, by its event log.
fn first_start(folder: &Path) -> Option<i64> {
    let path: PathBuf = RunFileName::Events.within(folder);
    let lines = BufReader::new(File::open(path).ok()?.take(TAIL_BYTES)).split(b'\n');
    let mut events = lines.map_while(Result::ok).filter_map(|line| serde_json::from_slice::<Event>(&line).ok());
    events.find(|event| event.kind == "run_started").map(|event| event.time_ms)
}

/// How a run ended last, by the end of its event log; none if it went on after that.
fn last_end(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let kinds = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Event>(line).ok());
    let last = kinds.map(|event| event.kind).rfind(|kind| kind.starts_with("run_"));
    last.filter(|kind| kind != "run_started")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(runs: &Path, name: &str, lines: &[&str]) {
        let path = runs.join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(RunFileName::Events.within(&path), lines.join("\n")).unwrap();
    }

    #[test]
    fn a_run_without_results_is_shown_by_how_its_log_ends() {
        let runs = tempfile::tempdir().unwrap();
        let started = r#"{"time_ms":7,"kind":"run_started"}"#;
        folder(runs.path(), "zoo-1", &[started, r#"{"time_ms":8,"kind":"run_interrupted"}"#]);
        folder(
            runs.path(),
            "zoo-2",
            &[started, r#"{"time_ms":8,"kind":"run_failed","error":"x"}"#, "{\"time_ms\":9,\"ki"],
        );
        folder(runs.path(), "big-zoo-3", &[started, r#"{"time_ms":8,"kind":"task_started"}"#]);
        folder(runs.path(), "zoo-4", &[started, r#"{"time_ms":8,"kind":"run_failed"}"#, started]);
        let finished = [started, r#"{"time_ms":8,"kind":"run_finished"}"#];
        folder(runs.path(), "zoo-5", &finished);
        folder(runs.path(), "zoo-6", &finished);
        std::fs::write(RunFileName::Results.within(&runs.path().join("zoo-6")), "of another version").unwrap();
        folder(runs.path(), "notes", &["nothing"]);
        let mut found = runs_here(runs.path()).unwrap();
        found.sort_by(|one, other| one.run.cmp(&other.run));
        let with_results: Vec<_> = found.iter().filter(|run| run.has_results).map(|run| run.run.as_str()).collect();
        assert_eq!(with_results, ["zoo-6"], "it has no summary, but something to look at");
        let found: Vec<_> = found.iter().map(|run| (run.run.as_str(), run.experiment.as_str(), run.state)).collect();
        use LiveState as Is;
        assert_eq!(
            found,
            [
                ("big-zoo-3", "big-zoo", Is::Stalled),
                ("zoo-1", "zoo", Is::Interrupted),
                ("zoo-2", "zoo", Is::Failed),
                ("zoo-4", "zoo", Is::Stalled),
                ("zoo-5", "zoo", Is::Failed),
                ("zoo-6", "zoo", Is::Finished)
            ]
        );
        assert!(runs_here(&runs.path().join("absent")).unwrap().is_empty());
    }
}
