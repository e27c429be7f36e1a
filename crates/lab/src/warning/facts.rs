//! The facts that warnings are found from: about the documents, the questions, the models and the trials.
//!
//! A fact is `None` or empty if it is not known: because nothing has run yet, or because it was not looked for. A
//! missing fact gives no warning.

use super::Finding;
use eval::dataset::AnchorError;
use rag::{ReadingProblemKind, analysis::Language};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The facts about a run, before or after it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunFacts {
    pub(crate) corpus: CorpusFacts,
    pub(crate) questions: QuestionFacts,
    /// The models that trials and metrics use, by their names in the experiment.
    pub(crate) models: BTreeMap<String, ModelFacts>,
    /// The judges that read passages, by their names in the experiment.
    pub(crate) judges: Vec<String>,
    /// The trials, in the order of the grid or of the leaderboard.
    pub(crate) trials: Vec<TrialFacts>,
    /// Groups of trials that are equal on every question. The trials of a group are in the order of the leaderboard.
    pub(crate) equal: Vec<EqualTrials>,
    /// The metrics of the objective.
    pub(crate) objective: Vec<String>,
}

/// The documents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CorpusFacts {
    /// The number of documents that were read.
    pub(crate) documents: usize,
    /// The number of files that were not read because of their type, by the ending of their names: `.csv`, or empty for
    /// a name without an ending.
    pub(crate) unread_types: BTreeMap<String, u64>,
    /// Files that were read and hold no text, by path.
    pub(crate) without_text: Vec<String>,
    /// PDF documents with pages without text: the path, the number of pages without text, and the number of all pages.
    pub(crate) blank_pages: Vec<(String, usize, usize)>,
    /// What else was read badly, by its kind.
    pub(crate) badly_read: BTreeMap<ReadingProblemKind, BadlyReadDocuments>,
    /// What each parser has made of the files, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parsers: Vec<ParserFacts>,
    /// The number of documents that have a title or headings.
    pub(crate) with_headings: usize,
    /// The number of documents in each language, by its English name, without documents whose language was not
    /// recognized. If there are many documents, a sample of them is counted.
    pub(crate) languages: BTreeMap<String, usize>,
}

/// What a parser has made of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParserFacts {
    /// Its name.
    pub(crate) parser: String,
    /// The number of its documents.
    pub(crate) documents: usize,
    /// The number of files that give no document.
    pub(crate) rejected: usize,
    /// The first of them, with the reason.
    pub(crate) first_rejected: Option<(String, String)>,
    /// The number of golden questions.
    pub(crate) questions: usize,
    /// How many of them have evidence that its documents do not hold, and those of another parser do.
    pub(crate) lost: usize,
    /// The trials that read its documents.
    pub(crate) trials: Vec<String>,
}

/// Documents in which something was read badly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BadlyReadDocuments {
    /// How many there are.
    pub(crate) documents: usize,
    /// The first of them, by path, with what is wrong.
    pub(crate) first: Vec<(String, String)>,
}

/// Evidence of a golden question that is in no document any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("question `{question}`: its evidence is in no document any more: {reason}")]
pub struct LostEvidence {
    /// The question's id.
    pub question: String,
    /// The document that held it; empty if the question names none.
    pub document: String,
    /// What is known of it, in words.
    pub reason: String,
}

impl LostEvidence {
    pub(crate) fn of(error: AnchorError) -> Self {
        Self { question: error.question, document: error.document, reason: error.reason.to_string() }
    }
}

/// The questions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QuestionFacts {
    /// The evidence of questions that are left out because the documents have changed.
    pub(crate) lost: Vec<LostEvidence>,
    /// The number of questions.
    pub(crate) questions: usize,
    /// The number of questions in each language, by its English name, without questions whose language was not
    /// recognized.
    pub(crate) languages: BTreeMap<String, usize>,
}

/// A model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModelFacts {
    /// The most tokens that it reads of a text, or of a prompt with its answer; none if unknown.
    pub(crate) window: Option<usize>,
    /// Whether longer texts are read to their end, in windows.
    pub(crate) reads_windows: bool,
    /// Whether longer texts are an error.
    pub(crate) refuses: bool,
    /// Whether it was trained on English only, as far as is known.
    pub(crate) is_english: bool,
}

/// A trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TrialFacts {
    /// Its id.
    pub(crate) trial: String,
    /// Its value on each axis, as a short label.
    pub(crate) labels: BTreeMap<String, String>,
    /// The name of its retriever.
    pub(crate) retriever: String,
    /// Whether its retriever searches by words.
    pub(crate) searches_words: bool,
    /// The most tokens of its chunks, by the tokenizer of the chunkers; none if the chunker has no such limit.
    pub(crate) chunk_size: Option<usize>,
    /// The model that makes one vector of each chunk, by its name in the experiment.
    pub(crate) embedder: Option<String>,
    /// The rerank models that read its chunks.
    pub(crate) rerankers: Vec<String>,
    /// The stages whose settings name a language for all texts.
    pub(crate) named_languages: Vec<NamedLanguage>,
    /// The most passages of a prompt: the lower one of the limits of retriever and reranker.
    pub(crate) passages: Option<usize>,
    /// What the run found of it; none before the run.
    pub(crate) found: Option<TrialFindings>,
}

/// A language that the settings of a stage name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedLanguage {
    /// The stage: `retriever`.
    pub(crate) stage: &'static str,
    pub(crate) language: Language,
}

/// What a run found of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TrialFindings {
    /// The number of questions that were searched; 0 if the trial retrieves nothing by design, or if it is not known.
    pub(crate) searched: usize,
    /// The number of questions for which nothing was retrieved.
    pub(crate) empty: usize,
    /// The number of questions that share no word with any chunk, by the terms of the trial's word index; none if it
    /// was not looked for.
    pub(crate) without_shared_words: Option<usize>,
    /// Texts that a model did not read to their end.
    pub(crate) cut_texts: Vec<CutTextsFacts>,
    /// The number of chunks that are searched; none if the chunks were not read.
    pub(crate) chunks: Option<usize>,
    pub(crate) evidence: Option<EvidenceFacts>,
    pub(crate) filter: FilterFacts,
    pub(crate) prompts: PromptFacts,
    /// What is known of the replies of a system; none for a pipeline.
    pub(crate) replies: Option<ReplyFacts>,
    /// The number of verdicts that a judge did not give, because the prompt was longer than it reads.
    pub(crate) beyond_judge: usize,
    /// The number of verdicts that judges were asked for.
    pub(crate) judged: usize,
}

/// The replies of a system.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReplyFacts {
    /// Questions that it was asked.
    pub(crate) questions: usize,
    /// Questions without a reply.
    pub(crate) without_reply: usize,
    /// Passages of all replies.
    pub(crate) passages: usize,
    /// Passages that are in no document of the corpus.
    pub(crate) unanchored: usize,
    /// The versions that replies name, with the number of replies of each.
    pub(crate) versions: BTreeMap<String, usize>,
    /// The version that it was asked in; empty if none is stated.
    pub(crate) version: String,
}

/// Texts that a model did not read to their end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CutTextsFacts {
    /// The model, as its provider calls it.
    pub(crate) model: String,
    /// Whether the texts are chunks. If not, they were read to answer the questions, such as the pairs of a reranker.
    pub(crate) of_chunks: bool,
    /// The number of texts that were cut.
    pub(crate) texts: usize,
    /// The number of all texts of the model; none if they were not counted.
    pub(crate) all: Option<usize>,
    /// The most tokens that it reads of a text; none if that is not known.
    pub(crate) max_tokens: Option<usize>,
    /// The share of the tokens of all its texts that it did not read; none if they were not counted.
    pub(crate) lost: Option<f64>,
}

/// How the golden evidence fits into the chunks of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EvidenceFacts {
    /// The number of questions with evidence.
    pub(crate) questions: usize,
    /// The number of questions with evidence of which no single chunk holds enough.
    pub(crate) in_no_chunk: usize,
}

/// Questions whose search was restricted by a filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FilterFacts {
    /// The number of questions with a filter.
    pub(crate) questions: usize,
    /// The number of these questions for which the filter left too few chunks, and fewer passages were found than the
    /// retriever should find.
    pub(crate) short: usize,
    /// How many passages the retriever should find.
    pub(crate) wanted: usize,
}

/// The prompts of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PromptFacts {
    /// The number of answers.
    pub(crate) answers: usize,
    /// The number of answers whose prompt left out passages, because the budget of tokens was used up.
    pub(crate) cut: usize,
    /// The number of passages that were left out, over all answers.
    pub(crate) passages: usize,
}

/// A group of trials that are equal on every question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EqualTrials {
    /// Their ids.
    pub(crate) trials: Vec<String>,
    /// Whether passages and answers are equal, and not only the scores.
    pub(crate) same_output: bool,
    /// Whether the run has answers.
    pub(crate) answers: bool,
}

impl RunFacts {
    /// A model by its name in the experiment.
    pub(super) fn model(&self, name: &str) -> ModelFacts {
        self.models.get(name).cloned().unwrap_or_default()
    }

    /// Calls `find` for each trial that was run, and returns its findings.
    pub(super) fn find_in_trials(&self, find: impl Fn(&TrialFacts, &TrialFindings) -> Option<Finding>) -> Vec<Finding> {
        self.trials.iter().filter_map(|trial| find(trial, trial.found.as_ref()?)).collect()
    }
}
