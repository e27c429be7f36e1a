//! The setting for texts that are longer than an embedding model reads.

use super::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What happens with a text that has more tokens than the embedding model reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LongTexts {
    /// The model reads the beginning, and the rest is lost. The ledger counts texts that were cut and tokens that were
    /// lost. An endpoint gets the whole text; most endpoints cut it or refuse it.
    #[default]
    Cut,
    /// A text that is too long is an error, which is found before any vector is stored.
    Refuse,
    /// The text is read in windows that are as long as the model reads, and each window is embedded as a separate
    /// text. Neighbouring windows share an eighth of their tokens. The text's vector is the mean of the windows'
    /// vectors, weighted by their tokens and scaled to length 1. Only for models of this process.
    Windows,
}

/// The name of the identity's parameter for this setting.
const LONG_TEXTS: &str = "long_texts";
/// How much of a text an error shows, in characters.
const SHOWN: usize = 60;

impl LongTexts {
    /// Whether it is the default, which settings files and identities leave out.
    pub(crate) fn is_cut(&self) -> bool {
        *self == Self::Cut
    }

    /// How long a text may be, in tokens, for a model that reads `at_a_time` tokens at once.
    pub(crate) fn limit(self, at_a_time: usize) -> usize {
        match self {
            Self::Cut | Self::Refuse => at_a_time,
            Self::Windows => usize::MAX,
        }
    }

    /// Writes the setting into the parameters of an identity. `cut` is left out, so that keys stay the same as in
    /// versions without this setting.
    pub(crate) fn write_to(self, parameters: &mut Map<String, Value>) {
        if !self.is_cut() {
            parameters.insert(LONG_TEXTS.to_owned(), json!(self));
        }
    }
}

/// Fails if a text has more tokens than `limit`. `tokens` has the number of tokens of each text; `is_estimate` says
/// that these are estimates, because the model's tokenizer is not known.
///
/// # Errors
/// [`Error::TextTooLong`], which shows the first such text and counts all of them.
pub(crate) fn refuse_long_texts(
    model: &str,
    limit: usize,
    is_estimate: bool,
    texts: &[String],
    tokens: impl Iterator<Item = usize>,
) -> Result<(), Error> {
    let mut longer = texts.iter().zip(tokens).filter(|(_, tokens)| *tokens > limit);
    let Some((text, tokens)) = longer.next() else { return Ok(()) };
    Err(Error::TextTooLong {
        model: model.to_owned(),
        text: beginning(text),
        tokens,
        limit,
        is_estimate,
        longer: 1 + longer.count(),
        of: texts.len(),
    })
}

/// The beginning of a text on one line.
fn beginning(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let start: String = characters.by_ref().take(SHOWN).collect();
    if characters.next().is_some() { format!("{}…", start.trim_end()) } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_in_no_identity_and_the_others_are() {
        let written = |long_texts: LongTexts| {
            let mut parameters = Map::new();
            long_texts.write_to(&mut parameters);
            Value::from(parameters)
        };
        assert_eq!(written(LongTexts::default()), json!({}));
        assert_eq!(written(LongTexts::Refuse), json!({ "long_texts": "refuse" }));
        assert_eq!(written(LongTexts::Windows), json!({ "long_texts": "windows" }));
    }

    #[test]
    fn a_refusal_names_the_first_long_text_and_counts_all() {
        let texts = ["short", "one\ntwo", "long", "longer"].map(str::to_owned);
        let refused = |counts: [usize; 4]| refuse_long_texts("minilm", 8, false, &texts, counts.into_iter());
        assert!(refused([8, 0, 1, 8]).is_ok(), "a text may be as long as the limit");
        let error = refused([8, 9, 8, 100]).unwrap_err();
        assert!(
            matches!(&error, Error::TextTooLong { text, tokens: 9, limit: 8, longer: 2, of: 4, .. } if text == "one two")
        );
        let words = error.to_string();
        for part in
            ["minilm reads 8 tokens", "2 of 4 texts", "“one two”", "has 9 tokens", "`chunk_size`", "`long_texts`"]
        {
            assert!(words.contains(part), "{part}: {words}");
        }
        let about = refuse_long_texts("m", 8, true, &texts[..1], std::iter::once(9)).unwrap_err().to_string();
        assert!(about.contains("1 text is longer") && about.contains("has about 9 tokens"), "{about}");
        assert!(!about.contains("windows"), "an endpoint has none: {about}");
    }

    #[test]
    fn only_the_beginning_of_a_text_is_shown_whole_characters_on_one_line() {
        assert_eq!(beginning(""), "");
        assert_eq!(beginning(&"ü".repeat(SHOWN)), "ü".repeat(SHOWN));
        assert_eq!(beginning(&"風".repeat(SHOWN + 1)), format!("{}…", "風".repeat(SHOWN)));
        assert_eq!(beginning("a\tb\r\nc"), "a b  c");
    }
}
