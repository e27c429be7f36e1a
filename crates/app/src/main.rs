//! The `reverie` binary: all that a person touches. It alone prints, reads
//! the environment and ends the process.

#![expect(unreachable_pub, reason = "in a binary, `pub` marks what a module offers to the others")]

mod cli;
mod environment;
mod render;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
