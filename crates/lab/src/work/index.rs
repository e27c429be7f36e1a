//! Texts or vectors of chunks to an index of any kind.

use super::{Keys, Kind, Made, MadeOf, Making, embed::searchable};
use crate::{
    Error,
    artifact::decode_vectors,
    layout::Format,
    operator::Operator,
    plan::TaskId,
    task::{chunk_table, compute},
};
use async_trait::async_trait;
use rag::index::{CreateVectors, IndexKind, MadeFrom};
use serde::{Deserialize, Serialize};
use store::Key;

/// Makes an index that has one file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) kind: IndexKind,
    /// What it is made from: chunks, what is searched in their place, or vectors.
    pub(crate) from: Vec<TaskId>,
    /// Whether it is made from what is searched in place of chunks' texts.
    #[serde(default)]
    pub(crate) enriched: bool,
}

#[async_trait]
impl Kind for Index {
    fn operator(&self) -> Operator {
        Operator::Index
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.from.clone()
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let kind = format!("index_{}", self.kind.name());
        cx.builder(&kind, &self.from).field("version", &self.kind.version()).finish()
    }

    fn format(&self) -> Format {
        Format::Index(self.kind)
    }

    fn calls_models(&self) -> bool {
        false
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf { words: self.kind.name().to_owned(), ..MadeOf::default() }
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        match self.kind.made_from() {
            MadeFrom::Texts(build) => self.of_texts(making, build).await,
            MadeFrom::Vectors(create) => self.of_vectors(making, create).await,
            MadeFrom::TokenVectors => Err(Error::table(format!("{} has nothing to do", making.task.label))),
        }
    }
}

impl Index {
    async fn of_texts(&self, making: &Making<'_>, build: fn(&[&str]) -> Vec<u8>) -> Result<Made, Error> {
        if self.enriched {
            let mut texts = Vec::new();
            for &shard in &self.from {
                texts.extend(searchable(making, shard, Some(shard)).await?);
            }
            let count = texts.len();
            let bytes = compute(move || build(&texts.iter().map(String::as_str).collect::<Vec<_>>())).await?;
            making.made(count);
            return Ok(Made::of(bytes, count));
        }
        let table = chunk_table(making.cx, making.inputs, &self.from).await?;
        making.expect(table.searchable().len());
        let (bytes, count) = compute(move || {
            let texts: Vec<&str> = table.searchable().iter().map(|&row| table.chunk(row).text.as_str()).collect();
            (build(&texts), texts.len())
        })
        .await?;
        making.made(count);
        Ok(Made::of(bytes, count))
    }

    /// Writes the index shard by shard into a scratch file. If the store is a
    /// folder, the file is moved there; otherwise it is sent there.
    async fn of_vectors(&self, making: &Making<'_>, create: CreateVectors) -> Result<Made, Error> {
        let name = making.artifact();
        let is_local = making.cx.store.local_path(&name).is_some();
        // If the store is not a folder, this file is also the local copy that
        // would be fetched later.
        let path = making.cx.scratch.join(&name);
        let path = if is_local { store::staged_path(&path) } else { path };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
        }
        let mut writer = None;
        let mut count = 0;
        for &shard in &self.from {
            let matrix = decode_vectors(making.read(shard).await?)?;
            if matrix.rows() == 0 {
                continue;
            }
            count += matrix.rows();
            if writer.is_none() {
                writer = Some(create(&path, matrix.columns)?);
            }
            if let Some(writer) = &mut writer {
                writer.push(&matrix)?;
            }
            making.made(matrix.rows());
        }
        match writer {
            Some(writer) => writer.finish()?,
            None => create(&path, 1)?.finish()?,
        }
        match is_local {
            true => making.cx.store.take_file(&name, &path).await?,
            false => making.cx.store.put_file(&name, &path).await?,
        };
        Ok(Made::written(name, count))
    }
}
