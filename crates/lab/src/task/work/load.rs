//! Files to documents.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{self, DocumentRow},
    blocking::compute,
    plan::work::LoadWork,
    task::{RunContext, read, read::ReadContent},
};
use async_trait::async_trait;
use rag::load::{self, ParseLimits, ReadError, Rejected, SourceFile, Unread};
use serde_json::json;
use store::Key;

#[async_trait]
impl DoWork for LoadWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let (mut made, mut unread) = (Vec::with_capacity(self.files.len()), Vec::new());
        for ((file, key), row) in self.files.iter().zip(self.load_at_once(cx).await?) {
            let row = match row {
                Some(row) => Ok(row),
                None => load_file(cx.run_context, file, key).await?,
            };
            match row {
                Ok(DocumentRow::Document(mut document)) => {
                    document.metadata.extend(self.metadata.get(&document.path).cloned().unwrap_or_default());
                    made.push(DocumentRow::Document(document));
                }
                Ok(rejected) => made.push(rejected),
                Err(reason) => unread.push(reason),
            }
            cx.report_rows(1);
        }
        for Unread { path, reason } in &unread {
            cx.run_context.log("document_unread", json!({ "path": path, "reason": reason }));
        }
        for row in &made {
            if let DocumentRow::Rejected(Rejected { path, reason }) = row {
                cx.run_context.log("document_rejected", json!({ "path": path, "reason": crate::error_chain(reason) }));
            }
        }
        Ok(TaskOutput { unread, ..TaskOutput::of(artifact::encode(&made)?, made.len()) })
    }
}

impl LoadWork {
    /// Reads and parses small files of a local disk one after the other on one thread, because handing each of them over
    /// takes longer than most of them. None for a file that has to be loaded by itself.
    async fn load_at_once(&self, cx: &TaskContext<'_>) -> Result<Vec<Option<DocumentRow>>, Error> {
        let limits = cx.run_context.experiment.corpus.limits.clone();
        let (source, files) = (cx.run_context.source.clone(), self.files.clone());
        let load = move |(file, key): &(SourceFile, Key)| {
            if file.bytes > read::SMALL_FILE {
                return None;
            }
            let content = match source.read_now(file, &limits)? {
                Ok(bytes) => Ok(bytes),
                Err(ReadError::Rejected(reason)) => Err(reason),
                Err(ReadError::Failed { .. }) => return None,
            };
            (read::key(&content) == *key).then(|| row(file, content, &limits))
        };
        compute(move || files.iter().map(load).collect()).await
    }
}

/// A file's document, or why there is none, if the file could be read.
async fn load_file(cx: &RunContext, file: &SourceFile, key: &Key) -> Result<Result<DocumentRow, Unread>, Error> {
    let limits = cx.experiment.corpus.limits.clone();
    Ok(match read::content_with_key(&cx.source, file, key, &limits).await {
        Ok(content) => {
            let file = file.clone();
            Ok(compute(move || row(&file, content, &limits)).await?)
        }
        Err(unread) => Err(unread),
    })
}

/// The document of a file's content, or why there is none.
fn row(file: &SourceFile, content: ReadContent, limits: &ParseLimits) -> DocumentRow {
    match content.and_then(|bytes| load::parse(&file.path, &bytes, limits)) {
        Ok(document) => DocumentRow::Document(document),
        Err(reason) => DocumentRow::Rejected(Rejected { path: file.path.clone(), reason }),
    }
}
