//! The handles of an experiment's models.

use crate::{
    Error,
    parts::{self, Part, PartClient},
    spec::EvaluateSpec,
};
use eval::metric::MetricContext;
use models::{
    Chat, Client, Embedder, Identity, JsonService, ModelConfig, ModelTokenizer, Reranker, ServiceHandle, provider,
};
use rag::Context;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

/// The experiment's models; each is made when it is first used.
pub struct ModelHandles {
    configs: BTreeMap<String, ModelConfig>,
    context: provider::ModelContext,
    client: Client,
    built: Mutex<HashMap<String, ModelHandle>>,
    tokenizers: Mutex<HashMap<String, Arc<ModelTokenizer>>>,
    elsewhere: Option<RemoteModels>,
}

/// Models that other parts of a trial hold.
struct RemoteModels {
    /// The part that is here.
    part: Part,
    others: PartClient,
    /// As they were in the run.
    identities: BTreeMap<String, Identity>,
}

#[derive(Clone)]
enum ModelHandle {
    Chat(Chat),
    Embedding(Embedder),
    Rerank(Reranker),
}

impl ModelHandles {
    pub(crate) fn new(configs: BTreeMap<String, ModelConfig>, context: provider::ModelContext, client: Client) -> Self {
        Self { configs, context, client, built: Mutex::default(), tokenizers: Mutex::default(), elsewhere: None }
    }

    /// The same models for one part of a trial, which calls other parts for the models that they
    /// hold.
    pub(crate) fn of_part(self, part: Part, others: PartClient, identities: BTreeMap<String, Identity>) -> Self {
        Self { elsewhere: Some(RemoteModels { part, others, identities }), ..self }
    }

    /// The client through which all calls go.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What models are built with.
    pub(crate) fn model_context(&self) -> &provider::ModelContext {
        &self.context
    }

    fn get(&self, name: &str) -> Result<ModelHandle, Error> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = built.get(name) {
            return Ok(model.clone());
        }
        let config = self.configs.get(name);
        let elsewhere = self.elsewhere.as_ref().zip(config).filter(|(there, config)| !there.part.holds(config.kind()));
        let model = match (config, elsewhere) {
            (Some(config), Some((there, _))) => self.remote_handle(there, name, config)?,
            (Some(ModelConfig::Chat(config)), None) => {
                ModelHandle::Chat(self.client.chat(config.build(&self.context)?))
            }
            (Some(ModelConfig::Embedding(config)), None) => {
                ModelHandle::Embedding(self.client.embedder(config.build(&self.context)?))
            }
            (Some(ModelConfig::Rerank(config)), None) => {
                ModelHandle::Rerank(self.client.reranker(config.build(&self.context)?))
            }
            (None, _) => return Err(Error::NotFound(format!("there is no model `{name}`"))),
        };
        built.insert(name.to_owned(), model.clone());
        Ok(model)
    }

    /// The tokenizer of the model with this name in the experiment, without the model's weights. If there is no such
    /// model, or its files cannot be read, the tokenizer estimates. That is enough for estimates of calls; a call to
    /// the model reports the error.
    pub(crate) fn tokenizer(&self, name: &str) -> Arc<ModelTokenizer> {
        let mut opened = self.tokenizers.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || self.configs.get(name).and_then(|config| config.tokenizer(&self.context).ok());
        let tokenizer = opened.entry(name.to_owned());
        tokenizer.or_insert_with(|| Arc::new(open().unwrap_or_else(ModelTokenizer::estimate))).clone()
    }

    /// The number of tokens of a text for a model, for estimates.
    pub(crate) fn count_tokens(&self, name: &str, text: &str) -> u64 {
        self.tokenizer(name).count(text) as u64
    }

    fn remote_handle(&self, there: &RemoteModels, name: &str, config: &ModelConfig) -> Result<ModelHandle, Error> {
        let identity = || match there.identities.get(name) {
            Some(identity) => Ok(identity.clone()),
            None => config.identity(&self.context),
        };
        Ok(match config {
            ModelConfig::Chat(config) => {
                // Counts the tokens of prompts on this machine; it is never called.
                let token_counter = config.build(&self.context)?;
                ModelHandle::Chat(parts::chat(&self.client, name, token_counter, there.others.clone()))
            }
            ModelConfig::Embedding(_) => {
                ModelHandle::Embedding(parts::embedder(&self.client, name, identity()?, there.others.clone()))
            }
            ModelConfig::Rerank(_) => {
                ModelHandle::Rerank(parts::reranker(&self.client, name, identity()?, there.others.clone()))
            }
        })
    }

    /// A chat model by its name in the experiment.
    ///
    /// # Errors
    /// If there is none, or it cannot be made.
    pub fn chat(&self, name: &str) -> Result<Chat, Error> {
        match self.get(name)? {
            ModelHandle::Chat(chat) => Ok(chat),
            _ => Err(Error::NotFound(format!("model `{name}` is not a chat model"))),
        }
    }

    /// A rerank model by its name in the experiment.
    ///
    /// # Errors
    /// If there is none, or it cannot be made.
    pub fn reranker(&self, name: &str) -> Result<Reranker, Error> {
        match self.get(name)? {
            ModelHandle::Rerank(reranker) => Ok(reranker),
            _ => Err(Error::NotFound(format!("model `{name}` is not a rerank model"))),
        }
    }

    /// An embedding model by its name in the experiment.
    ///
    /// # Errors
    /// If there is none, or it cannot be made.
    pub fn embedder(&self, name: &str) -> Result<Embedder, Error> {
        match self.get(name)? {
            ModelHandle::Embedding(embedder) => Ok(embedder),
            _ => Err(Error::NotFound(format!("model `{name}` is not an embedding model"))),
        }
    }
}

/// The place of a task's calls in the queue for a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct CallTurn {
    /// Calls of a higher priority go first.
    pub(crate) priority: i32,
    /// Within a priority, groups take turns.
    pub(crate) group: u64,
}

/// The experiment's models for the components of a task, whose calls take this turn among those of other trials.
pub(crate) struct TurnModels<'a> {
    models: &'a ModelHandles,
    turn: CallTurn,
    /// Which of several answers to the same request is wanted.
    repeat: u32,
    /// Whether programs that are no models are called even if they replied to the same request before: what they search
    /// may have changed.
    asks_anew: bool,
}

impl ModelHandles {
    /// The models for a task, whose chat calls take this place in the queue.
    pub(crate) fn in_turn(&self, turn: CallTurn) -> TurnModels<'_> {
        TurnModels { models: self, turn, repeat: 0, asks_anew: false }
    }

    /// The models for one of several answers to the same requests.
    pub(crate) fn for_repeat(&self, repeat: u32) -> TurnModels<'_> {
        TurnModels { repeat, ..self.in_turn(CallTurn::default()) }
    }

    /// The models for questions that are asked now: search services are called anew, because their indexes may have changed.
    pub(crate) fn for_questions(&self) -> TurnModels<'_> {
        TurnModels { asks_anew: true, ..self.in_turn(CallTurn::default()) }
    }
}

impl TurnModels<'_> {
    /// The context from which a metric is built.
    pub(crate) fn metric_context<'b>(&'b self, evaluate: &'b EvaluateSpec) -> MetricContext<'b> {
        MetricContext { models: Some(self), embedder: evaluate.embedder.as_deref(), judges: &evaluate.judges }
    }

    /// The context from which a component of a trial with this embedder is built.
    pub(crate) fn context<'b>(&'b self, embedder: Option<&'b str>) -> Context<'b> {
        Context { models: Some(self), embedder, ..Context::default() }
    }
}

impl rag::Models for TurnModels<'_> {
    fn chat(&self, name: &str) -> Result<Chat, rag::Error> {
        Ok(in_turn(self.models.chat(name).map_err(component_error)?, self.turn).with_repeat(self.repeat))
    }
    fn embedder(&self, name: &str) -> Result<Embedder, rag::Error> {
        self.models.embedder(name).map_err(component_error)
    }
    fn reranker(&self, name: &str) -> Result<Reranker, rag::Error> {
        self.models.reranker(name).map_err(component_error)
    }
    fn model_context(&self) -> Option<&provider::ModelContext> {
        Some(self.models.model_context())
    }
    fn service(&self, service: Arc<dyn JsonService>) -> Option<ServiceHandle> {
        let handle = self.models.client.service(service).with_repeat(self.repeat);
        let handle = handle.with_group(self.turn.group).with_priority(self.turn.priority);
        Some(if self.asks_anew { handle.without_journal() } else { handle })
    }
}

/// Trials take turns, so that a large trial does not delay the others.
fn in_turn(chat: Chat, turn: CallTurn) -> Chat {
    chat.with_group(turn.group).with_priority(turn.priority)
}

fn component_error(error: Error) -> rag::Error {
    match error {
        Error::Model(error) => rag::Error::Model(error),
        other => rag::Error::Failed { component: "model", reason: other.to_string() },
    }
}
