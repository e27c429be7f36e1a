//! Asks each system one question before anything else is done: a system that cannot be asked, or whose reply is not what
//! the settings say, ends the run before a model is paid. The reply goes to the journal, so nothing is asked twice.

use crate::{
    Error, PreparedRun, Session, error_chain,
    plan::{Task, work::Work},
};
use std::collections::BTreeSet;

/// Asks the first question of each system that has no replies yet.
///
/// # Errors
/// What is wrong with each system.
pub(super) async fn check(session: &Session, prepared: &PreparedRun) -> Result<(), Error> {
    // On a cluster, the workers ask; this machine may not reach what they reach.
    if session.experiment.engine.ray.is_some() {
        return Ok(());
    }
    let mut mistakes = Vec::new();
    let mut seen = BTreeSet::new();
    for tasks in prepared.plan.trials.iter().filter(|tasks| tasks.replies.is_some()) {
        let Some(task) = tasks.answers.first().map(|&id| &prepared.plan.tasks[id]) else { continue };
        if !seen.insert(task.key.hex()) || prepared.run_context.store.exists(&task.artifact()).await? {
            continue;
        }
        mistakes.extend(mistake(prepared, task).await?);
    }
    Error::refuse(mistakes)
}

/// What is wrong with the first reply of a task.
async fn mistake(prepared: &PreparedRun, task: &Task) -> Result<Option<String>, Error> {
    let Work::Ask(work) = &task.work else { return Ok(None) };
    let Some(question) = work.questions.first().map(|&i| &prepared.questions[i]) else { return Ok(None) };
    let system = prepared.run_context.systems().get(&work.system, &work.version)?;
    match system.ask(question, &work.parameters, 0).await {
        Ok(_) => Ok(None),
        Err(error) if error.ends_work() => Err(error.into()),
        // The run itself tells what a budget leaves out.
        Err(models::Error::BudgetExhausted { .. }) => Ok(None),
        Err(error) => Ok(Some(format!(
            "systems.{}: the question “{}” was asked before all else: {}; nothing else was asked or paid",
            work.system,
            question.question,
            error_chain(&error)
        ))),
    }
}
