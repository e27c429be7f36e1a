//! What an MLflow server has of a run, and what it lacks.

use super::{
    content::{FILES, WantedRun},
    files::ArtifactFile,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The most that a server accepts in one batch.
const PARAMS_AT_ONCE: usize = 100;
const TAGS_AT_ONCE: usize = 100;
const METRICS_AT_ONCE: usize = 800;

/// What a server has of a run and its trials.
pub(super) struct ServerState {
    /// The id of the experiment.
    pub(super) experiment: String,
    /// The run for the whole experiment.
    pub(super) parent: Option<ServerRun>,
    /// Runs for trials, by the trial's id.
    pub(super) trials: BTreeMap<String, Option<ServerRun>>,
}

/// One run as the server has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServerRun {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) start_ms: i64,
    /// Where its files are kept.
    pub(super) artifacts: String,
    pub(super) tags: BTreeMap<String, String>,
    params: BTreeSet<String>,
    /// The last step and its value, by metric.
    metrics: BTreeMap<String, (i64, f64)>,
    /// Name and digest of its datasets.
    inputs: BTreeSet<(String, String)>,
    /// Why files cannot be sent to it.
    pub(super) no_upload_reason: Option<String>,
}

impl ServerRun {
    /// From MLflow's `Run`.
    pub(super) fn read(run: &Value) -> Self {
        let (info, data) = (&run["info"], &run["data"]);
        let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let pair = |item: &Value| (super::text(&item["key"]), super::text(&item["value"]));
        let metric = |item: &Value| {
            let value = item["value"].as_f64().or_else(|| super::text(&item["value"]).parse().ok());
            let step = super::text(&item["step"]).parse().unwrap_or_default();
            (super::text(&item["key"]), (step, value.unwrap_or(f64::NAN)))
        };
        Self {
            id: super::text(&info["run_id"]),
            status: super::text(&info["status"]),
            start_ms: super::text(&info["start_time"]).parse().unwrap_or_default(),
            artifacts: super::text(&info["artifact_uri"]),
            tags: items(&data["tags"]).iter().map(pair).collect(),
            params: items(&data["params"]).iter().map(|item| pair(item).0).collect(),
            metrics: items(&data["metrics"]).iter().map(metric).collect(),
            inputs: items(&run["inputs"]["dataset_inputs"]).iter().map(name_and_digest).collect(),
            no_upload_reason: None,
        }
    }

    /// Whether it was created but holds nothing yet.
    pub(super) fn is_empty(&self) -> bool {
        self.params.is_empty() && self.metrics.is_empty()
    }

    /// What it lacks, in batches that a server accepts. A parameter that is
    /// there stays as it is: MLflow never changes a parameter.
    pub(super) fn missing(&self, wanted: &WantedRun) -> Vec<Value> {
        let entry = |(key, value): (&String, &String)| json!({ "key": key, "value": value });
        let params: Vec<Value> =
            wanted.params.iter().filter(|(key, _)| !self.params.contains(*key)).map(entry).collect();
        let (files, has_files) = ((FILES.to_owned(), files_tag(wanted)), self.has_files(wanted));
        let tags = wanted.tags.iter().chain(has_files.then_some((&files.0, &files.1)));
        let tags: Vec<Value> = tags.filter(|(key, value)| self.tags.get(*key) != Some(value)).map(entry).collect();
        let mut metrics = Vec::new();
        for (key, steps) in &wanted.metrics {
            for (&step, &(value, time_ms)) in steps {
                if self.lacks_point(key, step, value) {
                    metrics.push(json!({ "key": key, "value": value, "timestamp": time_ms, "step": step }));
                }
            }
        }
        let (mut params, mut tags, mut metrics) =
            (params.chunks(PARAMS_AT_ONCE), tags.chunks(TAGS_AT_ONCE), metrics.chunks(METRICS_AT_ONCE));
        let mut batches = Vec::new();
        loop {
            let [params, tags, metrics] = [params.next(), tags.next(), metrics.next()].map(Option::unwrap_or_default);
            if params.is_empty() && tags.is_empty() && metrics.is_empty() {
                return batches;
            }
            batches.push(json!({ "run_id": self.id, "params": params, "tags": tags, "metrics": metrics }));
        }
    }

    /// Steps are sent in order, so all steps up to the last one are there.
    fn lacks_point(&self, key: &str, step: i64, value: f64) -> bool {
        match self.metrics.get(key) {
            None => true,
            Some(&(last, _)) if step != last => step > last,
            Some((_, there)) => value.to_bits() != there.to_bits(),
        }
    }

    /// Our tags that are no longer true.
    pub(super) fn outdated(&self, wanted: &WantedRun) -> Vec<String> {
        let ours = self.tags.keys().filter(|key| wanted.complete && key.starts_with("reverie.") && *key != FILES);
        ours.filter(|key| !wanted.tags.contains_key(*key)).cloned().collect()
    }

    pub(super) fn missing_inputs<'a>(&self, wanted: &'a WantedRun) -> Vec<&'a Value> {
        wanted.inputs.iter().filter(|input| !self.inputs.contains(&name_and_digest(input))).collect()
    }

    pub(super) fn missing_files<'a>(&self, wanted: &'a WantedRun) -> Vec<&'a ArtifactFile> {
        let sent: BTreeMap<String, String> =
            self.tags.get(FILES).and_then(|files| serde_json::from_str(files).ok()).unwrap_or_default();
        wanted.files.iter().filter(|file| sent.get(&file.name) != Some(&file.digest())).collect()
    }

    /// Whether there are files, and they can be sent.
    fn has_files(&self, wanted: &WantedRun) -> bool {
        !wanted.files.is_empty() && self.no_upload_reason.is_none()
    }

    /// Records that the server accepted everything.
    pub(super) fn accept(&mut self, wanted: &WantedRun) {
        for key in self.outdated(wanted) {
            self.tags.remove(&key);
        }
        self.params.extend(wanted.params.keys().cloned());
        self.tags.extend(wanted.tags.clone());
        if self.has_files(wanted) {
            self.tags.insert(FILES.to_owned(), files_tag(wanted));
        }
        for (key, steps) in &wanted.metrics {
            if let Some((&step, &(value, _))) = steps.last_key_value()
                && self.lacks_point(key, step, value)
            {
                self.metrics.insert(key.clone(), (step, value));
            }
        }
        self.inputs.extend(wanted.inputs.iter().map(name_and_digest));
    }
}

/// The name and the digest of a dataset, as MLflow's inputs have them.
fn name_and_digest(input: &Value) -> (String, String) {
    (super::text(&input["dataset"]["name"]), super::text(&input["dataset"]["digest"]))
}

fn files_tag(wanted: &WantedRun) -> String {
    let files: BTreeMap<&str, String> = wanted.files.iter().map(|file| (file.name.as_str(), file.digest())).collect();
    json!(files).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> WantedRun {
        let points = |n: i64| (0..n).map(|step| (step, (step as f64 / 7.0, 1000 + step))).collect();
        WantedRun {
            params: (0..150).map(|i| (format!("p{i}"), i.to_string())).collect(),
            tags: BTreeMap::from([("reverie.run".to_owned(), "x".to_owned())]),
            metrics: BTreeMap::from([("calls".to_owned(), points(2000)), ("recall".to_owned(), points(1))]),
            inputs: vec![json!({ "dataset": { "name": "golden", "digest": "abc" } })],
            files: vec![ArtifactFile::new("a.csv", b"1,2".as_slice())],
            complete: true,
            ..WantedRun::default()
        }
    }

    #[test]
    fn batches_stay_within_what_a_server_takes() {
        let batches = ServerRun::default().missing(&wanted());
        let n =
            |name: &str| -> Vec<usize> { batches.iter().map(|batch| batch[name].as_array().unwrap().len()).collect() };
        assert_eq!(n("params"), [100, 50, 0]);
        assert_eq!(n("tags"), [2, 0, 0], "also the one that tells of files");
        assert_eq!(n("metrics"), [800, 800, 401]);
    }

    #[test]
    fn what_the_server_took_is_not_sent_again() {
        let (mut run, mut wanted) = (ServerRun::default(), wanted());
        run.accept(&wanted);
        assert!(run.missing(&wanted).is_empty() && run.missing_inputs(&wanted).is_empty());
        assert!(run.missing_files(&wanted).is_empty());
        wanted.metrics.get_mut("calls").unwrap().insert(2000, (9.0, 9000));
        wanted.metrics.get_mut("recall").unwrap().insert(0, (0.5, 9000));
        wanted.files[0] = ArtifactFile::new("a.csv", b"1,3".as_slice());
        let batches = run.missing(&wanted);
        assert_eq!(batches[0]["metrics"].as_array().unwrap().len(), 2, "a new step, and a new value: {batches:?}");
        assert_eq!(run.missing_files(&wanted).len(), 1);
        wanted.tags.clear();
        assert_eq!(run.outdated(&wanted), ["reverie.run"]);
        wanted.complete = false;
        assert!(run.outdated(&wanted).is_empty(), "while it goes on, what was found before stays");
    }

    #[test]
    fn numbers_are_read_whether_they_are_numbers_or_texts() {
        let run = ServerRun::read(&json!({
            "info": { "run_id": "r", "status": "RUNNING", "start_time": "17", "artifact_uri": "mlflow-artifacts:/1" },
            "data": {
                "metrics": [
                    { "key": "a", "value": 0.1, "step": "3", "timestamp": 1 },
                    { "key": "b", "value": "NaN", "step": 0, "timestamp": "1" },
                ],
                "params": [{ "key": "chunker", "value": "sentence" }],
            },
        }));
        assert_eq!((run.start_ms, run.metrics["a"]), (17, (3, 0.1)));
        assert!(run.metrics["b"].1.is_nan() && run.params.contains("chunker"));
    }
}
