//! Experiments that a person makes of another one while it runs: with one more trial, with more questions.

use super::Experiment;
use rag::PipelineConfig;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

impl Experiment {
    /// This experiment with one more trial: a copy of a pipeline in which settings are replaced, each by its dotted key
    /// (`retriever.bm25.top_k`, or `retriever` for another one). The trial gets a
    /// table `[[space]]` of its own, as in a file that was written with it from the start.
    ///
    /// # Errors
    /// What is wrong with the settings, in sentences.
    pub(crate) fn with_trial(
        &self,
        pipeline: &PipelineConfig,
        settings: &BTreeMap<String, Value>,
    ) -> Result<Self, Vec<String>> {
        let mut table: Map<String, Value> =
            pipeline.values().map(|(axis, choice)| (axis.name().to_owned(), json!([choice.value()]))).collect();
        for (key, value) in settings {
            replace(&mut table, key, value).map_err(|reason| vec![reason])?;
        }
        let mut root = self.root();
        root["space"] = match root["space"].take() {
            Value::Array(tables) => tables.into_iter().chain([Value::Object(table)]).collect(),
            Value::Null => json!([table]),
            one => json!([one, table]),
        };
        self.reparsed(root)
    }

    /// This experiment with more questions: those that `evaluate.answered`, or else `dataset.limit`, left out.
    ///
    /// # Errors
    /// Why there are no more, in sentences.
    pub(crate) fn with_questions(&self, questions: usize) -> Result<Self, Vec<String>> {
        let limit = self.dataset.as_ref().and_then(|dataset| dataset.limit);
        let (key, before) = match (self.evaluate.answered, limit) {
            (Some(answered), _) => (["evaluate", "answered"], answered),
            (None, Some(limit)) => (["dataset", "limit"], limit),
            (None, None) => return Err(vec!["the run asks all its questions: there is no limit to raise".to_owned()]),
        };
        if questions <= before {
            return Err(vec![format!("the run asks {before} questions: name a larger number")]);
        }
        let mut root = self.root();
        root[key[0]][key[1]] = json!(questions);
        self.reparsed(root)
    }

    /// The experiment of a resolved value, where this one was.
    fn reparsed(&self, root: Value) -> Result<Self, Vec<String>> {
        let read = Self::parse(&super::shown::text(root), self.base.clone());
        let experiment =
            read.map_err(|mistakes| mistakes.iter().map(super::SpecError::message_with_key).collect::<Vec<String>>())?;
        Ok(Self { overrides: self.overrides.clone(), file: self.file.clone(), ..experiment })
    }
}

/// Replaces a setting of a table of axes with one value each.
fn replace(table: &mut Map<String, Value>, key: &str, value: &Value) -> Result<(), String> {
    let (axis, rest) = key.split_once('.').map_or((key, None), |(axis, rest)| (axis, Some(rest)));
    let Some(rest) = rest else {
        table.insert(axis.to_owned(), json!([value]));
        return Ok(());
    };
    let there = table.get_mut(axis).and_then(|values| values.get_mut(0));
    let Some(mut place) = there else { return Err(format!("{key}: the trial has nothing on the axis `{axis}`")) };
    let names: Vec<&str> = rest.split('.').collect();
    for (depth, name) in names.iter().enumerate() {
        // The first name is that of the component.
        let is_there = place.get(*name).is_some();
        if depth == 0 && !is_there {
            let component = place.as_object().and_then(|fields| fields.keys().next());
            let component = component.map_or_else(|| place.to_string(), |name| format!("`{name}`"));
            return Err(format!("{key}: the trial has {component} there; set `{axis}` as a whole"));
        }
        let Some(fields) = place.as_object_mut() else { return Err(format!("{key}: `{name}` is no setting of it")) };
        place = fields.entry((*name).to_owned()).or_insert(Value::Null);
    }
    *place = value.clone();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(rest: &str) -> Experiment {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.tiny]\nembedding.static = {{ model = \"m\" }}\n[models.gpt]\n\
             chat.openai = {{ model = \"m\", base_url = \"http://127.0.0.1:1/v1\"}}\n{rest}"
        );
        Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    const SPACE: &str = "[space]\nchunker = [\"sentence\", { token = { chunk_size = 64 } }]\nembedder = \"tiny\"\n\
        retriever = [\"bm25\", \"dense\", { hybrid = { fusion = { rrf = { k = 20 } } } }]\n\
        refine = [\"none\", [\"dedupe\", { threshold = { least = 0.25 } }]]\ngenerator = { compact = { model = \"gpt\" } }\n\
        prompt = [\"brief\", \"grounded\"]\n";

    fn settings(values: &[(&str, Value)]) -> BTreeMap<String, Value> {
        values.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    }

    #[test]
    fn a_copy_of_each_trial_is_that_trial() {
        let before = experiment(SPACE);
        let trials = before.trials();
        assert_eq!(trials.len(), 2 * 3 * 2 * 2);
        for trial in &trials {
            let after = before.with_trial(trial.pipeline().unwrap(), &BTreeMap::new()).unwrap();
            assert_eq!(after.trials(), trials, "{}", trial.id);
        }
    }

    #[test]
    fn a_copy_with_another_value_comes_after_the_others_and_is_what_somebody_would_have_planned() {
        let before = experiment("[space]\nchunker = \"sentence\"\nretriever = [\"bm25\", { bm25 = { top_k = 3 } }]\n");
        let trials = before.trials();
        let third = settings(&[("retriever.bm25.top_k", json!(9))]);
        let after = before.with_trial(trials[0].pipeline().unwrap(), &third).unwrap();
        let planned = experiment(
            "[space]\nchunker = \"sentence\"\nretriever = [\"bm25\", { bm25 = { top_k = 3 } }, { bm25 = { top_k = 9 } }]\n",
        );
        assert_eq!(after.trials(), planned.trials());
        // Again, on top of it.
        let other = settings(&[("chunker", json!("token"))]);
        let again = after.with_trial(trials[1].pipeline().unwrap(), &other).unwrap();
        let ids: Vec<String> = again.trials().iter().map(|trial| trial.id.clone()).collect();
        assert_eq!(ids, ["t01", "t02", "t03", "t04"]);
        assert_eq!(again.trials()[3].label(rag::Axis::Chunker), "token");
        assert_eq!(Experiment::parse(&again.text, ".").unwrap().trials(), again.trials(), "its text says the same");
    }

    #[test]
    fn mistakes_in_settings_are_told_with_their_keys() {
        let before = experiment(SPACE);
        let trials = before.trials();
        let told = |values: &[(&str, Value)]| {
            before.with_trial(trials[0].pipeline().unwrap(), &settings(values)).unwrap_err().join("\n")
        };
        assert!(told(&[("retriever.dense.top_k", json!(3))]).contains("the trial has `bm25` there; set `retriever`"));
        assert!(told(&[("retriever.bm25.top_q", json!(3))]).contains("top_q"));
        assert!(told(&[("retriever.bm25.top_k", json!("many"))]).contains("top_k"));
        assert!(told(&[("retriver", json!("dense"))]).contains("retriver"));
        assert!(told(&[("retriever", json!("dense"))]).contains("embedder"), "BM25 needs none, so the copy has none");
        assert!(told(&[("generator.compact.model", json!("claude"))]).contains("claude"));
        assert!(told(&[("reranker.llm.top_n.x", json!(1))]).contains("reranker"));
    }

    #[test]
    fn the_limit_that_leaves_questions_out_is_raised() {
        let dataset = "[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n[dataset]\npath = \"golden.jsonl\"\n";
        assert!(experiment(dataset).with_questions(50).unwrap_err()[0].contains("all its questions"));
        let limited = experiment(&format!("{dataset}limit = 20\n"));
        assert!(limited.with_questions(20).unwrap_err()[0].contains("20 questions"));
        assert_eq!(limited.with_questions(50).unwrap().dataset.unwrap().limit, Some(50));
        let answered = experiment(&format!("{dataset}limit = 90\n[evaluate]\nmetrics = [\"recall\"]\nanswered = 10\n"));
        let more = answered.with_questions(50).unwrap();
        assert_eq!((more.evaluate.answered, more.dataset.unwrap().limit), (Some(50), Some(90)));
    }
}
