//! What a program that is no command line does with an experiment: the same
//! things in the same way, with values instead of prints.

use crate::{render, report::write_report};
use lab::{Error, Prepared, Results, Session, layout::RunFile, track::Tracking};
use tokio_util::sync::CancellationToken;

/// Runs an experiment that was prepared to its end: results, report, and
/// everything that belongs to a run in the store. Trackers show it as far as
/// they have come; [`Tracking::finish`] waits for the rest.
pub async fn run(session: &Session, prepared: &Prepared) -> (Result<Results, Error>, Tracking) {
    // What failed in an earlier run of this process is tried anew.
    rag::python::forgive();
    let mut tracking = lab::track::follow(session, prepared);
    let results = ran(session, prepared).await;
    // The report is a part of what trackers show.
    tracking.stop();
    (results, tracking)
}

async fn ran(session: &Session, prepared: &Prepared) -> Result<Results, Error> {
    let results = session.run(prepared).await?;
    write_report(session, &results).await?;
    session.workspace().publish_file(&results.run, RunFile::Report).await?;
    Ok(results)
}

/// The report page of results.
///
/// # Errors
/// If they cannot be written as JSON.
pub fn report(results: &Results) -> Result<String, serde_json::Error> {
    render::report(results)
}

/// A page with nothing but the report's plot, and no question or passage in it.
///
/// # Errors
/// If the results cannot be written as JSON.
pub fn plot(results: &Results) -> Result<String, serde_json::Error> {
    render::plot(results)
}

/// What functions of the user's own failed at, for people; none where nothing did.
pub fn function_failures(results: &Results) -> Option<String> {
    render::function_failures(&results.trials.iter().flat_map(|trial| &trial.function_failures).collect::<Vec<_>>())
}

/// What a session of this process is given, with these choices.
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
