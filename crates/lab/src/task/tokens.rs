//! The token vectors of questions.

use super::Execution;
use crate::Error;
use models::{InputKind, Matrix};
use std::sync::Arc;

/// Texts encoded between two looks at the progress table.
const TEXTS_PER_STEP: usize = 256;

/// The token vectors of all questions, in order. A process encodes them once,
/// for all trials.
pub(crate) async fn of_questions(cx: &Execution, model: &str) -> Result<Arc<Vec<Matrix>>, Error> {
    let load = || async {
        let embedder = cx.models.embedder(model)?;
        let texts: Vec<String> = cx.questions.iter().map(|question| question.question.clone()).collect();
        let mut all = Vec::with_capacity(texts.len());
        for step in texts.chunks(TEXTS_PER_STEP) {
            all.extend(embedder.embed_tokens(step, InputKind::Query).await?);
        }
        Ok(all)
    };
    cx.question_tokens.get(vec![model.to_owned()], load).await
}
