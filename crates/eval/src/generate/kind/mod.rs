//! Kinds of questions: one file each, and one line in the list of [`dataset::kind`](crate::dataset).
//!
//! A kind has the task for the model, an example, and a rule for its questions.

use super::{QuestionDraft, RejectionReason};
use crate::dataset::{QuestionKind, every_kind};
use whatlang::Lang;

/// How questions of a kind are made and checked.
pub(super) struct Recipe {
    /// The task for the model.
    pub(super) task: &'static str,
    /// Example passages, as many as a question of this kind needs.
    pub(super) example_passages: &'static [&'static str],
    /// The reply to the example: a draft as JSON.
    pub(super) example_reply: &'static str,
    /// The share of the answer's words that its passages must hold.
    pub(super) answer_share: f64,
    /// A rule that only this kind has. Takes the draft, its passages and their language.
    pub(super) rule: fn(&QuestionDraft, &[&str], Lang) -> Result<(), RejectionReason>,
}

macro_rules! recipes {
    ($( $(#[$doc:meta])* $Variant:ident => $module:ident, $share:literal );+ $(;)?) => {
        $( mod $module; )+

        impl QuestionKind {
            pub(super) fn recipe(self) -> &'static Recipe {
                match self { $( Self::$Variant => &$module::RECIPE ),+ }
            }
        }
    };
}

every_kind!(recipes);

impl QuestionKind {
    /// How many passages a question of this kind needs.
    pub(crate) fn hops(self) -> usize {
        self.recipe().example_passages.len()
    }
}

/// For kinds without a rule of their own.
fn no_rule(_: &QuestionDraft, _: &[&str], _: Lang) -> Result<(), RejectionReason> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{check, draft::read as read_draft};
    use super::*;

    #[test]
    fn every_kinds_example_passes_its_own_checks() {
        for kind in QuestionKind::ALL {
            let recipe = kind.recipe();
            let draft = read_draft(recipe.example_reply, *kind).unwrap();
            let checked = check::draft(&draft, recipe.example_passages, *kind, Lang::Eng);
            assert!(checked.is_ok(), "{kind:?}: {checked:?}");
        }
    }

    #[test]
    fn shares_are_a_whole() {
        let sum: f64 = QuestionKind::ALL.iter().map(|kind| kind.default_share()).sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }

    #[test]
    fn names_are_those_of_files() {
        for kind in QuestionKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
