//! All that a person touches: the command line `reverie`. It alone prints,
//! reads the environment and ends the process. The binary and the Python
//! package call the same [`main`].

#![expect(unreachable_pub, reason = "in a program, `pub` marks what a module offers to the others")]

mod cli;
mod environment;
mod jobs;
mod render;

pub use cli::{leave, main};
pub use environment::{home, setup};
