//! `analysis`: what texts of any language are made of.

mod abbreviations;
mod graphemes;
mod language;
mod marks;
mod recognition;
mod sentences;
#[cfg(test)]
mod sentences_tests;

pub use graphemes::{cluster_starts, cut_before, first_clusters, may_cut};
pub use language::{FEWEST_LETTERS, Language, LanguageChoice};
pub use marks::ends_sentence;
pub use recognition::{document_language, text_language};
pub use sentences::sentences;
pub(crate) use sentences::{starts_by_script, tiles};
