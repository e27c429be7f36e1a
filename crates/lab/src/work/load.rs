//! Files to documents.

use super::{Keys, Kind, Made, MadeOf, Making};
use crate::{
    Error,
    artifact::{self, DocumentRow},
    operator::Operator,
    plan::{Inputs, TaskId},
    task::{Execution, compute, read},
};
use async_trait::async_trait;
use rag::{
    Metadata,
    load::{self, Rejected, SourceFile, Unread},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use store::Key;

/// Parses files whose contents must still have these keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) files: Vec<(SourceFile, Key)>,
    /// What the corpus' table of metadata says of them, by path.
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, Metadata>,
}

#[async_trait]
impl Kind for Load {
    fn operator(&self) -> Operator {
        Operator::Load
    }

    fn inputs(&self) -> Vec<TaskId> {
        Vec::new()
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let names: Vec<_> = self.files.iter().map(|(file, key)| (&file.path, key)).collect();
        let builder = match self.metadata.is_empty() {
            true => cx.builder("load", &[]),
            false => cx.builder("load", &[]).field("metadata", &self.metadata),
        };
        builder
            .field("version", &load::VERSION)
            .field("limits", &cx.inputs.experiment.corpus.limits)
            .field("pdf", cx.inputs.pdf_library)
            .field("files", &names)
            .finish()
    }

    fn rows(&self, _: &Inputs<'_>) -> Option<usize> {
        Some(self.files.len())
    }

    fn calls_models(&self) -> bool {
        false
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf { words: "files".to_owned(), ..MadeOf::default() }
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let (mut made, mut unread) = (Vec::with_capacity(self.files.len()), Vec::new());
        for (file, key) in &self.files {
            match load_file(making.cx, file, key).await? {
                Ok(DocumentRow::Document(mut document)) => {
                    document.metadata.extend(self.metadata.get(&document.path).cloned().unwrap_or_default());
                    made.push(DocumentRow::Document(document));
                }
                Ok(rejected) => made.push(rejected),
                Err(reason) => unread.push(reason),
            }
            making.made(1);
        }
        for Unread { path, reason } in &unread {
            making.cx.log("document_unread", json!({ "path": path, "reason": reason }));
        }
        for row in &made {
            if let DocumentRow::Rejected(Rejected { path, reason }) = row {
                making.cx.log("document_rejected", json!({ "path": path, "reason": crate::error_chain(reason) }));
            }
        }
        Ok(Made { unread, ..Made::of(artifact::encode(&made)?, made.len()) })
    }
}

/// A file's document, or why there is none, if the file could be read.
async fn load_file(cx: &Execution, file: &SourceFile, key: &Key) -> Result<Result<DocumentRow, Unread>, Error> {
    let limits = cx.experiment.corpus.limits.clone();
    let path = file.path.clone();
    let parsed = match read::expected(&cx.source, file, key, &limits).await {
        Ok(Ok(bytes)) => compute(move || load::parse(&path, &bytes, &limits)).await?,
        Ok(Err(reason)) => Err(reason),
        Err(unread) => return Ok(Err(unread)),
    };
    Ok(Ok(match parsed {
        Ok(document) => DocumentRow::Document(document),
        Err(reason) => DocumentRow::Rejected(Rejected { path: file.path.clone(), reason }),
    }))
}
