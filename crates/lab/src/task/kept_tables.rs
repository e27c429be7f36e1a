//! Tables of chunks that stay on this machine. Whoever opens the same shards again maps the file. A table of nearly the same
//! shards takes the rows of the shards that it has in common with another, and decodes only the others.

use super::RunContext;
use crate::{
    Error,
    artifact::{self, ArtifactTable, SHARDS_AT_ONCE},
    blocking::compute,
    files::{read_with_checksum, write_with_checksum},
    layout,
    plan::{Outputs, TaskId},
};
use futures::{StreamExt, TryStreamExt, stream};
use rag::{Chunk, ChunkTable, ChunkTableWriter};
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, BufWriter, Seek, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use store::{Key, KeyBuilder, StagedFile, UsedFiles};

/// Raise when the files of earlier versions are of no use.
const VERSION: u32 = 1;
/// A table has two files with these endings: the table itself, and the list of its shards.
const TABLE: &str = "table";
const CONTENT: &str = "content";
/// The most tables that are looked at for rows to take over, the newest first.
const LOOKED_AT: usize = 16;
/// The bytes that are written at once.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// The tables of chunks in a folder of this machine.
#[derive(Debug)]
pub(super) struct KeptTables {
    folder: PathBuf,
    used: UsedFiles,
}

/// What a kept table holds.
#[derive(Debug, Serialize, Deserialize)]
struct TableContent {
    version: u32,
    /// The hash of the file of the table.
    hash: Key,
    /// The names of its shards, each with the number of its rows, in order.
    shards: Vec<(String, u32)>,
}

/// Another table with some of the shards that are wanted.
struct SimilarTable {
    table: Arc<ChunkTable>,
    /// The rows of each of its shards.
    rows: HashMap<String, Range<u32>>,
    /// Its files.
    files: [PathBuf; 2],
    /// Whether it has most of the shards that are wanted.
    is_replaced: bool,
}

/// The rows of a shard.
enum ShardRows {
    Taken(Range<u32>),
    Decoded(Vec<Chunk>),
}

impl KeptTables {
    pub(super) fn new(scratch: &Path) -> Self {
        Self { folder: scratch.join(layout::CHUNK_TABLES), used: UsedFiles::default() }
    }

    /// The table of shards of chunks with these names.
    pub(super) async fn open(
        &self,
        cx: &RunContext,
        inputs: &Outputs,
        shards: &[TaskId],
        names: &[String],
    ) -> Result<ChunkTable, Error> {
        let key = KeyBuilder::new("table of chunks").field("version", &VERSION).field("shards", &names).finish();
        let files = [TABLE, CONTENT].map(|ending| self.folder.join(format!("{}.{ending}", key.hex())));
        let (known, wanted) = (files.clone(), names.to_vec());
        if let Some((table, _)) = compute(move || open_files(&known, |content| is_of(content, &wanted))).await? {
            files.iter().for_each(|file| self.used.note(file));
            return Ok(table);
        }
        let (folder, wanted) = (self.folder.clone(), names.to_vec());
        let similar = compute(move || find_similar(&folder, &wanted)).await?;
        let table = self.write(cx, inputs, shards.iter().zip(names), (similar.as_ref(), &files)).await?;
        if let Some(similar) = similar.filter(|similar| similar.is_replaced) {
            // Whoever has it open keeps it.
            similar.files.iter().rev().for_each(|file| drop(std::fs::remove_file(file)));
        }
        self.used.remove_unused(&self.folder);
        Ok(table)
    }

    /// Writes a table, and opens it.
    async fn write(
        &self,
        cx: &RunContext,
        inputs: &Outputs,
        shards: impl Iterator<Item = (&TaskId, &String)>,
        (similar, [path, content]): (Option<&SimilarTable>, &[PathBuf; 2]),
    ) -> Result<ChunkTable, Error> {
        let failed = |source| Error::file("write", path, source);
        let draft = StagedFile::beside(path)?;
        let file = File::options().read(true).write(true).create_new(true).open(draft.path()).map_err(failed)?;
        let mut writer = ChunkTableWriter::checked(BufWriter::with_capacity(WRITTEN_AT_ONCE, file));
        let rows_of = async |(shard, name): (&TaskId, &String)| -> Result<(String, ShardRows), Error> {
            let taken = similar.and_then(|similar| similar.rows.get(name)).cloned();
            let rows = match taken {
                Some(rows) => ShardRows::Taken(rows),
                None => ShardRows::Decoded(decode_shard::<Chunk>(cx, inputs, *shard).await?),
            };
            Ok((name.clone(), rows))
        };
        let mut shards = stream::iter(shards).map(rows_of).buffered(SHARDS_AT_ONCE);
        let mut written: Vec<(String, u32)> = Vec::new();
        while let Some((name, rows)) = shards.try_next().await? {
            let table = similar.map(|similar| similar.table.clone());
            let count;
            (writer, count) = compute(move || push_rows(writer, rows, table.as_deref())).await??;
            written.push((name, count));
        }
        let target = compute(move || writer.finish()).await??;
        let file = target.into_inner().map_err(|error| failed(error.into_error()))?;
        let hash_and_map = move || Ok((hash_of(&file)?, ChunkTable::map(&file)));
        let (hash, table) = compute(hash_and_map).await?.map_err(failed)?;
        let table = table?;
        std::fs::rename(draft.path(), path).map_err(failed)?;
        let bytes =
            serde_json::to_vec(&TableContent { version: VERSION, hash, shards: written }).map_err(Error::table)?;
        // Without this file, the table is made anew the next time.
        if write_with_checksum(content, bytes).is_ok() {
            [path, content].into_iter().for_each(|file| self.used.note(file));
        }
        Ok(table)
    }
}

/// Whether these are the shards of a table, in order.
fn is_of(content: &TableContent, names: &[String]) -> bool {
    content.shards.iter().map(|(name, _)| name).eq(names)
}

/// Opens a kept table. None if it is missing or damaged, or if `is_wanted` says no to its content.
fn open_files(
    [path, content]: &[PathBuf; 2],
    is_wanted: impl FnOnce(&TableContent) -> bool,
) -> Option<(ChunkTable, TableContent)> {
    let content: TableContent = serde_json::from_slice(&read_with_checksum(content)?).ok()?;
    if content.version != VERSION || !is_wanted(&content) {
        return None;
    }
    let file = File::open(path).ok()?;
    let is_intact = hash_of(&file).is_ok_and(|hash| hash == content.hash);
    let table = if is_intact { ChunkTable::map(&file).ok()? } else { return None };
    Some((table, content))
}

/// The hash of a whole file.
fn hash_of(mut file: &File) -> io::Result<Key> {
    file.rewind()?;
    Key::of_reader(file)
}

/// The kept table that has the most of these shards; none if there is no table with one of them.
fn find_similar(folder: &Path, names: &[String]) -> Option<SimilarTable> {
    let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut found: Vec<(SystemTime, PathBuf)> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|ending| ending == CONTENT))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    let count = |(_, path): &(SystemTime, PathBuf)| {
        let content: TableContent = serde_json::from_slice(&read_with_checksum(path)?).ok()?;
        let common = content.shards.iter().filter(|(name, _)| wanted.contains(name.as_str())).count();
        (common > 0).then(|| (common, path.clone()))
    };
    let (common, content) = found.iter().take(LOOKED_AT).filter_map(count).max_by_key(|(common, _)| *common)?;
    let files = [content.with_extension(TABLE), content];
    let (table, content) = open_files(&files, |_| true)?;
    let mut next = 0;
    let rows = content.shards.into_iter().map(|(name, rows)| {
        let first = next;
        next += rows;
        (name, first..next)
    });
    let rows: HashMap<String, Range<u32>> = rows.collect();
    let is_right = next as usize == table.len();
    is_right.then(|| SimilarTable { table: Arc::new(table), rows, files, is_replaced: 2 * common > names.len() })
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

/// Adds the rows of a shard, and returns their number.
fn push_rows<W: Write>(
    mut writer: ChunkTableWriter<W>,
    rows: ShardRows,
    taken_from: Option<&ChunkTable>,
) -> Result<(ChunkTableWriter<W>, u32), Error> {
    let count = match (rows, taken_from) {
        (ShardRows::Decoded(chunks), _) => {
            chunks.iter().try_for_each(|chunk| writer.push(chunk))?;
            chunks.len()
        }
        (ShardRows::Taken(rows), Some(table)) => {
            rows.clone().try_for_each(|row| writer.push_row(&table.chunk(row)))?;
            rows.len()
        }
        (ShardRows::Taken(_), None) => 0,
    };
    let count = u32::try_from(count).map_err(|_| Error::table("there are more than 4,294,967,295 chunks"))?;
    Ok((writer, count))
}

#[cfg(test)]
mod tests;
