//! The plan: the graph of content-addressed tasks that all trials share.
//!
//! A task's key is the hash of its component, the component's version and
//! resolved settings, the identity of the model it uses, and the keys of its
//! inputs. Equal keys are the same task, so a prefix that trials share is
//! planned once.

mod blocks;
mod build;
pub(crate) mod estimate;
mod files;
pub(crate) mod graph;
pub(crate) mod model_load;
pub(crate) mod ranges;
mod summary;
mod systems;
pub(crate) mod text_sizes;
pub(crate) mod time;
pub(crate) mod trial;
pub(crate) mod views;
pub(crate) mod work;

pub use blocks::file_blocks;
pub use estimate::{CostEstimate, ModelEstimate};
pub(crate) use files::{FileList, PlannedFiles};
pub use graph::TaskId;
pub(crate) use graph::{CorpusInputs, GivenReplies, Outputs, PlanInputs, ReplyContents, TrialTasks};
pub use summary::{PlanSummary, PlannedTrial};
pub use time::{ComponentTime, TimeEstimate};
pub(crate) use trial::PipelineTrial;
pub use trial::{SystemTrial, Trial, TrialKind, label_names};
pub(crate) use views::QuestionViews;
pub use work::Task;

use ranges::Ranges;
use std::{collections::HashMap, ops::Range};
use store::{Key, KeyBuilder};

/// All tasks of all trials, each once.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The tasks; inputs first.
    pub tasks: Vec<Task>,
    /// Where each trial's results are, in the order of the trials.
    pub trials: Vec<TrialTasks>,
    /// How many tasks the trials would need without sharing.
    pub unshared: usize,
    seen: HashMap<Key, TaskId>,
    ranges: Ranges,
    /// The ranges of the questions for each parser after the first.
    other_ranges: Vec<Ranges>,
    /// The tasks that parse files, block by block: by each parser, or none if no trial needs that parser.
    loading: Vec<Vec<TaskId>>,
    /// The loading tasks of each part of the corpus, by their places among all loading tasks of a parser.
    parts: Vec<Range<usize>>,
}

impl Plan {
    pub(crate) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// The tasks that parse files by the parser with this number.
    pub(crate) fn loading_by(&self, parser: usize) -> &[TaskId] {
        self.loading.get(parser).map_or(&[], Vec::as_slice)
    }

    /// The tasks whose outputs become the results.
    pub(crate) fn sinks(&self) -> Vec<TaskId> {
        let mut sinks: Vec<_> = match self.trials.is_empty() {
            // A plan that only parses files (`Plan::loading`): every task is a result.
            true => (0..self.tasks.len()).collect(),
            false => self.trials.iter().flat_map(TrialTasks::sinks).collect(),
        };
        sinks.sort_unstable();
        sinks.dedup();
        sinks
    }

    /// The tasks whose outputs become the results, without those that only trials need whose id `is_stopped`.
    pub(crate) fn sinks_without(&self, is_stopped: impl Fn(&str) -> bool) -> Vec<TaskId> {
        let kept = self.trials.iter().filter(|trial| !is_stopped(&trial.id));
        if self.trials.is_empty() { self.sinks() } else { kept.flat_map(TrialTasks::sinks).collect() }
    }

    /// All tasks that a trial needs, each once.
    pub(crate) fn tasks_of(&self, trial: &TrialTasks) -> Vec<TaskId> {
        let mut seen = vec![false; self.tasks.len()];
        let mut open: Vec<_> = trial.results().collect();
        let mut reached = Vec::new();
        while let Some(id) = open.pop() {
            if !std::mem::replace(&mut seen[id], true) {
                reached.push(id);
                open.extend(self.tasks[id].inputs());
            }
        }
        reached
    }

    /// The identity of the whole plan: the key of all its tasks.
    pub fn key(&self) -> Key {
        let keys: Vec<_> = self.tasks.iter().map(|task| task.key).collect();
        KeyBuilder::new("plan").field("tasks", &keys).finish()
    }
}

#[cfg(test)]
mod edit_tests;
#[cfg(test)]
mod key_tests;
#[cfg(test)]
pub(crate) mod tests;
