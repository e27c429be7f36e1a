//! Writes chunks and their vectors into a database.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    plan::work::FillIndexWork,
    task::{
        chunk_table,
        filling::{FillProgress, Filling, call},
        open_indexes,
    },
};
use async_trait::async_trait;
use rag::{
    Choice,
    index::{DenseIndex, FilledCollection, Index, IndexKind},
};
use serde_json::json;

#[async_trait]
impl DoWork for FillIndexWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let environment = &run_context.models().model_context().environment;
        let table = chunk_table(run_context, cx.inputs, &self.chunks).await?;
        let dense = [(IndexKind::Dense, self.dense.clone())].into();
        let indexes = open_indexes(run_context, cx.inputs, &dense).await?;
        let vectors = indexes.iter().find_map(|index| index.get::<DenseIndex>());
        let key = cx.task.key.hex();
        let (Some(vectors), Some(database)) = (vectors, self.index.open_database(environment)?) else {
            return Err(Error::table(format!("{} has no vectors or no database", cx.task.label)));
        };
        // A partial corpus has other records than the key stands for.
        let key = match cx.partial {
            true => store::Key::of_bytes(cx.artifact_name().as_bytes()).hex(),
            false => key,
        };
        let (rows, dimensions) = (vectors.entries(), vectors.dimensions());
        let Some((collection, spec)) = self.index.collection(&key, dimensions) else {
            return Err(Error::table(format!("{} fills no database", cx.task.label)));
        };
        if table.searchable().len() != rows {
            let chunks = table.searchable().len();
            return Err(Error::table(format!("{chunks} chunks and {rows} vectors; {} needs as many", cx.task.label)));
        }
        let (address, settings) = (database.address(), self.index.value());
        let filled = FilledCollection { address, collection, key, rows, dimensions, settings, bytes: None };
        let (place, filled_at, reads_back_all) = (filled.place(), &filled, false);
        let filling = Filling { place, database, filled: filled_at, spec, table: &table, vectors, reads_back_all };
        let kept = cx.checkpoint_key().map(|key| (&run_context.store, key));
        let progress = FillProgress { kept, report: &|rows| cx.report_rows(rows) };
        let resumed = filling.fill(&progress, json!({ "index": self.index.build_settings() })).await?;
        let described = call(|| filling.database.describe(&filling.place)).await?;
        let bytes = described.and_then(|described| described.bytes);
        let filled = FilledCollection { bytes, ..filled.clone() };
        Ok(TaskOutput { resumed, ..TaskOutput::of(filled.to_bytes(), rows) })
    }
}
