//! Files to documents.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{self, DocumentRow},
    blocking::compute,
    plan::work::LoadWork,
    task::{RunContext, read},
};
use async_trait::async_trait;
use rag::load::{self, Rejected, SourceFile, Unread};
use serde_json::json;
use store::Key;

#[async_trait]
impl DoWork for LoadWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let (mut made, mut unread) = (Vec::with_capacity(self.files.len()), Vec::new());
        for (file, key) in &self.files {
            match load_file(cx.run_context, file, key).await? {
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

/// A file's document, or why there is none, if the file could be read.
async fn load_file(cx: &RunContext, file: &SourceFile, key: &Key) -> Result<Result<DocumentRow, Unread>, Error> {
    let limits = cx.experiment.corpus.limits.clone();
    let path = file.path.clone();
    let parsed = match read::content_with_key(&cx.source, file, key, &limits).await {
        Ok(Ok(bytes)) => compute(move || load::parse(&path, &bytes, &limits)).await?,
        Ok(Err(reason)) => Err(reason),
        Err(unread) => return Ok(Err(unread)),
    };
    Ok(Ok(match parsed {
        Ok(document) => DocumentRow::Document(document),
        Err(reason) => DocumentRow::Rejected(Rejected { path: file.path.clone(), reason }),
    }))
}
