//! Reports what has changed since the run that a command shows.

use super::Context;
use lab::{RunRecord, Session};

/// Prints on standard error what has changed since the run, one line for each
/// change. The changes do not affect what the command shows.
pub async fn tell(cx: &Context, session: &Session, record: &RunRecord) -> Vec<String> {
    let lines = lab::changed_since(session, record).await;
    for line in &lines {
        cx.note(format_args!("since that run: {line}"));
    }
    lines
}
