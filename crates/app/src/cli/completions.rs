//! `reverie completions`: words that a shell completes.

use super::{Context, Failure};
use clap_complete::{Shell, generate};

/// Print a script that lets a shell complete verbs and options.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie completions bash > ~/.local/share/bash-completion/completions/reverie
  reverie completions zsh > ~/.zfunc/_reverie              # a folder of $fpath
  reverie completions fish > ~/.config/fish/completions/reverie.fish")]
pub struct Arguments {
    /// The shell.
    shell: Supported,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Supported {
    Bash,
    Zsh,
    Fish,
}

pub async fn run(cx: &Context, arguments: Arguments) -> Result<u8, Failure> {
    let shell = match arguments.shell {
        Supported::Bash => Shell::Bash,
        Supported::Zsh => Shell::Zsh,
        Supported::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut super::command(), "reverie", &mut script);
    cx.print(String::from_utf8_lossy(&script).trim_end());
    Ok(0)
}
