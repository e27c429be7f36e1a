//! The token vectors of chunks: made once for a chunk table and a model, and
//! opened for every trial that compares words.

use super::{Execution, compute};
use crate::{Error, artifact, engine::Outputs, layout, plan::TaskId};
use models::{Embedder, InputKind, Matrix};
use rag::{
    Chunk,
    index::{TokenBlock, TokenIndex, TokenWriter},
};
use std::{
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use store::Key;

/// Texts encoded between two looks at the progress table.
const TEXTS_PER_STEP: usize = 256;
/// Vectors are put aside so often, and whenever there are so many bytes of
/// them: what a kill loses, and what is held in memory.
const PUT_ASIDE_AFTER: Duration = Duration::from_secs(5);
const PUT_ASIDE_BYTES: usize = 16 << 20;

/// Encodes the searchable chunks of a shard with a model, and writes them
/// under a name. With a key, what is done is put aside in the store meanwhile,
/// in parts, so that whoever does the task after a kill goes on where it was,
/// on any machine.
pub(super) async fn embed_tokens(
    cx: &Execution,
    inputs: &Outputs,
    (model, chunks): (&str, TaskId),
    name: &str,
    aside: Option<Key>,
    rows: impl Fn(usize),
) -> Result<usize, Error> {
    let chunks: Vec<Chunk> = artifact::decode(cx.read(inputs, chunks).await?)?;
    let texts: Vec<String> = chunks.into_iter().filter(|chunk| chunk.searchable).map(|chunk| chunk.text).collect();
    let embedder = cx.models.embedder(model)?;
    let file = Scratch::new(cx)?;
    let mut writer = TokenWriter::create(&file.0)?;
    let (mut rest, mut parts) = (texts.as_slice(), Vec::new());
    while !rest.is_empty() {
        let first = texts.len() - rest.len();
        let part = aside.map(|key| layout::token_part(&key, first));
        let found = match &part {
            Some(part) => match cx.store.get(part).await {
                Err(store::Error::Damaged { .. }) => None,
                found => found?,
            },
            None => None,
        };
        let was_there = found.is_some();
        // A part that is damaged is made anew, as if there were none.
        let kept = found.and_then(|bytes| TokenBlock::from_bytes(&bytes).ok());
        let kept = kept.filter(|block| (1..=rest.len()).contains(&block.chunks()));
        let block = match kept {
            Some(block) => {
                rows(block.chunks());
                block
            }
            None => {
                let block = encode(&embedder, rest, &rows).await?;
                // The last part is done with the whole.
                if let Some(part) = part.as_ref().filter(|_| block.chunks() < rest.len()) {
                    cx.store.replace(part, block.to_bytes()).await?;
                    parts.push(part.clone());
                }
                block
            }
        };
        parts.extend(part.filter(|_| was_there));
        writer.push(&block)?;
        rest = rest.get(block.chunks()..).unwrap_or_default();
    }
    let count = writer.finish()?;
    cx.store.put_file(name, &file.0).await?;
    for part in parts {
        cx.store.remove(&part).await?;
    }
    Ok(count)
}

/// The token vectors of as many texts as are put aside together.
async fn encode(embedder: &Embedder, texts: &[String], rows: &impl Fn(usize)) -> Result<TokenBlock, Error> {
    let started = Instant::now();
    let mut block = TokenBlock::default();
    for step in texts.chunks(TEXTS_PER_STEP) {
        let vectors = embedder.embed_tokens(step, InputKind::Document).await?;
        if vectors.len() != step.len() {
            let reason = format!("{} token matrices for {} texts", vectors.len(), step.len());
            return Err(models::Error::Malformed { model: embedder.identity().model.clone(), reason }.into());
        }
        block = compute(move || block.push(&vectors).map(|()| block)).await??;
        rows(step.len());
        if started.elapsed() >= PUT_ASIDE_AFTER || block.bytes() >= PUT_ASIDE_BYTES {
            break;
        }
    }
    Ok(block)
}

/// The index that these artifacts are together, mapped into memory.
pub(super) async fn open_tokens(cx: &Execution, names: Vec<String>) -> Result<Arc<TokenIndex>, Error> {
    let load = || async {
        let mut paths: Vec<PathBuf> = Vec::with_capacity(names.len());
        for name in &names {
            let file = cx.store.local_file(name, &cx.scratch).await?;
            if !file.is_checked {
                // Nobody noted a checksum for it: the file has one of its own.
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

/// The token vectors of all questions, in order: encoded once in a process,
/// whatever the number of trials.
pub(super) async fn of_questions(cx: &Execution, model: &str) -> Result<Arc<Vec<Matrix>>, Error> {
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

/// A file that is gone when it is no longer used. What a kill leaves is named
/// as a store's own staged files are, and removed as they are.
struct Scratch(PathBuf);

impl Scratch {
    fn new(cx: &Execution) -> Result<Self, Error> {
        std::fs::create_dir_all(&cx.scratch).map_err(|source| Error::file("create", &cx.scratch, source))?;
        // Process ids are not unique where containers share a folder.
        let number = RandomState::new().hash_one(std::process::id());
        Ok(Self(cx.scratch.join(format!("tokens#{number}"))))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is litter at worst.
        drop(std::fs::remove_file(&self.0));
    }
}
