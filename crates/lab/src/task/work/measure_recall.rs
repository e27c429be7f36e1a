//! An approximate index beside the exact one, to the share of the nearest chunks that it finds.

use super::{DoWork, TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{self, ScoreRow},
    plan::work::MeasureRecallWork,
    task::{connect, decode_matrix, nearest_entries, open_indexes, recall_of_nearest},
};
use async_trait::async_trait;
use eval::{Missing, Score, Scored};
use rag::{Context, VectorSearch};
use std::sync::Arc;

/// Questions that are searched between two updates of the progress table.
const QUESTIONS_PER_STEP: usize = 64;

#[async_trait]
impl DoWork for MeasureRecallWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let missing = || Error::table(format!("{} lacks the vectors of questions", cx.task.label));
        let vectors = decode_matrix(run_context, cx.inputs, Some(self.question_vectors)).await?.ok_or_else(missing)?;
        let indexes = Arc::new(open_indexes(run_context, cx.inputs, &self.indexes).await?);
        connect(run_context, cx.inputs, &self.indexes, (&self.index, &indexes)).await?;
        let (search, k) = (self.index.build(&Context::default())?, self.chunks);
        let vectors = Arc::new(vectors);
        let mut rows = Vec::with_capacity(run_context.questions.len());
        for (step, questions) in run_context.questions.chunks(QUESTIONS_PER_STEP).enumerate() {
            let places = step * QUESTIONS_PER_STEP..step * QUESTIONS_PER_STEP + questions.len();
            let exact = nearest_entries(VectorSearch::Exact, &indexes, (&vectors, places.clone()), k).await?;
            let found = nearest_entries(search, &indexes, (&vectors, places), k).await?;
            rows.extend(questions.iter().zip(exact.iter().zip(&found)).map(|(question, (exact, found))| {
                let none = || Score::Missing(Missing::NotApplicable("there are no chunks".to_owned()));
                let score = recall_of_nearest(exact, found).map_or_else(none, Score::finite);
                ScoreRow { question: question.id.clone(), scored: Scored { score, detail: serde_json::Value::Null } }
            }));
            cx.report_rows(questions.len());
        }
        Ok(TaskOutput::of(artifact::encode(&rows)?, rows.len()))
    }
}
