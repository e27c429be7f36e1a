//! Passages to passages: every stage between retrieval and answer, such as
//! `rerank`.

use super::{DoWork, TaskContext, TaskOutput, passage_rows};
use crate::{
    Error, artifact,
    plan::work::ApplyStageWork,
    task::{RunContext, open_corpus, passages_by_question, searchable_questions},
};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use models::{InputKind, Matrix};
use rag::{Component, Context, PassagesWithRemarks, index::IndexKind, pipeline::SearchableQuestion};
use std::sync::Arc;

/// Texts that are encoded between two updates of the progress table.
const TEXTS_PER_STEP: usize = 256;

#[async_trait]
impl DoWork for ApplyStageWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let (corpus, vectors) = open_corpus(run_context, cx.inputs, &self.corpus, Some(&self.pipeline.index)).await?;
        let passages = passages_by_question(run_context, cx.inputs, self.passages).await?;
        let rewrites = self.pipeline.query.rewrites_question();
        let questions = searchable_questions(run_context, cx.inputs, self.queries, rewrites).await?;
        let stage = self.stage().ok_or_else(|| Error::table(format!("{} has nothing to do", cx.task.label)))?;
        let models = cx.models();
        let step = stage.step(&Context { pipeline: Some(&self.pipeline), ..models.context(self.embedder()) })?;
        let compares_tokens = stage.indexes().into_iter().any(IndexKind::compares_tokens);
        let tokens = match self.embedder().filter(|_| compares_tokens) {
            Some(embedder) => {
                let written = self.queries.filter(|_| rewrites).and_then(|id| cx.inputs.get(&id));
                Some(question_tokens(run_context, embedder, &questions, written.map(String::as_str)).await?)
            }
            None => None,
        };
        let (step, corpus, vectors, tokens, questions) = (&step, corpus.corpus(), &vectors, &tokens, &questions);
        let calls: Vec<_> = run_context
            .questions
            .iter()
            .enumerate()
            .map(|(i, question)| {
                let found = passages.get(&question.id).cloned().unwrap_or_default();
                async move {
                    let embedding = vectors.as_ref().map(|matrix| matrix.row(i));
                    let query = questions[i].for_steps(embedding, tokens.as_ref().and_then(|tokens| tokens.get(i)));
                    let before = found.clone();
                    let made = match cx
                        .measure_question(&question.id, step.run_with_remarks(query, corpus, found.passages))
                        .await
                    {
                        Ok(mut made) => {
                            made.remarks = [found.remarks, made.remarks].concat();
                            Ok(made)
                        }
                        // The next run may succeed; the error ends the task only if every question failed.
                        Err(rag::Error::Model(error)) if !error.ends_work() => {
                            Err((left_as_found(before, stage.name(), &error), error))
                        }
                        Err(error) => return Err(error.into()),
                    };
                    cx.report_rows(1);
                    Ok::<_, Error>((question, made))
                }
            })
            .collect();
        // A stage that waits for a model or a user's function handles several questions at once.
        let waits = !stage.models().is_empty() || stage.needs_embedder() || stage.runs_function();
        let at_once = if waits { run_context.experiment.engine.local.tasks } else { 1 };
        // All calls are waited for, because they may have been paid.
        let made: Vec<Result<_, Error>> = stream::iter(calls).buffered(at_once).collect().await;
        let made = made.into_iter().collect::<Result<Vec<_>, _>>()?;
        if let Some((_, Err((_, error)))) = made.first()
            && made.iter().all(|(_, made)| made.is_err())
        {
            return Err(error.clone().into());
        }
        let (mut rows, mut errors) = (Vec::new(), 0);
        for (question, made) in made {
            let made = made.unwrap_or_else(|(left, _)| left);
            errors += usize::from(made.failed);
            rows.extend(passage_rows(&question.id, made));
        }
        Ok(TaskOutput { errors, ..TaskOutput::of(artifact::encode(&rows)?, run_context.questions.len()) })
    }
}

/// The passages of a question for which a stage's model failed.
fn left_as_found(found: PassagesWithRemarks, stage: &str, error: &models::Error) -> PassagesWithRemarks {
    let mut remarks = found.remarks;
    remarks.push(format!("{stage} left the passages as they were, because: {error}"));
    PassagesWithRemarks { passages: found.passages, remarks, failed: true }
}

/// The token vectors of all questions as they stand alone, in order. `written`
/// is the artifact of the queries that replace questions, if there is one. A
/// process encodes them once for all trials with the same model and `written`.
async fn question_tokens(
    cx: &RunContext,
    model: &str,
    questions: &[SearchableQuestion],
    written: Option<&str>,
) -> Result<Arc<Vec<Matrix>>, Error> {
    let load = || async {
        let embedder = cx.models.embedder(model)?;
        let texts: Vec<String> = questions.iter().map(|question| question.standalone.clone()).collect();
        let mut all = Vec::with_capacity(texts.len());
        for step in texts.chunks(TEXTS_PER_STEP) {
            all.extend(embedder.embed_tokens(step, InputKind::Query).await?);
        }
        Ok(all)
    };
    let name = std::iter::once(model).chain(written).map(str::to_owned).collect();
    cx.question_tokens.get(name, load).await
}
