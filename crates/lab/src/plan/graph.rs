//! The graph's vocabulary: the id of a task, where a trial's results are in a plan, and what a plan is made from.

use super::{FileList, Plan, QuestionViews, trial::Trial};
use crate::spec::Experiment;
use eval::{MetricConfig, Question};
use models::Identity;
use rag::{Metadata, index::IndexKind, load::SourceFile, system::SystemReply};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use store::Key;

/// A task's place in its plan. Inputs always come before the tasks that use them.
pub type TaskId = usize;

/// Where each task's output is: the artifact's name in the store.
pub(crate) type Outputs = HashMap<TaskId, String>;

/// The inputs of a retrieval: what is searched, and the questions' vectors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CorpusInputs {
    /// The chunks of all documents.
    pub chunks: Vec<TaskId>,
    /// The files of each index that is searched.
    #[serde(flatten, with = "index_files")]
    pub indexes: BTreeMap<IndexKind, Vec<TaskId>>,
    /// The questions' vectors.
    #[serde(rename = "queries")]
    pub question_vectors: Option<TaskId>,
}

impl CorpusInputs {
    /// All of them. Their order is part of keys: indexes in shards come last,
    /// the others after the chunks, each by name, so that a new kind changes no key.
    pub(crate) fn all(&self) -> Vec<TaskId> {
        let mut indexes: Vec<_> = self.indexes.iter().collect();
        indexes.sort_by_key(|(kind, _)| kind.name());
        // Only an index that compares tokens is in shards.
        let files = |in_shards| {
            let indexes = indexes.iter().filter(move |(kind, _)| kind.compares_tokens() == in_shards);
            indexes.flat_map(|(_, files)| files.iter().copied())
        };
        self.chunks.iter().copied().chain(files(false)).chain(self.question_vectors).chain(files(true)).collect()
    }
}

/// Where a trial's results are in the plan.
#[derive(Debug, Clone, Default)]
pub struct TrialTasks {
    /// The trial's id.
    pub id: String,
    /// The questions that it is asked.
    pub asked: Vec<usize>,
    /// The inputs of its stages.
    pub corpus: CorpusInputs,
    /// What is searched in place of its chunks' texts, in shards; empty if the texts are searched.
    pub enriched: Vec<TaskId>,
    /// The queries to search with, if they are not the questions themselves.
    pub queries: Option<TaskId>,
    /// Its passages.
    pub passages: TaskId,
    /// Its answers, in shards.
    pub answers: Vec<TaskId>,
    /// What its approximate index finds of what an exact one finds; none if it has no such index.
    pub(crate) recall: Option<TaskId>,
    /// What the replies of the system can hold, if the trial is one: `answers` are then its replies.
    pub(crate) replies: Option<ReplyContents>,
    /// Its scores, in the order of the experiment's metrics; those of each metric in shards.
    pub scores: Vec<(MetricConfig, Vec<TaskId>)>,
}

impl TrialTasks {
    /// The tasks of all its scores.
    pub(crate) fn scoring(&self) -> impl Iterator<Item = TaskId> {
        self.scores.iter().flat_map(|(_, shards)| shards.iter().copied())
    }

    /// The tasks whose outputs become its results.
    pub(crate) fn sinks(&self) -> impl Iterator<Item = TaskId> {
        self.results().chain(self.queries)
    }

    /// The tasks of its answers, scores and passages, and of the recall of its index.
    pub(crate) fn results(&self) -> impl Iterator<Item = TaskId> {
        self.answers.iter().copied().chain(self.scoring()).chain([self.passages]).chain(self.recall)
    }
}

/// The inputs of a plan.
pub struct PlanInputs<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The trials.
    pub trials: &'a [Trial],
    /// The identities of all models, by name, and those of systems by `systems.NAME`.
    pub identities: &'a BTreeMap<String, Identity>,
    /// The files, with the keys of their bytes.
    pub(crate) files: &'a FileList,
    /// The plan that parses these files, if it was made before.
    pub(crate) loading: Option<&'a Plan>,
    /// Files that could not be read now. They are left out, but the other files
    /// keep their places, so all other tasks stay the same.
    pub unread: &'a [SourceFile],
    /// What the corpus' table of metadata says, by document.
    pub metadata: &'a BTreeMap<String, Metadata>,
    /// The identity of the PDF library.
    pub pdf_library: &'a str,
    /// The golden questions, with the places of their evidence in the documents of the first parser.
    pub questions: &'a [Question],
    /// The same for the other parsers.
    pub(crate) views: &'a QuestionViews,
    /// The answers that exist already, by system.
    pub(crate) given: &'a BTreeMap<String, GivenReplies>,
    /// For each trial, the questions that it answers, in order. If left out,
    /// all questions that the experiment wants answered.
    pub asked: Option<&'a [Vec<usize>]>,
}

/// What the replies of a system can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplyContents {
    pub(crate) answers: bool,
    pub(crate) passages: bool,
}

/// Answers that exist already, matched to the questions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GivenReplies {
    /// The digest of all replies.
    pub(crate) digest: Key,
    /// The reply to each question of the dataset; none where there is no answer.
    pub(crate) replies: Vec<Option<SystemReply>>,
    /// What the replies hold.
    pub(crate) contents: ReplyContents,
}

impl PlanInputs<'_> {
    /// The questions for trials whose documents the parser with this number makes.
    pub(crate) fn questions_for(&self, parser: usize) -> &[Question] {
        self.views.of(parser, self.questions)
    }

    /// Whether any question comes after earlier messages. Only then are messages part of keys.
    pub(crate) fn has_turns(&self) -> bool {
        self.questions.iter().any(|question| !question.turns.is_empty())
    }
}

/// The serialized form of indexes, the same in old records: a task or null for an index of one
/// file, a list for an index of several and for one that compares tokens.
mod index_files {
    use super::{BTreeMap, IndexKind, TaskId};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Files {
        Many(Vec<TaskId>),
        One(Option<TaskId>),
    }

    type Indexes = BTreeMap<IndexKind, Vec<TaskId>>;

    pub(super) fn serialize<S: Serializer>(indexes: &Indexes, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for kind in IndexKind::ALL {
            let files = indexes.get(kind).map(Vec::as_slice).unwrap_or_default();
            // Records that were written before there was this kind stay as they are.
            if kind.is_of_dense_index() && files.is_empty() {
                continue;
            }
            // An index that compares tokens is in shards, and others are in several files only if the corpus has parts.
            let files = match kind.compares_tokens() || files.len() > 1 {
                true => Files::Many(files.to_vec()),
                false => Files::One(files.first().copied()),
            };
            map.serialize_entry(kind, &files)?;
        }
        map.end()
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Indexes, D::Error> {
        let read = BTreeMap::<IndexKind, Files>::deserialize(deserializer)?;
        let files = |files| match files {
            Files::Many(files) => files,
            Files::One(file) => file.into_iter().collect(),
        };
        let all = read.into_iter().map(|(kind, read)| (kind, files(read)));
        Ok(all.filter(|(_, files)| !files.is_empty()).collect())
    }
}
