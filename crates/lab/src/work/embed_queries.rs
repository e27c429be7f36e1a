//! Questions, or the queries that were written for them, to vectors.

use super::{Keys, Kind, Made, MadeOf, Making, Purpose};
use crate::{
    Error,
    artifact::encode_vectors,
    estimate::{Load, Sizes},
    operator::Operator,
    plan::{Inputs, TaskId},
    task::{checkpoint, queries_in_order},
};
use async_trait::async_trait;
use models::InputKind;
use rag::query::{SearchQuery, passages, with_passages};
use serde::{Deserialize, Serialize};
use store::Key;

/// Embeds all questions with the named model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmbedQueries {
    pub(crate) model: String,
    /// The task that writes the queries, if they are not the questions themselves.
    pub(crate) queries: Option<TaskId>,
}

#[async_trait]
impl Kind for EmbedQueries {
    fn operator(&self) -> Operator {
        Operator::EmbedQueries
    }

    fn inputs(&self) -> Vec<TaskId> {
        self.queries.into_iter().collect()
    }

    fn key(&self, cx: &Keys<'_>) -> Key {
        let builder = cx.builder("embed_queries", &self.inputs()).field("model", cx.identity(&self.model));
        match self.queries {
            Some(_) => builder.finish(),
            None => {
                let texts: Vec<_> = cx.inputs.questions.iter().map(|question| &question.question).collect();
                builder.field("texts", &texts).finish()
            }
        }
    }

    fn rows(&self, inputs: &Inputs<'_>) -> Option<usize> {
        self.queries.is_none().then_some(inputs.questions.len())
    }

    fn purpose(&self) -> Purpose {
        Purpose::Questions
    }

    fn made_of(&self) -> MadeOf<'_> {
        MadeOf::model(&self.model)
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        vec![(&self.model, Load::embedding(sizes.all_questions()))]
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let queries: Vec<SearchQuery> = match self.queries {
            Some(queries) => queries_in_order(making.cx, making.inputs, queries).await?.into_iter().flatten().collect(),
            None => making.cx.questions.iter().map(|question| question.question.as_str().into()).collect(),
        };
        let texts: Vec<String> = queries.iter().map(|query| query.text.clone()).collect();
        let embedder = making.cx.models().embedder(&self.model)?;
        let rows = |count| making.made(count);
        let made =
            checkpoint::embed(making.cx, making.kept(), &embedder, &texts, InputKind::Query, |_| {}, rows).await?;
        let (resumed, has_parts) = (made.resumed, made.has_parts);
        let passages = passages(&queries);
        let matrix = match passages.is_empty() {
            true => made.matrix,
            false => with_passages(made.matrix, &embedder.embed(&passages, InputKind::Document).await?, &queries),
        };
        Ok(Made { resumed, has_parts, ..Made::of(encode_vectors(&matrix)?, texts.len()) })
    }
}
