//! What warnings are found from: facts about the documents, the questions, the models and the trials.
//!
//! A fact that is not known, because nothing has run yet or because it was not looked for, is `None` or empty. No
//! warning follows from a missing fact.

use std::collections::BTreeMap;

/// The facts about a run, before or after it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunFacts {
    pub(crate) corpus: CorpusFacts,
    pub(crate) questions: QuestionFacts,
    /// The models that trials and metrics ask, by their names in the experiment.
    pub(crate) models: BTreeMap<String, ModelFacts>,
    /// The judges that read passages, by their names in the experiment.
    pub(crate) judges: Vec<String>,
    /// The trials, in the order of the grid or of the leaderboard.
    pub(crate) trials: Vec<TrialFacts>,
    /// Trials that are equal on every question, the trials of each entry in the order of the leaderboard.
    pub(crate) equal: Vec<EqualTrials>,
    /// The metrics of the objective.
    pub(crate) objective: Vec<String>,
}

/// The documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CorpusFacts {
    /// Documents that were read.
    pub(crate) documents: usize,
    /// Files that were not read because of their type: how many, by the ending of their names (`.csv`, or nothing).
    pub(crate) unread_types: BTreeMap<String, u64>,
    /// Files that were read and hold no text, by path.
    pub(crate) without_text: Vec<String>,
    /// PDF documents with pages without text: the path, the pages without text, and all pages.
    pub(crate) blank_pages: Vec<(String, usize, usize)>,
    /// Documents that have a title or headings.
    pub(crate) with_headings: usize,
    /// Documents whose language was recognized, by the language's English name: of a sample, if there are many.
    pub(crate) languages: BTreeMap<String, usize>,
}

/// The questions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QuestionFacts {
    /// How many there are.
    pub(crate) questions: usize,
    /// Questions whose language was recognized, by the language's English name.
    pub(crate) languages: BTreeMap<String, usize>,
}

/// A model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModelFacts {
    /// The most tokens that it reads of a text, or of a prompt with its answer; none if unknown.
    pub(crate) window: Option<usize>,
    /// Whether longer texts are read whole, in windows.
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
    /// The most passages that a prompt holds.
    pub(crate) passages: Option<usize>,
    /// What a run found; none before it.
    pub(crate) found: Option<TrialFindings>,
}

/// What a run found of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TrialFindings {
    /// Questions that were searched; 0 if the trial retrieves nothing by design.
    pub(crate) searched: usize,
    /// Those for which nothing was retrieved.
    pub(crate) empty: usize,
    /// Those that share no word with any chunk, as the trial's word index sees words.
    pub(crate) without_shared_words: Option<usize>,
    /// Texts that a model did not read to their end.
    pub(crate) cut_texts: Vec<CutTextsFacts>,
    /// Chunks that are searched.
    pub(crate) chunks: Option<usize>,
    pub(crate) evidence: Option<EvidenceFacts>,
    pub(crate) filter: FilterFacts,
    pub(crate) prompts: PromptFacts,
    /// Verdicts that a judge did not give, because the prompt was longer than it reads.
    pub(crate) beyond_judge: usize,
    /// Verdicts that judges were asked for.
    pub(crate) judged: usize,
}

/// Texts that a model did not read to their end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CutTextsFacts {
    /// The model, as its provider calls it.
    pub(crate) model: String,
    /// Whether the texts are chunks, or texts that were read for questions.
    pub(crate) of_chunks: bool,
    /// How many.
    pub(crate) texts: usize,
    /// All texts of the model; none if they were not counted.
    pub(crate) all: Option<usize>,
    /// The most tokens that it reads of a text; none if that is not known.
    pub(crate) max_tokens: Option<usize>,
    /// The share of the tokens of all its texts that it did not read; none if they were not counted.
    pub(crate) lost: Option<f64>,
}

/// Golden evidence next to the chunks of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EvidenceFacts {
    /// Questions with evidence.
    pub(crate) questions: usize,
    /// Those with evidence of which no single chunk holds enough.
    pub(crate) in_no_chunk: usize,
}

/// Questions whose search was restricted by a filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FilterFacts {
    /// How many.
    pub(crate) questions: usize,
    /// Those for which fewer passages were found than the retriever should find.
    pub(crate) short: usize,
    /// How many passages the retriever should find.
    pub(crate) wanted: usize,
}

/// The prompts of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PromptFacts {
    /// Answers.
    pub(crate) answers: usize,
    /// Answers whose prompt left out passages, because the budget of tokens was used up.
    pub(crate) cut: usize,
    /// Passages that were left out, over all answers.
    pub(crate) passages: usize,
}

/// Trials that are equal on every question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EqualTrials {
    /// Their ids.
    pub(crate) trials: Vec<String>,
    /// Whether passages and answers are equal, and not only the scores.
    pub(crate) same_output: bool,
    /// Whether there are answers.
    pub(crate) answers: bool,
}

impl RunFacts {
    /// A model by its name in the experiment.
    pub(super) fn model(&self, name: &str) -> ModelFacts {
        self.models.get(name).cloned().unwrap_or_default()
    }

    /// The trials with what was found of each.
    pub(super) fn findings(&self) -> impl Iterator<Item = (&TrialFacts, &TrialFindings)> {
        self.trials.iter().filter_map(|trial| Some((trial, trial.found.as_ref()?)))
    }
}
