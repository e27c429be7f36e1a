//! The real binary, as a person uses it: on small documents, with a static
//! embedding model made here and a chat model behind a real HTTP endpoint.

#![expect(unreachable_pub, reason = "in a binary, `pub` marks what a module offers to the others")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends, and says where")]

mod access;
mod at_once;
mod attacks;
mod budget;
mod check;
mod command_line;
mod corpus;
mod damage;
mod documents;
mod endings;
mod endpoint;
mod failing_judge;
mod finalists;
mod formats;
mod frozen;
mod full_disk;
mod functions;
mod fuzz;
mod golden;
mod graph;
mod jobs;
mod journal;
mod judge;
mod keys;
mod killed;
mod kills;
mod late;
mod late_chunking;
mod limits;
mod looking;
mod missing_scores;
mod mistakes;
mod mlflow;
mod mlflow_server;
mod noise;
mod one_path;
mod paid_texts;
mod past_runs;
mod price;
mod providers;
mod resume;
mod run;
mod score;
mod secrets;
mod sentences_at_once;
mod serve;
mod serve_clients;
mod serve_quality;
mod services;
mod snapshots;
mod soak;
mod stores;
mod surroundings;
mod swapped_bundles;
mod systems;
mod tls;
mod traces;
mod upstream;
mod warnings;
mod workspace;
