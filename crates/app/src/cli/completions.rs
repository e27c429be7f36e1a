//! `reverie completions`: scripts for shell completion.

use crate::{command::CommandContext, failure::CommandFailure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::{Shell, generate};

/// Print a script that lets a shell complete verbs and options.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie completions bash > ~/.local/share/bash-completion/completions/reverie
  reverie completions zsh > ~/.zfunc/_reverie              # a folder of $fpath
  reverie completions fish > ~/.config/fish/completions/reverie.fish")]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_parser = PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>()))]
    shell: Shell,
}

pub async fn run(cx: &CommandContext, arguments: CompletionsArguments) -> Result<u8, CommandFailure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut (cx.command_line)(), "reverie", &mut script);
    cx.print(String::from_utf8_lossy(&script).trim_end());
    Ok(0)
}
