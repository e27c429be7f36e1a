//! Tables of chunks that stay on this machine. Whoever opens the same shards again maps the file. A table of nearly the same
//! shards takes the rows of the shards that it has in common with another, and decodes only the others.

use super::{
    RunContext,
    kept_files::{KeptContent, KeptFiles, RowSource, SimilarFile, TakenRows, row_sources},
};
use crate::{
    Error,
    artifact::{self, ArtifactTable, SHARDS_AT_ONCE},
    blocking::compute,
    layout,
    plan::{Outputs, TaskId},
};
use futures::{StreamExt, TryStreamExt, stream};
use rag::{Chunk, ChunkTable, ChunkTableWriter};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    sync::Arc,
};
use store::{Key, KeyWriter, StagedFile};

/// The ending of the tables' names.
const TABLE: &str = "table";
/// The bytes that are written at once.
const WRITTEN_AT_ONCE: usize = 1 << 20;
/// The most rows that are taken from another table at once.
const ROWS_AT_ONCE: u32 = 1 << 14;

/// The tables of chunks in a folder of this machine.
#[derive(Debug)]
pub(super) struct KeptTables(Arc<KeptFiles>);

/// The rows of a part of a table.
enum ReadRows {
    /// Rows of another table.
    Taken(TakenRows<ChunkTable>),
    /// All rows of a shard.
    Decoded(Vec<Chunk>),
}

impl KeptTables {
    pub(super) fn new(scratch: &Path) -> Self {
        Self(Arc::new(KeptFiles::new(scratch.join(layout::CHUNK_TABLES), "table of chunks", TABLE)))
    }

    /// The table of shards of chunks with these names.
    pub(super) async fn open(
        &self,
        cx: &RunContext,
        inputs: &Outputs,
        shards: &[TaskId],
        names: &[String],
    ) -> Result<ChunkTable, Error> {
        let (files, wanted) = (self.0.clone(), names.to_vec());
        let find = move || match files.open(&wanted, open_table) {
            Some(table) => Ok(table),
            None => Err(files.find_similar(&wanted, |path, content| {
                let table = open_table(path, content)?;
                let rows = table.len();
                Some((table, rows))
            })),
        };
        match compute(find).await? {
            Ok(table) => Ok(table),
            Err(similar) => self.write(cx, inputs, (shards, names), similar).await,
        }
    }

    /// Writes a table, and opens it.
    async fn write(
        &self,
        cx: &RunContext,
        inputs: &Outputs,
        (shards, names): (&[TaskId], &[String]),
        similar: Option<SimilarFile<ChunkTable>>,
    ) -> Result<ChunkTable, Error> {
        let path = self.0.paths(names).file;
        let failed = |source| Error::file("write", &path, source);
        let draft = StagedFile::beside(&path)?;
        let file = File::options().read(true).write(true).create_new(true).open(draft.path()).map_err(failed)?;
        let file = BufWriter::with_capacity(WRITTEN_AT_ONCE, KeyWriter::new(file));
        let mut writer = ChunkTableWriter::checked(file);
        let rows_of = async |source: RowSource<ChunkTable>| -> Result<ReadRows, Error> {
            Ok(match source {
                RowSource::Taken(taken) => ReadRows::Taken(taken),
                RowSource::Read(place) => ReadRows::Decoded(decode_shard::<Chunk>(cx, inputs, shards[place]).await?),
            })
        };
        let sources = row_sources(names, similar.as_ref(), ROWS_AT_ONCE);
        let mut read = stream::iter(sources).map(rows_of).buffered(SHARDS_AT_ONCE);
        let mut written: Vec<u32> = Vec::with_capacity(names.len());
        while let Some(rows) = read.try_next().await? {
            let counts;
            (writer, counts) = compute(move || push_rows(writer, rows)).await??;
            written.extend(counts);
        }
        drop(read);
        let target = compute(move || writer.finish()).await??;
        let (file, hash) = target.into_inner().map_err(|error| failed(error.into_error()))?.finish();
        let table = compute(move || ChunkTable::map(&file)).await??;
        std::fs::rename(draft.path(), &path).map_err(failed)?;
        self.0.keep(names.iter().cloned().zip(written).collect(), Some(hash), similar.as_ref())?;
        Ok(table)
    }
}

/// Maps a kept table. None if it is missing or damaged.
fn open_table(path: &Path, content: &KeptContent) -> Option<ChunkTable> {
    let file = File::open(path).ok()?;
    let is_intact = Key::of_reader(&file).is_ok_and(|hash| content.hash == Some(hash));
    if is_intact { ChunkTable::map(&file).ok() } else { None }
}

/// Decodes the rows of a shard as chunks.
pub(super) async fn decode_shard<R: ArtifactTable + Into<Chunk> + Send + 'static>(
    cx: &RunContext,
    inputs: &Outputs,
    shard: TaskId,
) -> Result<Vec<Chunk>, Error> {
    let bytes = cx.read(inputs, shard).await?;
    let rows = compute(move || artifact::decode::<R>(bytes)).await??;
    Ok(rows.into_iter().map(R::into).collect())
}

/// Adds rows, and returns how many each shard has.
fn push_rows<W: Write>(
    mut writer: ChunkTableWriter<W>,
    rows: ReadRows,
) -> Result<(ChunkTableWriter<W>, Vec<u32>), Error> {
    let of_shards = match rows {
        ReadRows::Decoded(chunks) => {
            chunks.iter().try_for_each(|chunk| writer.push(chunk))?;
            vec![u32::try_from(chunks.len()).map_err(Error::table)?]
        }
        ReadRows::Taken(TakenRows { file, mut rows, of_shards }) => {
            rows.try_for_each(|row| writer.push_row(&file.chunk(row)))?;
            of_shards
        }
    };
    Ok((writer, of_shards))
}

#[cfg(test)]
mod tests;
