//! Passages to answers.

use super::{DescribeWork, KeyContext, Sizes, TimedComponent, component};
use crate::{
    operator::Operator,
    plan::{
        graph::{PlanInputs, TaskId},
        model_load::ModelLoad,
        ranges::RangePart,
    },
};
use rag::{Choice, Component, InputSize, generate::GeneratorConfig};
use serde::{Deserialize, Serialize};
use store::Key;

/// Answers some questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GenerateWork {
    pub(crate) generator: GeneratorConfig,
    /// The trial's embedder, if the generator needs it.
    pub(crate) embedder: Option<String>,
    pub(crate) passages: TaskId,
    /// The task that replaced questions by standalone ones, where they come
    /// after earlier messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queries: Option<TaskId>,
    pub(crate) questions: Vec<usize>,
    /// Which part of which range these questions are.
    pub(crate) part: RangePart,
}

impl GenerateWork {
    /// The key of everything that decides answers, except the questions.
    pub(crate) fn stem(
        cx: &KeyContext<'_>,
        generator: &GeneratorConfig,
        embedder: Option<&str>,
        (passages, queries): (TaskId, Option<TaskId>),
    ) -> Key {
        let inputs: Vec<TaskId> = std::iter::once(passages).chain(queries).collect();
        let builder = component(cx.builder("generate", &inputs), generator);
        builder.field("models", &cx.models(generator, embedder)).finish()
    }
}

impl DescribeWork for GenerateWork {
    fn operator(&self) -> Operator {
        Operator::GENERATE
    }

    fn inputs(&self) -> Vec<TaskId> {
        std::iter::once(self.passages).chain(self.queries).collect()
    }

    fn key(&self, _: &KeyContext<'_>) -> Key {
        self.part.key()
    }

    fn rows(&self, _: &PlanInputs<'_>) -> Option<usize> {
        Some(self.questions.len())
    }

    fn component(&self) -> Option<(&dyn Choice, Option<&str>)> {
        Some((&self.generator, self.embedder.as_deref()))
    }

    fn timed_component(&self) -> TimedComponent<'_> {
        let component = TimedComponent::component(&self.generator, self.embedder.as_deref());
        let words = format!("{} with {}", component.words, component.models.join(" and "));
        TimedComponent { words, ..component }
    }

    fn estimate_calls<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, ModelLoad)> {
        sizes.of_questions(&self.generator, sizes.output_of(self.passages), self.questions.iter().copied())
    }

    /// The text of an answer, as long as it may be.
    fn estimate_output(&self, _: &Sizes<'_>) -> InputSize {
        let asked = self.generator.estimate_calls(InputSize::default());
        let longest = asked.iter().filter_map(|ask| ask.completion_tokens.checked_div(ask.calls)).max();
        InputSize { text_tokens: longest.unwrap_or_default(), ..InputSize::default() }
    }
}
