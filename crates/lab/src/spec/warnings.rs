//! `[warnings]`: which warnings are hidden, and which fail a check.

use crate::warning::WarningCode;
use serde::{Deserialize, Serialize};

/// What happens with warnings. By default all are shown, and none fails a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WarningSpec {
    /// The codes of warnings that are hidden.
    pub ignore: Vec<WarningCode>,
    /// The codes of warnings that fail a check against a bundle, if they concern the trial that is checked. Other
    /// warnings are only shown by the check.
    pub fail_check: Vec<WarningCode>,
}

impl WarningSpec {
    /// Contradictions in these settings.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let both = self.fail_check.iter().filter(|code| self.ignore.contains(code));
        let mistake = |code: &WarningCode| {
            format!(
                "warnings: `{}` is in `ignore` and in `fail_check`, and a warning that is not told fails no check: \
                 remove it from one of them",
                code.name()
            )
        };
        both.map(mistake).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    fn parse(warnings: &str) -> Result<WarningSpec, Vec<String>> {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n{warnings}"
        );
        let parsed = Experiment::parse(&text, ".").map(|experiment| {
            let again = Experiment::parse(&experiment.text_without_secrets(), ".").unwrap();
            assert_eq!(again.warnings, experiment.warnings, "it stays in the resolved experiment");
            experiment.warnings
        });
        parsed.map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn codes_are_read_and_nothing_is_ignored_by_default() {
        assert_eq!(parse(""), Ok(WarningSpec::default()));
        assert_eq!(parse("[warnings]\n"), Ok(WarningSpec::default()));
        let given = "[warnings]\nignore = [\"unread-types\", \"equal-trials\"]\nfail_check = [\"retrieves-nothing\"]\n";
        let expected = WarningSpec {
            ignore: vec![WarningCode::UnreadTypes, WarningCode::EqualTrials],
            fail_check: vec![WarningCode::RetrievesNothing],
        };
        assert_eq!(parse(given), Ok(expected));
    }

    #[test]
    fn a_warning_that_is_ignored_cannot_fail_a_check() {
        let given = "[warnings]\nignore = [\"unread-types\"]\nfail_check = [\"long-texts\", \"unread-types\"]\n";
        let errors = parse(given).unwrap_err();
        assert!(
            errors.len() == 1 && errors[0].contains("`unread-types` is in `ignore` and in `fail_check`"),
            "{errors:?}"
        );
    }

    #[test]
    fn an_unknown_code_is_a_mistake_with_the_code_that_was_meant() {
        for (given, parts) in [
            ("ignore = [\"unread-type\"]", ["warnings: unknown variant `unread-type`", "did you mean `unread-types`?"]),
            ("fail_check = [\"retrieves_nothing\"]", ["`retrieves_nothing`", "did you mean `retrieves-nothing`?"]),
            ("ignored = []", ["unknown field `ignored`", "did you mean `ignore`?"]),
            ("ignore = \"unread-types\"", ["warnings: ", "expected a list"]),
        ] {
            let errors = parse(&format!("[warnings]\n{given}\n")).unwrap_err();
            assert!(errors.len() == 1 && parts.iter().all(|part| errors[0].contains(part)), "{given}: {errors:?}");
        }
        let two = parse("[warnings]\nignore = [\"a\", \"b\"]\n").unwrap_err();
        assert_eq!(two.len(), 2, "each mistake is told: {two:?}");
    }
}
