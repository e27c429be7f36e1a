//! Does each kind of work: one file each. `plan/work` describes the kinds. The same code runs under
//! every engine.

mod anchor;
mod apply_stage;
mod ask;
mod chunk;
mod earlier;
mod embed;
mod embed_in_context;
mod embed_queries;
mod embed_tokens;
mod enrich;
mod fill_index;
mod generate;
mod index;
mod load;
mod measure_recall;
mod retrieve;
mod score;
mod write_queries;

use super::{CallTurn, RowFailure, RunContext, TaskCalls, TurnModels, group_failures};
use crate::{
    Error,
    artifact::{self, DocumentRow, PassageRow},
    plan::{
        Task, TaskId,
        work::{self, Work, with_kinds_of_work},
    },
    progress::Progress,
    task::Outputs,
};
use async_trait::async_trait;
use bytes::Bytes;
use earlier::EarlierRows;
use models::{Ledger, ledger};
use rag::{Document, PassagesWithRemarks, load::Unread};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};
use store::Key;

/// Does a kind of work.
#[async_trait]
pub(crate) trait DoWork: Send + Sync {
    /// Reads the inputs, asks the models, and returns the output.
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error>;
}

macro_rules! doers {
    ($( $Kind:ident($Fields:ident) ),+ $(,)?) => {
        /// The implementation for this work.
        pub(super) fn doer(work: &Work) -> &dyn DoWork {
            match work { $( Work::$Kind(kind) => kind as &work::$Fields ),+ }
        }
    };
}
with_kinds_of_work!(doers);

/// Everything that is needed to do a task.
pub(crate) struct TaskContext<'a> {
    pub(crate) task: &'a Task,
    /// Where its inputs are.
    pub(crate) inputs: &'a Outputs,
    /// Whether one of them is partial.
    pub(crate) partial: bool,
    pub(crate) turn: CallTurn,
    pub(crate) run_context: &'a RunContext,
    pub(crate) progress: &'a Progress,
    /// What the calls for each question used, by its id.
    pub(crate) usage_by_question: &'a Mutex<BTreeMap<String, Ledger>>,
    /// The journal's keys of the calls, by question or by document.
    pub(crate) calls: &'a Mutex<TaskCalls>,
}

impl TaskContext<'_> {
    /// Runs the work of one question, and counts what its calls use.
    async fn measure_question<T>(&self, id: &str, work: impl Future<Output = T>) -> T {
        let (done, used) = self.note_calls(id, ledger::measure(work)).await;
        if !used.is_empty() {
            let mut usage = self.usage_by_question.lock().unwrap_or_else(PoisonError::into_inner);
            usage.entry(id.to_owned()).or_default().merge(&used);
        }
        done
    }

    /// Runs the work of one question or document, and notes the keys of its calls.
    async fn note_calls<T>(&self, of: &str, work: impl Future<Output = T>) -> T {
        let (done, keys) = ledger::collect_keys(work).await;
        if !keys.is_empty() {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.entry(of.to_owned()).or_default().extend(keys);
        }
        done
    }

    /// Reports rows that were made to the live table.
    fn report_rows(&self, rows: usize) {
        self.progress.rows(self.task.operator(), rows);
    }

    /// Reports to the live table how many rows there will be.
    fn expect_rows(&self, rows: usize) {
        self.progress.expect(self.task.operator(), rows);
    }

    /// The experiment's models, whose chat calls take the task's place in the queue.
    fn models(&self) -> TurnModels<'_> {
        self.run_context.models().in_turn(self.turn)
    }

    async fn read(&self, id: TaskId) -> Result<Bytes, Error> {
        self.run_context.read(self.inputs, id).await
    }

    /// The documents of a shard, by path.
    async fn documents(&self, id: TaskId) -> Result<HashMap<String, Document>, Error> {
        let rows: Vec<DocumentRow> = artifact::decode(self.read(id).await?)?;
        let documents = rows.into_iter().filter_map(DocumentRow::into_document);
        Ok(documents.map(|document| (document.path.clone(), document)).collect())
    }

    /// The key under which parts may be stored; none if an input is partial,
    /// because the parts would then hold other texts than the key stands for.
    fn checkpoint_key(&self) -> Option<&Key> {
        (!self.partial).then_some(&self.task.key)
    }

    /// The name of its artifact, for an artifact that is written while it is made.
    fn artifact_name(&self) -> String {
        self.run_context.name(self.task, self.partial)
    }
}

/// The result of the work.
#[derive(Default)]
pub(crate) struct TaskOutput {
    pub(crate) content: OutputContent,
    pub(crate) rows: usize,
    /// Rows without a result because a provider failed.
    pub(crate) errors: usize,
    /// Rows without a result because a user's function failed.
    pub(crate) function_errors: usize,
    /// Files that could not be read now.
    pub(crate) unread: Vec<Unread>,
    /// Rows that an interrupted run or an earlier task had made.
    pub(crate) resumed: usize,
    /// Whether earlier tasks had made all rows.
    pub(crate) reused: bool,
    /// What the calls behind rows of earlier tasks used, by question.
    pub(crate) earlier: BTreeMap<String, Ledger>,
    /// The journal's keys of these calls.
    pub(crate) earlier_calls: TaskCalls,
    /// Whether there are parts to remove.
    pub(crate) has_parts: bool,
    /// Bytes of text that were read, if they decide how long it takes.
    pub(crate) bytes: u64,
    /// Why rows have no result.
    pub(crate) failures: Vec<RowFailure>,
}

impl TaskOutput {
    fn of(bytes: impl Into<Bytes>, rows: usize) -> Self {
        Self { content: OutputContent::Bytes(bytes.into()), rows, ..Self::default() }
    }

    fn written(artifact: String, rows: usize) -> Self {
        Self { content: OutputContent::Written(artifact), rows, ..Self::default() }
    }
}

/// The artifact's content.
pub(crate) enum OutputContent {
    /// It is in the store already, under this name.
    Written(String),
    /// It is still to be written.
    Bytes(Bytes),
}

impl Default for OutputContent {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

/// The document that chunks were cut from.
fn document_of<'a>(documents: &'a HashMap<String, Document>, path: &str) -> Result<&'a Document, Error> {
    documents.get(path).ok_or_else(|| Error::table(format!("{path}: the document of its chunks is missing")))
}

/// The table's rows of one question's passages. Remarks on a question without
/// passages have a row of their own.
fn passage_rows(question: &str, found: impl Into<PassagesWithRemarks>) -> impl Iterator<Item = PassageRow> {
    let PassagesWithRemarks { passages, mut remarks, .. } = found.into();
    let without = (passages.is_empty() && !remarks.is_empty()).then_some((0, None));
    let ranked = (1u32..).zip(passages).map(|(rank, passage)| (rank, Some(passage)));
    without.into_iter().chain(ranked).map(move |(rank, passage)| PassageRow {
        question: question.to_owned(),
        rank,
        passage,
        remarks: std::mem::take(&mut remarks),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rag::Passage;

    #[test]
    fn passages_are_ranked_from_one_and_remarks_stand_in_the_first_row() {
        let passage = |text: &str| Passage::of_text("a.md".to_owned(), text.to_owned());
        let rows = |passages: &[&str], remarks: &[&str]| {
            let passages = passages.iter().map(|text| passage(text)).collect();
            let remarks = remarks.iter().map(|remark| (*remark).to_owned()).collect();
            let found = PassagesWithRemarks { passages, remarks, ..PassagesWithRemarks::default() };
            passage_rows("q1", found)
                .map(|row| {
                    assert_eq!(row.question, "q1");
                    (row.rank, row.passage.map(|passage| passage.text), row.remarks)
                })
                .collect::<Vec<_>>()
        };
        let text = |text: &str| Some(text.to_owned());
        let remark = || vec!["cut".to_owned(), "late".to_owned()];
        assert_eq!(rows(&[], &[]), [], "nothing was found, and nothing is to be told");
        assert_eq!(rows(&[], &["cut", "late"]), [(0, None, remark())]);
        assert_eq!(rows(&["one"], &[]), [(1, text("one"), vec![])]);
        assert_eq!(rows(&["one", "two"], &["cut", "late"]), [(1, text("one"), remark()), (2, text("two"), vec![])]);
    }
}
