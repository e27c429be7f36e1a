//! A corpus that was read and parsed, one shard in memory at a time.

use crate::{
    Error,
    artifact::{self, DocumentRow},
    blocking::compute,
    plan::{Outputs, Plan, TaskId},
    progress::Progress,
    task::{CallTurn, RunContext, execute},
    workspace::ClaimedArtifacts,
};
use bytes::Bytes;
use rag::{
    Document,
    load::{Rejected, Unread},
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// A corpus that was read and parsed.
pub struct LoadedCorpus {
    pub(crate) run_context: Arc<RunContext>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) outputs: Outputs,
    /// Files that gave no document.
    pub rejected: Vec<Rejected>,
    /// Files that could not be read now.
    pub unread: Vec<Unread>,
    /// Its documents stay in the store while this lives; none where it is
    /// loaded for a larger piece of work, which claims them itself.
    pub(super) claimed: Option<ClaimedArtifacts>,
}

/// Files that were parsed together.
#[derive(Debug)]
pub(crate) struct LoadedShard {
    id: TaskId,
    artifact: String,
}

impl LoadedShard {
    /// The name of the artifact that holds its rows.
    pub(crate) fn artifact(&self) -> &str {
        &self.artifact
    }
}

impl LoadedCorpus {
    /// Ends its claim on the documents, so that the next run on an object store reports no other
    /// user. If it is only dropped, the claim expires after ten minutes.
    pub async fn end(self) {
        if let Some(claimed) = self.claimed {
            claimed.end().await;
        }
    }

    /// Calls `each` with every document in the order of the plan, one shard in memory at a time.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn visit(&self, mut each: impl FnMut(&Document)) -> Result<(), Error> {
        self.rows(|row| {
            if let DocumentRow::Document(document) = row {
                each(&document);
            }
        })
        .await
    }

    /// Calls `each` with the row of every file, in the same order.
    pub(crate) async fn rows(&self, mut each: impl FnMut(DocumentRow)) -> Result<(), Error> {
        for shard in self.shards() {
            self.read(&shard).await?.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// The shards that the first parser has made, in the order of the plan.
    pub(crate) fn shards(&self) -> Vec<LoadedShard> {
        self.shards_by(0)
    }

    /// The shards that the parser with this number has made, in the order of the plan.
    pub(crate) fn shards_by(&self, parser: usize) -> Vec<LoadedShard> {
        let mut seen = BTreeSet::new();
        let made = |&id: &TaskId| Some(LoadedShard { id, artifact: self.outputs.get(&id)?.clone() });
        let mut shards: Vec<LoadedShard> = self.plan.loading_by(parser).iter().filter_map(made).collect();
        shards.retain(|shard| seen.insert(shard.artifact.clone()));
        shards
    }

    /// The rows of the files of a shard.
    pub(crate) async fn read(&self, shard: &LoadedShard) -> Result<Vec<DocumentRow>, Error> {
        let bytes = match self.run_context.artifact(&shard.artifact).await {
            Ok(bytes) => bytes,
            // The task can be run again at once, because it reads nothing but files.
            Err(Error::Store(store::Error::Damaged { .. }) | Error::Table(_)) => self.parse_again(shard.id).await?,
            Err(error) => return Err(error),
        };
        compute(move || artifact::decode::<DocumentRow>(bytes)).await?
    }

    async fn parse_again(&self, id: TaskId) -> Result<Bytes, Error> {
        let (task, progress) = (&self.plan.tasks[id], Progress::default());
        let output = execute(task, &Outputs::new(), false, CallTurn::default(), &self.run_context, &progress).await?;
        self.run_context.log("artifacts_lost", json!({ "artifacts": [task.artifact()] }));
        self.run_context.artifact(&output.artifact).await
    }
}
