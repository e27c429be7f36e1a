//! Chunks to a vector for each of their tokens, once for a chunk table and a
//! model. Meanwhile, finished vectors are stored in parts, so that another try
//! after a kill, on any machine, continues from there.

use super::{DoWork, TaskContext, TaskOutput, embed::searchable};
use crate::{Error, blocking::compute, layout, plan::work::EmbedTokensWork, task::RunContext};
use async_trait::async_trait;
use models::{Embedder, InputKind};
use rag::index::{TokenBlock, TokenWriter};
use std::{
    hash::BuildHasher,
    hash::RandomState,
    path::PathBuf,
    time::{Duration, Instant},
};

/// A part is stored when it has this many bytes, or after this time. This
/// bounds what a kill loses, and what is in memory.
const PART_BYTES: usize = 16 << 20;
const PART_TIME: Duration = Duration::from_secs(5);

/// Texts that are encoded between two updates of the progress table.
const TEXTS_PER_STEP: usize = 256;

#[async_trait]
impl DoWork for EmbedTokensWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let texts = searchable(cx, self.chunks, self.enriched).await?;
        let (run_context, name, parts_key) = (cx.run_context, cx.artifact_name(), cx.checkpoint_key());
        let rows = |count| cx.report_rows(count);
        let embedder = run_context.models().embedder(&self.model)?;
        embedder.check_lengths(&texts, InputKind::Document).await?;
        let file = ScratchFile::new(run_context)?;
        let mut writer = TokenWriter::create(&file.0)?;
        let (mut rest, mut parts) = (texts.as_slice(), Vec::new());
        while !rest.is_empty() {
            let first = texts.len() - rest.len();
            let part = parts_key.map(|key| layout::token_part(key, first));
            let found = match &part {
                Some(part) => match run_context.store.get(part).await {
                    Err(store::Error::Damaged { .. }) => None,
                    found => found?,
                },
                None => None,
            };
            let was_there = found.is_some();
            // A damaged part is made again, as if it did not exist.
            let kept = found.and_then(|bytes| TokenBlock::from_bytes(&bytes).ok());
            let kept = kept.filter(|block| (1..=rest.len()).contains(&block.chunks()));
            let block = match kept {
                Some(block) => {
                    rows(block.chunks());
                    block
                }
                None => {
                    let block = encode(&embedder, rest, &rows).await?;
                    // The last part is stored with the complete output.
                    if let Some(part) = part.as_ref().filter(|_| block.chunks() < rest.len()) {
                        run_context.store.replace(part, block.to_bytes()).await?;
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
        run_context.store.put_file(&name, &file.0).await?;
        for part in parts {
            run_context.store.remove(&part).await?;
        }
        Ok(TaskOutput::written(name, count))
    }
}

/// The token vectors of the texts that are stored together as one part.
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
        if started.elapsed() >= PART_TIME || block.bytes() >= PART_BYTES {
            break;
        }
    }
    Ok(block)
}

/// A file that is removed when it is no longer used. Its name is like those of
/// a store's own staged files, so that what a kill leaves is removed with them.
struct ScratchFile(PathBuf);

impl ScratchFile {
    fn new(cx: &RunContext) -> Result<Self, Error> {
        std::fs::create_dir_all(&cx.scratch).map_err(|source| Error::file("create", &cx.scratch, source))?;
        // Process ids are not unique where containers share a folder.
        let number = RandomState::new().hash_one(std::process::id());
        Ok(Self(cx.scratch.join(format!("tokens#{number}"))))
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // If that fails, `gc` removes the file.
        drop(std::fs::remove_file(&self.0));
    }
}
