//! The token vectors of questions.

use super::Execution;
use crate::Error;
use models::{InputKind, Matrix};
use rag::pipeline::SearchableQuestion;
use std::sync::Arc;

/// Texts that are encoded between two updates of the progress table.
const TEXTS_PER_STEP: usize = 256;

/// The token vectors of all questions as they stand alone, in order. `written`
/// is the artifact of the queries that replace questions, if there is one. A
/// process encodes them once, for all trials that share it.
pub(crate) async fn question_tokens(
    cx: &Execution,
    model: &str,
    questions: &[SearchableQuestion],
    written: Option<&str>,
) -> Result<Arc<Vec<Matrix>>, Error> {
    let load = || async {
        let embedder = cx.models.embedder(model)?;
        let texts: Vec<String> = questions.iter().map(|question| question.standalone.clone()).collect();
        let mut all = Vec::with_capacity(texts.len());
        for step in texts.chunks(TEXTS_PER_STEP) {
            all.extend(embedder.embed_tokens(step, InputKind::Query).await?);
        }
        Ok(all)
    };
    let name = std::iter::once(model).chain(written).map(str::to_owned).collect();
    cx.question_tokens.get(name, load).await
}
