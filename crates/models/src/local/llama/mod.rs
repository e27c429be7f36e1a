//! llama.cpp in this process: what `chat_local` is made of. It knows tokens
//! and sequences, not configuration and not where model files come from.
//!
//! The caller checks a request and turns it into a [`LlamaJob`] with a
//! [`Vocabulary`], so that a request that cannot work costs nothing. The
//! [`LlamaEngine`] is a few threads that share the weights and do the jobs.

mod call_load;
mod contention;
mod engine;
mod gbnf;
mod job;
mod queue;
mod sampler;
mod schema;
mod shared;
mod slots;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) mod tiny;
mod vocabulary;
mod worker;
mod writer;

pub(super) use engine::LlamaEngine;
pub(super) use job::{AnswerTask, Goal, LlamaJob};
pub(super) use sampler::Sampler;
pub(super) use schema::grammar;
pub(super) use shared::EngineSettings;
pub(super) use vocabulary::Vocabulary;
pub(super) use writer::AnswerWriter;

use crate::Error;
use llama_cpp_2::llama_backend::LlamaBackend;
use std::sync::OnceLock;

/// llama.cpp may be started once per process. It is never stopped: a thread
/// may still be decoding while the process ends.
fn backend() -> Result<&'static LlamaBackend, Error> {
    static BACKEND: OnceLock<Option<LlamaBackend>> = OnceLock::new();
    BACKEND
        .get_or_init(|| {
            let mut backend = LlamaBackend::init().ok()?;
            // A library never prints; what matters comes back as an error.
            backend.void_logs();
            Some(backend)
        })
        .as_ref()
        .ok_or_else(|| Error::runtime("llama.cpp", "it was already started by another part of this process"))
}
