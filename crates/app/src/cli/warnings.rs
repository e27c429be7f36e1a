//! `reverie warnings`: what each warning means.

use crate::{
    command::CommandContext,
    failure::CommandFailure,
    render::{self, TableLayout, WarningDocs},
};

/// List every warning, or show one with what it means and what to do.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie warnings
  reverie warnings retrieves-nothing

`plan`, `run`, `leaderboard`, `check` and the report tell warnings with their codes.
In the experiment file, `[warnings] ignore = [\"CODE\", …]` hides some, and
`fail_check = [\"CODE\", …]` lets `reverie check` fail because of them.")]
pub struct WarningsArguments {
    /// A code, such as `long-texts`.
    code: Option<String>,
}

pub async fn run(cx: &CommandContext, arguments: WarningsArguments) -> Result<u8, CommandFailure> {
    let all = render::warning_docs();
    let chosen = match &arguments.code {
        None => all.iter().collect(),
        Some(code) => vec![find_warning(&all, code)?],
    };
    let layout = TableLayout::of_terminal();
    cx.finish(&chosen, |chosen| match (&arguments.code, &chosen[..]) {
        (Some(_), [docs]) => render::warning_kind(docs, &layout),
        _ => render::warning_list(chosen, &layout),
    })
}

fn find_warning<'a>(all: &'a [WarningDocs], code: &str) -> Result<&'a WarningDocs, CommandFailure> {
    let names: Vec<String> = all.iter().map(|docs| docs.code.name()).collect();
    all.iter().find(|docs| docs.code.name() == code).ok_or_else(|| {
        let hint = lab::nearest(code, names.iter().map(String::as_str));
        let hint =
            hint.map_or_else(|| format!("there are {}", names.join(", ")), |word| format!("did you mean `{word}`?"));
        CommandFailure::usage(format!("there is no warning `{code}`; {hint}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_found_by_its_code_and_a_misspelt_one_is_suggested() {
        let all = render::warning_docs();
        for docs in &all {
            assert_eq!(find_warning(&all, &docs.code.name()).map(|found| found.code).ok(), Some(docs.code));
        }
        let message = |code: &str| find_warning(&all, code).map(|_| ()).unwrap_err().message;
        assert_eq!(message("long-text"), "there is no warning `long-text`; did you mean `long-texts`?");
        assert!(message("zebra").contains("there are retrieves-nothing, lost-evidence"), "{}", message("zebra"));
    }
}
