//! Chat, embedding and rerank models behind three traits: in this process or
//! at an endpoint. It knows nothing of documents or experiments.
//!
//! Stages never hold a model, only a handle ([`Chat`], [`Embedder`],
//! [`Reranker`]) made by a [`Client`], so that every call passes the journal,
//! the limits and the accounting.

//!
//! `model` is what a model is: the traits, what they take and give, and their
//! errors. `remote` asks models behind endpoints, `local` runs models in this
//! process, `fetch` brings their files here, and [`provider`] lists the ways
//! to run one. Each is closed: what the others use of it stands in the `use`
//! lines of its `mod.rs`.

mod client;
mod fetch;
mod local;
mod model;
pub mod provider;
mod remote;
#[doc(hidden)]
pub mod testing;

pub use client::{
    Allowance, AllowanceRequest, Allowances, Amount, AnswerStream, Budget, BudgetReport, Cap, Caps, Chat, Client,
    Embedder, Exhausted, LeaseRequest, Lessor, Meter, ModelLimit, Piece, Pieces, Reranker, Spending, Spent,
};
pub use fetch::{
    Catalogue, CatalogueEntry, CatalogueFile, HubFile, Kind, Library, Licence, ModelDirectory, ModelFiles, PullEvent,
    PullListener, PullOptions, Source, Wheel,
};
pub use local::CpuBudget;
pub use model::{
    Absence, Cause, ChatModel, ChatRequest, ChatResponse, EmbeddingModel, EndpointLimits, Error, Finish, Identity,
    InputKind, Limits, Matrix, Message, Model, OnPiece, Place, RateHints, RerankModel, Role, Usage,
};
pub use provider::{ChatConfig, EmbeddingConfig, ModelConfig, RerankConfig};

use model::{CONTEXT_LENGTH, estimated_tokens, schema, visible};
