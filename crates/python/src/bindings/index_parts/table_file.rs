//! `chunks.parquet` of a table that need not fit into memory: row group by row group, byte for byte what
//! `lab::artifact::encode` makes of all rows at once.
//!
//! Of a row group, the packed pages are in memory. Where pages end depends on how many rows a column is given at once:
//! Parquet looks at the size of a page after 1,024 rows, and after 20,000 if all values, or none, are null.

use super::super::stages::failed;
use arrow_array::{Array, RecordBatch};
use lab::artifact::{content_bytes, schema, to_batch, writer_properties};
use parquet::arrow::{ArrowWriter, arrow_writer::compute_leaves};
use pyo3::PyResult;
use rag::{Chunk, ChunkTable};
use std::{fs::File, io::BufWriter, ops::Range, path::Path};

/// The defaults of Parquet, which decide where row groups and pages end.
const GROUP_ROWS: usize = 1 << 20;
const STEP: usize = 1024;
const EQUAL_STEP: usize = 20_000;

/// What is known of the columns before they are written.
#[derive(Default)]
pub(super) struct ColumnTotals {
    rows: usize,
    columns: Vec<ColumnTotal>,
}

#[derive(Default)]
struct ColumnTotal {
    bytes: usize,
    nulls: usize,
    /// The nulls in each row group.
    of_groups: Vec<usize>,
}

impl ColumnTotals {
    /// Adds the next rows.
    pub(super) fn add(&mut self, chunks: &[Chunk]) -> PyResult<()> {
        let batch = to_batch(chunks).map_err(|error| failed(&error))?;
        self.columns.resize_with(batch.num_columns(), ColumnTotal::default);
        let mut at = 0;
        while at < batch.num_rows() {
            let group = (self.rows + at) / GROUP_ROWS;
            let rows = (batch.num_rows() - at).min((group + 1) * GROUP_ROWS - self.rows - at);
            for (total, column) in self.columns.iter_mut().zip(batch.columns()) {
                let nulls = column.slice(at, rows).null_count();
                total.of_groups.resize(group + 1, 0);
                total.of_groups[group] += nulls;
                total.nulls += nulls;
            }
            at += rows;
        }
        for (total, column) in self.columns.iter_mut().zip(batch.columns()) {
            total.bytes += content_bytes(column);
        }
        self.rows += batch.num_rows();
        Ok(())
    }
}

/// Writes the table. `totals` are those of its rows.
pub(super) fn write_table(table: &ChunkTable, totals: &ColumnTotals, path: &Path) -> PyResult<()> {
    let schema = schema::<Chunk>().map_err(|error| failed(&error))?;
    // Of a table without rows, no column was added.
    let bytes = totals.columns.iter().map(|total| total.bytes).chain(std::iter::repeat(0));
    let properties = writer_properties(&schema, bytes).map_err(|error| failed(&error))?;
    let file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(|error| failed(&error))?);
    let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(|error| failed(&error))?;
    let (mut writer, factory) = writer.into_serialized_writer().map_err(|error| failed(&error))?;
    for (group, first) in (0..table.len()).step_by(GROUP_ROWS).enumerate() {
        let rows = first..table.len().min(first + GROUP_ROWS);
        let are_equal: Vec<bool> = schema
            .fields()
            .iter()
            .zip(&totals.columns)
            .map(|(field, total)| {
                let nulls = total.of_groups.get(group).copied().unwrap_or_default();
                field.is_nullable() && (total.nulls == 0 || nulls == rows.len())
            })
            .collect();
        let mut columns = factory.create_column_writers(group).map_err(|error| failed(&error))?;
        for (step, wanted) in [(STEP, false), (EQUAL_STEP, true)] {
            if !are_equal.contains(&wanted) {
                continue;
            }
            for batch in batches(table, rows.clone(), step) {
                let batch = batch?;
                for (place, (field, column)) in schema.fields().iter().zip(batch.columns()).enumerate() {
                    if are_equal[place] != wanted {
                        continue;
                    }
                    for leaf in compute_leaves(field, column).map_err(|error| failed(&error))? {
                        columns[place].write(&leaf).map_err(|error| failed(&error))?;
                    }
                }
            }
        }
        let mut row_group = writer.next_row_group().map_err(|error| failed(&error))?;
        for column in columns {
            let chunk = column.close().map_err(|error| failed(&error))?;
            chunk.append_to_row_group(&mut row_group).map_err(|error| failed(&error))?;
        }
        row_group.close().map_err(|error| failed(&error))?;
    }
    let file = writer.into_inner().map_err(|error| failed(&error))?;
    let file = file.into_inner().map_err(|error| failed(error.error()))?;
    file.sync_data().map_err(|error| failed(&error))
}

/// The rows, so many at once.
fn batches(table: &ChunkTable, rows: Range<usize>, step: usize) -> impl Iterator<Item = PyResult<RecordBatch>> {
    rows.clone().step_by(step).map(move |first| {
        let rows = first as u32..rows.end.min(first + step) as u32;
        let chunks: Vec<Chunk> = rows.map(|row| table.chunk(row).to_chunk()).collect();
        to_batch(&chunks).map_err(|error| failed(&error))
    })
}
