//! The lineage of a run's artifacts: from which artifacts each of them was made. It is written into the run's folder before
//! the run does anything, so also an interrupted run has one. With it, everything that was made from a document can be
//! found, also in files that do not name documents, such as vectors and indexes.
//!
//! An index of a large corpus is made from thousands of artifacts, which stand one after the other in a plan. So inputs are
//! kept as sequences of places.

use crate::{
    Error,
    layout::RunFileName,
    plan::{Plan, Task},
    workspace::Workspace,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// Raise when the fields or their meaning change.
const VERSION: u32 = 1;

/// From which artifacts each artifact was made: `lineage.json` in a run's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lineage {
    version: u32,
    /// The names of the artifacts. Inputs stand before what is made from them.
    artifacts: Vec<String>,
    /// The inputs of each artifact.
    inputs: Vec<Vec<PlaceSequence>>,
}

/// Places in a list: the first one, how many there are, and the step from one to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PlaceSequence(usize, usize, usize);

impl PlaceSequence {
    fn places(self) -> impl Iterator<Item = usize> {
        let Self(first, count, step) = self;
        (0..count).map(move |i| first + i * step)
    }

    /// Takes another place, if it continues the sequence.
    fn extend(&mut self, place: usize) -> bool {
        let Self(first, count, step) = *self;
        let continues = match count {
            1 => place > first,
            _ => place == first + count * step,
        };
        if continues {
            *self = Self(first, count + 1, if count == 1 { place - first } else { step });
        }
        continues
    }
}

fn sequences(places: impl IntoIterator<Item = usize>) -> Vec<PlaceSequence> {
    let mut all: Vec<PlaceSequence> = Vec::new();
    for place in places {
        if !all.last_mut().is_some_and(|last| last.extend(place)) {
            all.push(PlaceSequence(place, 1, 1));
        }
    }
    all
}

impl Lineage {
    /// Reads a file; none if another version of this program wrote it, or it is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(bytes).ok()?;
        let is_whole = read.inputs.len() == read.artifacts.len()
            && read.inputs.iter().enumerate().all(|(i, inputs)| {
                inputs.iter().all(|PlaceSequence(first, count, step)| {
                    let last =
                        count.checked_sub(1).and_then(|n| n.checked_mul(*step)).and_then(|n| n.checked_add(*first));
                    last.is_some_and(|last| last < i)
                })
            });
        Some(read).filter(|read| read.version == VERSION && is_whole)
    }

    /// Adds the tasks of a plan. Returns whether there were any that it did not have.
    fn add(&mut self, plan: &Plan) -> bool {
        self.version = VERSION;
        let mut places: HashMap<String, usize> = self.artifacts.iter().cloned().zip(0..).collect();
        let before = self.artifacts.len();
        let mut of_task = Vec::with_capacity(plan.tasks.len());
        for task in &plan.tasks {
            let name = task.artifact();
            let place = *places.entry(name).or_insert_with_key(|name| {
                self.artifacts.push(name.clone());
                self.inputs.push(sequences(task.inputs().into_iter().map(|id| of_task[id])));
                self.artifacts.len() - 1
            });
            of_task.push(place);
        }
        self.artifacts.len() > before
    }

    /// Drops artifacts that are gone, if nothing that is left was made from them. Returns whether there were any.
    fn remove(&mut self, gone: &BTreeSet<String>) -> bool {
        let mut stays: Vec<bool> = self.artifacts.iter().map(|name| !gone.contains(name)).collect();
        for (place, inputs) in self.inputs.iter().enumerate().rev() {
            if stays[place] {
                inputs.iter().flat_map(|sequence| sequence.places()).for_each(|input| stays[input] = true);
            }
        }
        if stays.iter().all(|stays| *stays) {
            return false;
        }
        // Where each artifact stands when the others are gone.
        let places: Vec<usize> = stays
            .iter()
            .scan(0, |next, stays| {
                let place = *next;
                *next += usize::from(*stays);
                Some(place)
            })
            .collect();
        let artifacts = std::mem::take(&mut self.artifacts).into_iter().zip(std::mem::take(&mut self.inputs));
        for ((name, inputs), _) in artifacts.zip(&stays).filter(|(_, stays)| **stays) {
            self.artifacts.push(name);
            let inputs = inputs.into_iter().flat_map(PlaceSequence::places).map(|input| places[input]);
            self.inputs.push(sequences(inputs));
        }
        true
    }

    /// The artifacts, each with whether something holds for it or for an artifact that it was made from.
    pub(crate) fn inherited(&self, holds: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, bool)> {
        let mut found = Vec::with_capacity(self.artifacts.len());
        for (name, inputs) in self.artifacts.iter().zip(&self.inputs) {
            let of_input = inputs.iter().any(|sequence| sequence.places().any(|place| found[place]));
            found.push(of_input || holds(name));
        }
        self.artifacts.iter().map(String::as_str).zip(found)
    }

    /// The artifacts that are made from no other artifact.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &str> {
        let with_inputs = self.artifacts.iter().zip(&self.inputs);
        with_inputs.filter(|(_, inputs)| inputs.is_empty()).map(|(name, _)| name.as_str())
    }
}

/// Adds a plan that is about to be executed to the lineage in its run's folder on this machine.
///
/// # Errors
/// If it cannot be written.
pub(crate) async fn record(workspace: &Workspace, run: &str, plan: &Plan) -> Result<(), Error> {
    let has_inputs = |task: &Task| !task.inputs().is_empty();
    if workspace.is_reading() || !plan.tasks.iter().any(has_inputs) {
        return Ok(());
    }
    change(workspace, run, |lineage| lineage.add(plan)).await
}

/// Drops artifacts that were removed from the store out of the lineage of a run.
///
/// # Errors
/// If it cannot be written.
pub(crate) async fn remove(workspace: &Workspace, run: &str, gone: &BTreeSet<String>) -> Result<(), Error> {
    change(workspace, run, |lineage| lineage.remove(gone)).await
}

/// Changes the lineage in the folder of a run on this machine, and writes it if `change` says that it is another one.
async fn change(workspace: &Workspace, run: &str, change: impl FnOnce(&mut Lineage) -> bool) -> Result<(), Error> {
    let kept = std::fs::read(RunFileName::Lineage.within(&workspace.run_folder(run))).ok();
    let mut lineage = kept.and_then(|bytes| Lineage::parse(&bytes)).unwrap_or_default();
    if !change(&mut lineage) {
        return Ok(());
    }
    let bytes = serde_json::to_vec(&lineage).map_err(Error::table)?;
    workspace.write_run_file(run, RunFileName::Lineage, bytes).await
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A lineage of these artifacts, each with its inputs.
    pub(crate) fn lineage(artifacts: &[(&str, &[usize])]) -> Lineage {
        Lineage {
            version: VERSION,
            artifacts: artifacts.iter().map(|(name, _)| (*name).to_owned()).collect(),
            inputs: artifacts.iter().map(|(_, inputs)| sequences(inputs.iter().copied())).collect(),
        }
    }

    #[test]
    fn an_artifact_that_is_gone_is_dropped_unless_something_left_was_made_from_it() {
        let all: &[(&str, &[usize])] =
            &[("a", &[]), ("old", &[]), ("b", &[]), ("of old", &[1]), ("index", &[0, 2]), ("old index", &[0, 1, 2])];
        let gone = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut found = lineage(all);
        assert!(found.remove(&gone(&["old", "of old", "old index"])));
        assert_eq!(found, lineage(&[("a", &[]), ("b", &[]), ("index", &[0, 1])]));
        assert!(!found.remove(&gone(&["old"])));
        let mut found = lineage(all);
        assert!(found.remove(&gone(&["old", "of old"])));
        assert_eq!(
            found,
            lineage(&[("a", &[]), ("old", &[]), ("b", &[]), ("index", &[0, 2]), ("old index", &[0, 1, 2])])
        );
    }

    #[test]
    fn inputs_that_stand_one_after_the_other_are_one_sequence() {
        for (places, expected) in [
            (vec![], 0),
            (vec![7], 1),
            (vec![3, 4, 5, 6], 1),
            (vec![2, 5, 8, 11], 1),
            (vec![1, 2, 3, 9, 10, 11, 4], 3),
            (vec![5, 5, 5], 3),
        ] {
            let all = sequences(places.iter().copied());
            assert_eq!(all.len(), expected, "{places:?}: {all:?}");
            assert_eq!(all.into_iter().flat_map(PlaceSequence::places).collect::<Vec<_>>(), places);
        }
    }

    #[test]
    fn what_is_made_from_something_inherits_from_it() {
        let lineage = lineage(&[("a", &[]), ("b", &[]), ("of a", &[0]), ("of both", &[1, 2]), ("of b", &[1])]);
        let of = |seed: &str| -> Vec<String> {
            let found = lineage.inherited(|name| name == seed);
            found.filter(|(_, inherits)| *inherits).map(|(name, _)| name.to_owned()).collect()
        };
        assert_eq!(of("a"), ["a", "of a", "of both"]);
        assert_eq!(of("b"), ["b", "of both", "of b"]);
        assert_eq!(lineage.roots().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_version_is_none() {
        let whole = lineage(&[("a", &[]), ("of a", &[0])]);
        let bytes = serde_json::to_vec(&whole).unwrap();
        assert_eq!(Lineage::parse(&bytes), Some(whole.clone()));
        let later = Lineage { version: VERSION + 1, ..whole.clone() };
        let cyclic = lineage(&[("a", &[1]), ("b", &[0])]);
        let short = Lineage { inputs: Vec::new(), ..whole };
        for other in [later, cyclic, short] {
            assert_eq!(Lineage::parse(&serde_json::to_vec(&other).unwrap()), None, "{other:?}");
        }
        let huge = r#"{"version":1,"artifacts":["a"],"inputs":[[[1,18446744073709551615,2]]]}"#;
        assert!(Lineage::parse(huge.as_bytes()).is_none() && Lineage::parse(b"{}").is_none());
    }
}
