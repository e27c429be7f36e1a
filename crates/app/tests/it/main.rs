//! The real binary, as a person uses it: on small documents, with a static
//! embedding model made here and a chat model behind a real HTTP endpoint.

#![expect(unreachable_pub, reason = "in a binary, `pub` marks what a module offers to the others")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends, and says where")]

mod budget;
mod corpus;
mod endpoint;
mod failing_judge;
mod golden;
mod journal;
mod judge;
mod killed;
mod mistakes;
mod mlflow;
mod mlflow_server;
mod providers;
mod resume;
mod run;
mod score;
mod secrets;
mod services;
mod stores;
mod workspace;
