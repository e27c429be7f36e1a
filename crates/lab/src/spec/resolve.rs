//! From raw TOML to a checked [`Experiment`].

use crate::search::{SearchConfig, SearchProblem};

use super::{
    CorpusSpec, DatasetSpec, Experiment, SpecError, SystemSpec, WarningSpec, engine,
    evaluate::{self, EvaluateContext},
    nearest,
    overrides::{Override, PlacedOverride},
    reader::ExperimentReader,
    space, systems,
    table::{key_start, optional, required, unknown_keys},
    track,
};
use models::{Catalogue, ModelConfig, ModelKind};
use rag::Axis;
use std::{collections::BTreeMap, path::PathBuf};
use toml::de::DeTable;

pub(super) const SECTIONS: &[&str] = &[
    "name", "store", "corpus", "dataset", "models", "space", "systems", "search", "evaluate", "engine", "track",
    "warnings",
];

pub(super) fn resolve(text: &str, base: PathBuf, overrides: &[Override]) -> Result<Experiment, Vec<SpecError>> {
    let placed = PlacedOverride::all(overrides, text.len());
    let mut reader = ExperimentReader::with(text, &placed);
    let Some(root) = reader.parse() else { return Err(reader.finish()) };
    unknown_keys(&mut reader, &root, SECTIONS, "the experiment");

    let name: Option<String> = required(&mut reader, &root, "name");
    if let Some(name) = &name
        && (name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)))
    {
        reader
            .error(key_start(&root, "name"), "name: use letters, digits, `-` and `_` only: it becomes a folder's name");
    }
    let store = optional::<String>(&mut reader, &root, "store").unwrap_or_else(|| "./.reverie".to_owned());
    let corpus = required::<CorpusSpec>(&mut reader, &root, "corpus").unwrap_or_default();
    if root.get("corpus").is_some() && corpus.source.is_empty() && reader.is_clean() {
        reader.error(
            key_start(&root, "corpus"),
            "corpus: `source` is missing: a folder, a glob, a file or an object-store URL",
        );
    }
    let dataset = optional::<DatasetSpec>(&mut reader, &root, "dataset");
    for mistake in dataset.iter().flat_map(DatasetSpec::mistakes) {
        reader.error(key_start(&root, "dataset"), mistake);
    }
    let mut models = read_models(&mut reader, &root);
    let mut references = Vec::new();
    let chat = only_chat_model(&models).map(str::to_owned);
    let systems = systems::read(&mut reader, &root, &base);
    let space = space::read(&mut reader, &root, &base, chat.as_deref(), &mut references);
    let search = read_search(&mut reader, &root);
    let writes_answers = !space.on(Axis::Generator).is_empty() || systems.values().any(SystemSpec::writes_answers);
    let context = EvaluateContext { writes_answers, base: &base };
    let evaluate = evaluate::read(&mut reader, &root, &context, &mut references);
    let engine = engine::read(&mut reader, &root);
    let track = track::read(&mut reader, &root);
    let warnings = optional::<WarningSpec>(&mut reader, &root, "warnings").unwrap_or_default();
    for mistake in warnings.mistakes() {
        reader.error(key_start(&root, "warnings"), mistake);
    }

    if dataset.as_ref().is_some_and(|dataset| dataset.limit == Some(0))
        && let Some(table) = root.get("dataset").and_then(|value| value.get_ref().as_table())
    {
        reader.error(key_start(table, "limit"), "dataset.limit: must be at least 1; leave it out to ask all questions");
    }
    if let (Some(DatasetSpec { generate: Some(generate), .. }), Some(value)) = (&dataset, root.get("dataset")) {
        references.push(((generate.model.clone(), value.span().start), ModelKind::Chat, "dataset.generate.model"));
        if let Err(reason) = generate.options.check() {
            reader.error(value.span().start, format!("dataset.generate: {reason}"));
        }
    }
    let named = references.iter().map(|((name, _), kind, _)| (name.as_str(), *kind));
    add_catalogue_models(&mut models, named);
    for ((model, at), kind, place) in references {
        check_model(&mut reader, &models, &model, at, kind, place);
    }
    if !systems.is_empty() && dataset.is_none() {
        reader.error(
            key_start(&root, "systems"),
            "systems: they are asked questions: add [dataset] with `path = \"golden.jsonl\"`",
        );
    }
    if !evaluate.metrics.is_empty() && dataset.is_none() && root.get("evaluate").is_some() {
        reader.error(
            key_start(&root, "evaluate"),
            "evaluate: metrics need questions: add [dataset] with `path = \"golden.jsonl\"`",
        );
    }
    match name {
        Some(name) if reader.is_clean() => {
            let models = models.into_iter().filter_map(|(name, config)| Some((name, config?))).collect();
            Ok(Experiment {
                name,
                base,
                store,
                corpus,
                dataset,
                models,
                space,
                systems,
                search,
                evaluate,
                engine,
                track,
                warnings,
                text: text.to_owned(),
                overrides: Vec::new(),
                file: None,
            })
        }
        _ => Err(reader.finish()),
    }
}

/// The name of the chat model under `[models]`, if there is exactly one.
fn only_chat_model(models: &BTreeMap<String, Option<ModelConfig>>) -> Option<&str> {
    let is_chat =
        |config: &&Option<ModelConfig>| config.as_ref().is_some_and(|config| config.kind() == ModelKind::Chat);
    let mut chats = models.iter().filter(|(_, config)| is_chat(config)).map(|(name, _)| name.as_str());
    chats.next().filter(|_| chats.next().is_none())
}

/// Adds the models of the catalogue that are named and have no entry under
/// `[models]`: each runs in this process, with default settings.
fn add_catalogue_models<'a>(
    models: &mut BTreeMap<String, Option<ModelConfig>>,
    named: impl Iterator<Item = (&'a str, ModelKind)>,
) {
    for (name, kind) in named {
        if !models.contains_key(name) && Catalogue::embedded().find(name).is_some_and(|entry| entry.kind == kind) {
            models.insert(name.to_owned(), ModelConfig::local_default(kind, name));
        }
    }
}

pub(super) fn read_models<'a>(
    reader: &mut ExperimentReader<'a>,
    root: &DeTable<'a>,
) -> BTreeMap<String, Option<ModelConfig>> {
    let mut models = BTreeMap::new();
    let Some(value) = root.get("models") else { return models };
    let Some(table) = value.get_ref().as_table() else {
        reader.error(value.span().start, "models: expected a table such as [models.NAME]");
        return models;
    };
    for (name, value) in table {
        // A model with mistakes is still known by name, so that its uses are
        // not reported as well.
        let config = reader.read::<ModelConfig>(value, &format!("models.{}", name.get_ref()));
        models.insert(name.get_ref().to_string(), config);
    }
    models
}

pub(super) fn check_model(
    reader: &mut ExperimentReader<'_>,
    models: &BTreeMap<String, Option<ModelConfig>>,
    name: &str,
    at: usize,
    kind: ModelKind,
    place: &str,
) {
    match models.get(name) {
        None => {
            let known: Vec<&str> = models.keys().map(String::as_str).collect();
            if name.is_empty() {
                let is_wanted =
                    |config: &Option<ModelConfig>| config.as_ref().is_none_or(|config| config.kind() == kind);
                let wanted: Vec<&str> =
                    models.iter().filter(|(_, config)| is_wanted(config)).map(|(name, _)| name.as_str()).collect();
                let which = match &wanted[..] {
                    [] => format!("add one of kind {} under [models], and name it here", kind.name()),
                    known => format!("there are {}", known.join(", ")),
                };
                reader.error(at, format!("{place}: no model is named; {which}"));
                return;
            }
            let catalogue = Catalogue::embedded().names(kind);
            let hint = nearest(name, known.into_iter().chain(catalogue.iter().copied()))
                .map(|word| format!("did you mean `{word}`?"))
                .unwrap_or_else(|| {
                    format!("add [models.{name}], or name one of the catalogue: {}", catalogue.join(", "))
                });
            reader.error(at, format!("{place}: there is no model `{name}`; {hint}"));
        }
        Some(Some(config)) if config.kind() != kind => {
            let (found, kind) = (config.kind().name(), kind.name());
            reader
                .error(at, format!("{place}: model `{name}` is of kind {found}, but a model of kind {kind} is needed"));
        }
        Some(_) => {}
    }
}

/// A strategy by its name, or a table with its settings.
fn read_search<'a>(reader: &mut ExperimentReader<'a>, root: &DeTable<'a>) -> SearchConfig {
    let Some(value) = root.get("search") else { return SearchConfig::default() };
    if let Some(table) = value.get_ref().as_table() {
        unknown_keys(reader, table, SearchConfig::NAMES, "search");
        if table.keys().any(|key| !SearchConfig::NAMES.contains(&key.get_ref().as_ref())) {
            return SearchConfig::default();
        }
    }
    let Some(config) = reader.read::<SearchConfig>(value, "search") else { return SearchConfig::default() };
    // A minimal problem is enough to check the settings.
    let problem =
        SearchProblem { trials: vec![BTreeMap::new()], choices: vec![BTreeMap::new()], questions: 1, width: 1.0 };
    if let Err(reason) = config.build(&problem) {
        reader.error(value.span().start, format!("search.{}: {reason}", config.name()));
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> Result<Experiment, Vec<String>> {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g.jsonl\"\n[space]\nchunker = \"sentence\"\n\
             retriever = \"dense\"\n{rest}"
        );
        let told = |errors: Vec<SpecError>| errors.into_iter().map(|error| error.message).collect();
        Experiment::parse(&text, ".").map_err(told)
    }

    #[test]
    fn a_model_of_the_catalogue_needs_no_entry() {
        let rest = "embedder = [\"all-minilm-l6-v2\"]\n\
            generator = { compact = { model = \"qwen2.5-coder-0.5b-instruct\" } }\n\
            [evaluate]\nmetrics = [\"faithfulness\", \"answer_similarity\"]\n\
            judge = \"qwen2.5-coder-0.5b-instruct\"\nembedder = \"all-minilm-l6-v2\"\n";
        let entries = "[models.all-minilm-l6-v2]\nembedding.local = { model = \"all-minilm-l6-v2\" }\n\
            [models.\"qwen2.5-coder-0.5b-instruct\"]\nchat.local = { model = \"qwen2.5-coder-0.5b-instruct\" }\n";
        let (named, listed) = (parse(rest).unwrap(), parse(&format!("{rest}{entries}")).unwrap());
        assert_eq!(named.models, listed.models);
        assert_eq!(named.models.len(), 2);
        assert_eq!(
            named.text_without_secrets(),
            listed.text_without_secrets(),
            "the record of a run holds the entries"
        );
    }

    #[test]
    fn an_entry_of_a_catalogue_name_is_what_it_says() {
        let entry =
            "embedder = \"all-minilm-l6-v2\"\n[models.all-minilm-l6-v2]\nembedding.static = { model = \"other\" }\n";
        let own = parse(entry).unwrap();
        assert!(matches!(own.models["all-minilm-l6-v2"].kind(), ModelKind::Embedding));
        assert_ne!(
            Some(own.models["all-minilm-l6-v2"].clone()),
            ModelConfig::local_default(ModelKind::Embedding, "all-minilm-l6-v2")
        );
    }

    #[test]
    fn a_name_of_neither_is_told_with_the_names_that_may_be_meant() {
        let near = parse("embedder = \"all-minilm-l6-v3\"\n").unwrap_err();
        assert_eq!(near, ["space.embedder: there is no model `all-minilm-l6-v3`; did you mean `all-minilm-l6-v2`?"]);
        let far = parse("embedder = \"xyz\"\n").unwrap_err().join("\n");
        assert!(far.contains("there is no model `xyz`; add [models.xyz], or name one of the catalogue: "), "{far}");
        assert!(far.contains("all-minilm-l6-v2") && !far.contains("qwen"), "{far}");
        let chat = parse("embedder = \"qwen2.5-coder-0.5b-instruct\"\n").unwrap_err().join("\n");
        assert!(chat.contains("there is no model `qwen2.5-coder-0.5b-instruct`"), "it makes no vectors: {chat}");
    }
}
