//! Passages to answers.

use super::{Keys, Kind, Made, MadeOf, Making, Purpose, component};
use crate::{
    Error,
    artifact::{AnswerRow, NoAnswer},
    estimate::{Load, Sizes},
    operator::Operator,
    plan::{Inputs, TaskId},
    ranges::RangePart,
    task::{passages_by_question, searchable_questions},
};
use async_trait::async_trait;
use futures::future::join_all;
use rag::{Component, Item, generate::GeneratorConfig};
use serde::{Deserialize, Serialize};
use store::Key;

/// Answers some questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Generate {
    pub(crate) generator: GeneratorConfig,
    /// The trial's embedder, if the generator needs it.
    pub(crate) embedder: Option<String>,
    pub(crate) passages: TaskId,
    /// The task that replaced questions by standalone ones, where they come
    /// after earlier messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queries: Option<TaskId>,
    pub(crate) questions: Vec<usize>,
    /// Which part of which range these questions are.
    pub(crate) part: RangePart,
}

impl Generate {
    /// The key of everything that decides answers but the questions.
    pub(crate) fn stem(
        cx: &Keys<'_>,
        generator: &GeneratorConfig,
        embedder: Option<&str>,
        (passages, queries): (TaskId, Option<TaskId>),
    ) -> Key {
        let inputs: Vec<TaskId> = std::iter::once(passages).chain(queries).collect();
        let builder = component(cx.builder("generate", &inputs), generator);
        builder.field("models", &cx.models(generator, embedder)).finish()
    }
}

#[async_trait]
impl Kind for Generate {
    fn operator(&self) -> Operator {
        Operator::GENERATE
    }

    fn inputs(&self) -> Vec<TaskId> {
        std::iter::once(self.passages).chain(self.queries).collect()
    }

    fn key(&self, _: &Keys<'_>) -> Key {
        self.part.key()
    }

    fn rows(&self, _: &Inputs<'_>) -> Option<usize> {
        Some(self.questions.len())
    }

    fn runs_function(&self) -> bool {
        self.generator.runs_function()
    }

    fn purpose(&self) -> Purpose {
        Purpose::Questions
    }

    fn made_of(&self) -> MadeOf<'_> {
        let made_of = MadeOf::component(&self.generator, self.embedder.as_deref());
        let words = format!("{} with {}", made_of.words, made_of.models.join(" and "));
        MadeOf { words, ..made_of }
    }

    fn asks<'a>(&'a self, sizes: &Sizes<'a>) -> Vec<(&'a str, Load)> {
        sizes.of_questions(&self.generator, sizes.given(self.passages), self.questions.iter().copied())
    }

    /// The text of an answer, as long as it may be.
    fn gives(&self, _: &Sizes<'_>) -> Item {
        let asked = self.generator.asks(Item::default());
        let longest = asked.iter().filter_map(|ask| ask.completion_tokens.checked_div(ask.calls)).max();
        Item { text_tokens: longest.unwrap_or_default(), ..Item::default() }
    }

    async fn make(&self, making: &Making<'_>) -> Result<Made, Error> {
        let cx = making.cx;
        let passages = passages_by_question(cx, making.inputs, self.passages).await?;
        let questions = searchable_questions(cx, making.inputs, self.queries, self.queries.is_some()).await?;
        let models = making.models();
        let generator = self.generator.build(&models.context(self.embedder.as_deref()))?;
        let one = async |i: usize| {
            let question = &cx.questions[i];
            let found = passages.get(&question.id).map_or(&[][..], |found| &found.passages);
            let asked = generator.generate(&questions[i].standalone, found);
            let answer = making.of_question(&question.id, asked).await;
            making.made(1);
            (question, answer)
        };
        let earlier = making.earlier_rows(&self.part, &self.questions, |row: &AnswerRow| &row.question).await?;
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
            let answer = answer.map_err(|error| NoAnswer {
                budget: matches!(error, rag::Error::Model(models::Error::BudgetExhausted { .. })),
                reason: crate::error_chain(&error),
                function: crate::failed_function(&error.into()).cloned().map(Box::new),
            });
            rows.push(AnswerRow { question: question.id.clone(), answer });
        }
        let failed = rows.iter().filter_map(|row| row.answer.as_ref().err());
        let function_errors = failed.clone().filter(|no_answer| no_answer.function.is_some()).count();
        let errors = failed.count() - function_errors;
        let made = Made::with_earlier(rows, earlier, cx, |row| &row.question)?;
        Ok(Made { errors, function_errors, ..made })
    }
}
