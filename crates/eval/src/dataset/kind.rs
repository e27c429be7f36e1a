//! What a question asks for. The list is here; `generate` has a file for each
//! kind, which says how such questions are made.

use serde::{Deserialize, Serialize};

/// The list of kinds with their default shares. It is passed on to another macro.
macro_rules! every_kind {
    ($callback:ident) => {
        $callback! {
            /// Needs two passages that name the same thing.
            MultiHop => multi_hop, 0.15;
            /// Asks how two things differ, or what they have in common.
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
    };
}
pub(crate) use every_kind;

macro_rules! kinds {
    ($( $(#[$doc:meta])* $Variant:ident => $module:ident, $share:literal );+ $(;)?) => {
        /// What a question asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[schemars(rename = "Kind")]
        pub enum QuestionKind { $( $(#[$doc])* $Variant ),+ }

        impl QuestionKind {
            /// All kinds, in the order in which they are generated.
            pub const ALL: &[Self] = &[$( Self::$Variant ),+];

            /// Its name in files.
            pub fn name(self) -> &'static str {
                match self { $( Self::$Variant => stringify!($module) ),+ }
            }

            /// The default share of this kind in a dataset.
            pub(crate) fn default_share(self) -> f64 {
                match self { $( Self::$Variant => $share ),+ }
            }
        }
    };
}

every_kind!(kinds);

impl QuestionKind {
    /// Whether the documents answer such questions.
    pub(crate) fn is_answerable(self) -> bool {
        self != Self::Unanswerable
    }
}
