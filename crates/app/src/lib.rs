//! The part of Reverie that people use: the command line `reverie`. Only this
//! crate prints, reads the environment and ends the process. The binary and the
//! Python package call the same [`main`]; [`library`] is for Python programs
//! that do not use the command line.

#![expect(unreachable_pub, reason = "in a program, `pub` marks what a module offers to the others")]

mod advice;
mod audit;
mod cli;
mod command;
mod environment;
mod failure;
mod jobs;
mod key_watch;
pub mod library;
mod mcp;
mod option_values;
mod pages;
mod place;
mod render;
mod report;
mod traces;

pub use advice::install_advice;
pub use cli::{READ_PDFS, exit, main};
pub use environment::{
    environment_variable, home, model_directory, pull_options, scratch_folder, setup, store_options,
};
pub use place::{ExecutionPlace, choose_place};
