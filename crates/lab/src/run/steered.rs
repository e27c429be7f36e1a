//! Follows what people want a run to do, and does it.

use crate::{
    Error, Experiment, PreparedRun, Session, error_chain, layout,
    number::counted,
    steering::{Act, AppliedAct, NextRun, PostedAct, last_act, posted_acts},
};
use models::Caps;
use serde_json::{Value, json};
use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How often the store is asked for new acts: a folder, an object store.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// What was done about an act: a sentence, or why nothing was done.
type ActOutcome = Result<String, String>;

/// Applies acts as they are posted. Acts of earlier starts of the run are over. Never ends by itself.
pub(super) async fn follow_acts(session: &Session, prepared: &PreparedRun) -> Infallible {
    let store = session.workspace().store();
    let pause = PAUSES[usize::from(store.is_remote())];
    keep_acts(session, prepared).await;
    // A change of the plan is checked as a whole, which may take a while, and nobody should wait for it who wants a pause.
    let (changes, mut posted_changes) = mpsc::unbounded_channel();
    let change_plans = async {
        while let Some(posted) = posted_changes.recv().await {
            apply(session, prepared, posted).await;
        }
    };
    let acts = apply_posted(session, prepared, pause, changes);
    futures::future::join3(set_limits_again(session, prepared), change_plans, acts).await.2
}

/// Acts of the run that goes on as this one belong to this one too, under their numbers.
async fn keep_acts(session: &Session, prepared: &PreparedRun) {
    for AppliedAct { number, time_ms, by, act, .. } in session.setup().control.steering.applied() {
        let Ok(bytes) = serde_json::to_vec(&PostedAct { number, time_ms, by, act }) else { continue };
        let name = layout::act(&prepared.run, number);
        // A new act must not get the number of an old one.
        while session.workspace().store().put(&name, bytes.clone()).await.is_err() {
            tokio::time::sleep(PAUSES[1]).await;
        }
    }
}

/// Sets the limits that people have set before the run went on as this one: each when its model is called first.
async fn set_limits_again(session: &Session, prepared: &PreparedRun) {
    let applied = session.setup().control.steering.applied().into_iter().filter(|applied| !applied.refused);
    let mut limits: BTreeMap<String, usize> = applied
        .filter_map(|applied| match applied.act {
            Act::SetLimit { model, concurrency } => Some((model, concurrency)),
            _ => None,
        })
        .collect();
    while !limits.is_empty() {
        let client = prepared.run_context.models().client();
        limits.retain(|model, concurrency| client.set_concurrency(model, *concurrency).is_err());
        tokio::time::sleep(PAUSES[0]).await;
    }
}

async fn apply_posted(
    session: &Session,
    prepared: &PreparedRun,
    pause: Duration,
    changes: mpsc::UnboundedSender<PostedAct>,
) -> Infallible {
    let store = session.workspace().store();
    let mut last = None;
    loop {
        match last {
            None => last = last_act(store, &prepared.run).await.ok(),
            // If the store does not answer, it is asked again.
            Some(after) => {
                for posted in posted_acts(store, &prepared.run, after).await.unwrap_or_default() {
                    last = Some(posted.number);
                    match posted.act.changes_plan() {
                        // The other end is there as long as the run.
                        true => drop(changes.send(posted)),
                        false => apply(session, prepared, posted).await,
                    }
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
            Ok(format!("at most {} in flight", counted((*concurrency).max(1), "call")))
        }
        Act::AddTrial { like, set } => add_trial(session, prepared, like, set).await,
        Act::AskQuestions { questions } => {
            let changed =
                current_experiment(session).with_questions(*questions).map_err(|mistakes| mistakes.join("; "))?;
            let run = change_plan(session, prepared, changed).await?;
            Ok(format!("{questions} questions: when the tasks in flight are done, the run goes on as {run}"))
        }
    }
}

/// The experiment with all changes that people have made so far.
fn current_experiment(session: &Session) -> Arc<Experiment> {
    let next = session.setup().control.steering.next_run();
    next.map_or_else(|| session.experiment.clone(), |next| next.experiment)
}

async fn add_trial(
    session: &Session,
    prepared: &PreparedRun,
    like: &str,
    settings: &BTreeMap<String, Value>,
) -> ActOutcome {
    let before = current_experiment(session);
    if !before.search.admits_more_trials() {
        return Err(format!(
            "the search `{}` draws its trials by itself, so it might never try this one: name the values in the file",
            before.search.name()
        ));
    }
    let trials = before.trials();
    let copied = trials.iter().find(|trial| trial.id == like).ok_or_else(|| format!("there is no trial `{like}`"))?;
    let Some(pipeline) = copied.pipeline() else {
        return Err(format!("{like} is an external system: change its parameters in the experiment file"));
    };
    let changed = before.with_trial(pipeline, settings).map_err(|mistakes| mistakes.join("; "))?;
    let after = changed.trials();
    let is_same = |(one, other): (&crate::Trial, &crate::Trial)| one.id == other.id && one.kind == other.kind;
    let Some(added) = after.get(trials.len()) else { return Err("there is such a trial already".to_owned()) };
    if !trials.iter().zip(&after).all(is_same) {
        return Err(format!(
            "the ids of the {} would change: end the run, and name the value in the file",
            counted(trials.len(), "trial")
        ));
    }
    let run = change_plan(session, prepared, changed).await?;
    Ok(format!("{} is added: when the tasks in flight are done, the run goes on as {run}", added.id))
}

/// Checks a changed experiment as a whole, and ends this run softly, so that it goes on with it. Returns the id of the
/// run as which it goes on. If the experiment cannot run, this run is not touched.
async fn change_plan(session: &Session, prepared: &PreparedRun, changed: Experiment) -> ActOutcome {
    let planned = session.planning_session(&changed).prepare().await;
    let run = match planned {
        Ok(planned) => planned.run,
        Err(Error::Refused(mistakes)) => return Err(mistakes.join("; ")),
        Err(error) => return Err(error_chain(&error)),
    };
    if run == prepared.run {
        return Err("this would not change the plan of the run".to_owned());
    }
    let next = NextRun { run: run.clone(), experiment: Arc::new(changed) };
    session.setup().control.steering.set_next_run(next);
    Ok(run)
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
    let there = session.workspace().store().which_exist(&scores).await.map_err(|error| error_chain(&error))?;
    if there.iter().all(|is_there| *is_there) {
        return Err(format!("{trial} is scored already, so there is nothing to stop"));
    }
    steering.stop_trial(trial, by);
    Ok(format!("{trial} is asked nothing more; it keeps the scores that it has, and is compared with no other trial"))
}

async fn set_caps(session: &Session, caps: Caps) -> ActOutcome {
    let budget = session.budget();
    let (before, spent) = (budget.caps(), budget.spent());
    let engine = session.engine().await.map_err(|error| error_chain(&error))?;
    engine.set_caps(before, caps).await?;
    budget.set_caps(caps);
    Ok(format!(
        "the caps are {}; ${:.2} and {} were spent so far",
        caps,
        spent.usd,
        counted(spent.calls as usize, "call")
    ))
}
