//! The tokenizers of OpenAI's models, chosen by the model's name.
//! Source: the vocabularies and the list of models of OpenAI's `tiktoken`, through the crate `tiktoken-rs`.

use super::estimate_tokens;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

/// The longest run of white space, or of other characters, that is counted as a
/// whole, in bytes. Longer runs are split, because counting one takes quadratic time
/// and a text of ten megabytes may have no space. Splitting makes the count too high
/// by at most about one token for each kilobyte.
const LONGEST_RUN: usize = 1024;

/// The tokenizer of a model behind an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteTokenizer {
    /// The tokenizer of GPT-3.5, GPT-4 and OpenAI's embedding models.
    Cl100k,
    /// The tokenizer of GPT-4o and later models.
    O200k,
    /// The tokenizer is not known, so tokens are estimated.
    Unknown,
}

impl RemoteTokenizer {
    /// The tokenizer of a model with this name. Ignores the provider that routers put
    /// before the name (`openai/gpt-4o`).
    pub(crate) fn of(model: &str) -> Self {
        let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
        match get_tokenizer(&name.to_ascii_lowercase()) {
            Some(Tokenizer::Cl100kBase) => Self::Cl100k,
            Some(Tokenizer::O200kBase | Tokenizer::O200kHarmony) => Self::O200k,
            _ => Self::Unknown,
        }
    }

    /// How many tokens the text is. Text that looks like a control token (`<|endoftext|>`) counts as plain text.
    /// The first count loads the vocabulary, which takes about a quarter of a second.
    pub(crate) fn count(self, text: &str) -> usize {
        let vocabulary = match self {
            Self::Cl100k => tiktoken_rs::cl100k_base_singleton(),
            Self::O200k => tiktoken_rs::o200k_base_singleton(),
            Self::Unknown => return estimate_tokens(text),
        };
        parts(text).into_iter().map(|part| vocabulary.count_ordinary(part)).sum()
    }
}

/// Splits a text, but only inside of runs that are longer than [`LONGEST_RUN`].
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut run_start, mut in_space) = (Vec::new(), 0, 0, false);
    for (at, character) in text.char_indices() {
        if character.is_whitespace() != in_space {
            (run_start, in_space) = (at, !in_space);
        }
        if at - run_start >= LONGEST_RUN {
            parts.push(&text[start..at]);
            (start, run_start) = (at, at);
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokenizer_follows_from_the_name_of_the_model() {
        let table = [
            ("gpt-4o", RemoteTokenizer::O200k),
            ("gpt-4o-mini-2024-07-18", RemoteTokenizer::O200k),
            ("GPT-4o", RemoteTokenizer::O200k),
            ("openai/gpt-4.1", RemoteTokenizer::O200k),
            ("ft:gpt-4o:own::1", RemoteTokenizer::O200k),
            ("gpt-5-mini", RemoteTokenizer::O200k),
            ("o3", RemoteTokenizer::O200k),
            ("openai/gpt-oss-20b", RemoteTokenizer::O200k),
            ("gpt-4", RemoteTokenizer::Cl100k),
            ("gpt-3.5-turbo", RemoteTokenizer::Cl100k),
            ("text-embedding-3-small", RemoteTokenizer::Cl100k),
            ("claude-sonnet-4", RemoteTokenizer::Unknown),
            ("gemini-2.5-flash", RemoteTokenizer::Unknown),
            ("qwen2.5-7b-instruct", RemoteTokenizer::Unknown),
            ("gpt2", RemoteTokenizer::Unknown),
            ("m", RemoteTokenizer::Unknown),
            ("", RemoteTokenizer::Unknown),
        ];
        for (name, expected) in table {
            assert_eq!(RemoteTokenizer::of(name), expected, "{name}");
        }
    }

    #[test]
    fn ordinary_texts_are_counted_as_tiktoken_does() {
        let texts = [
            "",
            " ",
            "The mill.",
            "Die Mühle steht am Fluss.",
            "水车在河边。\n\n第二段。",
            "a  b\t\tc",
            "<|endoftext|>",
            "🦀👩‍👩‍👧",
        ];
        for text in texts {
            assert_eq!(RemoteTokenizer::O200k.count(text), tiktoken_rs::o200k_base_singleton().count_ordinary(text));
            assert_eq!(RemoteTokenizer::Cl100k.count(text), tiktoken_rs::cl100k_base_singleton().count_ordinary(text));
        }
        assert_eq!(RemoteTokenizer::O200k.count("hello world"), 2);
        assert_eq!(RemoteTokenizer::Unknown.count("hello world"), estimate_tokens("hello world"));
    }

    #[test]
    fn parts_join_to_the_text_and_only_long_runs_are_cut() {
        let sentence = "Die Mühle steht am Fluss. ".repeat(200);
        assert_eq!(parts(&sentence), [sentence.as_str()]);
        assert_eq!(parts(""), [""]);
        let texts =
            ["é".repeat(5_000), " ".repeat(5_000), format!("word {} word", "水".repeat(3_000)), "a".repeat(1_024)];
        for text in texts {
            let parts = parts(&text);
            assert_eq!(parts.concat(), text);
            assert!(
                parts.iter().all(|part| part.len() <= LONGEST_RUN + 16),
                "{:?}",
                parts.iter().map(|part| part.len())
            );
        }
    }

    #[test]
    fn a_megabyte_without_a_space_and_one_of_spaces_are_counted() {
        for text in ["a", "^", " ", "水"] {
            let count = RemoteTokenizer::O200k.count(&text.repeat(1 << 18));
            assert!(count > 1_000, "{text:?}: {count}");
        }
    }
}
