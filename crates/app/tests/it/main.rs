//! The real binary, as a person uses it: on small documents, with a static
//! embedding model made here and a chat model behind a real HTTP endpoint.

mod corpus;
mod endpoint;
mod mistakes;
mod resume;
mod run;
mod workspace;
