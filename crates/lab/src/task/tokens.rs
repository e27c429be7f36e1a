//! Token vectors: those of chunks, opened for every trial that compares tokens,
//! and those of questions.

use super::{Execution, compute};
use crate::Error;
use models::{InputKind, Matrix};
use rag::index::TokenIndex;
use std::{path::PathBuf, sync::Arc};

/// Texts encoded between two looks at the progress table.
const TEXTS_PER_STEP: usize = 256;

/// The index that these artifacts form together, mapped into memory.
pub(super) async fn open_tokens(cx: &Execution, names: Vec<String>) -> Result<Arc<TokenIndex>, Error> {
    let load = || async {
        let mut paths: Vec<PathBuf> = Vec::with_capacity(names.len());
        for name in &names {
            let file = cx.store.local_file(name, &cx.scratch).await?;
            if !file.is_checked {
                // No checksum was written for it, but the file holds its own.
                let only = [file.content.clone()];
                let verified = compute(move || TokenIndex::open(&only).and_then(|index| index.verify())).await?;
                if let Err(error) = verified {
                    return Err(cx.store.set_aside(name, &crate::error_chain(&error)).await.into());
                }
            }
            paths.push(file.content);
        }
        Ok(TokenIndex::open(&paths)?)
    };
    cx.tokens.get(names.clone(), load).await
}

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
