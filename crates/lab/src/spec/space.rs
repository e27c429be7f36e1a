//! The search space: `[space]`, or several `[[space]]`.

use super::{
    evaluate,
    reader::ExperimentReader,
    table::{NamedModel, key_start, read_list, unknown_keys, without_positions},
};
use models::ModelKind;
use rag::{
    Axis, AxisValue, Choice, Component, InputSize, PipelineConfig, ReadSpace, Space, chunk::ChunkerConfig,
    generate::Prompt, parse::ParseConfig, retrieve::RetrieverConfig,
};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// What an experiment compares: the combinations of one table `[space]`, or
/// those of several tables `[[space]]`, one after the other. With several, an
/// axis can be searched where it matters: BM25 over ten chunkers, say, and
/// vectors over two.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(into = "WrittenSpaces")]
pub struct Spaces(Vec<Space>);

/// Spaces as they are written in a file.
#[derive(Serialize)]
#[serde(untagged)]
enum WrittenSpaces {
    One(Box<Space>),
    Several(Vec<Space>),
}

impl From<Spaces> for WrittenSpaces {
    fn from(spaces: Spaces) -> Self {
        match <[Space; 1]>::try_from(spaces.0) {
            Ok([one]) => Self::One(Box::new(one)),
            Err(several) => Self::Several(several),
        }
    }
}

impl From<Space> for Spaces {
    fn from(space: Space) -> Self {
        Self(vec![space])
    }
}

impl Spaces {
    /// Whether there is no table.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values of an axis, in the order of the file. A value of an earlier table is not repeated
    /// for a later one.
    pub fn on(&self, axis: Axis) -> Vec<&dyn Choice> {
        let (mut found, mut earlier) = (Vec::new(), Vec::new());
        for space in &self.0 {
            let values = space.on(axis);
            let written: Vec<_> = values.iter().map(|value| value.value()).collect();
            found.extend(
                values.into_iter().zip(&written).filter(|(_, value)| !earlier.contains(*value)).map(|(value, _)| value),
            );
            earlier.extend(written);
        }
        found
    }

    /// The parsers, each once, in the order of the file: the first one is that of the documents that are looked at
    /// before a run. None without a table.
    pub(crate) fn parsers(&self) -> Vec<&ParseConfig> {
        let mut found: Vec<&ParseConfig> = Vec::new();
        for parser in self.0.iter().flat_map(|space| &space.parse) {
            if !found.contains(&parser) {
                found.push(parser);
            }
        }
        found
    }

    /// The number of a pipeline's parser among [`parsers`](Self::parsers). A pipeline without retrieval has the first
    /// one, because it reads no documents.
    pub(crate) fn parser_number(&self, parser: &ParseConfig) -> usize {
        self.parsers().into_iter().position(|known| known == parser).unwrap_or(0)
    }

    /// Every combination of each table; the last axis varies fastest. A pipeline that is in two
    /// tables occurs twice.
    pub fn combinations(&self) -> impl Iterator<Item = PipelineConfig> {
        self.0.iter().flat_map(Space::combinations)
    }
}

type References = Vec<(NamedModel, ModelKind, &'static str)>;

pub(super) fn read<'a>(
    reader: &mut ExperimentReader<'a>,
    root: &DeTable<'a>,
    base: &Path,
    chat: Option<&str>,
    references: &mut References,
) -> Spaces {
    let Some(value) = root.get("space") else {
        if root.get("systems").is_some() {
            return Spaces::default();
        }
        reader.error(0, "`[space]` is missing: it lists the chunkers, embedders and retrievers to compare");
        return Spaces::default();
    };
    let tables: Vec<(String, usize, Option<&DeTable<'a>>)> = match value.get_ref() {
        DeValue::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(i, item)| (format!("space[{i}]"), item.span().start, item.get_ref().as_table())).collect()
        }
        other => {
            let at = if other.as_table().is_some() { key_start(root, "space") } else { value.span().start };
            vec![("space".to_owned(), at, other.as_table())]
        }
    };
    if tables.is_empty() {
        reader.error(value.span().start, "space: the list is empty, so there would be no trial");
    }
    let mut spaces = Vec::new();
    for (place, at, table) in tables {
        match table {
            Some(table) => spaces.push(read_table(reader, (&place, at, table), (base, chat), references)),
            None => reader.error(at, format!("{place}: expected a table of axes")),
        }
    }
    Spaces(spaces)
}

/// An experiment file with another name, and with the tables of `space` at its end in place of its
/// own.
pub(super) fn replace_space(text: &str, name: &str, space: &str) -> String {
    let (mut kept, mut table) = (String::new(), None);
    for line in text.lines() {
        table = header(line).or(table);
        match table {
            None if line.split_once('=').is_some_and(|(key, _)| key.trim() == "name") => {
                kept += &format!("name = {}\n", serde_json::Value::from(name));
            }
            Some("space") => {}
            _ => kept += &format!("{line}\n"),
        }
    }
    format!("{}\n\n{space}", kept.trim_end())
}

/// The first key of a table's header, if this line is one.
fn header(line: &str) -> Option<&str> {
    let inside = line.strip_prefix('[')?.trim_start_matches('[').trim_start();
    let end = inside.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_".contains(letter)))?;
    let is_key = inside.starts_with(|letter: char| letter.is_ascii_alphabetic());
    (is_key && inside[end..].trim_start().starts_with(['.', ']'])).then_some(&inside[..end])
}

/// Reads one table; `place` and `at` say where it stands. `chat` is the only
/// chat model, if there is only one.
fn read_table<'a>(
    reader: &mut ExperimentReader<'a>,
    (place, at, table): (&str, usize, &DeTable<'a>),
    (base, chat): (&Path, Option<&str>),
    references: &mut References,
) -> Space {
    unknown_keys(reader, table, Axis::NAMES, place);
    let missing: Vec<Axis> =
        Axis::ALL.iter().copied().filter(|axis| axis.is_required() && table.get(axis.name()).is_none()).collect();
    let mut read = Space::read(&mut AxisReader { reader, place, table, base, chat, references });
    for axis in missing {
        // An index of the user's own has chunks already.
        let has_chunks = !read.retriever.is_empty() && read.retriever.iter().all(|it| it.existing_index().is_some());
        match axis {
            Axis::Chunker if has_chunks => read.chunker.extend(uncut()),
            _ => reader.error(at, format!("{place}: the axis `{}` is missing", axis.name())),
        }
    }
    check_existing_indexes(reader, &read, place, at);
    check_embedder(reader, &read, (place, at, table));
    check_prompt(reader, &read, place, table);
    read
}

/// The chunker that makes no chunks.
fn uncut() -> Option<ChunkerConfig> {
    ChunkerConfig::defaults().into_iter().find(Component::is_nothing)
}

/// Checks that what reads chunks has chunks to read: an index of the user's own comes without.
fn check_existing_indexes(reader: &mut ExperimentReader<'_>, read: &Space, place: &str, at: usize) {
    let existing = read.retriever.iter().find(|retriever| retriever.existing_index().is_some());
    let needs_chunks = |it: &&RetrieverConfig| it.existing_index().is_none() && !it.is_nothing();
    let other = read.retriever.iter().find(needs_chunks);
    if let (Some(other), true) = (other, read.chunker.iter().any(Component::is_nothing)) {
        let name = other.name();
        reader.error(
            at,
            format!("{place}: the chunker `none` makes no chunks, and the retriever `{name}` searches chunks"),
        );
    }
    let Some(existing) = existing else { return };
    for axis in [Axis::Reranker, Axis::Refine] {
        for value in read.on(axis).into_iter().filter(|value| !value.is_nothing() && value.reads_chunks()) {
            let (stage, name) = (value.name(), existing.name());
            reader.error(
                at,
                format!(
                    "{place}: `{stage}` reads chunks, and the retriever `{name}` searches an index of yours, which has \
                     none; put them into two tables `[[space]]`"
                ),
            );
        }
    }
}

/// Checks that instructions are set in one place only: on their axis or in the generators.
fn check_prompt(reader: &mut ExperimentReader<'_>, read: &Space, place: &str, table: &DeTable<'_>) {
    let Some(listed) = table.get(Axis::Prompt.name()) else { return };
    if !read.generator.iter().any(|generator| generator.prompt().is_some()) {
        let reason = "no generator uses it: list one that takes a prompt, such as `compact`, under `generator`";
        reader.error(listed.span().start, format!("{place}.prompt: {reason}"));
    }
    for generator in &read.generator {
        let name = generator.name();
        if let Some(own) = generator.prompt().filter(|own| *own != Prompt::default()) {
            let own = serde_json::json!(own);
            let reason =
                format!("`{name}` has `prompt = {own}` of its own: leave that out, or move {own} into this list");
            reader.error(listed.span().start, format!("{place}.prompt: {reason}"));
        }
    }
}

/// Reads the lists of the axes from one table.
struct AxisReader<'r, 'a> {
    reader: &'r mut ExperimentReader<'a>,
    place: &'r str,
    table: &'r DeTable<'a>,
    base: &'r Path,
    chat: Option<&'r str>,
    references: &'r mut References,
}

/// Names the only chat model in a component that asks one and names none.
fn name_model<T: AxisValue>(value: &mut T, chat: &str) {
    let unnamed: Vec<ModelKind> = value
        .estimate_calls(InputSize::default())
        .iter()
        .filter(|ask| ask.model.is_empty())
        .map(|ask| ask.kind)
        .collect();
    if unnamed.is_empty() || unnamed.iter().any(|kind| *kind != ModelKind::Chat) {
        return;
    }
    let mut named = value.value();
    fill(&mut named, chat);
    if let Ok(named) = serde_json::from_value(named) {
        *value = named;
    }
}

fn fill(settings: &mut Value, chat: &str) {
    let Value::Object(fields) = settings else { return };
    for (name, value) in fields {
        if name == "model" && value == "" {
            *value = chat.into();
        }
        fill(value, chat);
    }
}

impl ReadSpace for AxisReader<'_, '_> {
    fn read<T: AxisValue>(&mut self, axis: Axis) -> Vec<T> {
        let Self { reader, place, table, base, chat, references } = self;
        let read = |path: &str| evaluate::read_file(base, path);
        let mut listed =
            read_list::<T>(reader, (place, table), axis.name(), T::HAS_SETTINGS, "there would be no trial");
        for (value, at) in &mut listed {
            if let Some(chat) = chat {
                name_model(value, chat);
            }
            let name = value.name().to_owned();
            if let Err(reason) = value.read_files(&read) {
                reader.error(*at, format!("{place}.{}: {name}: {reason}", axis.name()));
            } else if let Err(error) = value.check() {
                reader.error(*at, format!("{place}.{}: {error}", axis.name()));
            }
            for ask in value.estimate_calls(InputSize::default()) {
                references.push(((ask.model.to_owned(), *at), ask.kind, axis.place()));
            }
        }
        without_positions(listed)
    }
}

/// Checks that there is an embedder if a component needs one.
fn check_embedder(reader: &mut ExperimentReader<'_>, read: &Space, (place, at, table): (&str, usize, &DeTable<'_>)) {
    if !read.embedder.is_empty() || table.get(Axis::Embedder.name()).is_some() {
        return;
    }
    for &axis in Axis::ALL {
        let Some(value) = read.on(axis).into_iter().find(|value| value.needs_embedder()) else { continue };
        let missing = match axis {
            Axis::Retriever => "a retriever searches vectors, but the axis `embedder` is missing".to_owned(),
            _ => format!("`{}` needs the axis `embedder`", value.name()),
        };
        reader.error(at, format!("{place}: {missing}"));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, plan::trial};
    use rag::Axis;

    fn parse(spaces: &str) -> Result<Experiment, Vec<String>> {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[models.tiny]\nembedding.static = {{ model = \"m\" }}\n{spaces}"
        );
        Experiment::parse(&text, ".").map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    const TWO: &str = "[[space]]\nchunker = [\"sentence\", \"token\"]\nretriever = [\"bm25\", { bm25 = { top_k = 9 } }]\n\
        [[space]]\nchunker = [\"markdown\", \"token\"]\nembedder = \"tiny\"\nretriever = [\"bm25\", \"dense\"]\n";

    #[test]
    fn instructions_stand_in_one_place_and_are_told_to_a_generator() {
        let with = |generator: &str| {
            parse(&format!(
                "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"http://127.0.0.1:1/v1\" }}\n[space]\n\
                 chunker = [\"sentence\"]\nretriever = [\"bm25\"]\nprompt = [\"grounded\", \"brief\"]\n{generator}"
            ))
        };
        let trials = trial::grid(&with("generator = [{ compact = { model = \"gpt\" } }]").unwrap());
        let told: Vec<&str> = trials.iter().map(|trial| trial.label(Axis::Prompt)).collect();
        assert_eq!(told, ["grounded", "brief"]);
        let none = with("").unwrap_err().concat();
        assert!(none.contains("no generator uses it"), "{none}");
        let twice = with("generator = [{ compact = { model = \"gpt\", prompt = \"brief\" } }]").unwrap_err().concat();
        assert!(twice.contains("`compact` has `prompt = \"brief\"` of its own"), "{twice}");
    }

    #[test]
    fn the_only_chat_model_need_not_be_named() {
        let with = |more: &str| {
            parse(&format!(
                "[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"http://127.0.0.1:1/v1\" }}\n{more}\n[space]\n\
                 chunker = [\"sentence\"]\nretriever = [\"bm25\"]\nquery = [\"condense\"]\ngenerator = [\"compact\"]"
            ))
        };
        let experiment = with("").unwrap();
        for axis in [Axis::Query, Axis::Generator] {
            let value = experiment.space.on(axis)[0].value();
            assert_eq!(value.as_object().unwrap().values().next().unwrap()["model"], "gpt", "{value}");
        }
        let two = with("[models.other]\nchat.openai = { model = \"o\", base_url = \"http://127.0.0.1:1/v1\" }");
        let refused = two.unwrap_err().concat();
        assert!(refused.contains("no model is named; there are gpt, other"), "{refused}");
    }

    #[test]
    fn the_trials_are_the_combinations_of_each_table_and_no_trial_is_there_twice() {
        let experiment = parse(TWO).unwrap();
        let trials = trial::grid(&experiment);
        let told: Vec<String> = trials
            .iter()
            .map(|trial| format!("{} {} {}", trial.id, trial.label(Axis::Chunker), trial.label(Axis::Retriever)))
            .collect();
        assert_eq!(
            told,
            [
                "t01 sentence bm25(top_k=5)",
                "t02 sentence bm25(top_k=9)",
                "t03 token bm25(top_k=5)",
                "t04 token bm25(top_k=9)",
                "t05 markdown bm25(top_k=5)",
                "t06 markdown dense",
                "t07 token dense",
            ]
        );
        assert_eq!(experiment.space.on(Axis::Chunker).len(), 3);
    }

    #[test]
    fn a_space_of_several_tables_is_shown_as_the_same_experiment() {
        let read = |text: &str| Experiment::parse(text, ".").map(|read| Experiment { text: String::new(), ..read });
        let experiment = Experiment { text: String::new(), ..parse(TWO).unwrap() };
        assert_eq!(read(&experiment.text_without_secrets()), Ok(experiment.clone()));
        assert_eq!(read(&experiment.portable()), Ok(experiment));
    }

    #[test]
    fn another_space_takes_the_place_of_the_tables_and_the_rest_stays() {
        let head = "# ours\nname = \"x\"  # old\n[corpus]\nsource = \"d\"\n\n";
        let rest = "[models.tiny]\nembedding.static = { model = \"m\" }\n[evaluate]\n# why\nmetrics = [\n[]\n]\n";
        let space = "[[space]]\nchunker = \"token\"\nretriever = \"bm25\"\n";
        let text = super::replace_space(&format!("{head}{TWO}{rest}"), "next", space);
        assert_eq!(text, format!("{}{}\n\n{space}", head.replace("\"x\"  # old", "\"next\""), rest.trim_end()));
        let nested = format!("{head}[space]\nchunker = \"token\"\n[space.retriever.bm25]\ntop_k = 3\n{rest}");
        assert_eq!(super::replace_space(&nested, "next", space), text);
        let whole = nested.replace("[\n[]\n]", "[\n\"recall\"\n]");
        assert!(Experiment::with_space(&whole, ".", "next", space).unwrap_err().to_string().contains("[dataset]"));
    }

    #[test]
    fn a_mistake_names_its_table() {
        let told = parse(&TWO.replace("embedder = \"tiny\"\n", "").replace("\"markdown\"", "\"mark\"")).unwrap_err();
        assert!(told.iter().any(|told| told.contains("space[1].chunker[0]")), "{told:#?}");
        assert!(told.iter().any(|told| told.contains("space[1]: a retriever searches vectors")), "{told:#?}");
        assert!(
            parse("[[space]]\nretriever = \"bm25\"\n").unwrap_err()[0]
                .contains("space[0]: the axis `chunker` is missing")
        );
        assert!(parse("").unwrap_err()[0].contains("`[space]` is missing"));
        let text = "space = [1]\n".to_owned();
        let text = format!("{text}name = \"x\"\n[corpus]\nsource = \"d\"\n");
        assert!(
            Experiment::parse(&text, ".").unwrap_err()[0].to_string().contains("space[0]: expected a table of axes")
        );
    }
}
