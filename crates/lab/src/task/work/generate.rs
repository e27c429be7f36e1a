//! Passages to answers.

use super::{DoWork, TaskContext, TaskOutput, group_failures};
use crate::{
    Error,
    artifact::{AnswerRow, NoAnswer},
    plan::work::GenerateWork,
    task::{passages_by_question, searchable_questions},
};
use async_trait::async_trait;
use futures::future::join_all;

#[async_trait]
impl DoWork for GenerateWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let passages = passages_by_question(run_context, cx.inputs, self.passages).await?;
        let questions = searchable_questions(run_context, cx.inputs, self.queries, self.queries.is_some()).await?;
        let models = cx.models();
        let generator = self.generator.build(&models.context(self.embedder.as_deref()))?;
        let one = async |i: usize| {
            let question = &run_context.questions[i];
            let found = passages.get(&question.id).map_or(&[][..], |found| &found.passages);
            let asked = generator.generate(&questions[i].standalone, found);
            let answer = cx.measure_question(&question.id, asked).await;
            cx.report_rows(1);
            (question, answer)
        };
        let earlier = cx.earlier_rows(&self.part, &self.questions, |row: &AnswerRow| &row.question).await?;
        let calls: Vec<_> = earlier.missing.iter().map(|&i| one(i)).collect();
        // The model's own limit decides how many of these run at once.
        let answers = join_all(calls).await;
        let mut rows = Vec::with_capacity(self.questions.len());
        for (question, answer) in answers {
            if let Err(rag::Error::Model(error)) = &answer
                && error.ends_work()
            {
                return Err(error.clone().into());
            }
            let answer = answer.map_err(|error| NoAnswer::of(&error.into()));
            rows.push(AnswerRow { question: question.id.clone(), answer });
        }
        let failed = rows.iter().filter_map(|row| row.answer.as_ref().err());
        let function_errors = failed.clone().filter(|no_answer| no_answer.function.is_some()).count();
        let errors = failed.count() - function_errors;
        let failures = group_failures(
            rows.iter().filter_map(|row| Some((row.question.as_str(), row.answer.as_ref().err()?.reason.clone()))),
        );
        let made = TaskOutput::with_earlier(rows, earlier, run_context, |row| &row.question)?;
        Ok(TaskOutput { errors, function_errors, failures, ..made })
    }
}
