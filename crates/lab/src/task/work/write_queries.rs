//! Questions to queries.

use super::{DoWork, TaskContext, TaskOutput, group_failures};
use crate::{
    Error,
    artifact::{self, QueryRow},
    plan::work::WriteQueriesWork,
};
use async_trait::async_trait;
use eval::Question;
use futures::{StreamExt, stream};
use rag::query::WrittenQueries;

#[async_trait]
impl DoWork for WriteQueriesWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let models = cx.models();
        let writer = self.writer.build(&models.context(self.embedder.as_deref()))?;
        let one = async |question: &Question| {
            let written = cx.measure_question(&question.id, writer.write(&question.question, &question.turns)).await?;
            cx.report_rows(1);
            Ok::<_, Error>(written)
        };
        let calls: Vec<_> = cx.run_context.questions.iter().map(one).collect();
        let tasks = cx.run_context.experiment.engine.local.tasks;
        // All calls are waited for, because they may have been paid.
        let written: Vec<Result<WrittenQueries, Error>> = stream::iter(calls).buffered(tasks).collect().await;
        let written = written.into_iter().collect::<Result<Vec<_>, _>>()?;
        let has_failed = |written: &&WrittenQueries| written.fallback.as_ref().is_some_and(|fallback| fallback.failed);
        let errors = written.iter().filter(has_failed).count();
        let failures = group_failures(
            cx.run_context.questions.iter().zip(&written).filter(|(_, written)| has_failed(written)).filter_map(
                |(question, written)| Some((question.id.as_str(), written.fallback.as_ref()?.reason.clone())),
            ),
        );
        let of_question = |(question, written): (&Question, WrittenQueries)| {
            let (id, fallback) = (question.id.clone(), written.fallback.map(|fallback| fallback.reason));
            let row =
                move |(number, query)| QueryRow { question: id.clone(), number, query, fallback: fallback.clone() };
            (1u32..).zip(written.queries).map(row)
        };
        let rows: Vec<QueryRow> = cx.run_context.questions.iter().zip(written).flat_map(of_question).collect();
        Ok(TaskOutput { errors, failures, ..TaskOutput::of(artifact::encode(&rows)?, cx.run_context.questions.len()) })
    }
}
