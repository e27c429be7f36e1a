//! Collects the facts for warnings before a run, from the settings, the documents and the questions.

use crate::{
    plan::Trial,
    spec::Experiment,
    warning::{CorpusFacts, ModelFacts, NamedLanguage, QuestionFacts, RunFacts, TrialFacts},
};
use eval::Question;
use models::{Identity, ModelConfig, ModelKind, ModelLanguages};
use rag::{
    Component, Document, ReadingProblemKind,
    analysis::Language,
    index::IndexKind,
    load::{Format, LoadError, Rejected},
};
use std::collections::{BTreeMap, BTreeSet};

/// The most documents whose language is detected.
pub(super) const LANGUAGE_DOCUMENTS: usize = 500;
/// The most bytes of a document from which its language is detected. They are enough for a certain result, and take a
/// tenth of a millisecond.
const LANGUAGE_BYTES: usize = 2_000;

/// The most documents with one kind of problem that are remembered by name.
const BADLY_READ: usize = 3;

/// Parts of the names of models for English. They are used for models that are not in the catalogue.
const ENGLISH_MODELS: [&str; 4] = ["all-minilm", "paraphrase-minilm", "all-mpnet", "ms-marco"];

/// Whether text may be missing or wrong because of it. Pages without text have a warning of their own.
fn is_bad(kind: ReadingProblemKind) -> bool {
    !matches!(kind, ReadingProblemKind::NoText | ReadingProblemKind::HiddenPart)
}

/// The language of a document; none if it is not certain.
pub(super) fn language_of(text: &str) -> Option<Language> {
    Language::detected(beginning(text))
}

impl CorpusFacts {
    /// Counts a document, without its language.
    pub(super) fn add(&mut self, document: &Document) {
        self.documents += 1;
        self.with_headings += usize::from(document.title.is_some() || !document.headings.is_empty());
        let blank = document.pages.iter().filter(|page| page.span.is_empty()).count();
        // Only a PDF page without text may be a scan. In other formats, a page is the text between two marks and may be
        // empty.
        if document.format == Format::Pdf && blank > 0 {
            self.blank_pages.push((document.path.clone(), blank, document.pages.len()));
        }
        let mut told = BTreeSet::new();
        for problem in document.problems.iter().filter(|problem| is_bad(problem.kind)) {
            if told.insert(problem.kind) {
                let known = self.badly_read.entry(problem.kind).or_default();
                known.documents += 1;
                if known.first.len() < BADLY_READ {
                    known.first.push((document.path.clone(), problem.detail.clone()));
                }
            }
        }
    }

    /// Notes a file that gave no document, if the reason is that it has no text.
    pub(super) fn add_rejected(&mut self, rejected: &Rejected) {
        if matches!(rejected.reason, LoadError::Empty(_)) {
            self.without_text.push(rejected.path.clone());
        }
    }

    /// Adds the facts about other documents, without their languages.
    pub(super) fn merge(&mut self, other: &Self) {
        self.documents += other.documents;
        self.with_headings += other.with_headings;
        self.without_text.extend(other.without_text.iter().cloned());
        self.blank_pages.extend(other.blank_pages.iter().cloned());
        for (kind, found) in &other.badly_read {
            let known = self.badly_read.entry(*kind).or_default();
            known.documents += found.documents;
            let room = BADLY_READ.saturating_sub(known.first.len());
            known.first.extend(found.first.iter().take(room).cloned());
        }
    }
}

/// How many texts are in each language.
pub(super) fn count_languages(found: impl Iterator<Item = Language>) -> BTreeMap<String, usize> {
    let mut languages = BTreeMap::new();
    for language in found {
        *languages.entry(language.title()).or_default() += 1;
    }
    languages
}

/// The part of a text from which its language is detected.
fn beginning(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.floor_char_boundary(LANGUAGE_BYTES)]
}

/// The facts that are known before a run.
pub(crate) fn planned(
    experiment: &Experiment,
    trials: &[Trial],
    identities: &BTreeMap<String, Identity>,
    mut corpus: CorpusFacts,
    questions: &[Question],
) -> RunFacts {
    let languages = count_languages(questions.iter().filter_map(|question| Language::detected(&question.question)));
    let reads_passages = |metric: &eval::MetricConfig| metric.needs().judge && metric.needs().passages;
    let judges = if experiment.evaluate.metrics.iter().any(reads_passages) {
        experiment.evaluate.judges.clone()
    } else {
        Vec::new()
    };
    for (number, parser) in corpus.parsers.iter_mut().enumerate() {
        let reading = trials.iter().filter(|trial| trial.reads_by(&experiment.space, number));
        parser.trials = reading.map(|trial| trial.id.clone()).collect();
    }
    RunFacts {
        corpus,
        questions: QuestionFacts { questions: questions.len(), languages, lost: Vec::new() },
        models: identities
            .iter()
            .map(|(name, identity)| (name.clone(), model(identity, experiment.models.get(name))))
            .collect(),
        judges,
        trials: trials.iter().map(|trial| of_trial(experiment, trial)).collect(),
        equal: Vec::new(),
        objective: experiment.evaluate.objective.clone(),
    }
}

/// The facts about a model from its identity, and from the catalogue if its settings name a model there.
fn model(identity: &Identity, config: Option<&ModelConfig>) -> ModelFacts {
    let tokens = |key: &str| identity.parameters.get(key).and_then(serde_json::Value::as_u64);
    let long_texts = |choice: &str| identity.parameters.get("long_texts").is_some_and(|it| it == choice);
    let window = ["max_tokens", "context_length"].into_iter().find_map(tokens);
    ModelFacts {
        window: window.map(|tokens| tokens as usize),
        reads_windows: long_texts("windows"),
        refuses: long_texts("refuse"),
        is_english: match config.and_then(ModelConfig::languages) {
            Some(languages) => languages == ModelLanguages::English,
            None => is_english(&identity.model),
        },
    }
}

/// Whether a model with this name is for English: its name contains one of [`ENGLISH_MODELS`] or has the part `en`, as
/// in `bge-small-en-v1.5`, and does not contain `multilingual`.
fn is_english(name: &str) -> bool {
    let name = name.to_lowercase();
    let mut parts = name.split(|letter: char| !letter.is_alphanumeric());
    let is_known = ENGLISH_MODELS.iter().any(|known| name.contains(known)) || parts.any(|part| part == "en");
    is_known && !name.contains("multilingual")
}

fn of_trial(experiment: &Experiment, trial: &Trial) -> TrialFacts {
    let Some(pipeline) = trial.pipeline() else {
        return TrialFacts { trial: trial.id.clone(), labels: trial.labels.clone(), ..TrialFacts::default() };
    };
    // An enricher that makes vectors embeds whole documents, in windows of its own, so the embedder cuts no chunk.
    let embeds_chunks = pipeline.compares_vectors() && !pipeline.enrich.makes_vectors();
    let is_reranker =
        |name: &&str| experiment.models.get(*name).is_some_and(|config| config.kind() == ModelKind::Rerank);
    TrialFacts {
        trial: trial.id.clone(),
        labels: trial.labels.clone(),
        retriever: pipeline.retriever.name().to_owned(),
        searches_words: pipeline.retriever.indexes().contains(&IndexKind::Bm25),
        chunk_size: pipeline.chunker.chunk_size(),
        embedder: pipeline.embedder.as_deref().filter(|_| embeds_chunks).map(str::to_owned),
        rerankers: pipeline.reranker.models().into_iter().filter(is_reranker).map(str::to_owned).collect(),
        named_languages: [
            named_language("chunker", &pipeline.chunker),
            named_language("retriever", &pipeline.retriever),
        ]
        .into_iter()
        .flatten()
        .collect(),
        passages: pipeline.retriever.limit().into_iter().chain(pipeline.reranker.limit()).min(),
        found: None,
    }
}

/// The language whose rules a stage applies to all texts.
fn named_language(stage: &'static str, component: &impl Component) -> Option<NamedLanguage> {
    Some(NamedLanguage { stage, language: component.named_language()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::trial::grid;
    use rag::{Heading, Page, ReadingProblem, Span};
    use serde_json::json;
    use store::Key;

    fn document(format: Format, text: &str, pages: &[(usize, usize)]) -> Document {
        let page = |(number, &(start, end)): (u32, &(usize, usize))| Page { number, span: Span { start, end } };
        Document {
            path: "a".to_owned(),
            content: Key::of_bytes(text.as_bytes()),
            format,
            title: None,
            author: None,
            text: text.to_owned(),
            pages: (1..).zip(pages).map(page).collect(),
            headings: Vec::new(),
            metadata: Default::default(),
            tables: Vec::new(),
            problems: Vec::new(),
        }
    }

    const GERMAN: &str = "Der Leuchtturm wurde im Jahre 1871 zum ersten Mal entzündet und brannte mit Öl.";

    #[test]
    fn empty_pages_of_a_pdf_are_counted_and_those_of_other_formats_are_not() {
        let mut facts = CorpusFacts::default();
        let pages = [(0, 3), (5, 5), (7, 9)];
        facts.add(&document(Format::Pdf, "abc\n\n\n\nde", &pages));
        facts.add(&document(Format::Epub, "abc\n\n\n\nde", &pages));
        facts.add(&document(Format::Pdf, "abc", &[(0, 3)]));
        assert_eq!(facts.blank_pages, [("a".to_owned(), 1, 3)]);
        assert_eq!((facts.documents, facts.with_headings), (3, 0));
    }

    #[test]
    fn documents_that_were_read_badly_are_counted_once_for_each_kind() {
        let problem = |kind, detail: &str| ReadingProblem { kind, page: None, detail: detail.to_owned() };
        let with = |path: &str| Document {
            path: path.to_owned(),
            problems: vec![
                problem(ReadingProblemKind::ReplacedCharacters, "2 characters stand as U+FFFD"),
                problem(ReadingProblemKind::ReplacedCharacters, "1 character stands as U+FFFD"),
                problem(ReadingProblemKind::HiddenPart, "a sheet"),
            ],
            ..document(Format::Text, "abc", &[])
        };
        let (mut facts, mut other) = (CorpusFacts::default(), CorpusFacts::default());
        ["a", "b"].iter().for_each(|path| facts.add(&with(path)));
        ["c", "d"].iter().for_each(|path| other.add(&with(path)));
        facts.merge(&other);
        assert_eq!(facts.badly_read.keys().copied().collect::<Vec<_>>(), [ReadingProblemKind::ReplacedCharacters]);
        let found = &facts.badly_read[&ReadingProblemKind::ReplacedCharacters];
        let first: Vec<&str> = found.first.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!((found.documents, first.as_slice()), (4, &["a", "b", "c"][..]));
        assert!(found.first[0].1.starts_with("2 characters"));
    }

    #[test]
    fn headings_and_titles_of_documents_are_counted() {
        let mut facts = CorpusFacts::default();
        let mut with = document(Format::Markdown, GERMAN, &[]);
        with.headings = vec![Heading { start: 0, level: 1, title: "A".to_owned() }];
        facts.add(&with);
        facts.add(&document(Format::Text, GERMAN, &[]));
        facts.add(&Document { title: Some("A".to_owned()), ..document(Format::Text, "42", &[]) });
        assert_eq!(facts.with_headings, 2, "one has a heading, one a title");
    }

    #[test]
    fn only_a_file_without_text_is_counted_as_one() {
        let mut facts = CorpusFacts::default();
        let rejected = |path: &str, reason| Rejected { path: path.to_owned(), reason };
        facts.add_rejected(&rejected("scan.pdf", LoadError::Empty("no text".to_owned())));
        facts.add_rejected(&rejected("locked.pdf", LoadError::Encrypted));
        assert_eq!(facts.without_text, ["scan.pdf"]);
    }

    #[test]
    fn languages_of_the_sample_are_counted_if_they_are_certain() {
        let found = count_languages([GERMAN, "42", GERMAN].into_iter().filter_map(language_of));
        assert_eq!(found, BTreeMap::from([("German".to_owned(), 2)]));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = format!("  {}", "ä".repeat(LANGUAGE_BYTES));
        assert_eq!(beginning(&text).len(), LANGUAGE_BYTES);
        assert_eq!(beginning(&"語".repeat(1_000)).chars().count(), LANGUAGE_BYTES / 3);
        assert_eq!(beginning(" short "), "short ");
    }

    #[test]
    fn models_for_english_are_known_by_their_names() {
        for (name, expected) in [
            ("all-minilm-l6-v2", true),
            ("sentence-transformers/all-MiniLM-L6-v2", true),
            ("BAAI/bge-small-en-v1.5", true),
            ("cross-encoder/ms-marco-MiniLM-L-6-v2", true),
            ("multilingual-e5-small", false),
            ("paraphrase-multilingual-minilm-l12-v2", false),
            ("text-embedding-3-small", false),
            ("open-model", false),
        ] {
            assert_eq!(is_english(name), expected, "{name}");
        }
    }

    #[test]
    fn what_a_model_reads_is_in_its_identity() {
        let identity = |parameters| Identity {
            provider: "onnx".to_owned(),
            model: "m".to_owned(),
            revision: String::new(),
            parameters,
        };
        let read = |parameters| model(&identity(parameters), None);
        let of = |parameters| (read(parameters).window, read(json!({})).reads_windows);
        assert_eq!(of(json!({ "max_tokens": 256 })), (Some(256), false));
        assert_eq!(of(json!({ "context_length": 4096 })), (Some(4096), false));
        assert_eq!(of(json!({})), (None, false));
        let choice = |choice: &str| {
            let facts = read(json!({ "long_texts": choice }));
            (facts.reads_windows, facts.refuses)
        };
        assert_eq!(
            [choice("windows"), choice("refuse"), choice("cut")],
            [(true, false), (false, true), (false, false)]
        );
    }

    #[test]
    fn what_the_catalogue_says_of_a_model_counts_more_than_its_name() {
        let identity = Identity {
            provider: "onnx".to_owned(),
            model: "bge-small-en-v1.5".to_owned(),
            revision: String::new(),
            parameters: json!({}),
        };
        let local = |name: &str| ModelConfig::local_default(ModelKind::Embedding, name);
        let is_english = |name: &str| model(&identity, local(name).as_ref()).is_english;
        assert!(!is_english("multilingual-e5-small"), "the catalogue says so");
        assert!(is_english("all-minilm-l6-v2"));
        assert!(is_english("hf:someone/unknown"), "by the name in its identity");
        assert!(model(&identity, None).is_english);
    }

    #[test]
    fn only_a_trial_that_compares_vectors_of_chunks_has_an_embedder_that_cuts_them() {
        let text = "name = \"x\"\n[corpus]\nsource = \"d\"\n\
                    [models.small]\nembedding.static = { model = \"m\" }\n\
                    [space]\nchunker = [\"sentence\", { token = { chunk_size = 64 } }]\nembedder = \"small\"\n\
                    retriever = [\"bm25\", { dense = { top_k = 3 } }]\n";
        let experiment = Experiment::parse(text, ".").unwrap_or_else(|errors| panic!("{errors:?}"));
        let trials: Vec<TrialFacts> = grid(&experiment).iter().map(|trial| of_trial(&experiment, trial)).collect();
        let told: Vec<_> = trials
            .iter()
            .map(|trial| (trial.retriever.as_str(), trial.chunk_size, trial.embedder.as_deref(), trial.passages))
            .collect();
        assert_eq!(
            told,
            [
                ("bm25", Some(1024), None, Some(5)),
                ("dense", Some(1024), Some("small"), Some(3)),
                ("bm25", Some(64), None, Some(5)),
                ("dense", Some(64), Some("small"), Some(3)),
            ]
        );
        assert!(trials.iter().all(|trial| trial.rerankers.is_empty() && trial.found.is_none()));
    }

    #[test]
    fn judges_count_only_where_a_metric_shows_them_passages() {
        let judge = "[models.judge]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:1\" }\n";
        let experiment = |metrics: &str| {
            let text = format!(
                "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g.jsonl\"\n{judge}[space]\nchunker = \
                 \"sentence\"\nretriever = \"bm25\"\ngenerator = {{ compact = {{ model = \"judge\" }} }}\n[evaluate]\n\
                 metrics = [{metrics}]\njudge = \"judge\"\n"
            );
            Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:?}"))
        };
        let judges = |metrics: &str| {
            let experiment = experiment(metrics);
            planned(&experiment, &[], &BTreeMap::new(), CorpusFacts::default(), &[]).judges
        };
        assert_eq!(judges("\"faithfulness\""), ["judge"]);
        assert!(judges("\"recall\"").is_empty());
    }
}
