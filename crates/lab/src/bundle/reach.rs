//! What a bundle uses beyond its own files: code, variables of the environment, and addresses. A
//! service checks this before it opens a bundle that is named over HTTP.

use crate::{
    Error, RunRecord,
    record::experiment_of,
    session::used_databases::{database_access, database_access_of},
    spec::{Experiment, SystemSpec},
};
use models::{EndpointAccess, ModelConfig};
use reqwest::Url;
use serde_json::Value;
use std::collections::BTreeSet;

/// What a pipeline uses beyond its own files: functions of Python, which are code;
/// the addresses of its models; and all that their settings add to each call, such as
/// a key or a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    functions: bool,
    /// Whether it includes all addresses and everything that is sent to them.
    all_models: bool,
    /// Addresses with their paths, because a gateway before the models may route calls by them.
    addresses: BTreeSet<String>,
    sent: BTreeSet<SentSetting>,
}

/// Something that the settings of a model add to each of its calls. A gateway may route calls by
/// it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SentSetting {
    /// Its kind, in the plural.
    kind: &'static str,
    /// Its name, and its value if that is no secret.
    text: String,
    /// The address that it is sent to.
    address: String,
}

const VARIABLES: &str = "the variables";
const HEADERS: &str = "the headers";
const PARAMETERS: &str = "the query parameters";
const FIELDS: &str = "the fields of requests";
const KINDS: [&str; 4] = [VARIABLES, HEADERS, PARAMETERS, FIELDS];

impl Reach {
    /// The reach of the trials of a run, asked with the models of an experiment.
    ///
    /// # Errors
    /// If the record of the run cannot be read, or its experiment cannot be
    /// understood.
    pub fn of(experiment: &Experiment, record: &RunRecord) -> Result<Self, Error> {
        let provenance = record.provenance()?;
        // In a file, settings may be a table or a list; serialized from their types they are always a table.
        let trials = serde_json::to_value(provenance).map_err(Error::table)?;
        let trials = Self { functions: has_function(&trials), ..Self::default() };
        // A forged bundle may hold two different experiments, so both are checked.
        let recorded = experiment_of(experiment, record)?;
        let mut reach = trials.and(&Self::of_experiment(experiment)).and(&Self::of_experiment(&recorded));
        // A trial may search in a database that its experiment does not name: a promoted or a forged one.
        let trials = provenance.pipelines().flat_map(database_access_of);
        trials.for_each(|access| reach.add(access));
        Ok(reach)
    }

    /// The reach of an experiment.
    fn of_experiment(experiment: &Experiment) -> Self {
        let root = experiment.root();
        let mut reach = Self { functions: has_function(&root), ..Self::default() };
        for model in experiment.models.values() {
            reach.add_model(model);
        }
        for system in experiment.systems.values().filter_map(SystemSpec::asked) {
            let settings = system.settings();
            reach.functions |= settings.runs_code();
            settings.endpoint_access().into_iter().for_each(|access| reach.add(access));
        }
        database_access(experiment).into_iter().for_each(|access| reach.add(access));
        reach
    }

    fn add_model(&mut self, model: &ModelConfig) {
        match model.endpoint_access() {
            Some(access) => self.add(access),
            None => self.addresses.extend(local_file(model)),
        }
    }

    fn add(&mut self, access: EndpointAccess) {
        let address = match (access.address_variable, Url::parse(&access.address)) {
            (Some(variable), _) => format!("{} or what {variable} says", access.address),
            (None, Ok(url)) if url.origin().is_tuple() => {
                url.origin().ascii_serialization() + url.path().trim_end_matches('/')
            }
            // Other schemes, such as `postgresql`, have no origin, and parameters that lead elsewhere.
            (None, Ok(url)) if url.has_host() => url.to_string(),
            (None, _) => access.address,
        };
        let mut add = |kind, text: String| self.sent.insert(SentSetting { kind, text, address: address.clone() });
        for name in access.variables {
            add(VARIABLES, name);
        }
        for (name, value) in access.headers {
            add(HEADERS, format!("{name}: {value}"));
        }
        for (name, value) in access.query {
            add(PARAMETERS, format!("{name}={value}"));
        }
        for (name, value) in access.fields.iter().filter(|(name, value)| !is_harmless(name, value)) {
            add(FIELDS, format!("{name}: {value}"));
        }
        self.addresses.insert(address);
    }

    /// The same reach, with the functions, addresses and sent settings of another.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.functions |= other.functions;
        self.sent.extend(other.sent.iter().cloned());
        self.addresses.extend(other.addresses.iter().cloned());
        self
    }

    /// The same reach, with functions.
    #[must_use]
    pub fn with_functions(self) -> Self {
        Self { functions: true, ..self }
    }

    /// The same reach, with all addresses and everything that is sent to them.
    #[must_use]
    pub fn with_all_models(self) -> Self {
        Self { all_models: true, ..self }
    }

    /// What it uses beyond another reach, in words; none if nothing.
    pub fn beyond(&self, allowed: &Self) -> Option<String> {
        let mut beyond = Vec::new();
        if self.functions && !allowed.functions {
            beyond.push("functions of Python, which are code that would run here".to_owned());
        }
        if !allowed.all_models {
            let sent: Vec<&SentSetting> = self.sent.difference(&allowed.sent).collect();
            let of_kind = |kind| -> Vec<String> {
                let sent = sent.iter().filter(|sent| sent.kind == kind);
                sent.map(|sent| format!("`{}` for `{}`", sent.text, sent.address)).collect()
            };
            let addresses = self.addresses.difference(&allowed.addresses).map(|address| format!("`{address}`"));
            let new = KINDS.map(|kind| (kind, of_kind(kind))).into_iter();
            for (kind, new) in new.chain([("the addresses", addresses.collect())]).filter(|(_, new)| !new.is_empty()) {
                beyond.push(format!("{kind} {}", new.join(", ")));
            }
        }
        (!beyond.is_empty()).then(|| beyond.join(", and "))
    }
}

/// A local model that is not in the catalogue: its name may be the path of any file, which this
/// process then loads.
fn local_file(model: &ModelConfig) -> Option<String> {
    let settings = serde_json::to_value(model).ok()?;
    // `{ kind: { provider: { model: … } } }`, as it is written.
    let (_, kind) = settings.as_object()?.iter().next()?;
    let (provider, settings) = kind.as_object()?.iter().next()?;
    let name = settings["model"].as_str().unwrap_or_default();
    let is_listed = models::Catalogue::embedded().find(name).is_some();
    (!is_listed).then(|| format!("the {provider} model {name}"))
}

/// Whether a field of a request, with this value as JSON, cannot route it: it is a number or a
/// boolean, or sets how long a model thinks.
fn is_harmless(name: &str, value: &str) -> bool {
    let is_text = || value.len() < 20 && value.trim_matches('"').bytes().all(|byte| byte.is_ascii_alphabetic());
    match serde_json::from_str(value) {
        Ok(Value::Null | Value::Bool(_) | Value::Number(_)) => true,
        Ok(Value::String(_)) => name == "reasoning_effort" && is_text(),
        _ => false,
    }
}

/// Whether a function of Python is anywhere in settings, which were serialized
/// from their types.
fn has_function(settings: &Value) -> bool {
    match settings {
        Value::Array(values) => values.iter().any(has_function),
        Value::Object(values) => {
            values.iter().any(|(name, value)| name == "python" && !value.is_null() || has_function(value))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_names_what_is_beyond_another() {
        let of = |chat: &str| {
            let mut reach = Reach::default();
            let providers: toml::Table = toml::from_str(chat).unwrap();
            for (provider, settings) in providers {
                let model = serde_json::json!({ "chat": { provider: settings } });
                let model: ModelConfig = serde_json::from_value(model).unwrap();
                reach.add_model(&model);
            }
            reach
        };
        let first =
            of("openai = { base_url = 'https://api.example.com/v1', api_key_env = 'KEY' }\nlocal = { model = 'm' }");
        assert_eq!(
            of("openai = { base_url = 'https://API.example.com:443/v1/', api_key_env = 'KEY' }").beyond(&first),
            None
        );
        let other = of("openai = { base_url = 'https://api.example.com/evil', api_key_env = 'KEY' }");
        assert_eq!(
            other.beyond(&first).unwrap(),
            "the variables `KEY` for `https://api.example.com/evil`, and the addresses `https://api.example.com/evil`"
        );
        let evil = of("openai = { base_url = 'https://evil.example', headers = { x = 'env:AWS_SECRET_ACCESS_KEY' } }");
        let beyond = evil.beyond(&first).unwrap();
        assert!(beyond.contains("`AWS_SECRET_ACCESS_KEY`") && beyond.contains("`https://evil.example`"), "{beyond}");
        assert!(of("openai = { api_key_env = 'OTHER' }").beyond(&first).unwrap().contains("OPENAI_BASE_URL"));
        for (address, path) in [
            ("https:evil.example/v1", "/v1"),
            ("https:\\\\evil.example", ""),
            ("https://api.example.com@evil.example", ""),
            ("HTTPS://EVIL.example:443", ""),
        ] {
            let beyond = of(&format!("openai = {{ base_url = '{address}' }}")).beyond(&first).unwrap();
            assert!(beyond.contains(&format!("`https://evil.example{path}`")), "{address}: {beyond}");
        }
        assert!(of("openai = { base_url = 'nonsense' }").beyond(&first).unwrap().contains("`nonsense`"));
        assert_eq!(evil.beyond(&first.clone().and(&evil)), None);
        assert_eq!(evil.beyond(&first.clone().with_all_models()), None);
        let functions = Reach { functions: true, ..Reach::default() };
        // The provider's own variable is named by the settings that leave it out.
        let own = of("openai = { model = 'm' }").beyond(&of("openai = { model = 'm', api_key_env = 'KEY' }")).unwrap();
        assert!(own.starts_with("the variables `OPENAI_API_KEY` for `https://api.openai.com/v1"), "{own}");
        let routed = |by: &str| {
            of(&format!("openai = {{ base_url = 'https://api.example.com/v1', api_key_env = 'KEY', {by} }}"))
        };
        for (by, named) in [
            ("headers = { X-To = 'evil' }", "the headers `x-to: evil`"),
            ("query = { upstream = 'http://evil' }", "the query parameters `upstream=http://evil`"),
            ("extra = { api_base = 'http://evil' }", "the fields of requests `api_base: \"http://evil\"`"),
            ("extra = { data_sources = [{}] }", "the fields of requests `data_sources: [{}]`"),
            (
                "extra = { reasoning_effort = 'http://evil' }",
                "the fields of requests `reasoning_effort: \"http://evil\"`",
            ),
        ] {
            let named = format!("{named} for `https://api.example.com/v1`");
            assert_eq!(routed(by).beyond(&first).unwrap(), named);
            assert_eq!(routed(by).beyond(&first.clone().and(&routed(by))), None);
        }
        let settings = "extra = { reasoning_effort = 'low', top_k = 20, enable_thinking = false }";
        assert_eq!(routed(settings).beyond(&first), None, "how it samples and thinks leads it nowhere");
        // A model of the catalogue is known; any other file is named.
        let file = of("local = { model = '/tmp/x.gguf' }").beyond(&first).unwrap();
        assert_eq!(file, "the addresses `the local model /tmp/x.gguf`");
        assert_eq!(of("local = { model = 'qwen2.5-coder-0.5b-instruct' }").beyond(&first), None);
        // A key that is known goes only to the host that has it already.
        let two = of("openai = { base_url = 'https://api.example.com/v1', api_key_env = 'KEY' }\n\
                      ollama = { base_url = 'https://other.example' }");
        let swapped = of("openai = { base_url = 'https://other.example', api_key_env = 'KEY' }");
        assert_eq!(swapped.beyond(&two).unwrap(), "the variables `KEY` for `https://other.example`");
        assert!(functions.beyond(&first).unwrap().contains("code"));
        assert_eq!(functions.beyond(&first.with_functions()), None);
        assert!(has_function(&serde_json::json!({ "reranker": [{ "python": { "source": "…" } }] })));
        assert!(!has_function(&serde_json::json!({ "title": "python", "python": null })));
    }

    #[test]
    fn a_database_is_reached_by_host_table_and_condition() {
        let of = |space: &str| {
            let text = format!(
                "name = 'a'\n[corpus]\nsource = 'd'\n[models.e]\nembedding = {{ local = {{ model = 'all-minilm-l6-v2' }} }}\n[space]\nembedder = ['e']\n{space}\n"
            );
            Reach::of_experiment(&Experiment::parse(&text, ".").unwrap())
        };
        let table = |settings: &str| of(&format!("retriever = [{{ pgvector = {{ {settings} }} }}]"));
        let first = table("url = 'postgresql://good/docs', table = 'docs'");
        assert_eq!(table("url = 'postgresql://good/docs', table = 'docs', top_k = 9, ef = 80").beyond(&first), None);
        for (settings, named) in [
            ("url = 'postgresql://evil/docs', table = 'docs'", "postgresql://evil/docs"),
            ("url = 'postgresql://good/docs?options=-csearch_path%3Devil', table = 'docs'", "search_path"),
            ("url = 'postgresql://good/docs', table = 'salaries'", "salaries"),
            ("url = 'postgresql://good/docs', table = 'docs', condition = 'true or 1 = 1'", "true or 1 = 1"),
            ("url = 'postgresql://good/docs', table = 'docs', plain = true", "plain"),
            ("url = 'env:AWS_SECRET_ACCESS_KEY', table = 'docs'", "AWS_SECRET_ACCESS_KEY"),
        ] {
            let beyond = table(settings).beyond(&first).unwrap_or_default();
            assert!(beyond.contains(named), "{settings}: {beyond}");
        }
        let filled =
            |index: &str| of(&format!("chunker = ['sentence']\nindex = [{{ {index} }}]\nretriever = ['dense']"));
        let first = filled("chroma = { url = 'http://good:8000' }");
        assert!(
            filled("chroma = { url = 'http://good:8000', tenant = 'evil' }").beyond(&first).unwrap().contains("evil")
        );
        let key = filled("chroma = { url = 'http://good:8000', api_key = 'env:SECRET' }").beyond(&first).unwrap();
        assert!(key.contains("`SECRET`"), "{key}");
    }

    #[test]
    fn settings_in_another_form_are_seen_all_the_same() {
        let of = |text: &str| Reach::of_experiment(&Experiment::parse(text, ".").unwrap());
        let file = |models: &str, reranker: &str| {
            format!(
                "name = 'a'\n[corpus]\nsource = 'd'\n{models}\n[space]\nchunker = ['token']\nretriever = ['bm25']\n{reranker}\n"
            )
        };
        let first = of(&file("", ""));
        let code = "def rerank(question, passages):\\n    return [0] * len(passages)";
        for function in [
            format!("{{ python = {{ source = \"{code}\" }} }}"),
            format!("{{ python = [\"\", \"{code}\", \"rerank\"] }}"),
        ] {
            let file = file("", &format!("reranker = [{function}]"));
            assert!(of(&file).beyond(&first).unwrap().contains("code"), "{file}");
        }
    }
}
