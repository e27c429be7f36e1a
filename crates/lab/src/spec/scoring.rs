//! The settings for scoring another system's answers: the `[models]` and
//! `[evaluate]` of a file, settings of the command line that replace them, or
//! the command line alone.

use super::{
    EvaluateSpec, LocalEngineSpec, SpecError, budget, engine, evaluate,
    reader::ExperimentReader,
    resolve::{SECTIONS, check_model, read_models},
    table::{key_start, optional, unknown_keys, without_positions},
};
use eval::MetricConfig;
use models::{ModelConfig, ModelKind};
use std::{collections::BTreeMap, path::PathBuf};
use toml::de::DeTable;

/// Settings that replace those of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoringChoice {
    /// Metrics by name, with their default settings.
    pub metrics: Vec<String>,
    /// Judges: models of the file, else chat models of the catalogue.
    pub judges: Vec<String>,
    /// The embedder: a model of the file, else one of the catalogue.
    pub embedder: Option<String>,
}

/// The words of messages: the names of the settings, and the advice if one is missing.
struct ScoringWords {
    metric: &'static str,
    /// Advice where a metric needs settings.
    settings: &'static str,
    judge: &'static str,
    embedder: &'static str,
    no_metric: &'static str,
    no_judge: &'static str,
    no_embedder: &'static str,
}

const COMMAND_LINE: ScoringWords = ScoringWords {
    metric: "--metric",
    settings: "write it under [evaluate] of a file",
    judge: "--judge",
    embedder: "--embedder",
    no_metric: "nothing to score by: give `--metric NAME`, or `--experiment FILE` with `metrics` under [evaluate]",
    no_judge: "give `--judge MODEL`, or `judge` under [evaluate] of a file with [models]",
    no_embedder: "give `--embedder MODEL`, or `embedder` under [evaluate] of a file with [models]",
};

/// `serve --score NAME`.
const SERVICE: ScoringWords = ScoringWords { metric: "--score", ..COMMAND_LINE };

const PROGRAM: ScoringWords = ScoringWords {
    metric: "metrics",
    settings: "give its settings too",
    judge: "judge",
    embedder: "embedder",
    no_metric: "metrics: nothing to score by: name at least one",
    no_judge: "give `judge`, the name of one of `models` or of a chat model of the catalogue",
    no_embedder: "give `embedder`, the name of one of `models` or of an embedding model of the catalogue",
};

/// The settings for scoring answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoringSpec {
    /// The folder that relative paths start from.
    pub base: PathBuf,
    /// The folder of the journal, relative to `base`.
    pub store: String,
    /// Models by name.
    pub models: BTreeMap<String, ModelConfig>,
    /// The metrics and judges. There is no objective: nothing is chosen.
    pub evaluate: EvaluateSpec,
    /// Cores, and rows in flight.
    pub engine: LocalEngineSpec,
}

impl ScoringSpec {
    /// Reads and checks a file's text, which may be empty.
    ///
    /// # Errors
    /// All mistakes, in the order of the file.
    pub fn parse(text: &str, base: impl Into<PathBuf>, choice: &ScoringChoice) -> Result<Self, Vec<SpecError>> {
        Self::read(text, base.into(), choice, &COMMAND_LINE)
    }

    /// The same for a service, whose metrics are those of `--score`.
    ///
    /// # Errors
    /// All mistakes, in the order of the text.
    pub(crate) fn of_service(
        text: &str,
        base: impl Into<PathBuf>,
        choice: &ScoringChoice,
    ) -> Result<Self, Vec<SpecError>> {
        Self::read(text, base.into(), choice, &SERVICE)
    }

    /// The same for a program, which has no command line: mistakes name
    /// parameters instead of flags.
    ///
    /// # Errors
    /// All mistakes, in the order of the text.
    pub fn of_program(text: &str, base: impl Into<PathBuf>, choice: &ScoringChoice) -> Result<Self, Vec<SpecError>> {
        Self::read(text, base.into(), choice, &PROGRAM)
    }

    fn read(text: &str, base: PathBuf, choice: &ScoringChoice, words: &ScoringWords) -> Result<Self, Vec<SpecError>> {
        let mut reader = ExperimentReader::new(text);
        let Some(root) = reader.parse() else { return Err(reader.finish()) };
        unknown_keys(&mut reader, &root, SECTIONS, "the file");
        let mut models = read_models(&mut reader, &root);
        let empty = DeTable::new();
        let table = evaluate::section(&mut reader, &root).unwrap_or(&empty);
        unknown_keys(&mut reader, table, evaluate::KEYS, "evaluate");
        let mut references = Vec::new();
        let judges = match &choice.judges[..] {
            [] => evaluate::read_judges(&mut reader, table, &mut references),
            chosen => chosen.to_vec(),
        };
        let embedder = match &choice.embedder {
            None => evaluate::read_embedder(&mut reader, table, &mut references),
            chosen => chosen.clone(),
        };
        for (names, kind, setting) in [
            (&choice.judges[..], ModelKind::Chat, words.judge),
            (choice.embedder.as_slice(), ModelKind::Embedding, words.embedder),
        ] {
            for name in names {
                models.entry(name.clone()).or_insert_with(|| ModelConfig::local_default(kind, name));
                references.push(((name.clone(), 0), kind, setting));
            }
        }
        for (i, judge) in choice.judges.iter().enumerate() {
            if choice.judges[..i].contains(judge) {
                reader.error(0, format!("{}: `{judge}` is listed twice: it would have two votes", words.judge));
            }
        }
        for ((model, at), kind, place) in references {
            check_model(&mut reader, &models, &model, at, kind, place);
        }
        let metrics = if choice.metrics.is_empty() {
            evaluate::read_metrics(&mut reader, table, &base)
        } else {
            metrics_by_name(&mut reader, &choice.metrics, words)
        };
        if metrics.is_empty() && reader.is_clean() {
            reader.error(key_start(&root, "evaluate"), words.no_metric);
        }
        for (metric, at) in &metrics {
            let (label, needs) = (metric.label(), metric.needs());
            if needs.judge && judges.is_empty() {
                reader.error(*at, format!("`{label}` needs a judge: {}", words.no_judge));
            }
            if needs.embedder && embedder.is_none() {
                reader.error(*at, format!("`{label}` needs an embedder: {}", words.no_embedder));
            }
        }
        let store = optional::<String>(&mut reader, &root, "store").unwrap_or_else(|| "./.reverie".to_owned());
        let engine = engine::read(&mut reader, &root).local;
        let budget = budget::read(&mut reader, table);
        if !reader.is_clean() {
            return Err(reader.finish());
        }
        let models = models.into_iter().filter_map(|(name, config)| Some((name, config?))).collect();
        let (answered, judged, objective) = (None, None, Vec::new());
        let evaluate =
            EvaluateSpec { metrics: without_positions(metrics), judges, embedder, answered, judged, objective, budget };
        Ok(Self { base, store, models, evaluate, engine })
    }
}

fn metrics_by_name(
    reader: &mut ExperimentReader<'_>,
    names: &[String],
    words: &ScoringWords,
) -> Vec<(MetricConfig, usize)> {
    let mut metrics = Vec::new();
    for (i, name) in names.iter().enumerate() {
        match MetricConfig::with_defaults(name) {
            _ if names[..i].contains(name) => reader.error(0, format!("{}: `{name}` is listed twice", words.metric)),
            Some(metric) => match metric.check() {
                Ok(()) => metrics.push((metric, 0)),
                Err(error) => reader.error(0, format!("{}: {error}; {}", words.metric, words.settings)),
            },
            None => {
                let hint = super::nearest(name, MetricConfig::NAMES.iter().copied())
                    .map(|word| format!("did you mean `{word}`?"))
                    .unwrap_or_else(|| format!("there are {}", MetricConfig::NAMES.join(", ")));
                reader.error(0, format!("{}: there is no metric `{name}`; {hint}", words.metric));
            }
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, metrics: &[&str], judges: &[&str]) -> Result<ScoringSpec, String> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let choice = ScoringChoice { metrics: names(metrics), judges: names(judges), embedder: None };
        let all = |errors: Vec<SpecError>| errors.into_iter().map(|error| error.message).collect::<Vec<_>>().join("\n");
        ScoringSpec::parse(text, ".", &choice).map_err(all)
    }

    const FILE: &str = "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://h/v1\" }\n[evaluate]\nmetrics = [\"faithfulness\", \"recall\"]\njudge = \"gpt\"\nobjective = [\"recall\"]\nbudget = { usd = 1.0 }\n";

    #[test]
    fn an_experiment_file_is_read_as_it_is_and_the_command_line_goes_first() {
        let labels = |spec: &ScoringSpec| spec.evaluate.metrics.iter().map(MetricConfig::label).collect::<Vec<_>>();
        let spec = parse(FILE, &[], &[]).expect("a spec");
        assert_eq!(
            (labels(&spec), &spec.evaluate.judges),
            (vec!["faithfulness".into(), "recall".into()], &vec!["gpt".into()])
        );
        assert_eq!(spec.evaluate.budget.usd, Some(1.0));
        let spec = parse(FILE, &["context_precision"], &["qwen"]).expect("a spec");
        assert_eq!((labels(&spec), &spec.evaluate.judges), (vec!["context_precision".into()], &vec!["qwen".into()]));
        assert_eq!(spec.models["qwen"].kind(), ModelKind::Chat);
        assert!(parse("", &["token_f1"], &[]).is_ok(), "no file is needed");
    }

    #[test]
    fn a_program_is_told_of_parameters_and_not_of_flags() {
        let text = "[evaluate]\nmetrics = [\"faithfulness\", \"answer_similarity\"]\n";
        let errors = ScoringSpec::of_program(text, ".", &ScoringChoice::default()).expect_err("neither model is named");
        let messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        assert!(messages.iter().any(|message| message.contains("give `judge`")), "{messages:?}");
        assert!(messages.iter().any(|message| message.contains("give `embedder`")), "{messages:?}");
        assert!(!messages.iter().any(|message| message.contains("--")), "{messages:?}");
    }

    #[test]
    fn what_cannot_be_scored_by_is_refused_with_what_to_do() {
        for (metrics, judges, part) in [
            (&[][..], &[][..], "give `--metric NAME`"),
            (&["faithfulness"], &[], "give `--judge MODEL`"),
            (&["answer_similarity"], &[], "give `--embedder MODEL`"),
            (&["faithfullness"], &["a"], "did you mean `faithfulness`?"),
            (&["token_f1", "token_f1"], &[], "listed twice"),
            (&["criteria"], &["a"], "write it under [evaluate]"),
            (&["faithfulness"], &["a", "a"], "two votes"),
        ] {
            let error = parse("", metrics, judges).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
