//! The kinds of work that tasks do: one file each, with the kind's fields, key
//! and inputs, and the code that does it. The same code runs under every
//! engine.

mod chunk;
mod earlier;
mod embed;
mod embed_in_context;
mod embed_queries;
mod embed_tokens;
mod enrich;
mod generate;
mod index;
mod load;
mod reorder;
mod retrieve;
mod score;
mod write_queries;

pub(crate) use {
    chunk::Chunk,
    embed::Embed,
    embed_in_context::EmbedInContext,
    embed_queries::EmbedQueries,
    embed_tokens::EmbedTokens,
    enrich::Enrich,
    generate::Generate,
    index::Index,
    load::Load,
    reorder::Reorder,
    retrieve::{Retrieve, Written},
    score::Score,
    write_queries::WriteQueries,
};

use crate::{
    Error, artifact,
    engine::{Outputs, Turn},
    estimate::{Load as Asked, Sizes},
    layout::Format,
    operator::Operator,
    plan::{Inputs, TaskId},
    progress::Progress,
    task::{Execution, InTurn, Task},
};
use async_trait::async_trait;
use bytes::Bytes;
use earlier::EarlierRows;
use models::{Identity, Ledger, ledger};
use rag::{Choice, Document, Item, Refined, index::IndexKind, load::Unread};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};
use store::{Key, KeyBuilder};

/// A kind of work; each kind is a type that implements this.
#[async_trait]
pub(crate) trait Kind: Send + Sync {
    /// The row of the live table.
    fn operator(&self) -> Operator;

    /// The tasks whose outputs it needs; each comes before it in the plan.
    fn inputs(&self) -> Vec<TaskId>;

    /// Its key: the hash of everything that decides the output.
    fn key(&self, cx: &Keys<'_>) -> Key;

    /// How many rows it will make, where that is known.
    fn rows(&self, _: &Inputs<'_>) -> Option<usize> {
        None
    }

    /// The format of its artifact.
    fn format(&self) -> Format {
        Format::Parquet
    }

    /// Whether it is long or expensive enough that two runs should do it only once.
    fn is_exclusive(&self) -> bool {
        true
    }

    /// Whether it calls a user's function.
    fn runs_function(&self) -> bool {
        false
    }

    /// What its model calls are paid for.
    fn purpose(&self) -> Purpose {
        Purpose::Index
    }

    /// Whether it may call models. What its calls used is then stored, also if
    /// there were none.
    fn calls_models(&self) -> bool {
        true
    }

    /// The component and the models that do the work, for the estimate of its time.
    fn made_of(&self) -> MadeOf<'_>;

    /// The models that it asks, and about how much.
    fn asks<'a>(&'a self, _: &Sizes<'a>) -> Vec<(&'a str, Asked)> {
        Vec::new()
    }

    /// About how much the tasks after it are given: the chunks of a shard, or
    /// the passages of a question.
    fn gives(&self, _: &Sizes<'_>) -> Item {
        Item::default()
    }

    /// Does the work.
    async fn make(&self, cx: &Making<'_>) -> Result<Made, Error>;
}

/// What the model calls of a task are paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Making what is searched: once for a corpus.
    Index,
    /// Answering questions: once for each.
    Questions,
    /// Scoring answers, which is no part of a trial's price.
    Evaluation,
}

/// The component and the models that do a task's work.
#[derive(Debug, Default)]
pub(crate) struct MadeOf<'a> {
    /// The name that people use.
    pub(crate) words: String,
    /// The component's settings.
    pub(crate) settings: Value,
    /// Its models, by name.
    pub(crate) models: Vec<&'a str>,
    /// Whether the experiment's judges and embedder are among its models.
    pub(crate) evaluates: bool,
}

impl<'a> MadeOf<'a> {
    /// A component, with the trial's embedder.
    fn component(component: &'a dyn Choice, embedder: Option<&'a str>) -> Self {
        let embeds = component.indexes().into_iter().any(IndexKind::compares_tokens);
        let models = component.models().into_iter().chain(embedder.filter(|_| embeds)).collect();
        Self { words: component.name().to_owned(), settings: component.value(), models, evaluates: false }
    }

    /// Only a model.
    fn model(model: &'a str) -> Self {
        Self { words: model.to_owned(), models: vec![model], ..Self::default() }
    }
}

/// The data that keys are made from.
pub(crate) struct Keys<'a> {
    pub(crate) tasks: &'a [Task],
    pub(crate) inputs: &'a Inputs<'a>,
}

impl Keys<'_> {
    /// Begins a key with the keys of the inputs.
    fn builder(&self, kind: &str, inputs: &[TaskId]) -> KeyBuilder {
        let keys: Vec<_> = inputs.iter().map(|&id| self.tasks[id].key).collect();
        KeyBuilder::new(kind).field("tables", &artifact::VERSION).field("inputs", &keys)
    }

    fn identity(&self, model: &str) -> &Identity {
        &self.inputs.identities[model]
    }

    /// The identities of the models that a component asks, and the identity of
    /// the trial's embedder if the component needs it.
    fn models(&self, component: &dyn Choice, embedder: Option<&str>) -> Vec<&Identity> {
        let embedder = embedder.filter(|_| component.embedder());
        component.models().into_iter().chain(embedder).map(|model| self.identity(model)).collect()
    }

    /// Adds the models of a component. Components of this kind once could have
    /// no models; a component without any keeps the key that it had then.
    fn with_models(&self, builder: KeyBuilder, component: &dyn Choice, embedder: Option<&str>) -> KeyBuilder {
        match self.models(component, embedder) {
            models if models.is_empty() => builder,
            models => builder.field("models", &models),
        }
    }
}

fn component(builder: KeyBuilder, component: &dyn Choice) -> KeyBuilder {
    builder.field("version", &component.version()).field("config", &component.keyed())
}

/// Everything that is needed to do a task.
pub(crate) struct Making<'a> {
    pub(crate) task: &'a Task,
    /// Where its inputs are.
    pub(crate) inputs: &'a Outputs,
    /// Whether one of them is partial.
    pub(crate) partial: bool,
    pub(crate) turn: Turn,
    pub(crate) cx: &'a Execution,
    pub(crate) progress: &'a Progress,
    /// What the calls for each question used.
    pub(crate) questions: &'a Mutex<BTreeMap<String, Ledger>>,
}

impl Making<'_> {
    /// Does the work of one question, and counts what its calls use.
    async fn of_question<T>(&self, id: &str, work: impl Future<Output = T>) -> T {
        let (done, used) = ledger::measure(work).await;
        if !used.is_empty() {
            let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
            questions.entry(id.to_owned()).or_default().merge(&used);
        }
        done
    }

    /// Reports rows that were made to the live table.
    fn made(&self, rows: usize) {
        self.progress.rows(self.task.operator(), rows);
    }

    /// Reports to the live table how many rows there will be.
    fn expect(&self, rows: usize) {
        self.progress.expect(self.task.operator(), rows);
    }

    /// The experiment's models, whose calls take the task's place in the queue.
    fn models(&self) -> InTurn<'_> {
        self.cx.models().in_turn(self.turn)
    }

    async fn read(&self, id: TaskId) -> Result<Bytes, Error> {
        self.cx.read(self.inputs, id).await
    }

    /// The documents of a shard, by path.
    async fn documents(&self, id: TaskId) -> Result<HashMap<String, Document>, Error> {
        let rows: Vec<artifact::DocumentRow> = artifact::decode(self.read(id).await?)?;
        let by_path = |row| match row {
            artifact::DocumentRow::Document(document) => Some((document.path.clone(), document)),
            artifact::DocumentRow::Rejected(_) => None,
        };
        Ok(rows.into_iter().filter_map(by_path).collect())
    }

    /// The key under which parts may be stored; none if an input is partial,
    /// because the parts would then hold other texts than the key stands for.
    fn kept(&self) -> Option<&Key> {
        (!self.partial).then_some(&self.task.key)
    }

    /// The name of its artifact, for an artifact that is written while it is made.
    fn artifact(&self) -> String {
        self.cx.name(self.task, self.partial)
    }
}

/// The result of the work.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) content: Content,
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
    /// Whether there are parts to remove.
    pub(crate) has_parts: bool,
    /// Bytes of text that were read, if they decide how long it takes.
    pub(crate) bytes: u64,
}

impl Made {
    fn of(bytes: impl Into<Bytes>, rows: usize) -> Self {
        Self { content: Content::Bytes(bytes.into()), rows, ..Self::default() }
    }

    fn written(artifact: String, rows: usize) -> Self {
        Self { content: Content::Written(artifact), rows, ..Self::default() }
    }
}

/// The artifact's content.
pub(crate) enum Content {
    /// It is in the store already, under this name.
    Written(String),
    /// It is still to be written.
    Bytes(Bytes),
}

impl Default for Content {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

/// The table's rows of one question's passages. Remarks on a question without
/// passages have a row of their own.
fn passage_rows(question: &str, found: impl Into<Refined>) -> impl Iterator<Item = artifact::PassageRow> {
    let Refined { passages, mut remarks, .. } = found.into();
    let without = (passages.is_empty() && !remarks.is_empty()).then_some((0, None));
    let ranked = (1u32..).zip(passages).map(|(rank, passage)| (rank, Some(passage)));
    without.into_iter().chain(ranked).map(move |(rank, passage)| artifact::PassageRow {
        question: question.to_owned(),
        rank,
        passage,
        remarks: std::mem::take(&mut remarks),
    })
}

macro_rules! works {
    ($( $Kind:ident ),+ $(,)?) => {
        /// The work of a task. Questions are given by their position in the dataset.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Work {
            $( $Kind($Kind) ),+
        }

        impl Work {
            /// The kind of work.
            pub(crate) fn kind(&self) -> &dyn Kind {
                match self { $( Self::$Kind(kind) => kind ),+ }
            }
        }

        $( impl From<$Kind> for Work {
            fn from(kind: $Kind) -> Self {
                Self::$Kind(kind)
            }
        } )+
    };
}

works! {
    Load, Chunk, Enrich, Embed, EmbedTokens, EmbedQueries, Index, WriteQueries, Retrieve, Reorder, Generate, Score,
    EmbedInContext,
}
