//! An approximate index beside the exact one, to the share of the nearest chunks that it finds.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{self, ScoreRow},
    blocking::compute,
    plan::work::MeasureRecallWork,
    task::{connect, decode_matrix, open_indexes},
};
use async_trait::async_trait;
use databases::{DatabaseQuery, SearchOptions};
use eval::{Missing, Score, Scored};
use rag::{
    Context, VectorSearch,
    index::{DatabaseIndex, DenseIndex, GraphIndex},
};
use std::sync::Arc;

/// Questions that are searched between two updates of the progress table.
const QUESTIONS_PER_STEP: usize = 64;
/// Scores that differ by less are equal: which of the chunks with them is found makes no difference.
const ROUNDING: f32 = 1e-6;

#[async_trait]
impl DoWork for MeasureRecallWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let missing = || Error::table(format!("{} lacks an index or the vectors of questions", cx.task.label));
        let vectors = decode_matrix(run_context, cx.inputs, Some(self.question_vectors)).await?.ok_or_else(missing)?;
        let indexes = Arc::new(open_indexes(run_context, cx.inputs, &self.indexes).await?);
        connect(run_context, cx.inputs, &self.indexes, (&self.index, &indexes)).await?;
        let (search, k) = (self.index.build(&Context::default())?, self.chunks);
        let vectors = Arc::new(vectors);
        let mut rows = Vec::with_capacity(run_context.questions.len());
        for (step, questions) in run_context.questions.chunks(QUESTIONS_PER_STEP).enumerate() {
            let places = step * QUESTIONS_PER_STEP..step * QUESTIONS_PER_STEP + questions.len();
            let (all, opened, of_step) = (vectors.clone(), indexes.clone(), places.clone());
            let (exact, found) = compute(move || {
                let queries: Vec<&[f32]> = of_step.map(|question| all.row(question)).collect();
                let dense = opened.iter().find_map(|index| index.get::<DenseIndex>());
                let graph = opened.iter().find_map(|index| index.get::<GraphIndex>());
                let exact = dense.map(|dense| dense.search(&queries, k)).transpose()?;
                let found = match (search, dense, graph) {
                    (VectorSearch::Graph { ef }, Some(dense), Some(graph)) => {
                        Some(graph.search(dense, &queries, k, ef)?)
                    }
                    _ => None,
                };
                Ok::<_, Error>((exact, found))
            })
            .await??;
            let exact = exact.ok_or_else(missing)?;
            let database = indexes.iter().find_map(|index| index.get::<DatabaseIndex>());
            let found = match (search, database, found) {
                (_, _, Some(found)) => found,
                (VectorSearch::Database { ef, probes }, Some(database), None) => {
                    let options = SearchOptions { ef, probes, ..SearchOptions::top(k) };
                    let query = |question| DatabaseQuery { vector: vectors.row(question), filter: None };
                    let found = database.search(&places.map(query).collect::<Vec<_>>(), &options).await?;
                    found.into_iter().map(Option::unwrap_or_default).collect()
                }
                _ => return Err(missing()),
            };
            rows.extend(questions.iter().zip(exact.iter().zip(&found)).map(|(question, (exact, found))| {
                let none = || Score::Missing(Missing::NotApplicable("there are no chunks".to_owned()));
                let score = recall(exact, found).map_or_else(none, Score::finite);
                ScoreRow { question: question.id.clone(), scored: Scored { score, detail: serde_json::Value::Null } }
            }));
            cx.report_rows(questions.len());
        }
        Ok(TaskOutput::of(artifact::encode(&rows)?, rows.len()))
    }
}

/// The share of the nearest chunks that were found; none if there are none.
fn recall(exact: &[(u32, f32)], found: &[(u32, f32)]) -> Option<f64> {
    let (_, least) = exact.last()?;
    let near = found.iter().filter(|(_, score)| *score >= least - ROUNDING).count();
    Some(near.min(exact.len()) as f64 / exact.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_as_near_as_the_last_of_the_exact_ones_counts_as_found() {
        let exact = [(1, 0.9), (2, 0.8), (3, 0.7)];
        assert_eq!(recall(&exact, &exact), Some(1.0));
        assert_eq!(recall(&exact, &[(1, 0.9), (2, 0.8), (9, 0.7)]), Some(1.0), "which of two equal ones is no loss");
        assert_eq!(recall(&exact, &[(1, 0.9), (7, 0.6), (8, 0.5)]), Some(1.0 / 3.0));
        assert_eq!(recall(&exact, &[]), Some(0.0));
        assert_eq!(recall(&[], &[]), None);
    }
}
