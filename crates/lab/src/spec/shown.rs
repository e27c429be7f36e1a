//! The resolved experiment for others to read: with all defaults, without anything that may be a
//! secret.

use super::{Experiment, SpecTextError, WarningSpec};
use serde_json::{Map, Value, json};

/// Replaces a value that may be a secret.
const WITHHELD: &str = "[withheld]";
/// The sections whose entries may hold secrets.
const SECRET_SECTIONS: [&str; 2] = ["models", "systems"];
/// The section whose components may hold secrets, at any depth.
const SPACE: &str = "space";
/// Tables of an entry whose values may be secrets, unless they name a variable.
const MAY_BE_SECRET: [&str; 2] = ["headers", "query"];

impl Experiment {
    /// The resolved experiment as an experiment file, without what may be a
    /// secret.
    pub fn text_without_secrets(&self) -> String {
        text(withhold_secrets(self.root()))
    }

    /// The text that is stored with a run: the file as it was written, or, if it may hold a secret,
    /// the resolved experiment without secrets.
    pub(crate) fn text_to_store(&self) -> String {
        let shown = self.text_without_secrets();
        if shown.contains(WITHHELD) { shown } else { self.text.clone() }
    }

    /// The resolved experiment as an experiment file with the contents of all
    /// files that it names, for machines that do not have these files. It
    /// contains the secrets.
    pub fn portable(&self) -> String {
        text(self.root())
    }

    /// The resolved experiment as a value without possible secrets, for
    /// comparison with another experiment.
    pub(crate) fn comparable(&self) -> Value {
        let mut root = withhold_secrets(self.root());
        remove_empty(&mut root);
        root
    }

    /// Puts this experiment's secrets into a text of [`Experiment::text_without_secrets`]: secrets are never
    /// stored with a run, and may have changed since.
    pub(crate) fn restore_secrets(&self, shown: &str) -> Result<String, SpecTextError> {
        let mut root = serde_json::to_value(toml::from_str::<toml::Table>(shown)?)?;
        let here = self.root();
        let mut missing = Vec::new();
        if let Some(space) = root.get_mut(SPACE) {
            restore(space, &here[SPACE], SPACE, &mut missing);
        }
        for section in SECRET_SECTIONS {
            let entries = root.get_mut(section).and_then(Value::as_object_mut);
            for (name, entry) in entries.into_iter().flatten() {
                restore(entry, &here[section][name.as_str()], &format!("{section}.{name}"), &mut missing);
            }
        }
        if missing.is_empty() { Ok(text(root)) } else { Err(SpecTextError::NoSecret(missing)) }
    }

    /// The resolved experiment as a value. It contains the secrets.
    pub(crate) fn root(&self) -> Value {
        let mut root = json!({
            "name": self.name, "store": self.store, "corpus": self.corpus, "dataset": self.dataset,
            "models": self.models, "search": self.search, "engine": self.engine,
        });
        root["space"] = if self.space.is_empty() { Value::Null } else { json!(self.space) };
        if !self.systems.is_empty() {
            root["systems"] = json!(self.systems);
        }
        let evaluate = &self.evaluate;
        // Without questions there is nothing to evaluate, and the section must be left out.
        let has_questions = self.dataset.is_some();
        root["evaluate"] = if !has_questions {
            Value::Null
        } else {
            json!({
                "metrics": evaluate.metrics, "judge": evaluate.judges, "embedder": evaluate.embedder,
                "answered": evaluate.answered, "judged": evaluate.judged, "objective": evaluate.objective,
                "budget": evaluate.budget,
            })
        };
        let trackers = self.track.iter().filter_map(|tracker| serde_json::to_value(tracker).ok());
        if self.warnings != WarningSpec::default() {
            root["warnings"] = json!(self.warnings);
        }
        root["track"] = Value::Object(trackers.filter_map(|tracker| tracker.as_object().cloned()).flatten().collect());
        root
    }
}

pub(super) fn text(mut root: Value) -> String {
    remove_empty(&mut root);
    toml::to_string(&root).unwrap_or_else(|error| format!("# this experiment cannot be written as TOML: {error}\n"))
}

fn withhold_secrets(mut root: Value) -> Value {
    if let Some(space) = root.get_mut(SPACE) {
        withhold(space);
    }
    for section in SECRET_SECTIONS {
        let entries = root.get_mut(section).and_then(Value::as_object_mut);
        entries.into_iter().flat_map(Map::values_mut).for_each(withhold);
    }
    root
}

fn withhold(value: &mut Value) {
    if let Value::Array(items) = value {
        items.iter_mut().for_each(withhold);
    }
    let Some(fields) = value.as_object_mut() else { return };
    for (name, field) in fields {
        match field.as_object_mut() {
            Some(texts) if MAY_BE_SECRET.contains(&name.as_str()) => {
                let is_shown = |text: &str| text.starts_with("env:") || is_placeholder(text);
                let secret = |text: &&mut Value| !text.as_str().is_some_and(is_shown);
                texts.values_mut().filter(secret).for_each(|text| *text = json!(WITHHELD));
            }
            _ => withhold(field),
        }
    }
}

/// Whether a text is a placeholder alone, such as `{question}`.
fn is_placeholder(text: &str) -> bool {
    let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// Puts the withheld parts of a value back in, from the same place in another value.
fn restore(value: &mut Value, here: &Value, place: &str, missing: &mut Vec<String>) {
    if let Value::Array(items) = value {
        for (number, item) in items.iter_mut().enumerate() {
            restore(item, &here[number], &format!("{place}[{number}]"), missing);
        }
    }
    let Some(fields) = value.as_object_mut() else { return };
    for (name, field) in fields {
        let (place, here) = (format!("{place}.{name}"), &here[name.as_str()]);
        if field.as_str() != Some(WITHHELD) {
            restore(field, here, &place, missing);
        } else if here.is_string() {
            *field = here.clone();
        } else {
            missing.push(place);
        }
    }
}

/// Removes nulls, which TOML cannot express, and empty lists, which mean the same
/// as nothing.
fn remove_empty(value: &mut Value) {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(remove_empty);
            let kept: Map<String, Value> =
                std::mem::take(fields).into_iter().filter(|(_, value)| !empty(value)).collect();
            *fields = kept;
        }
        Value::Array(items) => items.iter_mut().for_each(remove_empty),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g.jsonl\"\n\
        [models.tiny]\nembedding.static = { model = \"m\" }\n\
        [models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:1/v1\", headers = { x-team = \"env:TEAM\", x-plain = \"hush\" } }\n\
        [space]\nchunker = [\"sentence\", { token = { chunk_size = 64 } }]\nembedder = \"tiny\"\nretriever = { hybrid = { top_k = 3 } }\ngenerator = { compact = { model = \"gpt\" } }\n\
        [search]\nrace = { share = 0.5 }\n[evaluate]\nmetrics = [\"recall\", \"token_f1\"]\nbudget = { usd = 2.5 }\n\
        [track]\nmlflow = { uri = \"http://127.0.0.1:9\", tags = { team = \"search\" } }\n";

    #[test]
    fn what_is_shown_is_the_same_experiment() {
        let read = |text: &str| Experiment::parse(text, ".").map(|read| Experiment { text: String::new(), ..read });
        let text = FILE.replace(", x-plain = \"hush\"", "");
        let experiment = read(&text).unwrap();
        let shown = experiment.text_without_secrets();
        assert_eq!(read(&shown).map_err(|errors| format!("{errors:#?}\n{shown}")), Ok(experiment));
    }

    #[test]
    fn an_experiment_without_questions_is_shown_as_one() {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n";
        let read = |text: &str| Experiment::parse(text, ".").map(|read| Experiment { text: String::new(), ..read });
        let experiment = read(text).unwrap();
        assert_eq!(read(&experiment.text_without_secrets()), Ok(experiment.clone()));
        assert_eq!(read(&experiment.portable()), Ok(experiment));
    }

    #[test]
    fn what_travels_needs_no_files_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("own.py"),
            "def chunk(text):\n    return [text]\n\ndef score(answer):\n    return 1\n",
        )
        .unwrap();
        let text = FILE
            .replace("\"sentence\",", "{ python = { file = \"own.py\" } },")
            .replace("\"token_f1\"", "{ python = { file = \"own.py\" } }");
        let read = |text: &str, base: &std::path::Path| {
            Experiment::parse(text, base).map(|read| Experiment { text: String::new(), base: ".".into(), ..read })
        };
        let experiment = read(&text, folder.path()).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(read(&experiment.portable(), elsewhere.path()), Ok(experiment));
    }

    #[test]
    fn what_was_withheld_is_lent_by_the_experiment_file_of_today() {
        let experiment = Experiment::parse(FILE, ".").unwrap();
        let renewed = Experiment::parse(&FILE.replace("hush", "renewed"), ".").unwrap();
        let lent = renewed.restore_secrets(&experiment.text_without_secrets()).unwrap();
        assert!(lent.contains("renewed") && !lent.contains(WITHHELD), "{lent}");
        let without = Experiment::parse(&FILE.replace(", x-plain = \"hush\"", ""), ".").unwrap();
        let reason = without.restore_secrets(&experiment.text_without_secrets()).unwrap_err().to_string();
        assert!(reason.contains("models.gpt.chat.openai.headers.x-plain"), "{reason}");
    }

    #[test]
    fn what_may_be_a_secret_is_withheld() {
        let shown = Experiment::parse(FILE, ".").unwrap().text_without_secrets();
        assert!(!shown.contains("hush") && shown.contains(WITHHELD) && shown.contains("env:TEAM"), "{shown}");
    }

    #[test]
    fn secrets_of_components_are_withheld_and_lent_again() {
        let http = "{ http = { url = \"http://127.0.0.1:1/search\", headers = { x-key = \"quiet\" } } }";
        let text = FILE
            .replace(", x-plain = \"hush\"", "")
            .replace("{ hybrid = { top_k = 3 } }", &format!("[{{ hybrid = {{ top_k = 3 }} }}, {http}]"));
        let experiment = Experiment::parse(&text, ".").unwrap();
        let shown = experiment.text_without_secrets();
        assert!(!shown.contains("quiet") && shown.contains(WITHHELD), "{shown}");
        let lent = Experiment::parse(&experiment.restore_secrets(&shown).unwrap(), ".").unwrap();
        assert_eq!(lent.space, experiment.space);
        let without = Experiment::parse(FILE, ".").unwrap();
        let reason = without.restore_secrets(&shown).unwrap_err().to_string();
        assert!(reason.contains("space.retriever[1].http.headers.x-key"), "{reason}");
    }
}
