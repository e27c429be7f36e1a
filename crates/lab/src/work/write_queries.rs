//! Questions to queries.

use super::{Keys, Kind, Made, MadeOf, Making, component};
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
use rag::{Axis, Component, query::QueryConfig};
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
        let builder = component(cx.builder("query", &[]), &self.writer).field("questions", &questions);
        cx.with_models(builder, &self.writer, self.embedder.as_deref()).finish()
    }

    fn rows(&self, inputs: &Inputs<'_>) -> Option<usize> {
        Some(inputs.questions.len())
    }

    fn runs_function(&self) -> bool {
        self.writer.runs_function()
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf::component(&self.writer, self.embedder.as_deref())
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        sizes.of_questions(&self.writer, 0..sizes.questions.len())
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let models = making.models();
        let writer = self.writer.build(&models.context(self.embedder.as_deref()))?;
        let one = async |question: &Question| {
            let queries = writer.write(&question.question, &[]).await?;
            making.made(1);
            Ok::<_, Error>(queries)
        };
        let calls: Vec<_> = making.cx.questions.iter().map(one).collect();
        let tasks = making.cx.experiment.engine.local.tasks;
        // All calls are waited for, because they may have been paid.
        let written: Vec<Result<Vec<String>, Error>> = stream::iter(calls).buffered(tasks).collect().await;
        let written = written.into_iter().collect::<Result<Vec<_>, _>>()?;
        let of_question = |(question, queries): (&Question, Vec<String>)| {
            let id = question.id.clone();
            (1u32..).zip(queries).map(move |(number, text)| QueryRow { question: id.clone(), number, text })
        };
        let rows: Vec<QueryRow> = making.cx.questions.iter().zip(written).flat_map(of_question).collect();
        Ok(Made::of(artifact::encode(&rows)?, making.cx.questions.len()))
    }
}
