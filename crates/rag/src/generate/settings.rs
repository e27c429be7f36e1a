//! What all generators share: their settings, the calls to the model, and what
//! becomes of its replies.

use super::{
    OnText,
    budget::{self, NumberedSource},
    citation,
    settled::{final_beginning, plain, says_nothing, without_full_stop},
};
use crate::{
    Answer, Context, Error, INSTRUCTION_TOKENS, InputSize, ModelCalls, Passage,
    component::{check_sampling, ensure, settings},
    prompt::{Instructions, Prompt, PromptTask, Template, TemplateError, no_answer},
};
use futures::StreamExt;
use models::{AnswerPiece, Chat, ChatRequest, Finish, Message, ModelKind, Usage};

/// Kept free in the model's context for the marks of its chat template.
const TEMPLATE_TOKENS: usize = 64;
/// Texts that end a reply. A small model likes to go on with a question of its own.
const STOP: &[&str] = &["\nQuestion:", "<source"];
/// Texts that end a reply to a prompt of the user's own, whose words are not known.
const OWN_STOP: &[&str] = &["<source"];
/// Less room for sources than this makes no sense.
const LEAST_ROOM: usize = 64;

settings! {
    /// Settings of every generator.
    pub struct Settings {
        /// The name of the chat model.
        pub model: String = String::new(),
        /// The instructions. Default `grounded`.
        pub prompt: Prompt = Prompt::Grounded,
        /// The prompt of a file; put here from the axis `prompt`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(skip)]
        pub(crate) template: Option<Template> = None,
        /// The longest answer, in tokens. Default 256.
        pub max_tokens: u32 = 256,
        /// The most tokens of passages that are used for one answer; what is
        /// beyond is cut at the end of a sentence or left out. Default: all
        /// passages, in as many calls as the model's context asks for.
        pub context_tokens: Option<usize> = None,
        /// 0 (the default) always takes the likeliest word.
        pub temperature: f32 = 0.0,
        /// Makes answers repeatable at a temperature above 0, if the model
        /// supports it. Default 0.
        pub seed: u64 = 0,
        /// Whether answers cite their sources, as `[1]`. If the model cites none,
        /// the source with the most of the answer's words is cited, if it has at
        /// least 6 of 10. Default true.
        pub citations: bool = true,
    }
}

impl Settings {
    /// Checks the settings, whatever the model.
    pub(super) fn check(&self, component: &'static str) -> Result<(), Error> {
        check_sampling(component, self.max_tokens, self.temperature)?;
        let is_enough = self.context_tokens.is_none_or(|tokens| tokens >= LEAST_ROOM);
        ensure(component, is_enough, format!("context_tokens must be at least {LEAST_ROOM}"))
    }

    /// Estimates what an answer asks of the model in `calls` calls. The passages
    /// are divided among them; each has the instructions and the question.
    pub(super) fn estimate_calls(&self, item: InputSize, calls: u64) -> Vec<ModelCalls<'_>> {
        let passages = self.context_tokens.map_or(item.passage_tokens, |limit| item.passage_tokens.min(limit as u64));
        vec![ModelCalls {
            model: &self.model,
            kind: ModelKind::Chat,
            calls,
            prompt_tokens: passages + calls * (INSTRUCTION_TOKENS + item.text_tokens),
            completion_tokens: calls * u64::from(self.max_tokens),
        }]
    }

    /// Checks the settings and joins them with their model.
    pub(super) fn answer_model(&self, component: &'static str, cx: &Context<'_>) -> Result<AnswerModel, Error> {
        self.check(component)?;
        let refuse = |error: TemplateError| Error::Config { component, reason: error.to_string() };
        let (instructions, stop) = match &self.template {
            Some(template) => (Instructions::File(template.parse().map_err(refuse)?), OWN_STOP),
            None => (Instructions::Named(self.prompt), STOP),
        };
        Ok(AnswerModel { settings: self.clone(), instructions, chat: cx.chat(component, &self.model)?, stop })
    }
}

/// A model and how to ask it.
pub(super) struct AnswerModel {
    settings: Settings,
    instructions: Instructions,
    chat: Chat,
    stop: &'static [&'static str],
}

/// The receiver of a reply while it is written, and the number of sources that the
/// reply may cite.
#[derive(Clone, Copy)]
pub(super) struct ReplyWatch<'a> {
    on_text: OnText<'a>,
    n_sources: u32,
}

/// A reply of the model, without white space around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) finish: Finish,
}

impl Draft {
    /// Whether the token limit was hit before the first word, as by a model that reasons for too long.
    pub(super) fn was_cut_before_its_first_word(&self) -> bool {
        self.finish == Finish::Length && self.text.is_empty()
    }
}

/// What calls have cost so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    calls: u32,
    usage: Usage,
    seconds: f64,
    /// Whether a call hit its token limit before its first word.
    has_no_text: bool,
}

impl AnswerModel {
    /// Replaces the texts that end a reply.
    pub(super) fn with_stop_texts(self, stop: &'static [&'static str]) -> Self {
        Self { stop, ..self }
    }

    pub(super) fn task<'a>(&'a self, question: &'a str) -> PromptTask<'a> {
        PromptTask { instructions: &self.instructions, citations: self.settings.citations, question }
    }

    /// How many tokens of sources one call can hold beside its instructions,
    /// the question and a former answer.
    pub(super) fn room(&self, task: &PromptTask<'_>) -> Result<usize, Error> {
        let instructions: usize = task.refine("", "").iter().map(|message| self.count(&message.content)).sum();
        let spent = instructions + 2 * self.settings.max_tokens as usize + TEMPLATE_TOKENS;
        let limit = self.chat.context_length();
        match limit.checked_sub(spent) {
            Some(room) if room >= LEAST_ROOM => Ok(room),
            _ => {
                let (model, tokens) = (self.settings.model.clone(), spent + LEAST_ROOM);
                Err(models::Error::ContextTooLong { model, tokens, limit }.into())
            }
        }
    }

    /// The sources of an answer and how many passages were left out.
    pub(super) fn sources(&self, passages: &[Passage], room: usize) -> (Vec<NumberedSource>, u32) {
        let total = self.settings.context_tokens.unwrap_or(usize::MAX);
        budget::sources(passages, total, room, &|text| self.count(text))
    }

    /// [`sources`](Self::sources), joined into as few texts as possible, each for one call.
    pub(super) fn packs(&self, passages: &[Passage], room: usize) -> (Vec<String>, u32) {
        let (sources, dropped) = self.sources(passages, room);
        let groups = budget::groups(sources, room, |source| source.tokens);
        let text = |group: &Vec<NumberedSource>| group.iter().map(|source| source.text.as_str()).collect();
        (groups.iter().map(text).collect(), dropped)
    }

    pub(super) fn count(&self, text: &str) -> usize {
        self.chat.count_tokens(text)
    }

    /// The [`ReplyWatch`] for an answer from all passages but the last `dropped`.
    pub(super) fn watch<'a>(
        &self,
        on_text: Option<OnText<'a>>,
        passages: &[Passage],
        dropped: u32,
    ) -> Option<ReplyWatch<'a>> {
        Some(ReplyWatch { on_text: on_text?, n_sources: self.n_sources(passages, dropped) })
    }

    fn n_sources(&self, passages: &[Passage], dropped: u32) -> u32 {
        if self.settings.citations { (passages.len() as u32).saturating_sub(dropped) } else { 0 }
    }

    /// One call.
    pub(super) async fn ask(
        &self,
        messages: Vec<Message>,
        watch: Option<ReplyWatch<'_>>,
    ) -> Result<(Draft, Tally), Error> {
        let stop = self.stop.iter().map(|&text| text.to_owned()).collect();
        let request = ChatRequest { stop, ..self.request(messages) };
        let template = if let Instructions::File(template) = &self.instructions { Some(template) } else { None };
        let response = match watch {
            Some(watch) => {
                let mut answering = self.chat.stream(&request);
                let mut reply = String::new();
                while let Some(piece) = answering.next().await {
                    match piece? {
                        AnswerPiece::Text(text) => reply.push_str(&text),
                        AnswerPiece::Restart => reply.clear(),
                    }
                    let so_far = template.map_or(&*reply, |template| template.answer_so_far(&reply));
                    (watch.on_text)(&final_beginning(so_far, watch.n_sources));
                }
                answering.finish().await?
            }
            None => self.chat.chat(&request).await?,
        };
        let reply = template.map_or(&*response.text, |template| template.answer(&response.text));
        let draft = Draft { text: plain(reply).to_owned(), finish: response.finish };
        let (usage, seconds) = (response.usage, response.seconds);
        let has_no_text = draft.was_cut_before_its_first_word();
        Ok((draft, Tally { calls: 1, usage, seconds, has_no_text }))
    }

    /// One call; returns its reply, an object of this JSON Schema.
    pub(super) async fn ask_for(
        &self,
        messages: Vec<Message>,
        schema: serde_json::Value,
    ) -> Result<(String, Tally), Error> {
        let request = ChatRequest { schema: Some(schema), ..self.request(messages) };
        let response = self.chat.chat(&request).await?;
        let (usage, seconds) = (response.usage, response.seconds);
        Ok((response.text, Tally { calls: 1, usage, seconds, has_no_text: false }))
    }

    fn request(&self, messages: Vec<Message>) -> ChatRequest {
        let Settings { temperature, seed, max_tokens, .. } = self.settings;
        ChatRequest { temperature, seed, ..ChatRequest::new(messages, max_tokens) }
    }

    /// The final answer to a question, with resolved citations. All passages were used but the last `dropped`.
    ///
    /// # Errors
    /// If there is no text because a call was cut before its first word: that
    /// says nothing about the sources.
    pub(super) fn answer(
        &self,
        question: &str,
        draft: &Draft,
        (passages, dropped): (&[Passage], u32),
        tally: Tally,
    ) -> Result<Answer, Error> {
        if draft.text.is_empty() && tally.has_no_text {
            let reason = format!(
                "it used up its {} tokens before the first word; raise `max_tokens`, or let it reason less \
                 (`reasoning_effort` in `extra`)",
                self.settings.max_tokens
            );
            return Err(models::Error::NoText { model: self.settings.model.clone(), reason }.into());
        }
        let seen = &passages[..passages.len().saturating_sub(dropped as usize)];
        let cited = cite(&draft.text, seen, self.settings.citations).map(|cited| (cited, draft.finish));
        let nothing = || ((no_answer(question).to_owned(), Vec::new()), Finish::Stop);
        let ((text, citations), finish) = cited.unwrap_or_else(nothing);
        let Tally { calls, usage, seconds, .. } = tally;
        Ok(Answer { text, citations, dropped_passages: dropped, calls, usage, seconds, finish })
    }
}

/// The text of an answer with resolved citations, and the numbers of the passages that it cites; `None` if it says that
/// the sources do not answer the question, or nothing. A text that cites none gets the passage that it is from.
pub(super) fn cite(draft: &str, seen: &[Passage], citations: bool) -> Option<(String, Vec<u32>)> {
    let (mut text, mut cited) = citation::resolve(draft, if citations { seen.len() as u32 } else { 0 });
    if says_nothing(&text) {
        return None;
    }
    if citations && cited.is_empty() {
        let found = citation::source_of(&text, seen.iter().map(|passage| passage.text.as_str()));
        if let Some(number) = found {
            // Before the full stop, as in the prompt's example.
            let end = without_full_stop(&text).len();
            text.insert_str(end, &format!(" [{number}]"));
            cited.push(number);
        }
    }
    Some((text, cited))
}

impl Tally {
    /// A call whose reply could not be used, and whose tokens are not known.
    pub(super) fn of_unusable_call() -> Self {
        Self { calls: 1, ..Self::default() }
    }

    pub(super) fn of(answer: &Answer) -> Self {
        Self { calls: answer.calls, usage: answer.usage, seconds: answer.seconds, has_no_text: false }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.usage += other.usage;
        self.seconds += other.seconds;
        self.has_no_text |= other.has_no_text;
    }
}
