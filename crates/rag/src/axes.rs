//! What follows from the table of stages in `lib.rs`: the axes of the search
//! space, in the order in which a document and a question pass through them, and
//! the settings of one pipeline. No other place lists the stages.

use crate::{
    Axis, Choice, Component, PipelineConfig,
    analysis::TextAnalysis,
    chunk::ChunkerConfig,
    enrich::EnrichConfig,
    generate::GeneratorConfig,
    index::{IndexKind, Indexes},
    retrieve::RetrieverConfig,
    stage::AxisValue,
    vector_index::VectorIndexConfig,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A field of [`PipelineConfig`]: the value of an axis, or an `Option` of it where the axis may be left out.
pub trait Field: Sized {
    /// The type of the values in the axis' list.
    type Value: AxisValue;

    /// All values to choose from, given those that the file lists.
    fn all(listed: &[Self::Value]) -> Vec<Self>;

    /// The value, if there is one.
    fn chosen(&self) -> Option<&Self::Value>;

    /// The value that a pipeline without retrieval gets; none if it keeps the one that it has.
    fn unused() -> Option<Self>;
}

impl<T: AxisValue> Field for T {
    type Value = T;

    fn all(listed: &[T]) -> Vec<T> {
        if listed.is_empty() { T::unlisted().into_iter().collect() } else { listed.to_vec() }
    }
    fn chosen(&self) -> Option<&T> {
        Some(self)
    }
    fn unused() -> Option<T> {
        T::unused()
    }
}

impl<T: AxisValue> Field for Option<T> {
    type Value = T;

    fn all(listed: &[T]) -> Vec<Option<T>> {
        if listed.is_empty() { vec![None] } else { listed.iter().cloned().map(Some).collect() }
    }
    fn chosen(&self) -> Option<&T> {
        self.as_ref()
    }
    fn unused() -> Option<Option<T>> {
        Some(None)
    }
}

/// Reads the lists of the experiment file.
pub trait ReadSpace {
    /// The values that are listed on an axis.
    fn read<T: AxisValue>(&mut self, axis: Axis) -> Vec<T>;
}

macro_rules! stages {
    ($( #[doc = $about:literal] $Axis:ident $axis:ident: $field:ty, in $module:ident, $from:ident => $to:ident; )+) => {
        $( pub mod $module; )+

        /// A dimension of the search space: a stage, by the name of its list in
        /// the experiment file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Axis {
            $( #[doc = $about] $Axis, )+
        }

        impl Axis {
            /// All, in the order of the stages.
            pub const ALL: &'static [Self] = &[$( Self::$Axis ),+];
            /// Their names, in that order.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($axis) ),+];

            /// The name, as it is written in the experiment file.
            pub fn name(self) -> &'static str {
                match self { $( Self::$Axis => stringify!($axis), )+ }
            }

            /// Where its list stands in the experiment file.
            pub fn place(self) -> &'static str {
                match self { $( Self::$Axis => concat!("space.", stringify!($axis)), )+ }
            }

            /// The stage's name: that of its folder.
            pub fn stage(self) -> &'static str {
                match self { $( Self::$Axis => stringify!($module), )+ }
            }

            /// What it chooses, in a sentence or two.
            pub fn about(self) -> &'static str {
                match self { $( Self::$Axis => $about.trim_ascii(), )+ }
            }

            /// The stage's input.
            pub fn input(self) -> Data {
                match self { $( Self::$Axis => Data::$from, )+ }
            }

            /// The stage's output.
            pub fn output(self) -> Data {
                match self { $( Self::$Axis => Data::$to, )+ }
            }

            /// The JSON Schema of its components and their settings; none if it has no settings.
            pub fn schema(self) -> Option<serde_json::Value> {
                match self { $( Self::$Axis => {
                    type Value = <$field as $crate::axes::Field>::Value;
                    Value::HAS_SETTINGS.then($crate::schema_of::<Value>)
                } )+ }
            }

            /// The names of its components, each with the docs of its file.
            pub fn docs(self) -> Vec<(&'static str, String)> {
                match self { $( Self::$Axis => <<$field as $crate::axes::Field>::Value as $crate::Choice>::docs(), )+ }
            }

            /// Whether every experiment must list it.
            pub fn is_required(self) -> bool {
                match self { $( Self::$Axis => <$field as $crate::axes::Field>::all(&[]).is_empty(), )+ }
            }
        }

        #[cfg(test)]
        impl Axis {
            /// Its components with their default settings, if they have settings.
            pub(crate) fn components(self) -> Vec<Box<dyn Choice>> {
                match self { $( Self::$Axis => $crate::axes::tests::components_of::<<$field as $crate::axes::Field>::Value>(), )+ }
            }
        }

        /// The values to choose from, for each axis.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        pub struct Space {
            $( #[doc = $about] pub $axis: Vec<<$field as $crate::axes::Field>::Value>, )+
        }

        impl Space {
            /// Reads the list of each axis. If the file lacks a list and the
            /// axis has a default value, that is used.
            pub fn read(reader: &mut impl ReadSpace) -> Self {
                Self { $( $axis: {
                    let listed = reader.read(Axis::$Axis);
                    if listed.is_empty() { <$field as $crate::axes::Field>::Value::unlisted().into_iter().collect() } else { listed }
                }, )+ }
            }

            /// The values of an axis.
            pub fn on(&self, axis: Axis) -> Vec<&dyn Choice> {
                match axis { $( Axis::$Axis => self.$axis.iter().map(|value| value as &dyn Choice).collect(), )+ }
            }

            /// Every combination; the last axis varies fastest.
            pub fn combinations(&self) -> Vec<PipelineConfig> {
                let sizes = [$( <$field as $crate::axes::Field>::all(&self.$axis).len() ),+];
                let total: usize = sizes.iter().product();
                let values = ($( <$field as $crate::axes::Field>::all(&self.$axis), )+);
                (0..total).filter_map(|combination| {
                    let mut rest = total;
                    let mut left = combination;
                    let mut sizes = sizes.iter();
                    let mut next = || {
                        rest /= *sizes.next()?;
                        let i = left / rest;
                        left %= rest;
                        Some(i)
                    };
                    let ($( $axis, )+) = &values;
                    Some(PipelineConfig { $( $axis: $axis.get(next()?)?.clone(), )+ }.normal())
                }).collect()
            }
        }

        /// The settings of one pipeline: a value on each axis.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct PipelineConfig {
            $( #[doc = $about] pub $axis: $field, )+
        }

        impl<'de> Deserialize<'de> for PipelineConfig {
            // By hand, because older files lack newer axes.
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut fields = serde_json::Map::deserialize(deserializer)?;
                Ok(Self {
                    $( $axis: $crate::axes::field(fields.remove(stringify!($axis)), stringify!($axis))?, )+
                })
            }
        }

        impl PipelineConfig {
            /// The value on an axis, if it has one.
            pub fn on(&self, axis: Axis) -> Option<&dyn Choice> {
                match axis { $( Axis::$Axis => $crate::axes::Field::chosen(&self.$axis).map(|value| value as &dyn Choice), )+ }
            }

            /// The same pipeline without retrieval.
            fn without_retrieval(mut self) -> Self {
                $(
                    if Axis::$Axis.output() != Data::Answers && let Some(unused) = $crate::axes::Field::unused() {
                        self.$axis = unused;
                    }
                )+
                self
            }

            /// The stages between retrieval and answer that do something, in
            /// their order.
            pub fn passage_stages(&self) -> Vec<(Axis, &dyn PassageStage)> {
                let all = [$( (Axis::$Axis, $crate::axes::Field::chosen(&self.$axis).and_then(AxisValue::as_passage_stage)) ),+];
                let present = all.into_iter().filter_map(|(axis, stage)| Some((axis, stage?)));
                present.filter(|(_, stage)| !stage.is_nothing()).collect()
            }
        }
    };
}
pub(crate) use stages;

/// Keys whose default is empty, but which no component accepts empty: they are required.
/// `criterion` and `levels` are settings of the metrics in `eval`, whose schemas come from here too.
const NEEDED: [&str; 6] = ["model", "file", "source", "criterion", "levels", "fields"];

/// The JSON Schema (draft 2020-12) of a type. A key that must name something,
/// such as a `model`, is required, unless another key can stand in its place.
pub fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    require(&mut schema);
    schema
}

fn require(schema: &mut Value) {
    match schema {
        Value::Object(table) => {
            let mut missing = Vec::new();
            if let Some(keys) = table.get_mut("properties").and_then(Value::as_object_mut) {
                let is_empty = |value: &Value| match value {
                    Value::String(text) => text.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    Value::Object(table) => table.is_empty(),
                    value => value.is_null(),
                };
                let empty = |name: &str| keys.get(name).and_then(|key| key.get("default")).is_some_and(is_empty);
                // A file is not required where its content can stand in the settings instead.
                let either = empty("file") && (empty("template") || empty("source"));
                // `fields` that give other names to fields, as texts, can be left out.
                let gives_names = keys.get("fields").is_some_and(|key| key["additionalProperties"]["type"] == "string");
                let needed = |name: &&str| match *name {
                    "file" | "source" if either => false,
                    "fields" if gives_names => false,
                    name => empty(name),
                };
                missing.extend(NEEDED.into_iter().filter(needed));
                for name in &missing {
                    keys.get_mut(*name).and_then(Value::as_object_mut).map(|key| key.remove("default"));
                }
            }
            if !missing.is_empty() {
                let required = table.entry("required").or_insert_with(|| Value::Array(Vec::new()));
                required.as_array_mut().into_iter().for_each(|all| all.extend(missing.iter().map(|&name| name.into())));
            }
            table.values_mut().for_each(require);
        }
        Value::Array(items) => items.iter_mut().for_each(require),
        _ => {}
    }
}

/// A field of a pipeline's settings as it was written, or its default if it was
/// left out.
pub(crate) fn field<T: Field + DeserializeOwned, E: serde::de::Error>(
    written: Option<Value>,
    axis: &'static str,
) -> Result<T, E> {
    match written {
        Some(value) => serde_json::from_value(value).map_err(|error| E::custom(format!("{axis}: {error}"))),
        None => T::all(&[]).pop().ok_or_else(|| E::missing_field(axis)),
    }
}

impl PipelineConfig {
    /// All values, in the order of the stages.
    pub fn values(&self) -> impl Iterator<Item = (Axis, &dyn Choice)> {
        Axis::ALL.iter().filter_map(|&axis| Some((axis, self.on(axis)?)))
    }

    /// The indexes that its stages search.
    pub fn indexes(&self) -> Indexes {
        self.values().flat_map(|(_, value)| value.indexes()).collect()
    }

    /// The files of indexes that its stages need while they answer. Where a database holds the vectors, that of the dense
    /// index is one of them only if a stage reads vectors of chunks.
    pub fn indexes_for_answers(&self) -> Indexes {
        let mut needed = self.indexes();
        let reads = self.values().any(|(_, value)| value.reads_chunk_vectors());
        if needed.contains(&IndexKind::Database) && !reads {
            needed.remove(&IndexKind::Dense);
        }
        needed
    }

    /// Whether a stage compares the vectors of all chunks with that of a question.
    pub fn compares_vectors(&self) -> bool {
        self.indexes().into_iter().any(IndexKind::compares_vectors)
    }

    /// How the texts of its indexes are cut into terms. The retriever decides it for all stages.
    pub fn text_analysis(&self) -> TextAnalysis {
        self.values().find_map(|(_, value)| value.text_analysis()).unwrap_or_default()
    }

    /// The names of the models that it asks, without its embedder.
    pub fn models(&self) -> Vec<&str> {
        let others = self.values().filter(|(axis, _)| *axis != Axis::Embedder);
        others.flat_map(|(_, value)| value.models()).collect()
    }

    /// The retriever with as many hits as the stages after it choose from.
    pub fn search_retriever(&self) -> RetrieverConfig {
        let mut retriever = self.retriever.clone();
        let wanted = |top_k| self.values().filter_map(|(_, value)| value.candidates(top_k)).max();
        if let Some(candidates) = retriever.limit().and_then(wanted) {
            retriever.set_limit(candidates);
        }
        retriever
    }

    /// The generator with its instructions, if there is one.
    pub fn prompted_generator(&self) -> Option<GeneratorConfig> {
        let generator = self.generator.as_ref()?;
        Some(self.prompt.as_ref().map_or_else(|| generator.clone(), |prompt| generator.with_prompt(prompt)))
    }

    /// Resets settings that have no effect, so that combinations which differ
    /// only in these are one trial: a trial with BM25 alone would run once for each
    /// embedder, and one that reads no passages once for each retriever.
    pub(crate) fn normal(mut self) -> Self {
        let reads = self.generator.as_ref().is_none_or(Component::reads_passages);
        if !reads {
            self = self.without_retrieval();
        }
        if self.generator.as_ref().is_none_or(|generator| generator.prompt().is_none()) {
            self.prompt = None;
        }
        // An index of the user's own has chunks and vectors of its own.
        if let (Some(_), Some(uncut)) = (self.retriever.existing_index(), ChunkerConfig::nothing()) {
            self.chunker = uncut;
            if let Some(without_enricher) = EnrichConfig::unlisted() {
                self.enrich = without_enricher;
            }
        }
        // How vectors are made makes no difference if no stage compares them.
        let compares = self.compares_vectors();
        if let (true, false, Some(without_enricher)) = (self.enrich.makes_vectors(), compares, EnrichConfig::unlisted())
        {
            self.enrich = without_enricher;
        }
        if let (false, Some(flat)) = (compares, VectorIndexConfig::unlisted()) {
            self.index = flat;
        }
        if !self.values().any(|(_, value)| value.needs_embedder()) {
            self.embedder = None;
        }
        self
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{InputSize, Space, chunk, generate};
    use serde_json::json;

    /// Every component of every stage that has settings, with its default settings.
    fn components() -> Vec<Box<dyn Choice>> {
        Axis::ALL.iter().flat_map(|axis| axis.components()).collect()
    }

    /// Every component of an axis, with its default settings.
    pub(crate) fn components_of<T: AxisValue>() -> Vec<Box<dyn Choice>> {
        if !T::HAS_SETTINGS {
            return Vec::new();
        }
        let component = |(name, _): (&str, _)| {
            let component: T = serde_json::from_value(json!({ name: {} })).unwrap();
            Box::new(component) as Box<dyn Choice>
        };
        T::docs().into_iter().map(component).collect()
    }

    #[test]
    fn the_models_that_a_component_asks_do_not_depend_on_the_item() {
        for component in components() {
            let models =
                |item| component.estimate_calls(item).into_iter().map(|ask| (ask.model, ask.kind)).collect::<Vec<_>>();
            let large = InputSize { text_tokens: 900, passages: 7, passage_tokens: 4000 };
            assert_eq!(models(InputSize::default()), models(large), "{}", component.name());
        }
    }

    #[test]
    fn methods_that_name_a_setting_agree_with_the_settings_as_they_are_written() {
        let number = |value: &Value| value.as_u64().map(|number| number as usize);
        for component in components() {
            let value = component.value();
            let settings = &value[component.name()];
            let limit = ["top_k", "top_n"].iter().find_map(|key| number(&settings[key]));
            assert_eq!(component.limit(), limit, "{}", component.name());
            let sizes = settings["chunk_sizes"].as_array().into_iter().flatten().filter_map(number).min();
            let size = ["chunk_size", "most_size"].iter().find_map(|key| number(&settings[key])).or(sizes);
            assert_eq!(component.chunk_size(), size, "{}", component.name());
        }
        for mut component in components() {
            component.set_limit(40);
            let value = component.value();
            let settings = &value[component.name()];
            for key in ["top_k", "top_n"].into_iter().filter(|key| settings.get(key).is_some()) {
                assert_eq!((&settings[key], component.limit()), (&json!(40), Some(40)), "{}", component.name());
                assert!(number(&settings["candidates"]).is_none_or(|candidates| candidates >= 40));
            }
        }
        for generator in generate::GeneratorConfig::defaults() {
            let value = generator.value();
            let written = value[Choice::name(&generator)].get("prompt");
            assert_eq!(generator.prompt().map(|prompt| json!(prompt)).as_ref(), written, "{}", generator.name());
        }
    }

    #[test]
    fn only_what_changes_results_is_in_keys() {
        let config: chunk::ChunkerConfig =
            serde_json::from_value(json!({ "python": { "file": "a.py", "timeout_seconds": 9 } })).unwrap();
        assert!(config.value()["python"].get("timeout_seconds").is_some());
        let keyed = config.settings_for_key();
        assert!(keyed["python"].get("timeout_seconds").is_none() && keyed["python"]["file"] == "a.py");
    }

    fn space(more: serde_json::Value) -> Space {
        /// Reads lists from JSON.
        struct Lists(serde_json::Value);
        impl ReadSpace for Lists {
            fn read<T: AxisValue>(&mut self, axis: Axis) -> Vec<T> {
                serde_json::from_value(self.0[axis.name()].clone()).unwrap_or_default()
            }
        }
        let mut lists = json!({
            "chunker": [{ "sentence": {} }, { "token": {} }], "embedder": ["a", "b"],
            "retriever": [{ "bm25": {} }, { "dense": {} }],
        });
        lists.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Space::read(&mut Lists(lists))
    }

    #[test]
    fn the_last_axis_varies_fastest_and_an_embedder_that_nothing_needs_is_left_out() {
        let all = space(json!({})).combinations();
        let told: Vec<String> = all
            .iter()
            .map(|one| {
                let embedder = one.embedder.as_deref().unwrap_or("-");
                format!("{} {embedder} {}", one.chunker.name(), one.retriever.name())
            })
            .collect();
        assert_eq!(
            told,
            [
                "sentence - bm25",
                "sentence a dense",
                "sentence - bm25",
                "sentence b dense",
                "token - bm25",
                "token a dense",
                "token - bm25",
                "token b dense",
            ]
        );
        assert!(space(json!({ "chunker": [] })).combinations().is_empty(), "a pipeline must have a chunker");
        let required: Vec<&str> = Axis::ALL.iter().filter(|axis| axis.is_required()).map(|axis| axis.name()).collect();
        assert_eq!(required, ["chunker", "retriever"]);
    }

    #[test]
    fn a_reranker_says_how_many_hits_it_chooses_from() {
        let searching = |more| space(more).combinations().remove(0).search_retriever().value();
        assert_eq!(searching(json!({}))["bm25"]["top_k"], 5);
        assert_eq!(searching(json!({ "reranker": [{ "none": { "top_n": 2 } }] }))["bm25"]["top_k"], 5);
        let hybrid = json!({
            "retriever": [{ "hybrid": { "candidates": 10 } }], "reranker": [{ "listwise": { "model": "m" } }],
        });
        let searched = searching(hybrid)["hybrid"].clone();
        assert_eq!((&searched["top_k"], &searched["candidates"]), (&json!(20), &json!(20)));
        let listwise = |settings| json!({ "reranker": [{ "listwise": settings }] });
        assert_eq!(searching(listwise(json!({ "model": "m" })))["bm25"]["top_k"], 20);
        assert_eq!(searching(listwise(json!({ "model": "m", "candidates": 7 })))["bm25"]["top_k"], 7);
    }

    #[test]
    fn a_prompt_takes_the_place_of_the_generators_and_is_no_choice_where_there_is_none() {
        let more = json!({
            "chunker": [{ "sentence": {} }], "embedder": [], "retriever": [{ "bm25": {} }],
            "prompt": ["grounded", "brief"],
            "generator": [{ "compact": { "model": "m" } }, { "no_retrieval": { "model": "m" } }],
        });
        let all = space(more).combinations();
        let told: Vec<Value> = all.iter().map(|one| one.prompted_generator().unwrap().value()).collect();
        assert_eq!(
            (&told[0]["compact"]["prompt"], &told[2]["compact"]["prompt"]),
            (&json!("grounded"), &json!("brief"))
        );
        assert_eq!(all[1], all[3], "no_retrieval has no such setting");
        let own = json!({ "p.toml": { "template": "system = 'a'\nuser = '{sources} {question}'" } });
        let own = serde_json::from_value(own).unwrap();
        let told = all[0].generator.as_ref().unwrap().with_prompt(&own);
        assert!(
            told.value()["compact"]["template"]["template"].is_string() && told != all[0].generator.clone().unwrap()
        );
    }

    #[test]
    fn what_reads_no_passages_is_one_trial() {
        let mut all = space(json!({ "generator": [{ "no_retrieval": { "model": "m" } }] })).combinations();
        assert_eq!(all.len(), 8);
        all.dedup();
        assert_eq!(all.len(), 1);
        assert!(all[0].embedder.is_none() && all[0].indexes().is_empty());
    }

    #[test]
    fn how_vectors_are_made_makes_no_difference_to_a_trial_that_compares_none() {
        let listed = json!([{ "none": {} }, { "late_chunking": {} }]);
        let mut all = space(json!({ "enrich": listed })).combinations();
        assert_eq!(all.len(), 16);
        assert_eq!(all.iter().filter(|one| one.enrich.makes_vectors()).count(), 4, "each with `dense`");
        all.retain(|one| one.retriever.name() == "bm25" && one.chunker.name() == "token");
        assert!(all.iter().all(|one| *one == all[0] && one.embedder.is_none()));
    }

    #[test]
    fn settings_that_lack_an_axis_are_those_from_before_there_was_one() {
        let config = space(json!({ "reranker": [{ "none": { "top_n": 2 } }] })).combinations().remove(1);
        assert_eq!(config.passage_stages().len(), 1, "it cuts");
        let mut written = serde_json::to_value(&config).unwrap();
        assert_eq!(serde_json::from_value::<PipelineConfig>(written.clone()).unwrap(), config);
        written.as_object_mut().unwrap().remove("query");
        assert_eq!(serde_json::from_value::<PipelineConfig>(written.clone()).unwrap(), config);
        written.as_object_mut().unwrap().remove("chunker");
        let error = serde_json::from_value::<PipelineConfig>(written).unwrap_err().to_string();
        assert!(error.contains("missing field `chunker`"), "{error}");
    }
}
