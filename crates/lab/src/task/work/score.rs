//! Everything to scores.

use super::{DoWork, EarlierRows, TaskContext, TaskOutput, group_failures};
use crate::{
    Error,
    artifact::{NoAnswer, ScoreRow},
    plan::work::ScoreWork,
    task::{answers_by_question, passages_by_question},
};
use async_trait::async_trait;
use eval::{Missing, Sample, Score as Value, Scored};
use futures::{StreamExt, stream};
use rag::Answer;

#[async_trait]
impl DoWork for ScoreWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let metric = self.metric.build(&cx.models().metric_context(&run_context.experiment.evaluate))?;
        let passages = passages_by_question(run_context, cx.inputs, self.passages).await?;
        let answers = answers_by_question(run_context, cx.inputs, &self.answers).await?;
        let one = async |i: usize| {
            let question = &run_context.questions_for(self.parser)[i];
            let found = passages.get(&question.id).map_or(&[][..], |found| &found.passages);
            let answer = answers.get(&question.id);
            let scored = match self.missing(answer, passages.contains_key(&question.id)) {
                Some(missing) => Scored::missing(missing),
                None => {
                    let answer = answer.and_then(|answer| answer.as_ref().ok());
                    let sample = Sample { question, passages: found, answer, columns: None };
                    cx.note_calls(&question.id, self.metric.score(&*metric, &sample)).await
                }
            };
            cx.report_rows(1);
            ScoreRow { question: question.id.clone(), scored }
        };
        let earlier = match &self.part {
            Some(part) => cx.earlier_rows(part, &self.questions, |row: &ScoreRow| &row.question).await?,
            None => EarlierRows::none(&self.questions),
        };
        let calls: Vec<_> = earlier.missing.iter().map(|&i| one(i)).collect();
        let at_once = run_context.experiment.engine.local.tasks.max(self.metric.functions_at_once());
        let rows: Vec<ScoreRow> = stream::iter(calls).buffered(at_once).collect().await;
        let count = |holds: fn(&Missing) -> bool| {
            let missing = |row: &&ScoreRow| matches!(&row.scored.score, Value::Missing(missing) if holds(missing));
            rows.iter().filter(missing).count()
        };
        if count(|missing| matches!(missing, Missing::Cancelled)) > 0 {
            return Err(models::Error::Cancelled.into());
        }
        let errors = count(|missing| matches!(missing, Missing::ProviderError(_) | Missing::Budget(_)));
        let function_errors = count(|missing| matches!(missing, Missing::FunctionError(_)));
        // A question without an answer was told of by the task that was to answer it.
        let is_answered = |row: &&ScoreRow| answers.get(&row.question).is_none_or(Result::is_ok);
        let failures = group_failures(rows.iter().filter(is_answered).filter_map(|row| match &row.scored.score {
            Value::Missing(missing @ (Missing::ProviderError(_) | Missing::Budget(_) | Missing::FunctionError(_))) => {
                Some((row.question.as_str(), missing.to_string()))
            }
            _ => None,
        }));
        let made = TaskOutput::with_earlier(rows, earlier, run_context, |row| &row.question)?;
        Ok(TaskOutput { errors, function_errors, failures, ..made })
    }
}

impl ScoreWork {
    /// Why a question has no score whatever the metric says; `has_passages` says whether the stage before has an entry
    /// for it.
    fn missing(&self, answer: Option<&Result<Answer, NoAnswer>>, has_passages: bool) -> Option<Missing> {
        let needs = self.metric.needs();
        let not_applicable = |reason: &str| Some(Missing::NotApplicable(reason.to_owned()));
        match (self.replies, answer) {
            (None, _) if self.without_passages && needs.passages => not_applicable("the trial retrieves nothing"),
            (None, Some(Err(error))) if self.metric.needs_answer() => Some(error.missing()),
            (None, _) => None,
            // Answers and passages come from one reply, so without a reply there is neither.
            (Some(_), Some(Err(error))) => Some(error.missing()),
            (Some(replies), _) if needs.answer && !replies.answers => not_applicable("the system writes no answers"),
            (Some(replies), _) if needs.passages && !(replies.passages && has_passages) => {
                not_applicable("the system returns no passages")
            }
            (Some(_), _) => None,
        }
    }
}
