//! What changed since the run that a verb speaks of.

use super::Context;
use lab::{RunRecord, Session};

/// Tells on standard error what is no longer as it was in the run, a line for
/// each thing. Nothing of it has a part in what is shown.
pub async fn tell(cx: &Context, session: &Session, record: &RunRecord) -> Vec<String> {
    let lines = lab::changed_since(session, record).await;
    for line in &lines {
        cx.note(format_args!("since that run: {line}"));
    }
    lines
}
