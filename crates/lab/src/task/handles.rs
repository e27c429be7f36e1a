//! The handles of an experiment's models.

use crate::{Error, spec::EvaluateSpec};
use eval::metric;
use models::{Chat, Client, Embedder, ModelConfig, Reranker, provider};
use rag::rerank;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

/// The experiment's models, made when first used.
pub struct Models {
    configs: BTreeMap<String, ModelConfig>,
    context: provider::Context,
    client: Client,
    built: Mutex<HashMap<String, Built>>,
}

#[derive(Clone)]
enum Built {
    Chat(Chat),
    Embedding(Embedder),
    Rerank(Reranker),
}

impl Models {
    pub(crate) fn new(configs: BTreeMap<String, ModelConfig>, context: provider::Context, client: Client) -> Self {
        Self { configs, context, client, built: Mutex::default() }
    }

    /// The client through which all calls go.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn get(&self, name: &str) -> Result<Built, Error> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = built.get(name) {
            return Ok(model.clone());
        }
        let model = match self.configs.get(name) {
            Some(ModelConfig::Chat(config)) => Built::Chat(self.client.chat(config.build(&self.context)?)),
            Some(ModelConfig::Embedding(config)) => {
                Built::Embedding(self.client.embedder(config.build(&self.context)?))
            }
            Some(ModelConfig::Rerank(config)) => Built::Rerank(self.client.reranker(config.build(&self.context)?)),
            None => return Err(Error::NotFound(format!("there is no model `{name}`"))),
        };
        built.insert(name.to_owned(), model.clone());
        Ok(model)
    }

    /// A chat model by its name in the experiment.
    ///
    /// # Errors
    /// If there is none, or it cannot be made.
    pub fn chat(&self, name: &str) -> Result<Chat, Error> {
        match self.get(name)? {
            Built::Chat(chat) => Ok(chat),
            _ => Err(Error::NotFound(format!("model `{name}` is not a chat model"))),
        }
    }

    /// An embedding model by its name in the experiment.
    ///
    /// # Errors
    /// If there is none, or it cannot be made.
    pub fn embedder(&self, name: &str) -> Result<Embedder, Error> {
        match self.get(name)? {
            Built::Embedding(embedder) => Ok(embedder),
            _ => Err(Error::NotFound(format!("model `{name}` is not an embedding model"))),
        }
    }

    /// What a reranker of a trial needs.
    ///
    /// # Errors
    /// If a model it names cannot be made.
    pub fn rerank_context(
        &self,
        config: &rerank::RerankerConfig,
        embedder: Option<&str>,
    ) -> Result<rerank::Context, Error> {
        let mut context = rerank::Context::default();
        match config.model().map(|name| self.get(name)).transpose()? {
            Some(Built::Rerank(reranker)) => context.reranker = Some(reranker),
            Some(Built::Chat(chat)) => context.chat = Some(chat),
            _ => {}
        }
        context.embedder =
            embedder.filter(|_| config.needs().embedder()).map(|name| self.embedder(name)).transpose()?;
        Ok(context)
    }

    /// What a metric needs.
    ///
    /// # Errors
    /// If a model it names cannot be made.
    pub fn metric_context(&self, evaluate: &EvaluateSpec, needs: metric::Needs) -> Result<metric::Context, Error> {
        Ok(metric::Context {
            judges: evaluate
                .judges
                .iter()
                .filter(|_| needs.judge)
                .map(|name| self.chat(name))
                .collect::<Result<_, _>>()?,
            embedder: evaluate
                .embedder
                .as_ref()
                .filter(|_| needs.embedder)
                .map(|name| self.embedder(name))
                .transpose()?,
        })
    }
}
