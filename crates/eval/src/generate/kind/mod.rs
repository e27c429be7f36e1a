//! Kinds of questions: one file each, and one line below.
//!
//! A kind says what the model is told, shows it an example, and has the rules
//! that only its questions must keep.

mod comparative;
mod conditional;
mod multi_hop;
mod single_hop_abstract;
mod single_hop_specific;
mod unanswerable;

use super::{Draft, Rejected};
use serde::{Deserialize, Serialize};

/// What a kind asks of the model and of its questions.
pub(super) struct Recipe {
    /// What the model is told to do.
    pub(super) task: &'static str,
    /// Passages as an example. As many as a question of this kind needs.
    pub(super) example_passages: &'static [&'static str],
    /// What a model should make of them: a draft as JSON.
    pub(super) example_reply: &'static str,
    /// The share of the answer's words that its passages must hold.
    pub(super) held: f64,
    /// A rule of this kind alone.
    pub(super) rule: fn(&Draft, &[&str]) -> Result<(), Rejected>,
}

macro_rules! kinds {
    ($( $(#[$doc:meta])* $Variant:ident => $module:ident, $share:literal );+ $(;)?) => {
        /// What a question asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Kind { $( $(#[$doc])* $Variant ),+ }

        impl Kind {
            /// All kinds, in the order in which they are generated.
            pub const ALL: &[Self] = &[$( Self::$Variant ),+];

            /// Its name in files.
            pub fn name(self) -> &'static str {
                match self { $( Self::$Variant => stringify!($module) ),+ }
            }

            /// The share of it in a dataset where nothing else is asked for.
            pub(crate) fn default_share(self) -> f64 {
                match self { $( Self::$Variant => $share ),+ }
            }

            pub(super) fn recipe(self) -> &'static Recipe {
                match self { $( Self::$Variant => &$module::RECIPE ),+ }
            }
        }
    };
}

kinds! {
    /// Needs two passages that name the same thing.
    MultiHop => multi_hop, 0.15;
    /// Asks how two things differ, or what they share.
    Comparative => comparative, 0.1;
    /// Its answer depends on a condition that it names.
    Conditional => conditional, 0.1;
    /// The documents do not answer it; a system should say so.
    Unanswerable => unanswerable, 0.1;
    /// Asks why, how or what for; the answer is a sentence.
    SingleHopAbstract => single_hop_abstract, 0.15;
    /// Asks for one fact of one passage.
    SingleHopSpecific => single_hop_specific, 0.4;
}

impl Kind {
    /// How many passages a question of this kind needs.
    pub(crate) fn hops(self) -> usize {
        self.recipe().example_passages.len()
    }

    /// Whether the documents answer such questions.
    pub(crate) fn is_answerable(self) -> bool {
        self != Self::Unanswerable
    }
}

/// For kinds without a rule of their own.
fn no_rule(_: &Draft, _: &[&str]) -> Result<(), Rejected> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{check, draft::read as read_draft};
    use super::*;

    #[test]
    fn every_kinds_example_passes_its_own_checks() {
        for kind in Kind::ALL {
            let recipe = kind.recipe();
            let draft = read_draft(recipe.example_reply, *kind).unwrap();
            let checked = check::draft(&draft, recipe.example_passages, *kind);
            assert!(checked.is_ok(), "{kind:?}: {checked:?}");
        }
    }

    #[test]
    fn shares_are_a_whole() {
        let sum: f64 = Kind::ALL.iter().map(|kind| kind.default_share()).sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }

    #[test]
    fn names_are_those_of_files() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
