//! Questions, or the queries that were written for them, to vectors.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::encode_vectors,
    plan::work::EmbedQueriesWork,
    task::{checkpoint, searchable_questions},
};
use async_trait::async_trait;
use models::InputKind;
use rag::query::{SearchQuery, hypothetical_passages, with_hypothetical_passages};

#[async_trait]
impl DoWork for EmbedQueriesWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let questions = searchable_questions(cx.run_context, cx.inputs, self.queries, self.standalone).await?;
        let queries: Vec<SearchQuery> = match self.standalone {
            true => questions.into_iter().map(|question| question.standalone.into()).collect(),
            false => questions.into_iter().flat_map(|question| question.queries).collect(),
        };
        let texts: Vec<String> = queries.iter().map(|query| query.text.clone()).collect();
        let embedder = cx.run_context.models().embedder(&self.model)?;
        let (task, kind, rows) = (cx.checkpoint_key(), InputKind::Query, |count| cx.report_rows(count));
        let made = checkpoint::embed(cx.run_context, task, &embedder, &texts, kind, |_| {}, rows).await?;
        let (resumed, has_parts) = (made.resumed, made.has_parts);
        let passages = hypothetical_passages(&queries);
        let matrix = match passages.is_empty() {
            true => made.matrix,
            false => with_hypothetical_passages(
                made.matrix,
                &embedder.embed(&passages, InputKind::Document).await?,
                &queries,
            ),
        };
        Ok(TaskOutput { resumed, has_parts, ..TaskOutput::of(encode_vectors(&matrix)?, texts.len()) })
    }
}
