//! Counts the tokens of texts: by the model's tokenizer if it is known, otherwise by
//! an estimate from the scripts of the text.

mod openai;
mod script;

pub use script::estimate_tokens;

pub(crate) use openai::RemoteTokenizer;

use std::fmt;

/// Counts the tokens of texts for one model. It needs the model's tokenizer but not its
/// weights, so it is cheap to open.
pub struct ModelTokenizer {
    count: Box<dyn Fn(&str) -> usize + Send + Sync>,
    /// Whether the model's own tokenizer counts. If not, [`estimate_tokens`] does.
    pub is_exact: bool,
    /// The most tokens that the model reads of one text, or of a query and a passage
    /// together. `usize::MAX` if there is no limit.
    pub max_tokens: usize,
    /// Tokens that are added to each text: special tokens, and the prefix of
    /// documents.
    pub added: usize,
}

impl ModelTokenizer {
    /// The model's own tokenizer.
    pub(crate) fn exact(count: impl Fn(&str) -> usize + Send + Sync + 'static) -> Self {
        Self { count: Box::new(count), is_exact: true, max_tokens: usize::MAX, added: 0 }
    }

    /// An estimate, for a model whose tokenizer is not known.
    pub fn estimate() -> Self {
        Self { count: Box::new(estimate_tokens), is_exact: false, max_tokens: usize::MAX, added: 0 }
    }

    /// The tokenizer of a model behind an endpoint, by the model's name.
    pub(crate) fn of_endpoint(model: &str) -> Self {
        match RemoteTokenizer::of(model) {
            RemoteTokenizer::Unknown => Self::estimate(),
            known => Self::exact(move |text| known.count(text)),
        }
    }

    /// The same tokenizer for a model that reads up to `max_tokens` of a text and adds `added` tokens to each text.
    pub(crate) fn with_limit(self, max_tokens: usize, added: usize) -> Self {
        Self { max_tokens, added, ..self }
    }

    /// How many tokens the text is, without the tokens that are [`added`](Self::added) to each text.
    pub fn count(&self, text: &str) -> usize {
        (self.count)(text)
    }
}

impl fmt::Debug for ModelTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_exact, max_tokens, added, .. } = self;
        let mut shown = f.debug_struct("ModelTokenizer");
        shown.field("is_exact", is_exact).field("max_tokens", max_tokens).field("added", added).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_whose_name_says_nothing_is_estimated() {
        let (known, unknown) = (ModelTokenizer::of_endpoint("gpt-4o-mini"), ModelTokenizer::of_endpoint("m"));
        assert_eq!((known.is_exact, unknown.is_exact), (true, false));
        assert_eq!((known.max_tokens, known.added), (usize::MAX, 0));
        let text = "Die Mühle steht am Fluss.";
        assert_eq!(known.count(text), RemoteTokenizer::O200k.count(text));
        assert_eq!(unknown.count(text), estimate_tokens(text));
        let limited = known.with_limit(256, 2);
        assert_eq!((limited.max_tokens, limited.added, limited.is_exact), (256, 2, true));
    }
}
