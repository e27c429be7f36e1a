//! Questions, or the queries that were written for them, to vectors.

use super::{Keys, Kind, Made, MadeOf, Making, Purpose};
use crate::{
    Error,
    artifact::encode_vectors,
    estimate::{Load, Sizes},
    operator::Operator,
    plan::{Inputs, TaskId},
    task::{checkpoint, searchable_questions},
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
    /// Whether one text for each question is embedded, the question as it
    /// stands alone, and not each of its queries.
    #[serde(default)]
    pub(crate) standalone: bool,
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
            Some(_) if self.standalone => builder.field("standalone", &true).finish(),
            Some(_) => builder.finish(),
            None => {
                let texts: Vec<_> = cx.inputs.questions.iter().map(|question| &question.question).collect();
                builder.field("texts", &texts).finish()
            }
        }
    }

    fn rows(&self, inputs: &Inputs<'_>) -> Option<usize> {
        (self.queries.is_none() || self.standalone).then_some(inputs.questions.len())
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
        let questions = searchable_questions(making.cx, making.inputs, self.queries, self.standalone).await?;
        let queries: Vec<SearchQuery> = match self.standalone {
            true => questions.into_iter().map(|question| question.standalone.into()).collect(),
            false => questions.into_iter().flat_map(|question| question.queries).collect(),
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
