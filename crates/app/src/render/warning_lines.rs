//! Warnings as lines of text, for `plan`, `run`, `leaderboard` and `check`.

use super::{count, visible_line};
use lab::{Warning, WarningCode};

/// The most warnings of one code that are shown.
const SHOWN: usize = 3;

/// One line for each warning, but at most three for each code, then the command that explains them. Empty if there
/// are no warnings.
pub fn warning_lines(warnings: &[Warning]) -> Vec<String> {
    let mut lines = Vec::new();
    for code in WarningCode::ALL {
        let of_code: Vec<&Warning> = warnings.iter().filter(|warning| warning.code == *code).collect();
        let shown = of_code.iter().take(SHOWN);
        lines.extend(shown.map(|warning| format!("warning: {} [{}]", visible_line(&warning.text), code.name())));
        if of_code.len() > SHOWN {
            let more = count(of_code.len() - SHOWN);
            lines.push(format!("warning: and {more} more [{}]: --json lists them all", code.name()));
        }
    }
    if !lines.is_empty() {
        lines.push("what a warning means and what to do: `reverie warnings CODE`".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(code: WarningCode, text: &str) -> Warning {
        Warning { code, trials: Vec::new(), text: text.to_owned(), count: None, total: None, action: String::new() }
    }

    #[test]
    fn a_few_warnings_of_each_code_are_shown_and_the_others_counted() {
        let mut warnings: Vec<Warning> =
            (1..=5).map(|n| warning(WarningCode::EqualTrials, &format!("pair {n}"))).collect();
        warnings.push(warning(WarningCode::RetrievesNothing, "two\nlines"));
        assert_eq!(
            warning_lines(&warnings),
            [
                "warning: two\\nlines [retrieves-nothing]",
                "warning: pair 1 [equal-trials]",
                "warning: pair 2 [equal-trials]",
                "warning: pair 3 [equal-trials]",
                "warning: and 2 more [equal-trials]: --json lists them all",
                "what a warning means and what to do: `reverie warnings CODE`",
            ]
        );
        assert!(warning_lines(&[]).is_empty());
    }
}
