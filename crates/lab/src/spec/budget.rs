//! Reads `budget` under `[evaluate]`.

use super::reader::ExperimentReader;
use models::Caps;
use toml::de::DeTable;

pub(super) fn read<'a>(reader: &mut ExperimentReader<'a>, evaluate: &DeTable<'a>) -> Caps {
    let Some(value) = evaluate.get("budget") else { return Caps::default() };
    let caps: Caps = reader.read(value, "evaluate.budget").unwrap_or_default();
    let wrong = [
        (caps.usd.is_some_and(|usd| !usd.is_finite() || usd < 0.0), "`usd` must not be below 0"),
        (caps.minutes.is_some_and(|minutes| !minutes.is_finite() || minutes <= 0.0), "`minutes` must be above 0"),
        (caps.tokens == Some(0), "`tokens` must be at least 1"),
        (caps.calls == Some(0), "`calls` must be at least 1"),
    ];
    for (_, message) in wrong.into_iter().filter(|(wrong, _)| *wrong) {
        reader.error(value.span().start, format!("evaluate.budget: {message}; leave it out for no limit"));
    }
    caps
}

#[cfg(test)]
mod tests {
    use crate::Experiment;
    use models::Caps;

    fn parse(budget: &str) -> Result<Caps, String> {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n[evaluate]\nbudget = {budget}\n"
        );
        let parsed = Experiment::parse(&text, ".");
        parsed.map(|experiment| experiment.evaluate.budget).map_err(|errors| errors[0].to_string())
    }

    #[test]
    fn any_of_the_caps_may_be_given() {
        let all = Caps { usd: Some(5.0), tokens: Some(1_000_000), calls: Some(9), minutes: Some(2.5) };
        assert_eq!(parse("{ usd = 5, tokens = 1_000_000, calls = 9, minutes = 2.5 }"), Ok(all));
        assert_eq!(parse("{ usd = 0.5 }"), Ok(Caps { usd: Some(0.5), ..Caps::default() }));
        assert_eq!(parse("{}"), Ok(Caps::default()));
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
        ] {
            let error = parse(budget).expect_err(budget);
            assert!(error.contains(part), "{error}");
        }
    }
}
