//! Questions to passages.

use super::{DoWork, TaskContext, TaskOutput, passage_rows};
use crate::{
    Error, artifact,
    blocking::compute,
    plan::work::RetrieveWork,
    task::{decode_matrix, open_corpus, searchable_questions},
};
use async_trait::async_trait;
use rag::{
    pipeline::{find, searches},
    python::{caller, on_behalf_of_blocking},
    query::SearchQuery,
};

/// Questions that are searched between two updates of the progress table.
const QUESTIONS_PER_STEP: usize = 64;

#[async_trait]
impl DoWork for RetrieveWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let models = cx.models();
        let context = models.context(self.embedder.as_deref());
        let (corpus, mut vectors) = open_corpus(run_context, cx.inputs, &self.corpus, self.index.as_deref()).await?;
        let (chunker, retriever) = (self.chunker.build(&context)?, self.retriever.build(&context)?);
        let ids: Vec<String> = run_context.questions.iter().map(|question| question.id.clone()).collect();
        if let Some(written) = &self.written {
            vectors = decode_matrix(run_context, cx.inputs, written.vectors).await?;
        }
        let written = self.written.as_ref().map(|written| written.queries);
        // A search does not look at the question itself.
        let questions = searchable_questions(run_context, cx.inputs, written, false).await?;
        let queries: Vec<Vec<SearchQuery>> = questions.into_iter().map(|question| question.queries).collect();
        let (progress, operator, caller) = (cx.progress.clone(), cx.task.operator(), caller());
        let runtime = tokio::runtime::Handle::current();
        let rows = compute(move || {
            let queries = searches(&queries, vectors.as_ref());
            let mut rows = Vec::new();
            for (ids, queries) in ids.chunks(QUESTIONS_PER_STEP).zip(queries.chunks(QUESTIONS_PER_STEP)) {
                let corpus = corpus.corpus();
                let found = find(&*chunker, &*retriever, &corpus, queries);
                let found = on_behalf_of_blocking(&caller, || runtime.block_on(found))?;
                rows.extend(ids.iter().zip(found).flat_map(|(id, passages)| passage_rows(id, passages)));
                progress.rows(operator, ids.len());
            }
            Ok::<_, rag::Error>(rows)
        });
        Ok(TaskOutput::of(artifact::encode(&rows.await??)?, run_context.questions.len()))
    }
}
