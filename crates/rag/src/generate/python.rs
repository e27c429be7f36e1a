//! `python`: one call to the model, with a prompt that a function of the user's
//! own writes.
//!
//! When to use it: where your house has a prompt of its own, with examples, a
//! tone or a form that answers must have. The function only writes; the call
//! is made like every other, so that limits, budget and journal hold for it.
//! The file's path is relative to the experiment file:
//!
//! ```toml
//! generator = [{ compact = { model = "gpt" } }, { python = { file = "prompts.py", settings = { model = "gpt" } } }]
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
//! The answer is what the model says, without white space around it. A number
//! in brackets in it cites the passage of that number, from 1, and an answer
//! that names none gets the number of the passage that it is from; where an
//! answer must have a form of its own, such as JSON, `citations = false`
//! leaves it as it is. An empty answer becomes the sentence that the sources do
//! not answer the question.

use super::{
    Answer, Generator, OnText, PromptSettings, no_answer,
    settings::{AnswerModel, Draft, Settings, Tally},
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
    }
}

impl PromptSettings for Config {}

impl Component for Config {
    // With its parameters the function is looked up when the file is read. Without, `build` looks it up, and here it
    // would report a mistake in `settings` before a missing function.
    runs_function!(&PARAMETERS);
    fn estimate_calls(&self, item: InputSize) -> Vec<ModelCalls<'_>> {
        self.settings.estimate_calls(item, 1)
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
        let model = self.settings.answer_model(NAME, cx)?.with_stop_texts(&[]);
        Ok(Box::new(PythonGenerator { function, model }))
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
        let arguments = self.function.arguments(|name| match name {
            "question" => json!(question),
            "passages" => passages.iter().map(|passage| passage.text.as_str()).collect(),
            _ => passages.iter().map(|passage| passage.document.as_str()).collect(),
        });
        let written = self.function.call_async(arguments).await?;
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
