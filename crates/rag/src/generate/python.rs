//! `python`: one call to the model, with a prompt that a function of the user's
//! own writes; or the answer that the function returns.
//!
//! When to use it: where your house has a prompt of its own, with examples, a
//! tone or a form that answers must have. The function only writes; the call
//! is made like every other, so that limits, budget and journal hold for it.
//! With `answers = true` the function returns the answer itself, for code that
//! answers in a way of its own: by rules, by several calls, by another library.
//! The file's path is relative to the experiment file:
//!
//! ```toml
//! generator = [
//!     { python = { file = "prompts.py", settings = { model = "gpt" } } },
//!     { python = { file = "answers.py", function = "answer", answers = true } },
//! ]
//! ```
//!
//! ```python
//! def write(question, passages):
//!     sources = "\n".join(f"[{i}] {passage}" for i, passage in enumerate(passages, 1))
//!     return f"{sources}\n\nAnswer from the above and cite like [1]: {question}"
//! ```
//!
//! The function gets what its parameters name: `question`, `passages` (a list of texts,
//! best first), `documents` (their paths). It returns a text, or messages as
//! `{"role": …, "content": …}` with the roles `system`, `user` and
//! `assistant`, the last of them of the user. Passages are not cut: what is
//! longer than the model's context is an error. If the function raises an
//! exception or takes too long, the question has no answer; the reason is kept.
//!
//! With `answers = true` it returns the answer as a text, or `None` if the
//! passages do not answer the question. Calls of models that it makes are its
//! own: limits, budget, journal and the trial's price do not know them.
//!
//! The answer is what the model or the function says, without white space around it. A number
//! in brackets in it cites the passage of that number, from 1, and an answer
//! that names none gets the number of the passage that it is from; where an
//! answer must have a form of its own, such as JSON, `citations = false`
//! leaves it as it is. An empty answer becomes the sentence that the sources do
//! not answer the question.

use super::{
    Answer, Generator, OnText, PromptSettings, no_answer,
    settings::{AnswerModel, Draft, Settings, Tally, cite},
    settled::says_nothing,
};
use crate::{
    Component, Context, Error, InputSize, ModelCalls, Passage,
    component::ensure,
    function_settings,
    prompt::Prompt,
    python::{FunctionMistake, StageFunction, check_timeout, runs_function},
};
use async_trait::async_trait;
use models::Message;
use serde_json::{Value, json};

pub(super) const VERSION: u32 = 3;
const NAME: &str = "generator python";
const PARAMETERS: [&str; 3] = ["question", "passages", "documents"];

function_settings! {
    /// Settings of `python`.
    pub struct Config;
    /// The function. Default `write`.
    function = "write";
    // The place of these fields in the struct: behind `timeout_seconds` and the other fields that all functions have.
    after timeout_seconds {
        /// The settings of every generator, except `prompt` and `context_tokens`.
        pub settings: Settings = Settings::default(),
        /// Whether the function returns the answer itself, so that no model is asked. Then no setting of `settings` but
        /// `citations` means anything. Default false.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub answers: bool = false,
    }
}

impl PromptSettings for Config {}

impl Component for Config {
    // With its parameters the function is looked up when the file is read. Without, `build` looks it up, and here it
    // would report a mistake in `settings` before a missing function.
    runs_function!(&PARAMETERS);
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        if self.answers { Vec::new() } else { self.settings.estimate_calls(item, 1) }
    }
}

impl Config {
    pub(super) fn build(&self, cx: &Context<'_>) -> Result<Box<dyn Generator>, Error> {
        let is_sound = self.settings.prompt == Prompt::default() && self.settings.context_tokens.is_none();
        ensure(NAME, is_sound, "`prompt` and `context_tokens` mean nothing here: the function writes it all")?;
        let refuse = |error: FunctionMistake| Error::Config { component: NAME, reason: error.to_string() };
        check_timeout(self.timeout_seconds).map_err(refuse)?;
        self.settings.check(NAME)?;
        let function = StageFunction::new(NAME, self.script(), &PARAMETERS)?;
        if self.answers {
            let default = Settings { citations: self.settings.citations, ..Settings::default() };
            let is_alone = self.settings == default;
            ensure(NAME, is_alone, "with `answers` no model is asked: leave out all `settings` but `citations`")?;
            return Ok(Box::new(PythonAnswers { function, citations: self.settings.citations }));
        }
        let model = self.settings.answer_model(NAME, cx)?.with_stop_texts(&[]);
        Ok(Box::new(PythonGenerator { function, model }))
    }
}

/// The arguments that the function takes.
fn arguments(function: &StageFunction, question: &str, passages: &[Passage]) -> Value {
    function.arguments(|name| match name {
        "question" => json!(question),
        "passages" => passages.iter().map(|passage| passage.text.as_str()).collect(),
        _ => passages.iter().map(|passage| passage.document.as_str()).collect(),
    })
}

/// A function that returns answers.
struct PythonAnswers {
    function: StageFunction,
    citations: bool,
}

/// Why what the function returned is no answer.
#[derive(Debug, thiserror::Error)]
#[error("an answer is a text, or None if the passages do not answer the question")]
struct NoText;

#[async_trait]
impl Generator for PythonAnswers {
    async fn generate_streaming(
        &self,
        question: &str,
        passages: &[Passage],
        on_text: Option<OnText<'_>>,
    ) -> Result<Answer, Error> {
        if passages.is_empty() {
            return Ok(Answer { text: no_answer(question).to_owned(), ..Answer::default() });
        }
        let (answered, took) = self.function.call_timed(arguments(&self.function, question, passages)).await?;
        let draft = match answered {
            Value::String(text) => text,
            Value::Null => String::new(),
            _ => return Err(self.function.unusable(NoText, None)),
        };
        let draft = draft.trim();
        let cited = match self.citations {
            true => cite(draft, passages, true),
            // An answer in a form of its own, such as JSON, stays as it is.
            false => (!says_nothing(draft)).then(|| (draft.to_owned(), Vec::new())),
        };
        let (text, citations) = cited.unwrap_or_else(|| (no_answer(question).to_owned(), Vec::new()));
        if let Some(on_text) = on_text {
            on_text(&text);
        }
        Ok(Answer { text, citations, seconds: took.as_secs_f64(), ..Answer::default() })
    }
}

struct PythonGenerator {
    function: StageFunction,
    model: AnswerModel,
}

#[async_trait]
impl Generator for PythonGenerator {
    async fn generate_streaming(
        &self,
        question: &str,
        passages: &[Passage],
        on_text: Option<OnText<'_>>,
    ) -> Result<Answer, Error> {
        if passages.is_empty() {
            let draft = Draft { text: no_answer(question).to_owned(), ..Draft::default() };
            return self.model.answer(question, &draft, (passages, 0), Tally::default());
        }
        let written = self.function.call_async(arguments(&self.function, question, passages)).await?;
        let messages = messages(written).map_err(|error| self.function.unusable(error, None))?;
        let (draft, tally) = self.model.ask(messages, self.model.watch(on_text, passages, 0)).await?;
        self.model.answer(question, &draft, (passages, 0), tally)
    }
}

/// Why what the function returned is no list of messages.
#[derive(Debug, thiserror::Error)]
enum MessagesError {
    #[error("{WANTED}")]
    LastRole,
    #[error("{WANTED}: {0}")]
    Shape(serde_json::Error),
}

const WANTED: &str =
    "a text is wanted, or a list of {\"role\": …, \"content\": …} that ends with one of the role `user`";

/// What the function wrote, as messages.
fn messages(written: Value) -> Result<Vec<Message>, MessagesError> {
    let messages = match written {
        Value::String(text) => vec![Message::user(text)],
        written => serde_json::from_value(written).map_err(MessagesError::Shape)?,
    };
    match messages.last() {
        Some(Message { role: models::Role::User, content }) if !content.trim().is_empty() => Ok(messages),
        _ => Err(MessagesError::LastRole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use crate::generate::tests::{ScriptedChat as Model, passage};

    fn config(body: &str) -> Config {
        Config { source: format!("def write(passages, question):\n    return {body}\n"), ..Config::default() }
    }

    #[tokio::test]
    async fn what_the_function_writes_is_what_the_model_reads() {
        let model = Model::new(4096, |_| "Blue [2], not red [7].".to_owned());
        let generator = config("f'{len(passages)} sources. {question}'").build(&model.context()).unwrap();
        let passages = [passage("The sky."), passage("It is blue.")];
        let answer = generator.generate("Which colour?", &passages).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.citations.as_slice()), ("Blue [2], not red.", [2].as_slice()));
        assert_eq!(model.prompts(), ["2 sources. Which colour?"]);
        let nothing = generator.generate("Which colour?", &[]).await.unwrap();
        assert_eq!((nothing.text.as_str(), nothing.calls), (crate::generate::NO_ANSWER, 0));
    }

    #[tokio::test]
    async fn messages_keep_their_roles_and_must_end_with_the_users() {
        let model = Model::new(4096, |_| "Blue.".to_owned());
        let both = "[{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': question}]";
        config(both).build(&model.context()).unwrap().generate("Why?", &[passage("a")]).await.unwrap();
        assert_eq!(model.requests()[0].messages, [Message::system("Be brief."), Message::user("Why?")]);
        assert!(model.requests()[0].stop.is_empty(), "a text may go on after any word");
        for body in ["[]", "7", "[{'role': 'system', 'content': 'Be brief.'}]", "' '", "question.oats"] {
            let generator = config(body).build(&model.context()).unwrap();
            let error = generator.generate("Why?", &[passage("a")]).await.unwrap_err().to_string();
            assert!(error.contains("generator python"), "{body}: {error}");
        }
        assert_eq!(model.requests().len(), 1, "nothing was asked");
    }

    #[tokio::test]
    async fn a_function_may_answer_without_a_model() {
        let model = Model::new(4096, |_| "never".to_owned());
        let answers = |body: &str| Config { answers: true, ..config(body) };
        let passages = [passage("The sky is wide."), passage("The colour of the sky is blue.")];
        let answered =
            async |config: Config| config.build(&model.context()).unwrap().generate("Which colour?", &passages).await;
        let cited = answered(answers("f' Blue [2], not red [7]. '")).await.unwrap();
        assert_eq!(
            (cited.text.as_str(), cited.citations.as_slice(), cited.calls),
            ("Blue [2], not red.", [2].as_slice(), 0)
        );
        assert!(cited.seconds > 0.0 && cited.usage == models::Usage::default());
        assert_eq!(answered(answers("'Its colour is blue.'")).await.unwrap().text, "Its colour is blue [2].");
        let mut plain = answers("'{\"colour\": [1]}'");
        plain.settings.citations = false;
        assert_eq!(answered(plain).await.unwrap().text, "{\"colour\": [1]}");
        for nothing in ["None", "' '"] {
            assert_eq!(answered(answers(nothing)).await.unwrap().text, crate::generate::NO_ANSWER, "{nothing}");
        }
        let refused = answered(answers("[question]")).await.unwrap_err().to_string();
        assert!(refused.contains("an answer is a text, or None"), "{refused}");
        let seen = std::sync::Mutex::new(Vec::new());
        let generator = answers("'Blue [2].'").build(&model.context()).unwrap();
        let watch = |text: &str| seen.lock().unwrap().push(text.to_owned());
        generator.generate_streaming("Which?", &passages, Some(&watch)).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), ["Blue [2]."]);
        assert!(model.requests().is_empty(), "no model was asked");
        assert!(answers("'a'").estimate_calls(InputSize::default()).is_empty());
    }

    #[test]
    fn settings_of_a_model_mean_nothing_where_the_function_answers() {
        let mut config = Config { answers: true, ..config("'Blue.'") };
        assert!(config.build(&Context::default()).is_ok());
        config.settings.model = "gpt".to_owned();
        let refused = config.build(&Context::default()).err().unwrap().to_string();
        assert!(refused.contains("no model is asked: leave out all `settings` but `citations`"), "{refused}");
        let written = serde_json::to_value(Config::default()).unwrap();
        assert!(written.get("answers").is_none(), "keys of other generators stay as they are");
    }

    #[test]
    fn settings_that_mean_nothing_and_files_without_the_function_are_refused() {
        let model = Model::new(4096, |_| String::new());
        let brief = Settings { prompt: Prompt::Brief, ..Settings::default() };
        let brief = Config { settings: brief, ..config("''") };
        assert!(brief.build(&model.context()).is_err());
        assert!(super::super::GeneratorConfig::Python(brief).check().unwrap_err().to_string().contains("`prompt`"));
        let mut config = Config { file: "prompts.py".to_owned(), ..Config::default() };
        let error = config.read_files(&|_| Ok("def other(question):\n    return ''\n".to_owned())).unwrap_err();
        assert!(error.to_string().contains("prompts.py has no function `write`"), "{error}");
    }
}
