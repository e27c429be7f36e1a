//! Questions to queries.

use super::{Keys, Kind, Made, MadeOf, Making, Purpose, component};
use crate::{
    Error,
    artifact::{self, QueryRow},
    estimate::{Load, Sizes},
    operator::Operator,
    plan::{Inputs, TaskId},
};
use async_trait::async_trait;
use eval::Question;
use futures::{StreamExt, stream};
use rag::{
    Axis, Component, Item,
    query::{QueryConfig, Written},
};
use serde::{Deserialize, Serialize};
use store::Key;

/// Writes the queries of all questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WriteQueries {
    pub(crate) writer: QueryConfig,
    /// The trial's embedder, if the writer needs it.
    pub(crate) embedder: Option<String>,
}

#[async_trait]
impl Kind for WriteQueries {
    fn operator(&self) -> Operator {
        Operator::Stage(Axis::Query)
    }

    fn inputs(&self) -> Vec<TaskId> {
        Vec::new()
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let questions: Vec<_> = cx.inputs.questions.iter().map(|question| (&question.id, &question.question)).collect();
        let mut builder = component(cx.builder("query", &[]), &self.writer).field("questions", &questions);
        if cx.inputs.has_turns() {
            let turns: Vec<_> = cx.inputs.questions.iter().map(|question| &question.turns).collect();
            builder = builder.field("turns", &turns);
        }
        cx.with_models(builder, &self.writer, self.embedder.as_deref()).finish()
    }

    fn rows(&self, inputs: &Inputs<'_>) -> Option<usize> {
        Some(inputs.questions.len())
    }

    fn runs_function(&self) -> bool {
        self.writer.runs_function()
    }

    fn purpose(&self) -> Purpose {
        Purpose::Questions
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf::component(&self.writer, self.embedder.as_deref())
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        sizes.of_questions(&self.writer, Item::default(), 0..sizes.questions.len())
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let models = making.models();
        let writer = self.writer.build(&models.context(self.embedder.as_deref()))?;
        let one = async |question: &Question| {
            let written = making.of_question(&question.id, writer.write(&question.question, &question.turns)).await?;
            making.made(1);
            Ok::<_, Error>(written)
        };
        let calls: Vec<_> = making.cx.questions.iter().map(one).collect();
        let tasks = making.cx.experiment.engine.local.tasks;
        // All calls are waited for, because they may have been paid.
        let written: Vec<Result<Written, Error>> = stream::iter(calls).buffered(tasks).collect().await;
        let written = written.into_iter().collect::<Result<Vec<_>, _>>()?;
        let has_failed = |written: &&Written| written.fallback.as_ref().is_some_and(|fallback| fallback.failed);
        let errors = written.iter().filter(has_failed).count();
        let of_question = |(question, written): (&Question, Written)| {
            let (id, fallback) = (question.id.clone(), written.fallback.map(|fallback| fallback.reason));
            let row =
                move |(number, query)| QueryRow { question: id.clone(), number, query, fallback: fallback.clone() };
            (1u32..).zip(written.queries).map(row)
        };
        let rows: Vec<QueryRow> = making.cx.questions.iter().zip(written).flat_map(of_question).collect();
        Ok(Made { errors, ..Made::of(artifact::encode(&rows)?, making.cx.questions.len()) })
    }
}
