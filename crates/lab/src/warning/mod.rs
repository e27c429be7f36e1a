//! Warnings: what puts a trial at a disadvantage, or makes a run say less than it seems to.
//!
//! Each kind is a file with its [`WarningKind`] and one line in the list below. A kind looks at [`RunFacts`], which are
//! collected before a run (what the settings and the documents show) and after it (what was found). So `plan`, the
//! leaderboard, the report, Python and trackers show the same sentences.

mod facts;
#[cfg(test)]
mod fixture;
mod language;

pub(crate) use facts::{
    CorpusFacts, CutTextsFacts, EqualTrials, EvidenceFacts, FilterFacts, ModelFacts, PromptFacts, QuestionFacts,
    RunFacts, TrialFacts, TrialFindings,
};

use crate::number::listed;
use serde::{Deserialize, Serialize};

/// The most trials that a sentence names; of more, it gives the number.
const NAMED: usize = 6;

/// Declares the kinds of warnings: a module for each, and the enum of their codes.
macro_rules! kinds {
    ($( #[$about:meta] $Variant:ident => $module:ident ),+ $(,)?) => {
        $( mod $module; )+

        /// The code of a warning: `retrieves-nothing`.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum WarningCode {
            $( #[$about] $Variant, )+
        }

        impl WarningCode {
            /// All codes, the gravest first.
            pub const ALL: &'static [Self] = &[$( Self::$Variant ),+];

            /// What a warning of this code means.
            pub fn kind(self) -> &'static WarningKind {
                match self { $( Self::$Variant => &$module::KIND, )+ }
            }
        }
    };
}

// The kinds, the gravest first. A new one is a file here, with its `KIND`, and one line.
kinds! {
    /// Questions that retrieve nothing.
    RetrievesNothing => retrieves_nothing,
    /// Questions that share no word with any chunk, in a search by words and vectors.
    NoSharedWords => no_shared_words,
    /// Chunks longer than the embedder or the reranker reads.
    LongTexts => long_texts,
    /// A choice that changed no passage and no answer.
    SettingWithoutEffect => setting_without_effect,
    /// Trials that are equal on every question.
    EqualTrials => equal_trials,
    /// Files that are not read because of their type.
    UnreadTypes => unread_types,
    /// Files that hold no text.
    DocumentsWithoutText => documents_without_text,
    /// Pages without text inside PDF documents.
    PagesWithoutText => pages_without_text,
    /// Questions in another language than the documents.
    QuestionLanguage => question_language,
    /// Documents in several languages.
    MixedLanguages => mixed_languages,
    /// An embedder or a reranker for English on other languages.
    EnglishModel => english_model,
    /// Evidence of which no single chunk holds enough.
    EvidenceInNoChunk => evidence_in_no_chunk,
    /// A filter that leaves fewer chunks than `top_k`.
    FewPassages => few_passages,
    /// Passages that did not fit into the prompt.
    CutPrompt => cut_prompt,
    /// A judge that is shown more than it reads.
    JudgeWindow => judge_window,
}

/// A kind of warning: what people read about it, and how it is found.
#[derive(Debug, Serialize)]
pub struct WarningKind {
    /// The kind in a few words.
    pub title: &'static str,
    /// What it means, and how it is measured.
    pub meaning: &'static str,
    /// What to do.
    pub action: &'static str,
    /// When it can be found.
    pub found: WarningTime,
    #[serde(skip)]
    find: fn(&RunFacts) -> Vec<Finding>,
}

/// When a warning can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningTime {
    /// Before a run, from the settings and the documents.
    Before,
    /// Only after a run, from what it found.
    After,
    /// Before a run as an estimate, after a run in exact numbers.
    BeforeAndAfter,
}

impl WarningTime {
    /// The time in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Before => "before a run",
            Self::After => "after a run",
            Self::BeforeAndAfter => "before a run as an estimate, after a run in exact numbers",
        }
    }
}

impl WarningCode {
    /// The code as it is written in files: `retrieves-nothing`.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The code with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

/// One warning: a statement that holds for some trials, or for the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Its code.
    pub code: WarningCode,
    /// The trials that it holds for; empty if it is about the documents or the questions.
    pub trials: Vec<String>,
    /// The sentence, with the trials that it holds for, and without a full stop.
    pub text: String,
    /// How many questions, chunks, files or trials are concerned; none if that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Of how many; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// What to do.
    pub action: String,
}

impl Warning {
    /// Whether it concerns a trial: it names the trial, or is about the whole run.
    pub fn concerns(&self, trial: &str) -> bool {
        self.trials.is_empty() || self.trials.iter().any(|named| named == trial)
    }
}

/// What a kind found, for one trial or for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// The trials that it holds for.
    trials: Vec<String>,
    /// The statement, without the trials.
    text: String,
    count: Option<usize>,
    total: Option<usize>,
}

impl Finding {
    /// A finding about the run.
    fn of_run(text: String, count: usize, total: Option<usize>) -> Self {
        Self { trials: Vec::new(), text, count: Some(count), total }
    }

    /// A finding about a trial.
    fn of_trial(trial: &TrialFacts, text: String, count: usize, total: Option<usize>) -> Self {
        Self { trials: vec![trial.trial.clone()], text, count: Some(count), total }
    }
}

/// All warnings that these facts give, the gravest first, without those whose code is ignored. Trials for which the same
/// statement holds share a warning, except equal trials: each group of them is a warning of its own.
pub(crate) fn find(facts: &RunFacts, ignored: &[WarningCode]) -> Vec<Warning> {
    let codes = WarningCode::ALL.iter().copied().filter(|code| !ignored.contains(code));
    codes.flat_map(|code| of_code(code, facts)).collect()
}

/// The codes that are looked for in a finished run: those that are not ignored, and without those that need the chunks
/// if these are elsewhere, as on a cluster.
pub(crate) fn looked_for(ignored: &[WarningCode], reads_chunks: bool) -> Vec<WarningCode> {
    let needs_chunks = |code: WarningCode| matches!(code, WarningCode::EvidenceInNoChunk | WarningCode::NoSharedWords);
    let codes = WarningCode::ALL.iter().copied();
    codes.filter(|code| !ignored.contains(code) && (reads_chunks || !needs_chunks(*code))).collect()
}

/// The warnings of one code.
fn of_code(code: WarningCode, facts: &RunFacts) -> Vec<Warning> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in (code.kind().find)(facts) {
        let same = |other: &&mut Finding| {
            // Two groups of equal trials are not equal to each other.
            code != WarningCode::EqualTrials
                && (&other.text, other.count, other.total) == (&finding.text, finding.count, finding.total)
                && !other.trials.is_empty()
        };
        match merged.iter_mut().find(same) {
            Some(other) => other.trials.extend(finding.trials),
            None => merged.push(finding),
        }
    }
    let warning = |finding: Finding| Warning {
        code,
        text: match named_trials(&finding.trials, facts.trials.len()) {
            Some(trials) => format!("{trials}: {}", finding.text),
            None => finding.text,
        },
        trials: finding.trials,
        count: finding.count,
        total: finding.total,
        action: code.kind().action.to_owned(),
    };
    merged.into_iter().map(warning).collect()
}

/// The trials of a statement, as its sentence names them; none for a statement about the run.
fn named_trials(trials: &[String], all: usize) -> Option<String> {
    match trials.len() {
        0 => None,
        n if n == all && n > 1 => Some("all trials".to_owned()),
        n if n > NAMED => Some(format!("{} and {} more trials", trials[..NAMED - 1].join(", "), n - (NAMED - 1))),
        _ => Some(listed(trials)),
    }
}

#[cfg(test)]
mod tests;
