//! Estimates how long the rest of a plan should take, from how long each component took for its rows or bytes in
//! earlier runs on this machine.

use super::{
    Plan,
    graph::TaskId,
    work::{TimedComponent, Work},
};
use crate::{operator::Operator, spec::Experiment};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use store::KeyBuilder;

/// The estimated time of the tasks that are left to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeEstimate {
    /// Seconds of all tasks; none if a component was never run here.
    pub seconds: Option<f64>,
    /// Seconds of the components that were run here before.
    pub known_seconds: f64,
    /// By component, upstream first.
    pub components: Vec<ComponentTime>,
}

/// The estimated time of one component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentTime {
    /// The operator.
    pub operator: Operator,
    /// What it runs: a component, or a model's name.
    pub component: String,
    /// Tasks that are to run.
    pub tasks: usize,
    /// Seconds in which at least one of the tasks runs; none if the component was never run here.
    pub seconds: Option<f64>,
}

/// Names of the components of tasks. Two names are equal if the component and
/// its models have equal settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Components {
    /// Digests of the models' settings, by name. Secrets are no part of them.
    models: BTreeMap<String, String>,
    /// The names of the judges and of the evaluation's embedder.
    evaluate: Vec<String>,
}

impl Components {
    pub(crate) fn of(experiment: &Experiment) -> Self {
        let root = experiment.comparable();
        let digest = |value: &Value| KeyBuilder::new("model").field("settings", value).finish().short();
        let models = root["models"].as_object().into_iter().flatten();
        let evaluate = &experiment.evaluate;
        Self {
            models: models.map(|(name, settings)| (name.clone(), digest(settings))).collect(),
            evaluate: evaluate.judges.iter().chain(&evaluate.embedder).cloned().collect(),
        }
    }

    /// The name under which the event log keeps the time of a task.
    pub(crate) fn name(&self, work: &Work) -> String {
        let TimedComponent { words, settings, models, uses_judges } = work.describe().timed_component();
        let evaluate = self.evaluate.iter().filter(|_| uses_judges).map(String::as_str);
        let models: Vec<_> = models.into_iter().chain(evaluate).map(|model| self.models.get(model)).collect();
        let digest = KeyBuilder::new("component").field("settings", &settings);
        format!("{words} {}", digest.field("models", &models).finish().short())
    }
}

/// The amount of work, in several units; one of them decides how long the work takes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct WorkAmount {
    pub(crate) tasks: f64,
    pub(crate) rows: f64,
    pub(crate) bytes: f64,
}

impl WorkAmount {
    pub(crate) fn add(&mut self, more: Self) {
        (self.tasks, self.rows, self.bytes) = (self.tasks + more.tasks, self.rows + more.rows, self.bytes + more.bytes);
    }

    /// The amount in the unit of the operator: text if its bytes are known,
    /// questions if the operator handles questions, otherwise tasks.
    fn of(self, operator: Operator, has_bytes: bool) -> f64 {
        match operator {
            Operator::CHUNK | Operator::EMBED if has_bytes => self.bytes,
            Operator::CHUNK | Operator::EMBED | Operator::Load | Operator::Index => self.tasks,
            _ => self.rows,
        }
    }
}

/// The earlier work of a component.
#[derive(Debug, Default)]
pub(crate) struct PastWork {
    pub(crate) amount: WorkAmount,
    /// From when to when each task ran, in seconds since 1970.
    pub(crate) spans: Vec<(f64, f64)>,
}

impl PastWork {
    /// Seconds in which at least one task ran.
    pub(crate) fn seconds(&self) -> f64 {
        let mut spans = self.spans.clone();
        spans.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut sum, mut until) = (0.0, f64::NEG_INFINITY);
        for (from, to) in spans {
            sum += (to - from.max(until)).max(0.0);
            until = until.max(to);
        }
        sum
    }
}

/// The earlier work on this machine, by operator and by the name of its component ([`Components::name`]).
pub(crate) type History = BTreeMap<(Operator, String), PastWork>;

/// How long the tasks that are to run should take. `text_bytes` is the size of all documents.
pub(crate) fn estimate_time(
    plan: &Plan,
    components: &Components,
    text_bytes: usize,
    to_run: &[TaskId],
    history: &History,
) -> TimeEstimate {
    let shards = plan.tasks.iter().filter(|task| task.operator() == Operator::Load).count().max(1);
    let mut left: BTreeMap<(Operator, String), (String, WorkAmount)> = BTreeMap::new();
    for task in to_run.iter().map(|&id| &plan.tasks[id]) {
        let amount = WorkAmount {
            tasks: 1.0,
            rows: task.rows.unwrap_or_default() as f64,
            bytes: text_bytes as f64 / shards as f64,
        };
        let name = (task.operator(), components.name(&task.work));
        left.entry(name)
            .or_insert_with(|| (task.work.describe().timed_component().words, WorkAmount::default()))
            .1
            .add(amount);
    }
    let components: Vec<ComponentTime> = left
        .into_iter()
        .map(|((operator, name), (words, amount))| {
            let done = history.get(&(operator, name));
            let seconds = done.and_then(|done| {
                let has_bytes = done.amount.bytes > 0.0;
                let all = done.amount.of(operator, has_bytes);
                (all > 0.0).then(|| done.seconds() / all * amount.of(operator, has_bytes))
            });
            ComponentTime { operator, component: words, tasks: amount.tasks as usize, seconds }
        })
        .collect();
    TimeEstimate {
        seconds: components.iter().map(|component| component.seconds).sum::<Option<f64>>().map(|sum| sum + 0.0),
        known_seconds: components.iter().filter_map(|component| component.seconds).sum::<f64>() + 0.0,
        components,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::work::EmbedQueriesWork;

    #[test]
    fn tasks_that_ran_side_by_side_took_the_time_of_one() {
        let spans = vec![(0.0, 10.0), (2.0, 8.0), (5.0, 12.0), (20.0, 21.0)];
        assert_eq!(PastWork { amount: WorkAmount::default(), spans }.seconds(), 13.0);
    }

    #[test]
    fn other_settings_or_models_are_other_components_and_secrets_are_no_part_of_their_names() {
        let components = |key: &str, size: usize| {
            let text = format!(
                "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.m]\nembedding.openai = {{ model = \"m\", base_url = \
                 \"http://127.0.0.1:1\", batch_size = {size}, headers = {{ x-key = \"{key}\" }} }}\n[space]\nchunker = \
                 \"sentence\"\nretriever = \"bm25\"\n"
            );
            Components::of(&Experiment::parse(&text, ".").unwrap())
        };
        let name = |components: Components| {
            components.name(&EmbedQueriesWork { model: "m".to_owned(), queries: None, standalone: false }.into())
        };
        assert_eq!(name(components("secret", 1)), name(components("renewed", 1)));
        assert_ne!(name(components("secret", 1)), name(components("secret", 2)));
    }

    /// What a component did earlier, in one go: tasks, rows, bytes and seconds.
    fn past(tasks: f64, rows: f64, bytes: f64, seconds: f64) -> PastWork {
        PastWork { amount: WorkAmount { tasks, rows, bytes }, spans: vec![(100.0, 100.0 + seconds)] }
    }

    #[test]
    fn a_component_takes_as_long_for_a_unit_of_its_work_as_it_did_before() {
        let space = "chunker = \"sentence\"\nembedder = \"small\"\nretriever = \"dense\"\n\
                     generator = { compact = { model = \"gpt\" } }\n";
        let fixture = crate::plan::tests::Fixture::new(space);
        let plan = fixture.plan();
        let components = Components::of(&fixture.experiment);
        // 600 bytes of text in three shards, 20 questions.
        let all: Vec<TaskId> = (0..plan.tasks.len()).collect();
        let estimate = |history: &History, to_run: &[TaskId]| estimate_time(&plan, &components, 600, to_run, history);
        let name = |operator: Operator| {
            let task = plan.tasks.iter().find(|task| task.operator() == operator).unwrap();
            (operator, components.name(&task.work))
        };
        let seconds = |operator: Operator, past: PastWork, to_run: &[TaskId]| {
            let found = estimate(&[(name(operator), past)].into(), to_run);
            let own = found.components.iter().find(|component| component.operator == operator);
            assert_eq!(found.seconds, None, "the others were never run");
            assert_eq!(Some(found.known_seconds), own.unwrap().seconds.or(Some(0.0)));
            own.and_then(|own| own.seconds)
        };
        let table = [
            ("by bytes", Operator::CHUNK, past(6.0, 50.0, 300.0, 9.0), Some(9.0 / 300.0 * 600.0)),
            ("by tasks where no bytes were counted", Operator::CHUNK, past(6.0, 50.0, 0.0, 9.0), Some(9.0 / 6.0 * 3.0)),
            ("by bytes", Operator::EMBED, past(6.0, 50.0, 1_200.0, 9.0), Some(9.0 / 1_200.0 * 600.0)),
            ("by tasks", Operator::Load, past(6.0, 50.0, 300.0, 9.0), Some(9.0 / 6.0 * 3.0)),
            ("by tasks", Operator::Index, past(2.0, 50.0, 300.0, 9.0), Some(4.5)),
            ("by questions", Operator::GENERATE, past(2.0, 10.0, 300.0, 9.0), Some(9.0 / 10.0 * 20.0)),
            ("by questions", Operator::RETRIEVE, past(2.0, 40.0, 300.0, 9.0), Some(4.5)),
            ("nothing was done", Operator::GENERATE, past(2.0, 0.0, 0.0, 9.0), None),
        ];
        for (case, operator, past, expected) in table {
            let found = seconds(operator, past, &all);
            let is_close = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(is_close, "{operator:?} {case}: {found:?}, not {expected:?}");
        }

        let answers = &plan.trials[0].answers;
        let history: History = [(name(Operator::GENERATE), past(1.0, 8.0, 0.0, 4.0))].into();
        let found = estimate(&history, &answers[..1]);
        // Eight of the twenty questions are in the first range.
        assert_eq!((found.seconds, found.known_seconds, found.components.len()), (Some(4.0), 4.0, 1));
        assert_eq!((found.components[0].tasks, found.components[0].component.as_str()), (1, "compact with gpt"));
        let found = estimate(&history, &[]);
        assert_eq!((found.seconds, found.known_seconds), (Some(0.0), 0.0), "nothing is left");
        let operators: Vec<Operator> = estimate(&history, &all).components.iter().map(|it| it.operator).collect();
        assert!(operators.is_sorted(), "upstream first: {operators:?}");
    }

    #[test]
    fn the_seconds_of_work_are_those_in_which_a_task_ran_whatever_the_order_of_the_tasks() {
        let table: [(&[(f64, f64)], f64); 8] = [
            (&[], 0.0),
            (&[(5.0, 5.0)], 0.0),
            (&[(1.0, 3.0), (1.0, 3.0)], 2.0),
            (&[(1.0, 3.0), (3.0, 4.0)], 3.0),
            (&[(1.0, 9.0), (2.0, 3.0), (4.0, 5.0)], 8.0),
            (&[(8.0, 9.0), (1.0, 2.0)], 2.0),
            (&[(1.0, 4.0), (2.0, 6.0), (5.0, 7.0)], 6.0),
            // A clock that was set back.
            (&[(9.0, 5.0), (1.0, 2.0)], 1.0),
        ];
        for (spans, expected) in table {
            for spans in [spans.to_vec(), spans.iter().rev().copied().collect()] {
                assert_eq!(PastWork { amount: WorkAmount::default(), spans }.seconds(), expected);
            }
        }
    }

    #[test]
    fn amounts_of_work_are_added_in_each_unit() {
        let mut sum = WorkAmount::default();
        for _ in 0..2 {
            sum.add(WorkAmount { tasks: 1.0, rows: 20.0, bytes: 300.0 });
        }
        assert_eq!(sum, WorkAmount { tasks: 2.0, rows: 40.0, bytes: 600.0 });
    }

    #[test]
    fn judges_and_the_embedder_of_the_evaluation_are_part_of_the_name_of_scores_only() {
        let components = |judge: &str| {
            let model = |name: &str, price: usize| {
                format!(
                    "[models.{name}]\nchat.openai = {{ model = \"{name}\", base_url = \"http://127.0.0.1:1\", \
                     price = {{ input = {price}, output = 1 }} }}\n"
                )
            };
            let text = format!(
                "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g\"\n[space]\nchunker = \"sentence\"\n\
                 retriever = \"bm25\"\n[evaluate]\nmetrics = [\"context_precision\"]\njudge = \"{judge}\"\n\
                 objective = [\"context_precision\"]\n{}{}",
                model("one", 1),
                model("other", 2)
            );
            Components::of(&Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:?}")))
        };
        let metric = serde_json::from_value(serde_json::json!({ "context_precision": {} })).unwrap();
        let score = Work::from(crate::plan::work::ScoreWork {
            metric,
            passages: 0,
            answers: Vec::new(),
            questions: Vec::new(),
            parser: 0,
            without_passages: false,
            replies: None,
            part: None,
        });
        let index: Work = crate::plan::work::IndexWork {
            kind: rag::index::IndexKind::Bm25,
            from: vec![0],
            enriched: false,
            analysis: None,
            graph: None,
        }
        .into();
        let (one, other) = (components("one"), components("other"));
        assert_ne!(one.name(&score), other.name(&score));
        assert_eq!(one.name(&index), other.name(&index));
        assert!(one.name(&score).starts_with("context_precision ") && one.name(&index).starts_with("bm25 "));
    }
}
