//! Questions to the replies of a system.

use super::{DoWork, TaskContext, TaskOutput, group_failures};
use crate::{
    Error,
    artifact::{AnswerRow, NoAnswer, ReplyRow},
    plan::work::{AskWork, TakeAnswersWork},
};
use async_trait::async_trait;
use eval::Question;
use futures::future::join_all;
use rag::{Answer, system::SystemReply};

#[async_trait]
impl DoWork for AskWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let run_context = cx.run_context;
        let system = run_context.systems().get(&self.system, &self.version)?.in_turn(cx.turn);
        let one = async |i: usize| {
            let question = &run_context.questions[i];
            let reply = cx.measure_question(&question.id, system.ask(question, &self.parameters, 0)).await;
            cx.report_rows(1);
            (question, reply)
        };
        let earlier = cx.earlier_rows(&self.part, &self.questions, |row: &ReplyRow| &row.answer.question).await?;
        let calls: Vec<_> = earlier.missing.iter().map(|&i| one(i)).collect();
        // The system's own limit decides how many of these run at once.
        let replies = join_all(calls).await;
        let mut rows = Vec::with_capacity(self.questions.len());
        for (question, reply) in replies {
            if let Err(error) = &reply
                && error.ends_work()
            {
                return Err(error.clone().into());
            }
            rows.push(row(question, reply));
        }
        let failed = rows.iter().filter_map(|row| row.answer.answer.as_ref().err());
        let function_errors = failed.clone().filter(|no_answer| no_answer.function.is_some()).count();
        let errors = failed.count() - function_errors;
        let failures =
            group_failures(rows.iter().filter_map(|row| {
                Some((row.answer.question.as_str(), row.answer.answer.as_ref().err()?.reason.clone()))
            }));
        let made = TaskOutput::with_earlier(rows, earlier, run_context, |row| &row.answer.question)?;
        Ok(TaskOutput { errors, function_errors, failures, ..made })
    }
}

#[async_trait]
impl DoWork for TakeAnswersWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let questions = self.questions.iter().map(|&i| &cx.run_context.questions[i]);
        let of_question = |(question, reply): (&Question, &Option<SystemReply>)| match reply {
            Some(reply) => row(question, Ok((reply.clone(), 0.0))),
            None => ReplyRow {
                answer: AnswerRow { question: question.id.clone(), answer: Err(NoAnswer::absent()) },
                passages: None,
                states_tokens: false,
                cost_usd: None,
                trace: None,
                version: None,
            },
        };
        let rows: Vec<ReplyRow> = questions.zip(&self.replies).map(of_question).collect();
        cx.report_rows(rows.len());
        Ok(TaskOutput::of(crate::artifact::encode(&rows)?, rows.len()))
    }
}

/// The row of a reply, which took so many seconds.
fn row(question: &Question, reply: Result<(SystemReply, f64), models::Error>) -> ReplyRow {
    let id = question.id.clone();
    let (reply, seconds) = match reply {
        Ok(reply) => reply,
        Err(error) => {
            let answer = AnswerRow { question: id, answer: Err(NoAnswer::of(&error.into())) };
            let (passages, trace, version) = (None, None, None);
            return ReplyRow { answer, passages, states_tokens: false, cost_usd: None, trace, version };
        }
    };
    let SystemReply { answer, passages, usage, trace, version } = reply;
    let (text, tokens) = (answer.unwrap_or_default(), usage.tokens);
    let answer = Answer { text, calls: 1, usage: tokens.unwrap_or_default(), seconds, ..Answer::default() };
    ReplyRow {
        answer: AnswerRow { question: id, answer: Ok(answer) },
        passages,
        states_tokens: tokens.is_some(),
        cost_usd: usage.cost_usd,
        trace,
        version,
    }
}
