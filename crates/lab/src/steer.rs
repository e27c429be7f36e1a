//! Steers a run that goes on in another process, and waits for its answer.

use crate::{
    Act, AppliedAct, Error, LiveRun, Session,
    known_runs::{KnownRun, known_runs, live_run},
    workspace::run_begins_with,
};
use std::time::{Duration, Instant};

/// How long a run may take to answer. A change of its plan is checked as a whole first.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_FOR_PLANS: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(200);

/// The run that goes on: the one whose id begins with `asked`, or else that of the session's experiment.
///
/// # Errors
/// If none goes on, or several do.
pub async fn find_live_run(session: &Session, asked: Option<&str>) -> Result<LiveRun, Error> {
    let runs = known_runs(session).await?;
    let is_asked = |run: &KnownRun| match asked {
        Some(asked) => run_begins_with(&run.run, &run.experiment, asked),
        None => run.experiment == session.experiment.name,
    };
    let live: Vec<&str> =
        runs.iter().filter(|run| run.state.is_live() && is_asked(run)).map(|run| run.run.as_str()).collect();
    match live[..] {
        [run] => live_run(session, run).await?.ok_or_else(|| Error::NotFound(format!("the run {run} has just ended"))),
        [] => Err(Error::NotFound(match asked {
            Some(asked) => format!("no run `{asked}` goes on in this store"),
            None => format!("no run of `{}` goes on in this store", session.experiment.name),
        })),
        _ => Err(Error::Unusable(format!("several runs go on: {}; name one of them", live.join(", ")))),
    }
}

/// Posts an act for a run, and waits until the run has read it. Whether the run did it is part of the answer.
///
/// # Errors
/// If the run does not answer for 10 s (2 minutes for a change of its plan), or has ended.
pub async fn steer(session: &Session, run: &str, by: &str, act: Act) -> Result<AppliedAct, Error> {
    let patience = if act.changes_plan() { PATIENCE_FOR_PLANS } else { PATIENCE };
    let number = session.workspace().post_act(run, by, act).await?;
    let started = Instant::now();
    while started.elapsed() < patience {
        if let Some(live) = live_run(session, run).await? {
            if let Some(applied) = live.acts.into_iter().find(|act| act.number == number && act.outcome.is_some()) {
                return Ok(applied);
            }
            if !live.state.is_live() {
                return Err(Error::Unusable(format!("the run {run} ended before it read this")));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    let seconds = patience.as_secs();
    Err(Error::Unusable(format!(
        "the run {run} has not answered within {seconds} s. The act stays posted: the run applies it as soon as it reads it"
    )))
}
