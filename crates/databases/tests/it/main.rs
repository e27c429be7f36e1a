//! Databases against real servers on this machine, and what must not happen to records when one of them is killed.

#![expect(unreachable_pub, reason = "in a binary, `pub` marks what a module offers to the others")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on ends, and says where"
)]

mod chroma;
mod conformance;
mod conformance_filters;
mod elasticsearch;
mod elasticsearch_existing;
mod elasticsearch_replies;
mod memory;
mod milvus;
mod milvus_replies;
mod pgvector;
mod qdrant;
mod qdrant_replies;
mod servers;
