//! `budget` under `[evaluate]`: what one run may cost, and what all starts together may cost.

use super::reader::ExperimentReader;
use models::{Caps, TotalCaps};
use serde::{Deserialize, Serialize};
use toml::de::DeTable;

/// What one run may cost, and what all starts of the experiment together may cost; a cap that is not given does not
/// limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSpec {
    /// US dollars, by the configured prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls, including retries, but without attempts that were refused because
    /// of a rate limit: these are not paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Minutes since the start, by the clock on the wall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<f64>,
    /// Caps over all starts: everything that was paid under the name of this experiment in this store since its first
    /// start, by all commands and on all machines that share the store. Golden questions, answers, judges and systems
    /// count; `query` and `serve` do not.
    #[serde(skip_serializing_if = "TotalCaps::is_empty")]
    pub total: TotalCaps,
}

impl BudgetSpec {
    /// The caps of one run.
    pub fn run(&self) -> Caps {
        let Self { usd, tokens, calls, minutes, .. } = *self;
        Caps { usd, tokens, calls, minutes }
    }
}

impl From<Caps> for BudgetSpec {
    fn from(Caps { usd, tokens, calls, minutes }: Caps) -> Self {
        Self { usd, tokens, calls, minutes, total: TotalCaps::default() }
    }
}

pub(super) fn read<'a>(reader: &mut ExperimentReader<'a>, evaluate: &DeTable<'a>) -> BudgetSpec {
    let Some(value) = evaluate.get("budget") else { return BudgetSpec::default() };
    let budget: BudgetSpec = reader.read(value, "evaluate.budget").unwrap_or_default();
    let is_no_amount = |usd: f64| !usd.is_finite() || usd < 0.0;
    let total = budget.total;
    let wrong = [
        (budget.usd.is_some_and(is_no_amount), "budget", "`usd` must not be below 0"),
        (
            budget.minutes.is_some_and(|minutes| !minutes.is_finite() || minutes <= 0.0),
            "budget",
            "`minutes` must be above 0",
        ),
        (budget.tokens == Some(0), "budget", "`tokens` must be at least 1"),
        (budget.calls == Some(0), "budget", "`calls` must be at least 1"),
        (total.usd.is_some_and(is_no_amount), "budget.total", "`usd` must not be below 0"),
        (total.tokens == Some(0), "budget.total", "`tokens` must be at least 1"),
        (total.calls == Some(0), "budget.total", "`calls` must be at least 1"),
    ];
    for (_, key, message) in wrong.into_iter().filter(|(wrong, ..)| *wrong) {
        reader.error(value.span().start, format!("evaluate.{key}: {message}; leave it out for no limit"));
    }
    let larger = [
        ("usd", budget.usd.zip(total.usd).is_some_and(|(run, total)| run > total)),
        ("tokens", budget.tokens.zip(total.tokens).is_some_and(|(run, total)| run > total)),
        ("calls", budget.calls.zip(total.calls).is_some_and(|(run, total)| run > total)),
    ];
    for (cap, _) in larger.into_iter().filter(|(_, is_larger)| *is_larger) {
        let message = format!(
            "evaluate.budget: `{cap}` of one run is more than `total.{cap}` of all starts, so it would never be reached: \
             lower it, leave it out, or raise `total.{cap}`"
        );
        reader.error(value.span().start, message);
    }
    budget
}

#[cfg(test)]
mod tests {
    use super::BudgetSpec;
    use crate::Experiment;
    use models::{Caps, TotalCaps};

    fn parse(budget: &str) -> Result<BudgetSpec, String> {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n[evaluate]\nbudget = {budget}\n"
        );
        let parsed = Experiment::parse(&text, ".");
        parsed.map(|experiment| experiment.evaluate.budget).map_err(|errors| errors[0].to_string())
    }

    #[test]
    fn any_of_the_caps_may_be_given() {
        let all = Caps { usd: Some(5.0), tokens: Some(1_000_000), calls: Some(9), minutes: Some(2.5) };
        assert_eq!(parse("{ usd = 5, tokens = 1_000_000, calls = 9, minutes = 2.5 }"), Ok(all.into()));
        assert_eq!(parse("{ usd = 0.5 }"), Ok(Caps { usd: Some(0.5), ..Caps::default() }.into()));
        assert_eq!(parse("{}"), Ok(BudgetSpec::default()));
    }

    #[test]
    fn all_starts_together_may_have_caps_with_and_without_caps_of_one_run() {
        let total = TotalCaps { usd: Some(20.0), tokens: Some(9), calls: Some(7) };
        let found = parse("{ usd = 5, total = { usd = 20, tokens = 9, calls = 7 } }");
        assert_eq!(found, Ok(BudgetSpec { usd: Some(5.0), total, ..BudgetSpec::default() }));
        let found = parse("{ total = { usd = 0 } }").map(|budget| (budget.run(), budget.total.usd));
        assert_eq!(found, Ok((Caps::default(), Some(0.0))));
    }

    #[test]
    fn caps_that_cannot_be_meant_are_refused() {
        for (budget, part) in [
            ("{ usd = -1 }", "`usd` must not be below 0"),
            ("{ usd = nan }", "`usd` must not be below 0"),
            ("{ minutes = 0 }", "`minutes` must be above 0"),
            ("{ calls = 0 }", "`calls` must be at least 1"),
            ("{ tokens = -5 }", "evaluate.budget"),
            ("{ dollars = 5 }", "unknown field `dollars`"),
            ("5", "evaluate.budget"),
            ("{ total = { usd = -1 } }", "evaluate.budget.total: `usd` must not be below 0"),
            ("{ total = { calls = 0 } }", "evaluate.budget.total: `calls` must be at least 1"),
            ("{ total = { minutes = 5 } }", "unknown field `minutes`"),
            ("{ total = 20 }", "evaluate.budget"),
            ("{ usd = 30, total = { usd = 20 } }", "`usd` of one run is more than `total.usd` of all starts"),
        ] {
            let error = parse(budget).expect_err(budget);
            assert!(error.contains(part), "{error}");
            assert!(error.starts_with("10:"), "the line is named: {error}");
        }
    }
}
