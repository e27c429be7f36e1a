//! The `reverie` binary: all that a person touches. It alone prints, reads
//! the environment and ends the process.

mod cli;
mod environment;
mod render;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
