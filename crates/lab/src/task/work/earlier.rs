//! Rows of some of a task's questions, made by earlier tasks.

use super::{TaskContext, TaskOutput};
use crate::{
    Error,
    artifact::{self, ArtifactTable},
    layout,
    plan::ranges::RangePart,
    task::{RunContext, TaskCalls, usage_of},
};
use models::Ledger;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
};

/// What the store has of a task's rows.
pub(super) struct EarlierRows<R> {
    rows: Vec<R>,
    /// The questions without a row.
    pub(super) missing: Vec<usize>,
    /// What the calls behind the rows used, by question.
    used: BTreeMap<String, Ledger>,
    /// The journal's keys of these calls, by question.
    calls: TaskCalls,
}

impl<R> EarlierRows<R> {
    /// Nothing: all questions are missing.
    pub(super) fn none(questions: &[usize]) -> Self {
        Self { rows: Vec::new(), missing: questions.to_vec(), used: BTreeMap::new(), calls: TaskCalls::new() }
    }
}

impl TaskContext<'_> {
    /// The rows of these questions that are in the store, made by tasks that did
    /// other parts of the same range. An artifact that cannot be read counts as
    /// absent, because its rows can be made again.
    pub(super) async fn earlier_rows<R: ArtifactTable>(
        &self,
        part: &RangePart,
        questions: &[usize],
        question_of: impl Fn(&R) -> &String,
    ) -> Result<EarlierRows<R>, Error> {
        let mut earlier = EarlierRows::none(questions);
        let folder = layout::artifact_folder(&part.whole);
        let names = self.run_context.store.list(&folder).await?.into_iter();
        let shared = |name: String| {
            let shared = part.shared_with(&layout::artifact_key(&name)?)?;
            (shared != 0).then_some((shared, name))
        };
        let mut artifacts: Vec<(u64, String)> = names.filter_map(shared).collect();
        artifacts.sort_by_key(|(shared, _)| Reverse(shared.count_ones()));
        let mut open = part.part;
        let mut missing: HashSet<&str> = questions.iter().map(|&i| self.run_context.questions[i].id.as_str()).collect();
        for (shared, name) in artifacts {
            if shared & open == 0 {
                continue;
            }
            let Ok(bytes) = self.run_context.artifact(&name).await else { continue };
            let Ok(rows) = artifact::decode::<R>(bytes) else { continue };
            open &= !shared;
            let used = usage_of(self.run_context, &name).await?;
            for row in rows {
                let question = question_of(&row);
                if !missing.remove(question.as_str()) {
                    continue;
                }
                if let Some(used) = used.as_ref().and_then(|used| used.questions.get(question)) {
                    earlier.used.insert(question.clone(), used.clone());
                }
                if let Some(calls) = used.as_ref().and_then(|used| used.calls.get(question)) {
                    earlier.calls.insert(question.clone(), calls.clone());
                }
                earlier.rows.push(row);
            }
        }
        earlier.missing.retain(|&i| missing.contains(self.run_context.questions[i].id.as_str()));
        self.report_rows(earlier.rows.len());
        Ok(earlier)
    }
}

impl TaskOutput {
    /// A table of new rows and of earlier ones, in the order of the dataset.
    pub(super) fn with_earlier<R: ArtifactTable>(
        mut rows: Vec<R>,
        earlier: EarlierRows<R>,
        cx: &RunContext,
        question_of: impl Fn(&R) -> &String,
    ) -> Result<Self, Error> {
        let resumed = earlier.rows.len();
        if resumed > 0 {
            rows.extend(earlier.rows);
            let places: HashMap<&String, usize> = cx.questions.iter().map(|question| &question.id).zip(0..).collect();
            rows.sort_by_key(|row| places.get(question_of(row)).copied());
        }
        let reused = resumed > 0 && resumed == rows.len();
        let made = Self::of(artifact::encode(&rows)?, rows.len());
        Ok(Self { resumed, reused, earlier: earlier.used, earlier_calls: earlier.calls, ..made })
    }
}

#[cfg(test)]
mod tests;
