//! Chat, embedding and rerank models behind three traits: in this process or
//! at an endpoint. It knows nothing of documents or experiments.
//!
//! A fourth trait, [`JsonService`], is for other programs that answer JSON with JSON, such as a RAG system.
//!
//! Stages never hold a model, only a handle ([`Chat`], [`Embedder`],
//! [`Reranker`], [`ServiceHandle`]) made by a [`Client`], so that every call passes the journal,
//! the limits and the accounting.
//!
//! `model` defines models: the traits, their inputs, outputs and errors.
//! `remote` calls models behind endpoints, `local` runs models in this process,
//! `fetch` pulls their files, `tokens` counts tokens, [`provider`] defines and lists the providers, and
//! `registry` makes models from settings.
//! The insides of each module are private: the `use` lines of its `mod.rs` list
//! what the other modules use.

mod client;
mod cpu;
mod fetch;
pub mod ledger;
mod local;
mod model;
pub mod provider;
mod registry;
mod remote;
#[doc(hidden)]
pub mod testing;
mod tokens;
pub mod trace;

pub use client::{
    Allowance, AllowanceRequest, Allowances, AnswerPiece, AnswerStream, Budget, BudgetAmount, BudgetReport, Caps, Chat,
    Client, Embedder, Exchange, LeaseRequest, Lessor, LessorError, Listener, Meter, ModelLimit, PieceDivider,
    ReachedCap, Reranker, ServiceHandle, Spending, SpentTotals, TotalCaps, TotalSpending, TotalSpent, batch_answer_key,
    embedding_keys, holds_several_vectors,
};
pub use cpu::CpuBudget;
pub use executor::{RateHints, RetryPolicy};
pub use fetch::{
    Catalogue, CatalogueEntry, CatalogueFile, FileSource, HubFile, Library, Licence, ModelDirectory, ModelFiles,
    ModelKind, ModelLanguages, PullEvent, PullListener, PullOptions, Wheel,
};
pub use ledger::{Ledger, ModelUsage};
pub use local::ocr::{
    MODEL as OCR_MODEL, Picture, PictureError, PictureFile, RecognizedLine, RecognizedPage, TextRecognizer,
    quantization as ocr_quantization,
};
pub use model::{
    Absence, BatchEndpoint, BatchLine, BatchSettings, BatchState, COMMAND_SCHEME, Cap, Cause, ChatModel, ChatRequest,
    ChatResponse, EmbeddingModel, EndpointLimits, Error, ErrorReport, Finish, FunctionError, Identity, InputKind,
    JsonService, Limits, LongTexts, Matrix, Message, Model, ModelPlace, OnPiece, OnRestart, RerankModel, Role,
    ServiceReply, StatedUsage, Usage, retriever_section, system_section,
};
pub use provider::EndpointAccess;
pub use registry::{ChatConfig, EmbeddingConfig, ModelConfig, RerankConfig};
pub use remote::{JsonEndpoint, JsonEndpointSettings, ServedFunction, lacks_tls};
pub use tokens::{ModelTokenizer, estimate_tokens};

use model::{CONTEXT_LENGTH, schema, visible};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose value is valid even if a thread has panicked with the lock.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
