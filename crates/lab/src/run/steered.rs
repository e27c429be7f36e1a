//! Follows what people want a run to do, and does it.

use crate::{
    PreparedRun, Session,
    steering::{Act, AppliedAct, PostedAct, last_act, posted_acts},
};
use models::Caps;
use serde_json::json;
use std::{convert::Infallible, time::Duration};

/// How often the store is asked for new acts: a folder, an object store.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// What was done about an act: a sentence, or why nothing was done.
type ActOutcome = Result<String, String>;

/// Applies acts as they are posted. Acts of earlier starts of the run are over. Never ends by itself.
pub(super) async fn follow_acts(session: &Session, prepared: &PreparedRun) -> Infallible {
    let store = session.workspace().store();
    let pause = PAUSES[usize::from(store.is_remote())];
    let mut last = None;
    loop {
        match last {
            None => last = last_act(store, &prepared.run).await.ok(),
            // If the store does not answer, it is asked again.
            Some(after) => {
                for posted in posted_acts(store, &prepared.run, after).await.unwrap_or_default() {
                    last = Some(posted.number);
                    apply(session, prepared, posted).await;
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Applies an act, and writes into the event log what was done.
async fn apply(session: &Session, prepared: &PreparedRun, posted: PostedAct) {
    let outcome = match posted.act.check() {
        Ok(()) => done(session, prepared, &posted).await,
        Err(reason) => Err(reason),
    };
    let refused = outcome.is_err();
    let (Ok(text) | Err(text)) = outcome;
    let applied = AppliedAct { outcome: Some(text), refused, ..AppliedAct::pending(posted) };
    prepared.run_context.log("steered", json!(applied));
    session.setup().control.steering.record(applied);
}

async fn done(session: &Session, prepared: &PreparedRun, posted: &PostedAct) -> ActOutcome {
    let steering = &session.setup().control.steering;
    match &posted.act {
        Act::Pause {} if steering.set_paused(true) => Ok("paused: calls in flight go on to their end".to_owned()),
        Act::Pause {} => Err("it was paused already".to_owned()),
        Act::Continue {} if steering.set_paused(false) => Ok("goes on".to_owned()),
        Act::Continue {} => Err("it was not paused".to_owned()),
        Act::StopTrial { trial } => stop_trial(session, prepared, trial, &posted.by).await,
        Act::SetBudget { usd, tokens, calls, minutes } => {
            let before = session.budget().caps();
            let caps = Caps {
                usd: usd.or(before.usd),
                tokens: tokens.or(before.tokens),
                calls: calls.or(before.calls),
                minutes: minutes.or(before.minutes),
            };
            set_caps(session, caps).await
        }
        Act::SetLimit { model, concurrency } => {
            if session.experiment.engine.ray.is_some() {
                return Err(
                    "the limits of models belong to the cluster, and cannot be set by one of its runs".to_owned()
                );
            }
            let client = prepared.run_context.models().client();
            client.set_concurrency(model, *concurrency)?;
            Ok(format!("at most {} in flight", crate::number::counted((*concurrency).max(1), "call")))
        }
    }
}

async fn stop_trial(session: &Session, prepared: &PreparedRun, trial: &str, by: &str) -> ActOutcome {
    let steering = &session.setup().control.steering;
    let Some(tasks) = prepared.plan.trials.iter().find(|known| known.id == trial) else {
        return Err(format!("there is no trial `{trial}`"));
    };
    let stopped = steering.stopped_trials();
    if stopped.contains_key(trial) {
        return Err(format!("{trial} was stopped already"));
    }
    if stopped.len() + 1 >= prepared.trials.len() {
        return Err(format!("{trial} is the last trial: end the run to stop it"));
    }
    let scores: Vec<String> = tasks.scoring().map(|id| prepared.plan.tasks[id].artifact()).collect();
    let there = session.workspace().store().which_exist(&scores).await.map_err(|error| crate::error_chain(&error))?;
    if there.iter().all(|is_there| *is_there) {
        return Err(format!("{trial} is scored already, so there is nothing to stop"));
    }
    steering.stop_trial(trial, by);
    Ok(format!("{trial} is asked nothing more; it keeps the scores that it has, and is compared with no other trial"))
}

async fn set_caps(session: &Session, caps: Caps) -> ActOutcome {
    let budget = session.budget();
    let (before, spent) = (budget.caps(), budget.spent());
    let engine = session.engine().await.map_err(|error| crate::error_chain(&error))?;
    engine.set_caps(before, caps).await?;
    budget.set_caps(caps);
    Ok(format!(
        "the caps are {}; ${:.2} and {} were spent so far",
        caps,
        spent.usd,
        crate::number::counted(spent.calls as usize, "call")
    ))
}
