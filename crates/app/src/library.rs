//! The actions of the command line for programs: they return values instead of
//! printing.

pub use crate::{
    render::{function_failures as format_function_failures, function_failures_of_scores, plot},
    report::save_report,
};

use crate::{
    environment,
    option_values::{InvalidValue, parse_dollars},
    render,
    report::write_report,
};
use lab::{Error, PreparedRun, Results, Session, track::Tracking};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// A run that has ended.
pub struct EndedRun {
    /// The session in which it ended: another one than that in which it began, if a person has changed its plan.
    pub session: Session,
    /// What ran in the end.
    pub prepared: PreparedRun,
    /// The results, without passages and long texts, as those of [`Session::run`].
    pub results: Result<Results, Error>,
    /// The trackers. They may still be behind; [`Tracking::finish`] waits for them.
    pub tracking: Tracking,
}

/// Runs a prepared experiment to its end: results, report, and all files of a run in the store. If a person changes its
/// plan, it goes on as the run in which that was planned. An error without a run means that the changed plan, which could
/// run when it was checked, no longer can.
pub async fn run(mut session: Session, mut prepared: PreparedRun) -> Result<EndedRun, Error> {
    // Functions that failed in an earlier run of this process are tried again.
    rag::python::reset_failures();
    loop {
        let mut tracking = lab::track::follow(&session, &prepared);
        let results = run_and_report(&session, &prepared).await;
        // Trackers send the report too, so they stop after it is written.
        tracking.stop();
        let may_go_on = matches!(results, Ok(_) | Err(Error::Continued(_)));
        let next = if may_go_on { session.continued().await? } else { None };
        let Some((next, planned)) = next else { return Ok(EndedRun { session, prepared, results, tracking }) };
        for note in tracking.finish().await {
            next.progress().warn(note);
        }
        (session, prepared) = (next, planned);
        session.progress().warn(format!("a person has changed the plan: the run goes on as {}", prepared.run));
    }
}

async fn run_and_report(session: &Session, prepared: &PreparedRun) -> Result<Results, Error> {
    let results = session.run(prepared).await?;
    write_report(session, &session.workspace().results(&results.run).await?).await?;
    session.workspace().publish_report(&results.run).await?;
    Ok(results)
}

/// Opens the runs of an experiment without its file, by its name and its store.
///
/// # Errors
/// If the name is invalid, or the store cannot be opened.
pub fn open_by_name(name: &str, store: &str, base: PathBuf, setup: lab::Setup) -> Result<Session, Error> {
    open_from_tables(&serde_json::json!({ "name": name, "store": store }), base, setup)
}

/// Opens a session for work that needs no trials, such as generating questions or
/// qualifying a judge. Tables that every experiment must have are filled in.
///
/// # Errors
/// [`Error::Refused`] with all mistakes, each with its key, or if the store
/// cannot be opened.
pub fn open_from_tables(tables: &serde_json::Value, base: PathBuf, setup: lab::Setup) -> Result<Session, Error> {
    let mut all = serde_json::json!({
        "name": "program", "corpus": { "source": "." },
        "space": { "chunker": "sentence", "retriever": "bm25" },
    });
    for (name, table) in tables.as_object().into_iter().flatten().filter(|(_, table)| !table.is_null()) {
        all[name] = table.clone();
    }
    let text =
        lab::Experiment::json_to_toml(&all.to_string()).map_err(|error| Error::Refused(vec![error.to_string()]))?;
    let refused =
        |errors: Vec<lab::SpecError>| Error::Refused(errors.iter().map(lab::SpecError::message_with_key).collect());
    Session::open(lab::Experiment::parse(&text, base).map_err(refused)?, setup)
}

/// The report page of results as one self-contained file of any size.
///
/// # Errors
/// If they cannot be written as JSON.
pub fn report(results: &Results) -> Result<String, serde_json::Error> {
    Ok(render::report(results, render::ReportForm::OneFile)?.page)
}

/// The failures of user functions in a run, as text; none if nothing failed.
pub fn function_failures(results: &Results) -> Option<String> {
    format_function_failures(results.trials.iter().flat_map(|trial| &trial.function_failures))
}

/// The name under which this process acts on a run: that of the user, if the environment has one.
pub fn user_name() -> Option<String> {
    environment::environment_variable("USER")
}

/// Checks an amount of dollars.
///
/// # Errors
/// If it is negative or not finite.
pub fn check_usd(amount: f64) -> Result<f64, InvalidValue> {
    parse_dollars(&amount.to_string())
}

/// The setup of a session, from the environment and these values.
pub fn setup(
    connect: Option<lab::Connect>,
    budget_usd: Option<f64>,
    progress: lab::Progress,
    cancel: CancellationToken,
) -> lab::Setup {
    let mut setup = lab::Setup { budget_usd, ..crate::setup(cancel) };
    (setup.control.progress, setup.cluster.connect) = (progress, connect);
    setup
}
