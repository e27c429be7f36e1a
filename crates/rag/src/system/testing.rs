//! What the tests of systems share: a context, questions, and calls that are repeated as a client repeats them.

use super::{Arc, BTreeMap, Error, Message, Path, ServiceReply, System, SystemContext, SystemQuestion, Value};
use models::{CpuBudget, ModelDirectory, provider::ModelContext};

/// The context of models, whose variables are `PATH` and `RAG_KEY`.
pub(super) fn model_context() -> ModelContext {
    ModelContext {
        directory: ModelDirectory::new("/nowhere".into(), Vec::new()),
        cpu: CpuBudget::new(1),
        environment: Arc::new(|name| match name {
            "RAG_KEY" => Some("a-long-secret-value".to_owned()),
            "PATH" => Some("/usr/local/bin:/usr/bin:/bin".to_owned()),
            _ => None,
        }),
    }
}

pub(super) fn context<'a>(models: &'a ModelContext, base: &'a Path) -> SystemContext<'a> {
    SystemContext { name: "app", models, version: "1", version_header: None, price: None, base }
}

/// Asks a question once, and reads the reply.
pub(super) async fn ask(
    system: &Arc<dyn System>,
    text: &str,
    parameters: &BTreeMap<String, Value>,
) -> Result<super::SystemReply, Error> {
    let history = [Message::user("before"), Message::assistant("yes")];
    let question = SystemQuestion { id: "q1", text, history: &history, seed: 5, parameters };
    let reply: ServiceReply = system.service().call(&system.request(&question)).await?;
    system.read(&question, &reply)
}

pub(super) async fn answer(system: &Arc<dyn System>, text: &str) -> Result<String, Error> {
    Ok(ask(system, text, &BTreeMap::new()).await?.answer.unwrap_or_default())
}

/// The answer, with another attempt after each error that may pass.
pub(super) async fn answer_at_last(system: &Arc<dyn System>, text: &str) -> Result<String, Error> {
    for _ in 0..20 {
        match answer(system, text).await {
            Err(error) if error.is_transient() => {}
            answered => return answered,
        }
    }
    answer(system, text).await
}
