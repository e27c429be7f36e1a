//! `[evaluate]`: the metrics, their judges, and the objective.

use super::{
    EvaluateSpec, budget, nearest,
    reader::ExperimentReader,
    table::{NamedModel, key_start, optional, read_list, unknown_keys, without_positions},
};
use crate::action::Action;
use eval::{MetricConfig, metric::ObjectiveRole};
use models::ModelKind;
use serde::Deserialize;
use std::path::Path;
use store::registry::SettingsFileError;
use toml::de::DeTable;

pub(super) const KEYS: &[&str] = &["metrics", "judge", "embedder", "answered", "judged", "objective", "budget"];

/// The other parts of the experiment that the section is checked against.
pub(super) struct EvaluateContext<'a> {
    /// Whether there are answers to score: of a generator, or of a system.
    pub(super) writes_answers: bool,
    /// The folder that relative paths of the metrics' files start from.
    pub(super) base: &'a Path,
}

/// One judge, or several of which the majority decides.
#[derive(Deserialize)]
#[serde(untagged)]
enum JudgeNames {
    One(String),
    Several(Vec<String>),
}

pub(super) fn read<'a>(
    reader: &mut ExperimentReader<'a>,
    root: &DeTable<'a>,
    context: &EvaluateContext<'_>,
    references: &mut Vec<(NamedModel, ModelKind, &'static str)>,
) -> EvaluateSpec {
    let empty = DeTable::new();
    let table = section(reader, root).unwrap_or(&empty);
    unknown_keys(reader, table, KEYS, "evaluate");
    let judges = read_judges(reader, table, references);
    let embedder = read_embedder(reader, table, references);
    let mut metrics = read_metrics(reader, table, context.base);
    if table.get("metrics").is_none() {
        metrics.extend(MetricConfig::default_metrics().map(|metric| (metric, 0)));
    }
    for (metric, at) in &metrics {
        let (name, needs) = (metric.label(), metric.needs());
        for (missing, message) in [
            (needs.judge && judges.is_empty(), "needs a judge: add `judge = \"MODEL\"` under [evaluate]"),
            (needs.embedder && embedder.is_none(), "needs an embedder: add `embedder = \"MODEL\"` under [evaluate]"),
            (needs.answer && !context.writes_answers, "scores answers, but [space] has no `generator`"),
            (
                needs.columns,
                &*format!("wants `columns`, which only rows of your own answers have: see {}", Action::Score),
            ),
        ] {
            if missing {
                reader.error(*at, format!("evaluate.metrics: `{name}` {message}"));
            }
        }
    }
    let metrics = without_positions(metrics);
    let objective = read_objective(reader, table, &metrics);
    let answered: Option<usize> = optional(reader, table, "answered");
    if answered == Some(0) {
        reader.error(
            key_start(table, "answered"),
            "evaluate.answered: must be at least 1; leave it out to answer all questions",
        );
    }
    let (judged, budget) = (optional(reader, table, "judged"), budget::read(reader, table));
    EvaluateSpec { metrics, judges, embedder, answered, judged, objective, budget }
}

/// The section, if the file has one.
pub(super) fn section<'b, 'a>(reader: &mut ExperimentReader<'a>, root: &'b DeTable<'a>) -> Option<&'b DeTable<'a>> {
    let value = root.get("evaluate")?;
    let table = value.get_ref().as_table();
    if table.is_none() {
        reader.error(value.span().start, "evaluate: expected a table");
    }
    table
}

/// `judge`: a model, or a list of models.
pub(super) fn read_judges<'a>(
    reader: &mut ExperimentReader<'a>,
    table: &DeTable<'a>,
    references: &mut Vec<(NamedModel, ModelKind, &'static str)>,
) -> Vec<String> {
    let at = key_start(table, "judge");
    let judges = match table.get("judge").map(|value| (value, value.get_ref().is_str() || value.get_ref().is_array())) {
        None => Vec::new(),
        Some((value, true)) => match reader.read::<JudgeNames>(value, "evaluate.judge") {
            Some(JudgeNames::One(judge)) => vec![judge],
            Some(JudgeNames::Several(judges)) => judges,
            None => Vec::new(),
        },
        Some((_, false)) => {
            reader.error(at, "evaluate.judge: expected the name of a model, or a list of names");
            Vec::new()
        }
    };
    for (i, judge) in judges.iter().enumerate() {
        if judges[..i].contains(judge) {
            reader.error(at, format!("evaluate.judge: `{judge}` is listed twice: it would have two votes"));
        }
        references.push(((judge.clone(), at), ModelKind::Chat, "evaluate.judge"));
    }
    judges
}

/// `embedder`: a model.
pub(super) fn read_embedder<'a>(
    reader: &mut ExperimentReader<'a>,
    table: &DeTable<'a>,
    references: &mut Vec<(NamedModel, ModelKind, &'static str)>,
) -> Option<String> {
    let embedder: Option<String> = optional(reader, table, "embedder");
    if let Some(model) = &embedder {
        references.push(((model.clone(), key_start(table, "embedder")), ModelKind::Embedding, "evaluate.embedder"));
    }
    embedder
}

/// The folder of an experiment that may read no files. No file has this name.
pub(crate) const SEALED: &str = "\0";

/// Reads a file that the settings name.
pub(super) fn read_file(base: &Path, path: &str) -> Result<String, SettingsFileError> {
    if base == Path::new(SEALED) {
        return Err(SettingsFileError::NotInBundle(path.to_owned()));
    }
    let path = base.join(path);
    let text = store::open_regular(&path).and_then(std::io::read_to_string);
    text.map_err(|source| SettingsFileError::Unreadable { path: path.display().to_string(), source })
}

/// `metrics`, with the contents of their files; each is checked, and no label may occur twice.
pub(super) fn read_metrics<'a>(
    reader: &mut ExperimentReader<'a>,
    table: &DeTable<'a>,
    base: &Path,
) -> Vec<(MetricConfig, usize)> {
    let mut metrics: Vec<(MetricConfig, usize)> =
        read_list(reader, ("evaluate", table), "metrics", true, "nothing would be scored");
    let read = |path: &str| read_file(base, path);
    let mut labels: Vec<String> = Vec::new();
    for (metric, at) in &mut metrics {
        if let Err(error) = metric.load(&read).and_then(|()| metric.check()) {
            reader.error(*at, format!("evaluate.metrics: {error}"));
        }
        let label = metric.label();
        if labels.contains(&label) {
            let how = if metric.can_be_named() { "; give each a `name` of its own" } else { "" };
            reader.error(*at, format!("evaluate.metrics: `{label}` is listed twice{how}"));
        }
        labels.push(label);
    }
    metrics
}

fn read_objective<'a>(reader: &mut ExperimentReader<'a>, table: &DeTable<'a>, metrics: &[MetricConfig]) -> Vec<String> {
    let objective: Vec<String> = match optional(reader, table, "objective") {
        Some(objective) => objective,
        None => default_objective(metrics),
    };
    let at = key_start(table, "objective");
    let labels: Vec<String> = metrics.iter().map(MetricConfig::label).collect();
    for name in &objective {
        if !metrics.iter().any(|metric| metric.label() == *name) {
            let hint = nearest(name, labels.iter().map(String::as_str)).map(|word| format!("did you mean `{word}`?"));
            let hint = hint.unwrap_or_else(|| "add it to `metrics`".to_owned());
            reader.error(at, format!("evaluate.objective: `{name}` is not among the metrics; {hint}"));
        }
    }
    if objective.is_empty() && table.get("objective").is_some() {
        reader.error(at, "evaluate.objective: the list is empty, so nothing would choose a winner");
    }
    objective
}

/// The default objective, for retrieval metrics and for answer metrics apart: the preferred metrics
/// whose label is only their name (not such as `recall@1000t`), else all preferred ones, else all that need no
/// judge and are not excluded. A judged metric chooses only if `objective` names it.
fn default_objective(metrics: &[MetricConfig]) -> Vec<String> {
    let of_kind = |answers: bool| -> Vec<String> {
        let has_role = |metric: &MetricConfig, role| metric.objective_role() == role;
        let can_choose = |metric: &&MetricConfig| {
            metric.needs().answer == answers && !metric.needs_judge() && !has_role(metric, ObjectiveRole::Excluded)
        };
        let all: Vec<&MetricConfig> = metrics.iter().filter(can_choose).collect();
        let labels = |is: &dyn Fn(&MetricConfig) -> bool| -> Vec<String> {
            all.iter().filter(|metric| is(metric)).map(|metric| metric.label()).collect()
        };
        let is_preferred = |metric: &MetricConfig| has_role(metric, ObjectiveRole::Preferred);
        let plain = labels(&|metric| is_preferred(metric) && metric.label() == metric.name());
        [plain, labels(&is_preferred), labels(&|_| true)]
            .into_iter()
            .find(|chosen| !chosen.is_empty())
            .unwrap_or_default()
    };
    [of_kind(false), of_kind(true)].concat()
}

#[cfg(test)]
mod tests {
    use crate::{EvaluateSpec, Experiment};

    fn parse_in(base: &std::path::Path, evaluate: &str) -> Result<EvaluateSpec, String> {
        let models = ["a", "b", "c"].map(|name| {
            format!("[models.{name}]\nchat.openai = {{ model = \"{name}\", base_url = \"http://h/v1\" }}\n")
        });
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g\"\n{}[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\ngenerator = [{{ compact = {{ model = \"a\" }} }}]\n[evaluate]\n{evaluate}\n",
            models.concat()
        );
        let parsed = Experiment::parse(&text, base);
        let all = |errors: Vec<crate::SpecError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        parsed.map(|experiment| experiment.evaluate).map_err(all)
    }

    fn parse(evaluate: &str) -> Result<EvaluateSpec, String> {
        parse_in(".".as_ref(), evaluate)
    }

    #[test]
    fn there_may_be_one_judge_or_several() {
        let judges =
            |judge: &str| parse(&format!("metrics = [\"faithfulness\"]\njudge = {judge}")).map(|spec| spec.judges);
        assert_eq!(judges("\"a\""), Ok(vec!["a".to_owned()]));
        assert_eq!(judges("[\"a\", \"b\", \"c\"]").map(|judges| judges.len()), Ok(3));
        for (wrong, part) in [
            ("[\"a\", \"a\"]", "`a` is listed twice"),
            ("[\"a\", \"d\"]", "there is no model `d`"),
            ("[]", "needs a judge"),
            ("3", "expected the name of a model, or a list of names"),
        ] {
            let error = judges(wrong).expect_err(wrong);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_metrics_of_ones_own_are_told_apart_by_their_names() {
        let criteria = |first: &str, second: &str| {
            parse(&format!(
                "judge = \"a\"\nmetrics = [{{ criteria = {{ {first}criterion = \"Short.\" }} }}, {{ criteria = {{ {second}criterion = \"Kind.\" }} }}]"
            ))
        };
        assert!(criteria("name = \"short\", ", "name = \"kind\", ").is_ok());
        let error = criteria("", "").expect_err("two of one name");
        assert!(error.contains("`criteria` is listed twice; give each a `name` of its own"), "{error}");
        let error = parse("judge = \"a\"\nmetrics = [\"criteria\"]").expect_err("no criterion");
        assert!(error.contains("metric criteria"), "{error}");
    }

    #[test]
    fn what_a_prompt_file_holds_is_part_of_the_metric() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tone.txt"), "Is {answer} polite?").expect("a file");
        let metric = |file: &str| {
            parse_in(
                folder.path(),
                &format!("judge = \"a\"\nmetrics = [{{ prompt = {{ name = \"tone\", file = \"{file}\" }} }}]"),
            )
        };
        let read = metric("tone.txt").expect("a metric").metrics;
        let json = serde_json::to_string(&read).expect("json");
        assert!(json.contains("Is {answer} polite?") && !json.contains("tone.txt"), "{json}");
        assert_eq!(read[0].label(), "tone");
        let error = metric("no.txt").expect_err("no file");
        assert!(error.contains("no.txt cannot be read"), "{error}");
    }

    #[test]
    fn a_cost_chooses_no_trial_and_a_metric_at_a_limit_of_context_does() {
        let objective = |metrics: &str| parse(&format!("metrics = {metrics}")).expect(metrics).objective;
        assert_eq!(objective("[\"recall\", \"context_tokens\"]"), ["recall"]);
        assert_eq!(objective("[\"ndcg\", { ndcg = { at_context_tokens = 1000 } }]"), ["ndcg"]);
        let at_limit = "[\"recall\", { ndcg = { at_context_tokens = 1000 } }]";
        assert_eq!(objective(at_limit), ["ndcg@1000t"]);
        let named =
            parse("metrics = [\"recall\", { recall = { at_context_tokens = 1000 } }]\nobjective = [\"recall@1000t\"]");
        assert_eq!(named.expect("an objective").objective, ["recall@1000t"]);
    }
}
