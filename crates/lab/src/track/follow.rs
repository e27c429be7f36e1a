//! Shows a run on trackers while it goes on: one task reads the run's folder
//! every few seconds, and one task for each tracker brings its server up to
//! date, with growing pauses while the server is away.

use super::{RunView, Tracker, TrackerError, view::RunReader};
use crate::{
    Error, Experiment, PreparedRun, Session,
    action::Action,
    error_chain,
    layout::{self, RunFileName},
    progress::Progress,
    task::RunContext,
};
use serde_json::json;
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

/// When the run's folder is read first. A run whose tasks are all in the store has ended by then.
const FIRST_LOOK: Duration = Duration::from_millis(1500);
/// Between tries while the server is away.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Tries after a run has ended.
const LAST_TRIES: u32 = 4;
const LAST_PAUSE: Duration = Duration::from_millis(400);

/// The trackers at work for a run of this process.
pub struct Tracking {
    /// Why some trackers could not even be started.
    notes: Vec<String>,
    following: Option<Following>,
}

struct Following {
    stop: Option<oneshot::Sender<()>>,
    reading: JoinHandle<()>,
    trackers: Vec<TrackerTask>,
    run_context: Arc<RunContext>,
}

/// One tracker at work.
struct TrackerTask {
    place: String,
    wait: Duration,
    task: JoinHandle<(TrackerWork, Result<Vec<String>, TrackerError>)>,
}

/// The result of a tracker's work.
#[derive(Debug, Default, Clone, Copy)]
struct TrackerWork {
    syncs: usize,
    failed: usize,
    seconds: f64,
}

/// A view, and whether it is the last one.
type ShownState = Option<(Arc<RunView>, bool)>;

/// Starts to show a run on the experiment's trackers. A failure of a tracker
/// neither stops nor slows the run; [`Tracking::finish`] returns it.
pub fn follow(session: &Session, prepared: &PreparedRun) -> Tracking {
    let (trackers, notes) = trackers(session);
    if trackers.is_empty() {
        return Tracking { notes, following: None };
    }
    let reader =
        RunReader::new(session.workspace().run_folder(&prepared.run), &prepared.run, session.experiment.clone());
    let every = trackers.iter().map(|tracker| tracker.pace().every).min().unwrap_or(FIRST_LOOK);
    let (sender, receiver) = watch::channel(None);
    let run_context = prepared.run_context.clone();
    let show = |tracker: Box<dyn Tracker>| TrackerTask {
        place: tracker.place().to_owned(),
        wait: tracker.pace().wait,
        task: tokio::spawn(send_views(
            tracker,
            receiver.clone(),
            run_context.clone(),
            session.setup().control.progress.clone(),
        )),
    };
    let trackers = trackers.into_iter().map(show).collect();
    let (stop, stopped) = oneshot::channel();
    let reading = tokio::spawn(read_until_stopped(reader, every, stopped, sender, run_context.clone()));
    Tracking { notes, following: Some(Following { stop: Some(stop), reading, trackers, run_context }) }
}

/// Brings the experiment's trackers to the state of a run that was
/// recorded before: the last one, or that with the given id. Returns what
/// was shown where, and what cannot be shown, in sentences.
///
/// # Errors
/// If there is no tracker or no such run, or if a server does not have
/// everything.
pub async fn catch_up(session: &Session, run: Option<&str>) -> Result<Vec<String>, Error> {
    let (trackers, broken) = trackers(session);
    Error::refuse(broken)?;
    if trackers.is_empty() {
        let advice = "the experiment has no tracker: add `mlflow = { uri = \"http://…\" }` under [track]";
        return Err(Error::Refused(vec![advice.to_owned()]));
    }
    let runs = layout::runs_folder(session.workspace().root());
    let name = &session.experiment.name;
    let run = run.map(str::to_owned).or_else(|| super::view::last_run(&runs, name)).ok_or_else(|| Error::NoRun {
        experiment: name.clone(),
        what: "run",
        place: runs.display().to_string(),
    })?;
    let folder = runs.join(&run);
    let mut reader = RunReader::new(folder.clone(), &run, recorded_experiment(session, &folder)?);
    let view = RunView { is_last: true, ..reader.look()? };
    if view.started_ms == 0 {
        return Err(Error::NotFound(format!("there is no run `{run}` in {}", runs.display())));
    }
    let mut lines = Vec::new();
    for mut tracker in trackers {
        let place = tracker.place().to_owned();
        match tracker.sync(&view).await {
            Ok(lacks) => {
                lines.push(format!("{place} shows the run {run}"));
                lines.extend(lacks.iter().map(|lack| format!("{place}: {lack}")));
            }
            Err(failure) => {
                return Err(Error::TrackerIncomplete { place, run, reason: failure.to_string() });
            }
        }
    }
    Ok(lines)
}

/// The experiment as it was when a run was recorded. Where it had secrets, it has other texts.
pub(crate) fn recorded_experiment(session: &Session, folder: &std::path::Path) -> Result<Arc<Experiment>, Error> {
    let path: PathBuf = RunFileName::Experiment.within(folder);
    let text = std::fs::read_to_string(&path).map_err(|source| Error::file("read", &path, source))?;
    let parsed = Experiment::parse(&text, &session.experiment.base);
    let read = parsed
        .map_err(|errors| Error::Refused(errors.iter().map(|error| format!("{}:{error}", path.display())).collect()))?;
    Ok(Arc::new(read))
}

/// The experiment's trackers, and why others cannot work.
fn trackers(session: &Session) -> (Vec<Box<dyn Tracker>>, Vec<String>) {
    let (mut trackers, mut broken) = (Vec::new(), Vec::new());
    for config in &session.experiment.track {
        match super::open(config, &session.setup().environment) {
            Ok(tracker) => trackers.push(tracker),
            Err(error) => broken.push(format!("track.{}: {}", config.name(), error_chain(&error))),
        }
    }
    (trackers, broken)
}

impl Tracking {
    /// Reports that the run has ended: everything that there is to show has
    /// been written.
    pub fn stop(&mut self) {
        if let Some(stop) = self.following.as_mut().and_then(|following| following.stop.take()) {
            let _ = stop.send(());
        }
    }

    /// Waits until everything is shown, but no longer than each tracker may
    /// take. Returns failures and remarks, in sentences.
    pub async fn finish(mut self) -> Vec<String> {
        self.stop();
        let Self { mut notes, following } = self;
        let Some(Following { reading, trackers, run_context, .. }) = following else { return notes };
        let _ = reading.await;
        let started = Instant::now();
        for TrackerTask { place, wait, mut task } in trackers {
            let left = wait.saturating_sub(started.elapsed());
            let (work, result) = match timeout(left, &mut task).await {
                Ok(Ok(done)) => done,
                Ok(Err(error)) => (TrackerWork::default(), Err(TrackerError::Refused(error.to_string()))),
                Err(_) => {
                    task.abort();
                    let late = format!("it took more than the {} s that a run waits at its end", wait.as_secs_f64());
                    (TrackerWork::default(), Err(TrackerError::Away(late)))
                }
            };
            let behind = result.as_ref().err().map(ToString::to_string);
            run_context.log(
                "tracked",
                json!({
                    "tracker": place, "behind": behind, "syncs": work.syncs, "failed": work.failed,
                    "seconds": work.seconds, "waited": started.elapsed().as_secs_f64(),
                }),
            );
            match result {
                Ok(lacks) => notes.extend(lacks.iter().map(|lack| format!("{place}: {lack}"))),
                Err(failure) => notes.push(format!(
                    "{place} does not have all of this run: {failure}\nThe run itself is complete; {}, or {}, brings {place} up to date",
                    Action::Run,
                    Action::Track
                )),
            }
        }
        notes
    }
}

/// Reads the run's folder until it is stopped, and then once more.
async fn read_until_stopped(
    mut reader: RunReader,
    every: Duration,
    mut stopped: oneshot::Receiver<()>,
    sender: watch::Sender<ShownState>,
    run_context: Arc<RunContext>,
) {
    let mut pause = FIRST_LOOK.min(every);
    loop {
        let last = tokio::select! {
            () = sleep(pause) => false,
            _ = &mut stopped => true,
        };
        pause = every;
        let Some((again, view)) = read(reader).await else { return };
        reader = again;
        match view {
            Ok(view) => _ = sender.send(Some((Arc::new(RunView { is_last: last, ..view }), last))),
            Err(error) => run_context.log("track_failed", json!({ "error": crate::error_chain(&error) })),
        }
        if last {
            return;
        }
    }
}

/// Reads on another thread: a log may be long, and a disk slow.
async fn read(mut reader: RunReader) -> Option<(RunReader, Result<RunView, Error>)> {
    let work = move || {
        let view = reader.look();
        (reader, view)
    };
    tokio::task::spawn_blocking(work).await.ok()
}

/// Shows each view that comes, always the newest, until the last one is shown.
async fn send_views(
    mut tracker: Box<dyn Tracker>,
    mut views: watch::Receiver<ShownState>,
    run_context: Arc<RunContext>,
    progress: Progress,
) -> (TrackerWork, Result<Vec<String>, TrackerError>) {
    let place = tracker.place().to_owned();
    let mut work = TrackerWork::default();
    let mut pause = PAUSES.0;
    let mut last_tries = 0;
    let mut behind: Option<TrackerError> = None;
    loop {
        if behind.is_none() && views.changed().await.is_err() {
            return (work, Err(TrackerError::Away("the run's folder could not be read".to_owned())));
        }
        let Some((view, last)) = views.borrow_and_update().clone() else { continue };
        let started = Instant::now();
        let result = tracker.sync(&view).await;
        work.syncs += 1;
        work.seconds += started.elapsed().as_secs_f64();
        match result {
            Ok(lacks) => {
                if behind.take().is_some() {
                    run_context.log("track_caught_up", json!({ "tracker": place }));
                    progress.set_problem(&place, None);
                }
                pause = PAUSES.0;
                if last {
                    return (work, Ok(lacks));
                }
            }
            Err(failure) => {
                work.failed += 1;
                if behind.is_none() {
                    run_context.log("track_behind", json!({ "tracker": place, "error": failure.to_string() }));
                    progress.set_problem(&place, Some(failure.to_string()));
                }
                last_tries += u32::from(last);
                if last && (last_tries == LAST_TRIES || !failure.is_away()) {
                    return (work, Err(failure));
                }
                behind = Some(failure);
                if last {
                    sleep(LAST_PAUSE * last_tries).await;
                } else {
                    wait(&mut views, pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }
}

/// Waits, but no longer than until the last view comes.
async fn wait(views: &mut watch::Receiver<ShownState>, pause: Duration) {
    let last = views.wait_for(|shown| shown.as_ref().is_some_and(|(_, last)| *last));
    let abandoned = matches!(timeout(pause, last).await, Ok(Err(_)));
    if abandoned {
        // Nobody will send another view.
        sleep(pause).await;
    }
}
