//! The kinds of work that tasks do: a file for each, with its fields, its key,
//! its inputs and how it is done. The same code runs under every engine.

mod chunk;
mod embed;
mod embed_queries;
mod embed_tokens;
mod generate;
mod index_bm25;
mod index_dense;
mod load;
mod reorder;
mod retrieve;
mod score;
mod write_queries;

pub(crate) use {
    chunk::Chunk,
    embed::Embed,
    embed_queries::EmbedQueries,
    embed_tokens::EmbedTokens,
    generate::Generate,
    index_bm25::IndexBm25,
    index_dense::IndexDense,
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
use models::Identity;
use rag::{Choice, Passage, load::Unread};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Key, KeyBuilder};

/// What a kind of work is: each type implements it.
#[async_trait]
pub(crate) trait Kind: Send + Sync {
    /// The row of the live table.
    fn operator(&self) -> Operator;

    /// What it needs, each before it in the plan.
    fn inputs(&self) -> Vec<TaskId>;

    /// What it is, for ever: the hash of all that decides what it makes.
    fn key(&self, cx: &Keys<'_>) -> Key;

    /// How many rows it will make, where that is known.
    fn rows(&self, _: &Inputs<'_>) -> Option<usize> {
        None
    }

    /// The format of its artifact.
    fn format(&self) -> Format {
        Format::Parquet
    }

    /// Whether it is long or dear enough that two runs do it once only.
    fn is_exclusive(&self) -> bool {
        true
    }

    /// Whether it calls a function of the user's own.
    fn runs_function(&self) -> bool {
        false
    }

    /// What it is made of, for the estimate of its time.
    fn made_of(&self) -> MadeOf<'_>;

    /// The models that it asks, and about how much.
    fn asks<'a>(&'a self, _: &Sizes<'a>) -> Vec<(&'a str, Asked)> {
        Vec::new()
    }

    /// Does the work.
    async fn make(&self, cx: &Making<'_>) -> Result<Made, Error>;
}

/// What a task is made of.
#[derive(Debug, Default)]
pub(crate) struct MadeOf<'a> {
    /// What people call it.
    pub(crate) words: String,
    /// The component's settings.
    pub(crate) settings: Value,
    /// Its models, by name.
    pub(crate) models: Vec<&'a str>,
    /// Whether the experiment's judges and embedder are among its models.
    pub(crate) evaluates: bool,
}

impl<'a> MadeOf<'a> {
    /// Of a component, and the trial's embedder.
    fn component(component: &'a dyn Choice, embedder: Option<&'a str>) -> Self {
        let asks = component.asks(rag::Item::default()).into_iter().map(|ask| ask.model);
        let models = asks.chain(embedder.filter(|_| component.indexes().tokens)).collect();
        Self { words: component.name().to_owned(), settings: component.value(), models, evaluates: false }
    }

    /// Of nothing but a model.
    fn model(model: &'a str) -> Self {
        Self { words: model.to_owned(), models: vec![model], ..Self::default() }
    }
}

/// What keys are made from.
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

    /// The identities of the models that a component asks, and that of the
    /// trial's embedder if it needs that.
    fn models(&self, component: &dyn Choice, embedder: Option<&str>) -> Vec<&Identity> {
        let asks = component.asks(rag::Item::default()).into_iter().map(|ask| ask.model.to_owned());
        let embedder = embedder.filter(|_| component.embedder()).map(str::to_owned);
        asks.chain(embedder).map(|model| self.identity(&model)).collect()
    }

    /// The models of a component of a kind that once could have none: without
    /// any, its key is what it was then.
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

/// What a task is done with.
pub(crate) struct Making<'a> {
    pub(crate) task: &'a Task,
    /// Where its inputs are.
    pub(crate) inputs: &'a Outputs,
    /// Whether one of them lacks something.
    pub(crate) partial: bool,
    pub(crate) turn: Turn,
    pub(crate) cx: &'a Execution,
    pub(crate) progress: &'a Progress,
}

impl Making<'_> {
    /// Tells the live table of rows that were made.
    fn made(&self, rows: usize) {
        self.progress.rows(self.task.operator(), rows);
    }

    /// Tells the live table how many rows there will be.
    fn expect(&self, rows: usize) {
        self.progress.expect(self.task.operator(), rows);
    }

    /// The experiment's models, whose calls stand in line as the task does.
    fn models(&self) -> InTurn<'_> {
        self.cx.models().in_turn(self.turn)
    }

    async fn read(&self, id: TaskId) -> Result<Bytes, Error> {
        self.cx.read(self.inputs, id).await
    }

    /// The key under which parts may be kept: of inputs that lack something,
    /// other texts would be kept under the task's key.
    fn kept(&self) -> Option<&Key> {
        (!self.partial).then_some(&self.task.key)
    }

    /// The name of its artifact where it is written as it is made.
    fn artifact(&self) -> String {
        self.cx.name(self.task, self.partial)
    }
}

/// What was made.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) content: Content,
    pub(crate) rows: usize,
    /// Rows without a result because a provider failed.
    pub(crate) errors: usize,
    /// Rows without a result because a function of the user's own failed.
    pub(crate) function_errors: usize,
    /// Files that could not be read now.
    pub(crate) unread: Vec<Unread>,
    /// Rows that an interrupted run had made.
    pub(crate) resumed: usize,
    /// Whether parts are kept that are to be removed.
    pub(crate) has_parts: bool,
    /// Bytes of text that were read, where that decides how long it takes.
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
    /// It is to be written.
    Bytes(Bytes),
}

impl Default for Content {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

/// The table's rows of one question's passages.
fn passage_rows(question: &str, passages: Vec<Passage>) -> impl Iterator<Item = artifact::PassageRow> {
    (1u32..).zip(passages).map(move |(rank, passage)| artifact::PassageRow {
        question: question.to_owned(),
        rank,
        passage,
    })
}

macro_rules! works {
    ($( $Kind:ident ),+ $(,)?) => {
        /// What a task does. Questions are given by their position in the dataset.
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
    Load, Chunk, Embed, EmbedTokens, EmbedQueries, IndexDense, IndexBm25, WriteQueries, Retrieve, Reorder, Generate, Score,
}
