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
use rag::{
    Context,
    load::{self, LoadError, ParseLimits, ReadError, Rejected, SourceFile, Unread},
    parse::{FileParser, ParseError, Parser},
};
use serde_json::json;
use std::sync::Arc;
use store::Key;

#[async_trait]
impl DoWork for LoadWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let (mut made, mut unread) = (Vec::with_capacity(self.files.len()), Vec::new());
        let parser = self.parser.as_ref().map(|parser| parser.build(&Context::default())).transpose()?.map(Arc::new);
        for ((file, key), row) in self.files.iter().zip(self.load_at_once(cx).await?) {
            let row = match row {
                Some(row) => Ok(row),
                None => load_file(cx.run_context, (file, key), parser.clone()).await?,
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
        if self.parser.is_some() {
            return Ok(vec![None; self.files.len()]);
        }
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
            (read::key(&content) == *key).then(|| row(file, content, &limits).ok()).flatten()
        };
        compute(move || files.iter().map(load).collect()).await
    }
}

/// A file's document, or why there is none, if the file could be read. Without a parser it is read by default.
async fn load_file(
    cx: &RunContext,
    (file, key): (&SourceFile, &Key),
    parser: Option<Arc<FileParser>>,
) -> Result<Result<DocumentRow, Unread>, Error> {
    let limits = cx.experiment.corpus.limits.clone();
    let content = match read::content_with_key(&cx.source, file, key, &limits).await {
        Ok(content) => content,
        Err(unread) => return Ok(Err(unread)),
    };
    let (path, file) = (file.path.clone(), file.clone());
    let Some(parser) = parser else { return compute(move || row(&file, content, &limits)).await };
    let parse = move || content.map_err(ParseError::from).and_then(|bytes| parser.parse(&file.path, &bytes, &limits));
    match compute(parse).await? {
        Ok(document) => Ok(Ok(DocumentRow::Document(document))),
        Err(ParseError::Rejected(reason)) => Ok(Ok(DocumentRow::Rejected(Rejected { path, reason }))),
        Err(ParseError::Failed(reason)) => Ok(Err(Unread { path, reason })),
        Err(ParseError::Component(error)) => Err(error.into()),
    }
}

/// The document of a file's content, or why there is none, if the file was read.
fn row(file: &SourceFile, content: ReadContent, limits: &ParseLimits) -> Result<DocumentRow, Unread> {
    let path = || file.path.clone();
    match content.and_then(|bytes| load::parse(&file.path, &bytes, limits)) {
        Ok(document) => Ok(DocumentRow::Document(document)),
        Err(LoadError::NotRead(reason)) => Err(Unread { path: path(), reason }),
        Err(reason) => Ok(DocumentRow::Rejected(Rejected { path: path(), reason })),
    }
}
