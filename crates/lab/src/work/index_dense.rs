//! Vectors to a dense index.

use super::{Keys, Kind, Made, MadeOf, Making};
use crate::{Error, artifact::decode_vectors, layout::Format, operator::Operator, plan::TaskId};
use async_trait::async_trait;
use rag::index::{DENSE_VERSION, DenseWriter};
use serde::{Deserialize, Serialize};
use store::Key;

/// Puts vectors into a dense index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IndexDense {
    pub(crate) vectors: Vec<TaskId>,
}

#[async_trait]
impl Kind for IndexDense {
    fn operator(&self) -> Operator {
        Operator::Index
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.vectors.clone()
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        cx.builder("index_dense", &self.vectors).field("version", &DENSE_VERSION).finish()
    }

    fn format(&self) -> Format {
        Format::Dense
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf { words: "dense".to_owned(), ..MadeOf::default() }
    }

    /// Writes the index shard by shard into a scratch file. If the store is a
    /// folder, the file is moved there; otherwise it is sent there.
    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
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
        for &shard in &self.vectors {
            let matrix = decode_vectors(making.read(shard).await?)?;
            if matrix.rows() == 0 {
                continue;
            }
            count += matrix.rows();
            if writer.is_none() {
                writer = Some(DenseWriter::create(&path, matrix.columns)?);
            }
            if let Some(writer) = &mut writer {
                writer.push(&matrix)?;
            }
            making.made(matrix.rows());
        }
        match writer {
            Some(writer) => writer.finish()?,
            None => DenseWriter::create(&path, 1)?.finish()?,
        }
        match is_local {
            true => making.cx.store.take_file(&name, &path).await?,
            false => making.cx.store.put_file(&name, &path).await?,
        };
        Ok(Made::written(name, count))
    }
}
