//! Passages to passages: every stage between retrieval and answer, such as
//! `rerank`.

use super::{DescribeWork, KeyContext, Sizes, component, searched_index};
use crate::{
    operator::Operator,
    plan::{
        graph::{CorpusInputs, PlanInputs, TaskId},
        model_load::ModelLoad,
    },
};
use rag::{Axis, Choice, Component, InputSize, PassageStage, PipelineConfig};
use serde::{Deserialize, Serialize};
use store::Key;

/// Runs a stage on the passages of all questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ApplyStageWork {
    /// The stage.
    pub(crate) axis: Axis,
    /// The pipeline that it belongs to.
    pub(crate) pipeline: Box<PipelineConfig>,
    pub(crate) passages: TaskId,
    pub(crate) corpus: CorpusInputs,
    /// The task that wrote the queries. Set if questions come after earlier
    /// messages and are replaced by standalone ones, or if the stage searches
    /// again: that search filters chunks by the question's own filter, joined with
    /// that of its first written query ([`rag::pipeline::SearchableQuestion`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queries: Option<TaskId>,
}

impl ApplyStageWork {
    /// The stage's settings. A plan has no tasks for stages that do nothing.
    pub(crate) fn stage(&self) -> Option<&dyn PassageStage> {
        self.pipeline.passage_stages().into_iter().find(|(axis, _)| *axis == self.axis).map(|(_, stage)| stage)
    }

    pub(crate) fn embedder(&self) -> Option<&str> {
        self.pipeline.embedder.as_deref()
    }
}

impl DescribeWork for ApplyStageWork {
    fn operator(&self) -> Operator {
        Operator::Stage(self.axis)
    }

    fn inputs(&self) -> Vec<TaskId> {
        let mut inputs = self.corpus.all();
        inputs.push(self.passages);
        inputs.extend(self.queries);
        inputs
    }

    fn key(&self, cx: &KeyContext<'_>) -> Key {
        let questions: Vec<_> = cx.inputs.questions.iter().map(|question| &question.question).collect();
        let mut builder = cx.builder(self.axis.stage(), &self.inputs());
        let mut models = Vec::new();
        if let Some(stage) = self.stage() {
            builder = component(builder, stage);
            models = cx.models(stage, self.embedder());
        }
        if self.stage().is_some_and(|stage| stage.searches_again()) && !self.pipeline.index.is_flat() {
            builder = searched_index(builder, &self.pipeline.index);
        }
        if cx.inputs.has_turns() && self.pipeline.query.rewrites_question() {
            // Until there was this field, some steps compared passages with the question as it was asked.
            builder = builder.field("compared", &"standalone");
        }
        builder.field("models", &models).field("questions", &questions).finish()
    }

    fn rows(&self, inputs: &PlanInputs<'_>) -> Option<usize> {
        Some(inputs.questions.len())
    }

    fn component(&self) -> Option<(&dyn Choice, Option<&str>)> {
        Some((self.stage()?, self.embedder()))
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        let found = sizes.output_of(self.passages);
        self.stage().map(|stage| sizes.of_questions(stage, found, 0..sizes.questions.len())).unwrap_or_default()
    }

    fn estimate_output(&self, sizes: &Sizes<'_>) -> InputSize {
        let found = sizes.output_of(self.passages);
        self.stage().map_or(found, |stage| sizes.within_corpus(stage.estimate_output(found)))
    }
}
