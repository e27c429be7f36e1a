//! Passages to passages: every stage between retrieval and answer, such as
//! `rerank`.

use super::{Keys, Kind, Made, MadeOf, Making, Purpose, component, passage_rows};
use crate::{
    Error, artifact,
    estimate::{Load, Sizes},
    operator::Operator,
    plan::{CorpusInputs, Inputs, TaskId},
    task::{open_corpus, passages_by_question, question_tokens, searchable_questions},
};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use rag::{Axis, Component, Context, Item, PassageStage, PipelineConfig, Refined, index::IndexKind};
use serde::{Deserialize, Serialize};
use store::Key;

/// Runs a stage on the passages of all questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reorder {
    /// The stage.
    pub(crate) axis: Axis,
    /// The pipeline that it belongs to.
    pub(crate) pipeline: Box<PipelineConfig>,
    pub(crate) passages: TaskId,
    pub(crate) corpus: CorpusInputs,
    /// The task that wrote the queries. Set if questions come after earlier
    /// messages and are replaced by standalone ones, or if the stage searches
    /// again, which uses their filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queries: Option<TaskId>,
}

impl Reorder {
    /// The stage's settings. A plan has no tasks for stages that do nothing.
    fn stage(&self) -> Option<&dyn PassageStage> {
        self.pipeline.passage_stages().into_iter().find(|(axis, _)| *axis == self.axis).map(|(_, stage)| stage)
    }

    fn embedder(&self) -> Option<&str> {
        self.pipeline.embedder.as_deref()
    }
}

#[async_trait]
impl Kind for Reorder {
    fn operator(&self) -> Operator {
        Operator::Stage(self.axis)
    }

    fn inputs(&self) -> Vec<TaskId> {
        let mut inputs = self.corpus.all();
        inputs.push(self.passages);
        inputs.extend(self.queries);
        inputs
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let questions: Vec<_> = cx.inputs.questions.iter().map(|question| &question.question).collect();
        let mut builder = cx.builder(self.axis.stage(), &self.inputs());
        let mut models = Vec::new();
        if let Some(stage) = self.stage() {
            builder = component(builder, stage);
            models = cx.models(stage, self.embedder());
        }
        if cx.inputs.has_turns() && self.pipeline.query.rewrites_question() {
            // Until there was this field, some steps compared passages with the question as it was asked.
            builder = builder.field("compared", &"standalone");
        }
        builder.field("models", &models).field("questions", &questions).finish()
    }

    fn rows(&self, inputs: &Inputs<'_>) -> Option<usize> {
        Some(inputs.questions.len())
    }

    fn runs_function(&self) -> bool {
        self.stage().is_some_and(|stage| stage.runs_function())
    }

    fn purpose(&self) -> Purpose {
        Purpose::Questions
    }

    fn made_of(&self) -> MadeOf<'_> {
        self.stage().map(|stage| MadeOf::component(stage, self.embedder())).unwrap_or_default()
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        let found = sizes.given(self.passages);
        self.stage().map(|stage| sizes.of_questions(stage, found, 0..sizes.questions.len())).unwrap_or_default()
    }

    fn gives(&self, sizes: &Sizes<'_>) -> Item {
        let found = sizes.given(self.passages);
        self.stage().map_or(found, |stage| sizes.within_corpus(stage.passes(found)))
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let cx = making.cx;
        let (corpus, vectors) = open_corpus(cx, making.inputs, &self.corpus).await?;
        let passages = passages_by_question(cx, making.inputs, self.passages).await?;
        let rewrites = self.pipeline.query.rewrites_question();
        let questions = searchable_questions(cx, making.inputs, self.queries, rewrites).await?;
        let stage = self.stage().ok_or_else(|| Error::table(format!("{} has nothing to do", making.task.label)))?;
        let models = making.models();
        let step = stage.step(&Context { pipeline: Some(&self.pipeline), ..models.context(self.embedder()) })?;
        let compares_tokens = stage.indexes().into_iter().any(IndexKind::compares_tokens);
        let tokens = match self.embedder().filter(|_| compares_tokens) {
            Some(embedder) => {
                let written = self.queries.filter(|_| rewrites).and_then(|id| making.inputs.get(&id));
                Some(question_tokens(cx, embedder, &questions, written.map(String::as_str)).await?)
            }
            None => None,
        };
        let (step, corpus, vectors, tokens, questions) = (&step, corpus.corpus(), &vectors, &tokens, &questions);
        let calls: Vec<_> = cx
            .questions
            .iter()
            .enumerate()
            .map(|(i, question)| {
                let found = passages.get(&question.id).cloned().unwrap_or_default();
                async move {
                    let embedding = vectors.as_ref().map(|matrix| matrix.row(i));
                    let query = questions[i].for_steps(embedding, tokens.as_ref().and_then(|tokens| tokens.get(i)));
                    let before = found.clone();
                    let made =
                        match making.of_question(&question.id, step.run_told(query, corpus, found.passages)).await {
                            Ok(mut made) => {
                                made.remarks = [found.remarks, made.remarks].concat();
                                Ok(made)
                            }
                            // The next try may give more; the error ends the task if no question has more.
                            Err(rag::Error::Model(error)) if !error.ends_work() => {
                                Err((left_as_found(before, stage.name(), &error), error))
                            }
                            Err(error) => return Err(error.into()),
                        };
                    making.made(1);
                    Ok::<_, Error>((question, made))
                }
            })
            .collect();
        // A stage that waits for a model or a user's function handles several questions at once.
        let waits = !stage.models().is_empty() || stage.embedder() || stage.runs_function();
        let at_once = if waits { cx.experiment.engine.local.tasks } else { 1 };
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
        Ok(Made { errors, ..Made::of(artifact::encode(&rows)?, cx.questions.len()) })
    }
}

/// The passages of a question for which a stage's model failed.
fn left_as_found(found: Refined, stage: &str, error: &models::Error) -> Refined {
    let mut remarks = found.remarks;
    remarks.push(format!("{stage} left the passages as they were, because: {error}"));
    Refined { passages: found.passages, remarks, failed: true }
}
