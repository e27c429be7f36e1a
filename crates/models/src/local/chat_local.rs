//! Chat with a GGUF model in this process, by llama.cpp. For answers without
//! a server or a key, and for verdicts from token probabilities.
//!
//! - Overlapping calls are computed side by side, one per core; a call that
//!   is alone has all cores. Put what calls share first in the messages
//!   (instructions, then context, then the question): a prefix that a recent
//!   call had is not computed again, and counted in [`Usage::cached_tokens`].
//! - An answer is a function of the request: the same with and without a
//!   reused prefix, alone and beside others, with a temperature too.
//! - The conversation is put into the file's own chat template. The text of a
//!   control token inside a message stays text.
//! - With a schema the answer is valid JSON whenever it ends with
//!   [`Finish::Stop`]; a schema that cannot be enforced is refused at once.
//! - With choices nothing is written: one pass over the prompt gives the
//!   probability of each choice as the first token of the reply, adding up
//!   its spellings (as given, lower case, upper case, capitalised, each with
//!   and without a leading space), normalised over the choices. The text is
//!   the most probable choice.
//! - Streamed, an answer comes token by token, but in whole characters; what
//!   may become a stop text is held back until it is known to be none.
//! - An answer never exceeds `context_length` together with its prompt: it is
//!   cut there with [`Finish::Length`]. A prompt that leaves no room for one
//!   token is [`Error::ContextTooLong`].

use super::{
    blocking,
    llama::{AnswerTask, AnswerWriter, EngineSettings, Goal, LlamaEngine, LlamaJob, Sampler, Vocabulary, grammar},
};
use crate::{
    CONTEXT_LENGTH, ChatModel, ChatRequest, ChatResponse, Error, Finish, Identity, Model, ModelKind, OnPiece, Usage,
    provider::{ModelContext, ModelSettings},
    tokens::{ModelTokenizer, estimate_tokens},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};
use tokio::sync::Semaphore;

pub(crate) const VERSION: u32 = 1;

/// A chat model in this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A name of the catalogue, the path of a `.gguf` file, or
    /// `hf:owner/repository/file.gguf`. Default `qwen2.5-coder-0.5b-instruct`.
    pub model: String,
    /// The most tokens of a prompt with its answer; never more than the model
    /// was trained with.
    pub context_length: usize,
    /// How many prompts are kept, 1 to 64, so that the next prompt reuses the
    /// beginning that it shares with one of them. As many calls are computed at
    /// once, if there is a core for each. Each needs memory for `context_length`
    /// tokens (12 KiB per token for a model of half a billion parameters).
    pub sequences: usize,
    /// How many cores to use; all that models may use if not set. While other
    /// programs use the cores, a call uses only one, which is then faster.
    pub threads: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self { model: "qwen2.5-coder-0.5b-instruct".into(), context_length: 4096, sequences: 4, threads: None }
    }
}

impl Config {
    fn resolve(&self, cx: &ModelContext) -> Result<(PathBuf, Identity), Error> {
        if !(1..=64).contains(&self.sequences) {
            return Err(Error::Config(format!("`sequences` is {}: it must be 1 to 64", self.sequences)));
        }
        if !(16..=1 << 20).contains(&self.context_length) {
            let length = self.context_length;
            return Err(Error::Config(format!("`context_length` is {length}: it must be 16 to 1048576")));
        }
        if self.threads == Some(0) {
            return Err(Error::Config("`threads` is 0: it must be at least 1".into()));
        }
        let files = cx.directory.locate(&self.model, ModelKind::Chat)?;
        let path =
            files.with_extension("gguf").ok_or_else(|| Error::bad_file(&files.folder, "it holds no .gguf file"))?;
        let identity = Identity {
            provider: "llama.cpp".into(),
            model: self.model.clone(),
            revision: files.sha256.clone(),
            // Threads and sequences only affect speed, so they are left out:
            // the journal's answer then stays valid.
            parameters: serde_json::json!({ CONTEXT_LENGTH: self.context_length }),
        };
        Ok((path.to_path_buf(), identity))
    }
}

impl ModelSettings for Config {
    type Model = dyn ChatModel;

    fn base_identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        Ok(self.resolve(cx)?.1)
    }

    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error> {
        let (path, identity) = self.resolve(cx)?;
        let settings = EngineSettings {
            model: self.model.clone(),
            path,
            context_length: self.context_length,
            sequences: self.sequences,
            threads: self.threads.unwrap_or(cx.cpu.cores()).min(cx.cpu.cores()),
            cpu: cx.cpu.clone(),
        };
        Ok(Arc::new(LocalChat {
            identity: Self::versioned(identity),
            text: Arc::new(TextSide { settings: settings.clone(), vocabulary: OnceLock::new() }),
            turns: Arc::new(Semaphore::new(1)),
            engine: LlamaEngine::start(settings)?,
        }))
    }

    fn tokenizer(&self, cx: &ModelContext) -> Result<ModelTokenizer, Error> {
        let vocabulary = Vocabulary::open(&self.resolve(cx)?.0)?;
        Ok(ModelTokenizer::exact(move |text| vocabulary.count(text)))
    }

    async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        let (path, _) = self.resolve(cx)?;
        blocking(&self.model, move || Vocabulary::open(&path).map(drop)).await
    }
}

/// The model as the rest of the system sees it. The vocabulary is loaded with
/// the first text, the weights with the first call.
struct LocalChat {
    identity: Identity,
    text: Arc<TextSide>,
    turns: Arc<Semaphore>,
    engine: LlamaEngine,
}

/// The parts that work without weights.
struct TextSide {
    settings: EngineSettings,
    vocabulary: OnceLock<Arc<Vocabulary>>,
}

impl TextSide {
    fn vocabulary(&self) -> Result<&Arc<Vocabulary>, Error> {
        if let Some(vocabulary) = self.vocabulary.get() {
            return Ok(vocabulary);
        }
        let vocabulary = Arc::new(Vocabulary::open(&self.settings.path)?);
        // Two callers may both have opened it; the first one is kept.
        Ok(self.vocabulary.get_or_init(|| vocabulary))
    }

    fn context_length(&self) -> usize {
        let trained = self.vocabulary().ok().and_then(|vocabulary| vocabulary.trained_context);
        trained.unwrap_or(usize::MAX).min(self.settings.context_length)
    }

    /// Checks a request and turns it into tokens.
    fn prepare(&self, request: &ChatRequest, on_piece: Option<OnPiece>) -> Result<LlamaJob, Error> {
        check(request)?;
        let vocabulary = self.vocabulary()?.clone();
        let prompt = vocabulary.prompt(&request.messages)?;
        let limit = self.context_length();
        if prompt.len() >= limit {
            let tokens = prompt.len() + request.max_tokens.max(1) as usize;
            return Err(Error::ContextTooLong { model: self.settings.model.clone(), tokens, limit });
        }
        let goal = if request.choices.is_empty() {
            let grammar = request.schema.as_ref().map(grammar).transpose()?;
            Goal::Text(Box::new(AnswerTask {
                sampler: Sampler::new(request, grammar.as_deref(), &vocabulary.model)?,
                writer: AnswerWriter::new(&request.stop),
                limit: (request.max_tokens as usize).min(limit - prompt.len()),
                on_piece,
            }))
        } else {
            Goal::Choices(vocabulary.first_tokens(&request.choices)?)
        };
        Ok(LlamaJob { prompt, goal, vocabulary })
    }
}

fn check(request: &ChatRequest) -> Result<(), Error> {
    let reason = if request.messages.is_empty() {
        "there are no messages"
    } else if request.max_tokens == 0 && request.choices.is_empty() {
        "`max_tokens` is 0"
    } else if !(request.temperature >= 0.0 && request.temperature.is_finite()) {
        "`temperature` must be 0 or more"
    } else if !(request.top_p > 0.0 && request.top_p <= 1.0) {
        "`top_p` must be above 0 and at most 1"
    } else if !request.choices.is_empty() && request.schema.is_some() {
        "`choices` and `schema` exclude each other"
    } else {
        return Ok(());
    };
    Err(Error::Config(format!("the request cannot be answered: {reason}")))
}

impl Model for LocalChat {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        self.text.settings.sequences
    }
}

#[async_trait]
impl ChatModel for LocalChat {
    fn context_length(&self) -> usize {
        self.text.context_length()
    }

    fn count_tokens(&self, text: &str) -> usize {
        // If the model file cannot be read, the first call reports why. Until then an estimate is good enough.
        self.text.vocabulary().map_or_else(|_| estimate_tokens(text), |vocabulary| vocabulary.count(text))
    }

    fn turns(&self) -> Option<&Arc<Semaphore>> {
        Some(&self.turns)
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, Error> {
        self.answer(request, None).await
    }

    async fn chat_streaming(&self, request: &ChatRequest, on_piece: &OnPiece) -> Result<ChatResponse, Error> {
        let response = self.answer(request, Some(on_piece.clone())).await?;
        // With choices nothing is written: the text is the most probable choice.
        if !request.choices.is_empty() {
            on_piece(&response.text);
        }
        Ok(response)
    }
}

impl LocalChat {
    async fn answer(&self, request: &ChatRequest, on_piece: Option<OnPiece>) -> Result<ChatResponse, Error> {
        let (text, copy) = (self.text.clone(), request.clone());
        let job = blocking(&self.text.settings.model, move || text.prepare(&copy, on_piece)).await?;
        let prompt_tokens = job.prompt.len() as u64;
        let outcome = self.engine.run(job).await?;
        let best = outcome.choices.iter().enumerate().max_by(|left, right| left.1.total_cmp(right.1));
        Ok(ChatResponse {
            text: best.map_or(outcome.text, |(index, _)| request.choices[index].clone()),
            finish: outcome.finish.unwrap_or(Finish::Stop),
            usage: Usage {
                prompt_tokens,
                cached_tokens: outcome.cached as u64,
                completion_tokens: outcome.written as u64,
                ..Usage::default()
            },
            choices: outcome.choices,
            // Waiting for other calls says how busy this machine was, not how fast the model is.
            seconds: outcome.seconds,
        })
    }
}
