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
    Context, Document,
    load::{self, ParseLimits, ReadError, Rejected, SourceFile, Unread},
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
        for ((file, key), rows) in self.files.iter().zip(self.load_at_once(cx).await?) {
            let rows = match rows {
                Some(rows) => FileRows { made: rows, unread: Vec::new() },
                None => load_file(cx.run_context, (file, key), parser.clone()).await?,
            };
            unread.extend(rows.unread);
            // What the table of metadata says of a file holds for the files in it.
            let known = self.metadata.get(&file.path);
            made.extend(rows.made.into_iter().map(|row| match (row, known) {
                (DocumentRow::Document(mut document), Some(known)) => {
                    document.metadata.extend(known.clone());
                    DocumentRow::Document(document)
                }
                (row, _) => row,
            }));
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
    async fn load_at_once(&self, cx: &TaskContext<'_>) -> Result<Vec<Option<Vec<DocumentRow>>>, Error> {
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
            let rows =
                (read::key(&content) == *key).then(|| FileRows::of(file, content, &limits, &by_default))?.ok()?;
            rows.unread.is_empty().then_some(rows.made)
        };
        compute(move || files.iter().map(load).collect()).await
    }
}

/// What a file gave.
struct FileRows {
    /// The documents of the file and of the files in it, and which of these gave none.
    made: Vec<DocumentRow>,
    /// What could not be read now.
    unread: Vec<Unread>,
}

/// Makes a document of the bytes of a file.
type Parse<'a> = dyn Fn(&str, &[u8], &ParseLimits) -> Result<Document, ParseError> + 'a;

/// Without a parser of the experiment, a file is read by default.
fn by_default(path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, ParseError> {
    Ok(load::parse(path, bytes, limits)?)
}

impl FileRows {
    /// Parses the content of a file, and the files in it.
    ///
    /// # Errors
    /// If the parser cannot work on any file.
    fn of(file: &SourceFile, content: ReadContent, limits: &ParseLimits, parse: &Parse<'_>) -> Result<Self, Error> {
        let mut rows = Self { made: Vec::new(), unread: Vec::new() };
        match content {
            Err(reason) => rows.add(&file.path, Err(reason.into()))?,
            Ok(bytes) => {
                let mut failed = Ok(());
                load::visit_files(&file.path, &bytes, limits, &mut |path, bytes| {
                    if failed.is_ok() {
                        let parsed = bytes.map_err(ParseError::from).and_then(|bytes| parse(path, bytes, limits));
                        failed = rows.add(path, parsed);
                    }
                });
                failed?;
            }
        }
        Ok(rows)
    }

    fn add(&mut self, path: &str, parsed: Result<Document, ParseError>) -> Result<(), Error> {
        let path = path.to_owned();
        match parsed {
            Ok(document) => self.made.push(DocumentRow::Document(document)),
            Err(ParseError::Rejected(reason)) => self.made.push(DocumentRow::Rejected(Rejected { path, reason })),
            Err(ParseError::Failed(reason)) => self.unread.push(Unread { path, reason }),
            Err(ParseError::Component(error)) => return Err(error.into()),
        }
        Ok(())
    }
}

/// What a file gave, and the files in it. Without a parser it is read by default.
async fn load_file(
    cx: &RunContext,
    (file, key): (&SourceFile, &Key),
    parser: Option<Arc<FileParser>>,
) -> Result<FileRows, Error> {
    let limits = cx.experiment.corpus.limits.clone();
    let content = match read::content_with_key(&cx.source, file, key, &limits).await {
        Ok(content) => content,
        Err(unread) => return Ok(FileRows { made: Vec::new(), unread: vec![unread] }),
    };
    let file = file.clone();
    let parse = move || match parser {
        Some(parser) => FileRows::of(&file, content, &limits, &|path, bytes, limits| parser.parse(path, bytes, limits)),
        None => FileRows::of(&file, content, &limits, &by_default),
    };
    compute(parse).await?
}
