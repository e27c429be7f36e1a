//! Reads outputs of tasks by question.

use super::RunContext;
use crate::{
    Error,
    artifact::{self, AnswerRow, NoAnswer, PassageRow, QueryRow, ScoreRow, decode_vectors},
    plan::{Outputs, TaskId},
};
use eval::{Question, Scored};
use models::Matrix;
use rag::{
    Answer, PassagesWithRemarks,
    pipeline::{AskedQuestion, SearchableQuestion},
    query::SearchQuery,
};
use std::{collections::HashMap, sync::Arc};

/// A trial's passages with its stages' remarks, by question. Those of a few trials stay in memory,
/// because every task on the trial's questions reads them.
pub(crate) async fn passages_by_question(
    cx: &RunContext,
    inputs: &Outputs,
    passages: TaskId,
) -> Result<Arc<HashMap<String, PassagesWithRemarks>>, Error> {
    let name = inputs.get(&passages).cloned().unwrap_or_default();
    let load = || async {
        let mut by_question: HashMap<String, PassagesWithRemarks> = HashMap::new();
        for row in artifact::decode::<PassageRow>(cx.read(inputs, passages).await?)? {
            let found = by_question.entry(row.question).or_default();
            found.passages.extend(row.passage);
            found.remarks.extend(row.remarks);
        }
        Ok(by_question)
    };
    cx.passages.get(vec![name], load).await
}

pub(crate) async fn answers_by_question(
    cx: &RunContext,
    inputs: &Outputs,
    answers: &[TaskId],
) -> Result<HashMap<String, Result<Answer, NoAnswer>>, Error> {
    let mut by_question = HashMap::new();
    for &shard in answers {
        let rows = artifact::decode::<AnswerRow>(cx.read(inputs, shard).await?)?;
        by_question.extend(rows.into_iter().map(|row| (row.question, row.answer)));
    }
    Ok(by_question)
}

/// One metric's scores by question.
pub(crate) async fn scores_by_question(
    cx: &RunContext,
    inputs: &Outputs,
    scores: TaskId,
) -> Result<HashMap<String, Scored>, Error> {
    let rows = artifact::decode::<ScoreRow>(cx.read(inputs, scores).await?)?;
    Ok(rows.into_iter().map(|row| (row.question, row.scored)).collect())
}

/// The queries that were written for the questions, in the order of the
/// questions; the rows of the table of their vectors have the same order.
async fn queries_in_order(cx: &RunContext, inputs: &Outputs, queries: TaskId) -> Result<Vec<Vec<SearchQuery>>, Error> {
    let mut by_question = queries_by_question(cx, inputs, queries).await?;
    let searches = |rows: Vec<QueryRow>| rows.into_iter().map(|row| row.query).collect();
    let mut of = |id: &String| by_question.remove(id).map(searches).unwrap_or_default();
    Ok(cx.questions.iter().map(|question| of(&question.id)).collect())
}

/// All questions with what is searched for them, in their order. `queries` is
/// the task that wrote the queries; without it, questions are searched as they
/// were asked. `rewrites` says whether their query component replaces questions.
pub(crate) async fn searchable_questions(
    cx: &RunContext,
    inputs: &Outputs,
    queries: Option<TaskId>,
    rewrites: bool,
) -> Result<Vec<SearchableQuestion>, Error> {
    let queries = match queries {
        Some(queries) => queries_in_order(cx, inputs, queries).await?,
        None => cx.questions.iter().map(|question| vec![question.question.as_str().into()]).collect(),
    };
    let searchable = |(question, queries): (&Question, Vec<SearchQuery>)| {
        let Question { question: text, turns: history, filter, .. } = question;
        SearchableQuestion::new(rewrites, AskedQuestion { text, history, filter: filter.as_ref() }, queries)
    };
    Ok(cx.questions.iter().zip(queries).map(searchable).collect())
}

/// What is searched for each question.
pub(crate) async fn queries_by_question(
    cx: &RunContext,
    inputs: &Outputs,
    queries: TaskId,
) -> Result<HashMap<String, Vec<QueryRow>>, Error> {
    let mut by_question: HashMap<String, Vec<QueryRow>> = HashMap::new();
    for row in artifact::decode::<QueryRow>(cx.read(inputs, queries).await?)? {
        by_question.entry(row.question.clone()).or_default().push(row);
    }
    Ok(by_question)
}

/// A table of vectors, if there is one.
pub(crate) async fn decode_matrix(
    cx: &RunContext,
    inputs: &Outputs,
    vectors: Option<TaskId>,
) -> Result<Option<Matrix>, Error> {
    match vectors {
        Some(id) => Ok(Some(decode_vectors(cx.read(inputs, id).await?)?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
