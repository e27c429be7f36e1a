//! Ends work so that no paid answer is lost: calls in flight are awaited, their answers are stored if that is possible,
//! and the error says how many could not be stored.

use crate::{Error, model_error, progress::Progress};
use models::Client;

/// Ends the work of a client. An error that only follows from a failure of the client is replaced by that failure.
pub(crate) async fn settle<T>(client: &Client, progress: &Progress, result: Result<T, Error>) -> Result<T, Error> {
    if let Some(calls) = begun(client) {
        progress.warn(format!("waiting some seconds for {calls}, to keep what is paid; Ctrl-C again ends at once"));
    }
    let lost = client.drain(|held| progress.warn(waiting(client, held))).await;
    if let Some(calls) = begun(client) {
        progress.warn(format!("{calls} did not end in time, and may be paid again"));
    }
    if let Some(left) = left_in_batches(client) {
        progress.warn(left);
    }
    let Err(error) = result else { return result };
    let error = cause(client, error);
    match lost {
        0 => Err(error),
        answers => Err(Error::AnswersNotStored { answers, source: Box::new(error) }),
    }
}

/// The calls that have begun, and go on although they were cancelled, in words.
fn begun(client: &Client) -> Option<String> {
    match client.n_finishing() {
        0 => None,
        1 => Some("1 call of a model that had begun".to_owned()),
        n => Some(format!("{n} calls of models that had begun")),
    }
}

/// What becomes of batches that are not done, in words.
fn left_in_batches(client: &Client) -> Option<String> {
    let (batches, calls) = client.n_batched();
    let what = if batches == 1 { "1 batch goes on".to_owned() } else { format!("{batches} batches go on") };
    (batches > 0).then(|| {
        format!("{what} at the provider, with {calls} calls: the next run takes the answers, and pays for none twice")
    })
}

/// The failure of a client, if this error only follows from it.
pub(crate) fn cause(client: &Client, error: Error) -> Error {
    let follows = matches!(model_error(&error), Some(models::Error::Cancelled)) || matches!(error, Error::Interrupted);
    match client.failure() {
        Some(failure) if follows => failure.into(),
        _ => error,
    }
}

fn waiting(client: &Client, held: usize) -> String {
    let why = client.failure().map_or_else(String::new, |failure| failure.to_string());
    format!("no further call is made, and {held} paid answers wait for some seconds until there is space: {why}")
}

/// Whether an error ends all work: nothing that is made from here on could be kept.
pub(crate) fn ends_all(error: &Error) -> bool {
    let is_full = matches!(error, Error::Store(store::Error::Gone { .. } | store::Error::Full { .. }));
    is_full
        || matches!(error, Error::OutputNotStored(_))
        || matches!(model_error(error), Some(models::Error::Journal(_)))
}
