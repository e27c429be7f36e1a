//! Passages to passages: every stage between retrieval and answer, such as
//! `rerank`.

use super::{Keys, Kind, Made, MadeOf, Making, Purpose, component, passage_rows};
use crate::{
    Error, artifact,
    estimate::{Load, Sizes},
    operator::Operator,
    plan::{CorpusInputs, Inputs, TaskId},
    task::{filter_of, of_questions, open_corpus, passages_by_question, queries_in_order},
};
use async_trait::async_trait;
use eval::Question;
use futures::{StreamExt, stream};
use rag::{
    Axis, Component, Context, Filter, Item, PassageStage, PipelineConfig, Refined, index::IndexKind, query::standalone,
    retrieve::Query,
};
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
    /// What was searched, where questions come after earlier messages, which says
    /// which question stands alone, or where the stage searches again, with the
    /// same filter.
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
        let searched = match self.queries {
            Some(queries) => queries_in_order(cx, making.inputs, queries).await?,
            None => Vec::new(),
        };
        let rewrites = self.pipeline.query.rewrites_question();
        let asked = |(i, question): (usize, &Question)| {
            let queries = searched.get(i).map_or(&[][..], Vec::as_slice);
            let text = match rewrites {
                true => standalone(&question.question, &question.turns, queries),
                false => &question.question,
            };
            (text.to_owned(), filter_of(question, queries.first()))
        };
        let asked: Vec<(String, Option<Filter>)> = cx.questions.iter().enumerate().map(asked).collect();
        let stage = self.stage().ok_or_else(|| Error::table(format!("{} has nothing to do", making.task.label)))?;
        let models = making.models();
        let step = stage.step(&Context { pipeline: Some(&self.pipeline), ..models.context(self.embedder()) })?;
        let compares_tokens = stage.indexes().into_iter().any(IndexKind::compares_tokens);
        let tokens = match self.embedder().filter(|_| compares_tokens) {
            Some(embedder) => Some(of_questions(cx, embedder).await?),
            None => None,
        };
        let (step, corpus, vectors, tokens, asked) = (&step, corpus.corpus(), &vectors, &tokens, &asked);
        let calls: Vec<_> = cx
            .questions
            .iter()
            .enumerate()
            .map(|(i, question)| {
                let found = passages.get(&question.id).cloned().unwrap_or_default();
                async move {
                    let query = Query {
                        text: &asked[i].0,
                        embedding: vectors.as_ref().map(|matrix| matrix.row(i)),
                        tokens: tokens.as_ref().and_then(|tokens| tokens.get(i)),
                        filter: asked[i].1.as_ref(),
                    };
                    let before = found.clone();
                    let made =
                        match making.of_question(&question.id, step.run_told(query, corpus, found.passages)).await {
                            Ok(mut made) => {
                                made.remarks = [found.remarks, made.remarks].concat();
                                Ok(made)
                            }
                            // The next try may give more; the error ends the task if no question has more.
                            Err(rag::Error::Model(error)) if !matches!(error, models::Error::Cancelled) => {
                                Err((left_as_found(before, stage.name(), &error), error))
                            }
                            Err(error) => return Err(error.into()),
                        };
                    making.made(1);
                    Ok::<_, Error>((question, made))
                }
            })
            .collect();
        // A stage that asks a model handles several questions at once.
        let at_once = if stage.models().is_empty() { 1 } else { cx.experiment.engine.local.tasks };
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
