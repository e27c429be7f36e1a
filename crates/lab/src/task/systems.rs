//! The handles of an experiment's systems.

use super::handles::CallTurn;
use crate::{
    Error,
    spec::{Experiment, SystemSpec, SystemVersion},
};
use eval::Question;
use models::{Client, ServiceHandle, provider::ModelContext};
use rag::system::{System, SystemContext, SystemQuestion, SystemReply};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// The experiment's systems that are asked; each is made when it is first used.
pub(crate) struct SystemHandles {
    specs: BTreeMap<String, SystemSpec>,
    base: PathBuf,
    context: ModelContext,
    client: Client,
    built: Mutex<HashMap<(String, String), SystemHandle>>,
}

/// A system that can be asked.
#[derive(Clone)]
pub(crate) struct SystemHandle {
    /// Calls it, behind the journal, the limits and the budget.
    service: ServiceHandle,
    /// Writes its requests, and reads its replies.
    system: Arc<dyn System>,
    /// Its seed.
    seed: u64,
}

impl SystemHandle {
    /// This handle, with calls in this turn.
    pub(crate) fn in_turn(self, turn: CallTurn) -> Self {
        Self { service: self.service.with_group(turn.group).with_priority(turn.priority), ..self }
    }

    /// Asks a question with these values of the parameters. Returns the reply, and the seconds that it took. Each repeat
    /// has a reply and a seed of its own; 0 is the ordinary call.
    ///
    /// # Errors
    /// Why there is no reply, after retries, or what the reply lacks.
    pub(crate) async fn ask(
        &self,
        question: &Question,
        parameters: &BTreeMap<String, Value>,
        repeat: u32,
    ) -> Result<(SystemReply, f64), models::Error> {
        let asked = SystemQuestion {
            id: &question.id,
            text: &question.question,
            history: &question.turns,
            seed: self.seed + u64::from(repeat),
            parameters,
        };
        let reply = self.service.clone().with_repeat(repeat).ask(&self.system.request(&asked)).await?;
        Ok((self.system.read(&asked, &reply)?, reply.seconds))
    }
}

impl SystemHandles {
    pub(crate) fn new(experiment: &Experiment, context: ModelContext, client: Client) -> Self {
        let (specs, base) = (experiment.systems.clone(), experiment.base.clone());
        Self { specs, base, context, client, built: Mutex::default() }
    }

    /// A system by its name in the experiment, in a version.
    ///
    /// # Errors
    /// If there is none that is asked, or it cannot be made.
    pub(crate) fn get(&self, name: &str, version: &str) -> Result<SystemHandle, Error> {
        let key = (name.to_owned(), version.to_owned());
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = built.get(&key) {
            return Ok(handle.clone());
        }
        let spec = self.specs.get(name).and_then(|spec| Some((spec, spec.asked()?)));
        let Some((spec, config)) = spec else {
            return Err(Error::NotFound(format!("there is no system `{name}` that is asked")));
        };
        let cx = context_of((name, spec), version, &self.context, &self.base);
        // The budget counts what the experiment states. Tables hold only what replies state, so that another price
        // needs no new tables.
        let service = config.build(&cx)?.service();
        let system = config.build(&SystemContext { price: None, ..cx })?;
        let handle = SystemHandle { service: self.client.service(service), system, seed: spec.seed };
        built.insert(key, handle.clone());
        Ok(handle)
    }
}

/// What a system is built with.
pub(crate) fn context_of<'a>(
    (name, spec): (&'a str, &'a SystemSpec),
    version: &'a str,
    models: &'a ModelContext,
    base: &'a Path,
) -> SystemContext<'a> {
    let header = match &spec.version {
        Some(SystemVersion::Asked(source)) => Some(source.header.as_str()).filter(|header| !header.is_empty()),
        _ => None,
    };
    SystemContext { name, models, version, version_header: header, price: spec.price, base }
}
