//! Chunks to a vector for each of their tokens, once for a chunk table and a
//! model. Meanwhile, finished vectors are stored in parts, so that whoever does
//! the task after a kill, on any machine, continues from there.

use super::{Keys, Kind, Made, MadeOf, Making, embed::searchable};
use crate::{
    Error,
    estimate::{Load, Sizes},
    layout::{self, Format},
    operator::Operator,
    plan::TaskId,
    task::{Execution, compute},
};
use async_trait::async_trait;
use models::{Embedder, InputKind};
use rag::index::{IndexKind, TokenBlock, TokenWriter};
use serde::{Deserialize, Serialize};
use std::{
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    time::{Duration, Instant},
};
use store::Key;

/// The index that these vectors are.
const KIND: IndexKind = IndexKind::Tokens;
/// Texts encoded between two looks at the progress table.
const TEXTS_PER_STEP: usize = 256;
/// Finished vectors are stored after this time, and whenever they reach this
/// many bytes: this bounds what a kill loses, and what is in memory.
const PUT_ASIDE_AFTER: Duration = Duration::from_secs(5);
const PUT_ASIDE_BYTES: usize = 16 << 20;

/// Embeds each token of one shard of chunks with the named model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmbedTokens {
    pub(crate) model: String,
    pub(crate) chunks: TaskId,
    /// What is searched in place of the chunks' texts.
    #[serde(default)]
    pub(crate) enriched: Option<TaskId>,
}

#[async_trait]
impl Kind for EmbedTokens {
    fn operator(&self) -> Operator {
        Operator::EMBED
    }

    fn inputs(&self) -> Vec<TaskId> {
        vec![self.enriched.unwrap_or(self.chunks)]
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let builder = cx.builder("embed_tokens", &self.inputs()).field("version", &KIND.version());
        builder.field("model", cx.identity(&self.model)).finish()
    }

    fn format(&self) -> Format {
        Format::Index(KIND)
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf { words: format!("tokens of {}", self.model), ..MadeOf::model(&self.model) }
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        vec![(&self.model, Load::embedding(sizes.given(self.enriched.unwrap_or(self.chunks)).passage_tokens + 1))]
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let texts = searchable(making, self.chunks, self.enriched).await?;
        let (cx, name, aside) = (making.cx, making.artifact(), making.kept());
        let rows = |count| making.made(count);
        let embedder = cx.models().embedder(&self.model)?;
        let file = Scratch::new(cx)?;
        let mut writer = TokenWriter::create(&file.0)?;
        let (mut rest, mut parts) = (texts.as_slice(), Vec::new());
        while !rest.is_empty() {
            let first = texts.len() - rest.len();
            let part = aside.map(|key| layout::token_part(key, first));
            let found = match &part {
                Some(part) => match cx.store.get(part).await {
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
        cx.store.put_file(&name, &file.0).await?;
        for part in parts {
            cx.store.remove(&part).await?;
        }
        Ok(Made::written(name, count))
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
        if started.elapsed() >= PUT_ASIDE_AFTER || block.bytes() >= PUT_ASIDE_BYTES {
            break;
        }
    }
    Ok(block)
}

/// A file that is removed when it is no longer used. Its name is like those of
/// a store's own staged files, so that what a kill leaves is removed with them.
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
        // If that fails, the file is litter, which `gc` removes.
        drop(std::fs::remove_file(&self.0));
    }
}
