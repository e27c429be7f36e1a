//! The kinds of work that tasks do: one file each, with the kind's fields, key, inputs and
//! estimates. The code that does the work is in `task/work`.

mod anchor;
mod apply_stage;
mod ask;
mod chunk;
mod embed;
mod embed_in_context;
mod embed_queries;
mod embed_tokens;
mod enrich;
mod fill_index;
mod generate;
mod given;
mod index;
mod load;
mod measure_recall;
mod retrieve;
mod score;
mod sizes;
mod write_queries;

pub(crate) use {
    anchor::AnchorWork,
    apply_stage::ApplyStageWork,
    ask::{AskWork, version_of},
    chunk::ChunkWork,
    embed::EmbedWork,
    embed_in_context::EmbedInContextWork,
    embed_queries::EmbedQueriesWork,
    embed_tokens::EmbedTokensWork,
    enrich::EnrichWork,
    fill_index::{FillIndexWork, database_name},
    generate::GenerateWork,
    given::TakeAnswersWork,
    index::IndexWork,
    load::LoadWork,
    measure_recall::MeasureRecallWork,
    retrieve::{QueryTasks, RetrieveWork, existing_index_name},
    score::{ScoreWork, ScoredKey},
    sizes::Sizes,
    write_queries::WriteQueriesWork,
};

use super::{
    graph::{PlanInputs, TaskId},
    model_load::ModelLoad,
};
use crate::{
    artifact,
    layout::{self, Format},
    operator::Operator,
};
use models::Identity;
use rag::{Choice, Data, InputSize, index::IndexKind, vector_index::VectorIndexConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Key, KeyBuilder};

/// Describes a kind of work; `DoWork`, in `task/work`, does it.
pub(crate) trait DescribeWork: Send + Sync {
    /// The row of the live table.
    fn operator(&self) -> Operator;

    /// The tasks whose outputs it needs; each comes before it in the plan.
    fn inputs(&self) -> Vec<TaskId>;

    /// Its key: the hash of everything that decides the output.
    fn key(&self, cx: &KeyContext<'_>) -> Key;

    /// How many rows it will make, where that is known.
    fn rows(&self, _: &PlanInputs<'_>) -> Option<usize> {
        None
    }

    fn format(&self) -> Format {
        Format::Parquet
    }

    /// Whether it is long or expensive enough that two runs should do it only once.
    fn is_exclusive(&self) -> bool {
        true
    }

    /// The component that does the work, and its embedder, if a component does it.
    fn component(&self) -> Option<(&dyn Choice, Option<&str>)> {
        None
    }

    /// Whether it calls a user's function.
    fn runs_function(&self) -> bool {
        self.component().is_some_and(|(component, _)| component.runs_function())
    }

    /// Whether it may call models that count in a trial's price; a score's do not. If so, its usage
    /// is stored even if there were no calls.
    fn counts_in_price(&self) -> bool {
        true
    }

    /// The component and the models that do the work, for the estimate of its time.
    fn timed_component(&self) -> TimedComponent<'_> {
        self.component().map(|(component, embedder)| TimedComponent::component(component, embedder)).unwrap_or_default()
    }

    /// The models that it calls, with the estimated load.
    fn estimate_calls<'a>(&'a self, _: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        Vec::new()
    }

    /// The estimated size of its output: the chunks of a shard, or the passages of a question.
    fn estimate_output(&self, _: &Sizes<'_>) -> InputSize {
        InputSize::default()
    }
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

impl Purpose {
    /// What the model calls of an operator are paid for.
    pub(crate) fn of(operator: Operator) -> Self {
        match operator {
            Operator::Load | Operator::Index => Self::Index,
            Operator::Stage(axis) if matches!(axis.output(), Data::Chunks | Data::Vectors) => Self::Index,
            Operator::Stage(_) | Operator::EmbedQueries | Operator::Ask | Operator::Anchor => Self::Questions,
            Operator::Score | Operator::Judge => Self::Evaluation,
        }
    }
}

/// The component and the models that do a task's work.
#[derive(Debug, Default)]
pub(crate) struct TimedComponent<'a> {
    /// The name that people use.
    pub(crate) words: String,
    /// The component's settings.
    pub(crate) settings: Value,
    /// Its models, by name.
    pub(crate) models: Vec<&'a str>,
    /// Whether the judges and the embedder of `[evaluate]` are among its models.
    pub(crate) uses_judges: bool,
}

impl<'a> TimedComponent<'a> {
    /// A component, with the trial's embedder if the component compares vectors of tokens.
    fn component(component: &'a dyn Choice, embedder: Option<&'a str>) -> Self {
        let embeds = component.indexes().into_iter().any(IndexKind::compares_tokens);
        let models = component.models().into_iter().chain(embedder.filter(|_| embeds)).collect();
        Self { words: component.name().to_owned(), settings: component.value(), models, uses_judges: false }
    }

    /// Only a model.
    fn model(model: &'a str) -> Self {
        Self { words: model.to_owned(), models: vec![model], ..Self::default() }
    }
}

/// The data that keys are made from.
pub(crate) struct KeyContext<'a> {
    pub(crate) tasks: &'a [Task],
    pub(crate) inputs: &'a PlanInputs<'a>,
}

impl KeyContext<'_> {
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
        let embedder = embedder.filter(|_| component.needs_embedder());
        component.models().into_iter().chain(embedder).map(|model| self.identity(model)).collect()
    }

    /// Adds the models of a component. A component without models keeps its old key, from before
    /// components of this kind could have models.
    fn with_models(&self, builder: KeyBuilder, component: &dyn Choice, embedder: Option<&str>) -> KeyBuilder {
        match self.models(component, embedder) {
            models if models.is_empty() => builder,
            models => builder.field("models", &models),
        }
    }
}

/// Adds how an index of vectors is searched. The settings of the index itself are in the keys of the inputs.
fn searched_index(builder: KeyBuilder, index: &VectorIndexConfig) -> KeyBuilder {
    builder.field("index", &(index.name(), index.version(), index.search_settings()))
}

fn component(builder: KeyBuilder, component: &dyn Choice) -> KeyBuilder {
    builder.field("version", &component.version()).field("config", &component.settings_for_key())
}

/// One kind of work on one shard of documents or questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Its identity: tasks with the same key are the same task, in every run.
    pub key: Key,
    pub(crate) work: Work,
    /// How many rows it will make, where that is known.
    pub rows: Option<usize>,
    /// What people read in errors and in the event log.
    pub label: String,
    /// The trials that need it, if it runs a user's function.
    #[serde(default)]
    pub trials: Vec<String>,
}

impl Task {
    /// The kind of work.
    pub fn operator(&self) -> Operator {
        self.work.describe().operator()
    }

    /// The tasks whose outputs it needs; each comes before it in the plan.
    pub fn inputs(&self) -> Vec<TaskId> {
        self.work.describe().inputs()
    }

    /// Whether there is such a task for each shard of the documents.
    pub(crate) fn is_of_shard(&self) -> bool {
        let operator = self.operator();
        // An index is made of all shards; the files of an index in shards are made by an embedder.
        operator != Operator::Index && Purpose::of(operator) == Purpose::Index
    }

    /// The name of its artifact in the store.
    pub fn artifact(&self) -> String {
        layout::artifact(&self.key, self.work.describe().format())
    }
}

/// Calls a macro with the list of all kinds of work.
macro_rules! with_kinds_of_work {
    ($callback:ident) => {
        $callback! {
            Load(LoadWork), Chunk(ChunkWork), Enrich(EnrichWork), Embed(EmbedWork), EmbedTokens(EmbedTokensWork),
            EmbedQueries(EmbedQueriesWork), Index(IndexWork), WriteQueries(WriteQueriesWork), Retrieve(RetrieveWork),
            ApplyStage(ApplyStageWork), Generate(GenerateWork), Score(ScoreWork), EmbedInContext(EmbedInContextWork),
            Ask(AskWork), TakeAnswers(TakeAnswersWork), Anchor(AnchorWork),
            MeasureRecall(MeasureRecallWork), FillIndex(FillIndexWork),
        }
    };
}
pub(crate) use with_kinds_of_work;

macro_rules! works {
    ($( $Kind:ident($Fields:ident) ),+ $(,)?) => {
        /// The work of a task. Questions are given by their position in the dataset.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Work {
            $( $Kind($Fields) ),+
        }

        impl Work {
            pub(crate) fn describe(&self) -> &dyn DescribeWork {
                match self { $( Self::$Kind(kind) => kind ),+ }
            }
        }

        $( impl From<$Fields> for Work {
            fn from(kind: $Fields) -> Self {
                Self::$Kind(kind)
            }
        } )+
    };
}

with_kinds_of_work!(works);
