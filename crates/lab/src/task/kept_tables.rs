//! Tables of chunks that stay on this machine. Whoever opens the same shards again maps the file. A table of nearly the same
//! shards takes the rows of the shards that it has in common with another, and decodes only the others. If the tables are
//! large, it is written over the other one: the texts of the rows that it takes are not written again.

use super::{
    RunContext,
    kept_files::{KeptContent, KeptFiles, LowerFile, RowSource, SimilarFile, TakenRows, row_sources},
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
pub(super) struct KeptTables {
    files: Arc<KeptFiles>,
    /// A table is written over a file that has at least so many bytes.
    min_lower_bytes: u64,
}

/// A smaller table is written again, which takes less than a tenth of a second.
const MIN_LOWER_BYTES: u64 = 64 << 20;

/// The rows of a part of a table.
enum ReadRows {
    /// Rows of another table.
    Taken(TakenRows<ChunkTable>),
    /// All rows of a shard.
    Decoded(Vec<Chunk>),
}

impl KeptTables {
    pub(super) fn new(scratch: &Path) -> Self {
        let files = Arc::new(KeptFiles::new(scratch.join(layout::CHUNK_TABLES), "table of chunks", TABLE));
        Self { files, min_lower_bytes: MIN_LOWER_BYTES }
    }

    /// The table of shards of chunks with these names.
    pub(super) async fn open(
        &self,
        cx: &RunContext,
        inputs: &Outputs,
        shards: &[TaskId],
        names: &[String],
    ) -> Result<ChunkTable, Error> {
        let (files, wanted) = (self.files.clone(), names.to_vec());
        let find = move || match files.open(&wanted, open_table) {
            Some(table) => (Some(table), None),
            None => {
                let open = |path: &Path, content: &KeptContent| {
                    let table = open_table(path, content)?;
                    let rows = table.len();
                    Some((table, rows))
                };
                (None, files.find_similar(&wanted, open))
            }
        };
        match compute(find).await? {
            (Some(table), _) => Ok(table),
            (None, similar) => self.write(cx, inputs, (shards, names), similar).await,
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
        let path = self.files.paths(names).file;
        let failed = |source| Error::file("write", &path, source);
        let draft = StagedFile::beside(&path)?;
        let file = File::options().read(true).write(true).create_new(true).open(draft.path()).map_err(failed)?;
        let file = BufWriter::with_capacity(WRITTEN_AT_ONCE, KeyWriter::new(file));
        let sources = row_sources(names, similar.as_ref(), ROWS_AT_ONCE);
        let below = similar.as_ref().and_then(|similar| self.choose_lower(&path, similar, &sources));
        let over = similar.as_ref().filter(|_| below.is_some()).map(SimilarFile::file);
        let mut writer = match &over {
            Some(table) => ChunkTableWriter::checked_over(file, table),
            None => ChunkTableWriter::checked(file),
        };
        let rows_of = async |source: RowSource<ChunkTable>| -> Result<ReadRows, Error> {
            Ok(match source {
                RowSource::Taken(taken) => ReadRows::Taken(taken),
                RowSource::Read(place) => ReadRows::Decoded(decode_shard::<Chunk>(cx, inputs, shards[place]).await?),
            })
        };
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
        let open = move || match over {
            Some(lower) => ChunkTable::map_over_table(&file, &lower),
            None => ChunkTable::map(&file),
        };
        let table = compute(open).await??;
        std::fs::rename(draft.path(), &path).map_err(failed)?;
        let content = KeptContent::new(names.iter().cloned().zip(written).collect(), Some(hash)).over(below);
        let files = self.files.clone();
        compute(move || files.keep(&content, similar.as_ref())).await??;
        Ok(table)
    }

    /// Chooses the file to write a table over. None if it is small, or if too few of its rows would be used.
    fn choose_lower(
        &self,
        path: &Path,
        similar: &SimilarFile<ChunkTable>,
        sources: &[RowSource<ChunkTable>],
    ) -> Option<LowerFile> {
        let taken = |source: &RowSource<ChunkTable>| match source {
            RowSource::Taken(taken) => taken.rows.len() as u32,
            RowSource::Read(_) => 0,
        };
        let all = similar.file().len() as u32;
        let lower = similar.lower_for(sources.iter().map(taken).sum(), all)?;
        let file = path.with_file_name(&lower.name);
        let bytes = std::fs::metadata(&file).ok()?.len();
        let (used, rows) = (u64::from(lower.used_rows), u64::from(lower.rows));
        // A quarter of the file may be of no use, and half of the table may be written again for each change.
        let is_most = used > 0 && 4 * used >= 3 * rows && 2 * used >= u64::from(all);
        (is_most && bytes >= self.min_lower_bytes && file != path).then_some(lower)
    }
}

/// Maps a kept table. None if it, or the file below it, is missing or damaged.
fn open_table(path: &Path, content: &KeptContent) -> Option<ChunkTable> {
    let file = open_intact(path, content.hash?)?;
    match &content.below {
        Some(below) => {
            let lower = open_intact(&path.with_file_name(&below.name), below.hash)?;
            ChunkTable::map_over(&file, &lower).ok()
        }
        None => ChunkTable::map(&file).ok(),
    }
}

fn open_intact(path: &Path, hash: Key) -> Option<File> {
    let file = File::open(path).ok()?;
    Key::of_reader(&file).is_ok_and(|found| found == hash).then_some(file)
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
            rows.try_for_each(|row| writer.push_row(&file, row))?;
            of_shards
        }
    };
    Ok((writer, of_shards))
}

#[cfg(test)]
mod tests;
