//! Texts as token ids, and batches of them without padding waste: sorted by
//! length, so that texts of one batch are about equally long.

use crate::{Error, Usage};
use std::path::Path;
use tokenizers::{EncodeInput, Encoding, Tokenizer};

/// At most one token in this many of a batch is padding.
const PADDING_SHARE: usize = 8;
/// The most tokens of a job: about a tenth of a
/// second, so that a cancelled call soon leaves the cores to others.
const JOB_TOKENS: usize = 2048;

/// A model's tokenizer and the model's limit. The limit is applied here and not by the tokenizer, because texts that
/// are read in windows need the tokenizer without a limit, and a second one of a multilingual model takes 250 MB.
#[derive(Debug)]
pub(crate) struct TextTokenizer {
    tokenizer: Tokenizer,
    /// The most tokens of a text, special ones included.
    max_tokens: usize,
}

/// One text, or a pair of texts, as the model reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenSequence {
    pub(crate) ids: Vec<u32>,
    pub(crate) types: Vec<u32>,
    /// How many tokens were cut off, because the text was longer than the model's limit.
    pub(crate) lost: usize,
}

impl TokenSequence {
    /// The usage of a call with these texts.
    pub(crate) fn usage(texts: &[Self]) -> Usage {
        Usage {
            prompt_tokens: texts.iter().map(|text| text.ids.len() as u64).sum(),
            cut_texts: texts.iter().filter(|text| text.lost > 0).count() as u64,
            cut_tokens: texts.iter().map(|text| text.lost as u64).sum(),
            ..Usage::default()
        }
    }
}

impl TextTokenizer {
    /// Takes a tokenizer and removes its own truncation and padding.
    pub(crate) fn new(mut tokenizer: Tokenizer, max_tokens: usize) -> Result<Self, tokenizers::Error> {
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None)?;
        Ok(Self { tokenizer, max_tokens })
    }

    /// Reads a `tokenizer.json`, without the truncation and padding that were saved in it.
    pub(crate) fn open(path: &Path, max_tokens: usize) -> Result<Self, Error> {
        let read = Tokenizer::from_file(path).and_then(|tokenizer| Self::new(tokenizer, max_tokens));
        read.map_err(|error| Error::bad_file(path, error))
    }

    /// All tokens of a text however long it is, and where each lies, in bytes.
    pub(crate) fn encode_whole(&self, text: &str) -> Result<Encoding, tokenizers::Error> {
        self.tokenizer.encode(text, true)
    }

    /// The tokens of a text or of a pair of texts. Tokens beyond the limit are cut
    /// off, in a pair from the longer text, and counted.
    pub(crate) fn encode<'s>(&self, text: impl Into<EncodeInput<'s>>) -> Result<TokenSequence, tokenizers::Error> {
        let encoding = self.tokenizer.encode_fast(text, true)?;
        let (ids, types) = (encoding.get_ids(), encoding.get_type_ids());
        if ids.len() <= self.max_tokens {
            return Ok(TokenSequence { ids: ids.to_vec(), types: types.to_vec(), lost: 0 });
        }
        let kept = kept_tokens(&encoding.get_sequence_ids(), self.max_tokens);
        let lost = ids.len() - kept.len();
        let pick = |all: &[u32]| kept.iter().map(|i| all[*i]).collect();
        Ok(TokenSequence { ids: pick(ids), types: pick(types), lost })
    }
}

/// Which tokens are kept if there are more than `most`: all special tokens, and the first tokens of each text. In a
/// pair the longer text is cut first; if both are too long, each keeps about half of the room. `texts` has for each
/// token the number of its text; `None` for special tokens.
fn kept_tokens(texts: &[Option<usize>], most: usize) -> Vec<usize> {
    let count = |text: Option<usize>| texts.iter().filter(|of| **of == text).count();
    // As in `tokenizers`, two texts that are both longer than `most` count as equally long.
    let (n_special, first, second) = (count(None), count(Some(0)).min(most), count(Some(1)).min(most));
    // A tokenizer that adds no special tokens may not say to which text a token belongs.
    if n_special == texts.len() {
        return (0..most).collect();
    }
    let room = most.saturating_sub(n_special);
    let shorter = first.min(second);
    let (short, long) = match room.checked_sub(shorter) {
        Some(rest) if rest >= shorter => (shorter, rest),
        _ => (room / 2, room - room / 2),
    };
    let mut left = if first <= second { [short, long] } else { [long, short] };
    let mut keep = |text: usize| {
        let is_kept = left[text] > 0;
        left[text] = left[text].saturating_sub(1);
        is_kept
    };
    (0..texts.len()).filter(|i| texts[*i].is_none_or(&mut keep)).collect()
}

/// Texts that are run together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenBatch {
    /// The length of a row.
    pub(crate) width: usize,
    /// Token ids, row by row, padded on the right.
    pub(crate) ids: Vec<i64>,
    /// Which part of a pair each token belongs to.
    pub(crate) types: Vec<i64>,
    /// The real length of each row.
    pub(crate) lengths: Vec<usize>,
    /// The position of each row's text in the call.
    pub(crate) texts: Vec<usize>,
}

impl TokenBatch {
    pub(crate) fn rows(&self) -> usize {
        self.texts.len()
    }

    /// 1 for real tokens, 0 for padding.
    pub(crate) fn mask(&self) -> Vec<i64> {
        self.lengths.iter().flat_map(|length| (0..self.width).map(move |i| i64::from(i < *length))).collect()
    }

    fn push(&mut self, text: usize, tokens: &TokenSequence) {
        let padding = self.width.saturating_sub(tokens.ids.len());
        let padding = std::iter::repeat_n(0, padding);
        self.ids.extend(tokens.ids.iter().map(|id| i64::from(*id)).chain(padding.clone()));
        self.types.extend(tokens.types.iter().map(|kind| i64::from(*kind)).chain(padding));
        self.lengths.push(tokens.ids.len());
        self.texts.push(text);
    }
}

/// Batches of at most `batch_tokens` tokens (or one longer text), the longest
/// first, in jobs that a session runs at one go. Texts without tokens
/// are left out. Unless the model can `mask` padding, only texts of equal
/// length share a batch.
pub(crate) fn jobs(
    texts: &[TokenSequence],
    batch_tokens: usize,
    mask: bool,
    n_sessions: usize,
) -> Vec<Vec<TokenBatch>> {
    let mut order: Vec<usize> = (0..texts.len()).filter(|i| !texts[*i].ids.is_empty()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(texts[*i].ids.len()));
    let mut batches: Vec<TokenBatch> = Vec::new();
    for text in order {
        let tokens = &texts[text];
        let fits = batches.last().is_some_and(|batch| {
            let least = if mask { batch.width - batch.width / PADDING_SHARE } else { batch.width };
            tokens.ids.len() >= least && (batch.rows() + 1) * batch.width <= batch_tokens
        });
        if !fits {
            batches.push(TokenBatch { width: tokens.ids.len(), ..TokenBatch::default() });
        }
        if let Some(batch) = batches.last_mut() {
            batch.push(text, tokens);
        }
    }
    // Several jobs per session, so that none is idle while another has a long rest to do.
    let total: usize = batches.iter().map(|batch| batch.ids.len()).sum();
    let limit = (total / (4 * n_sessions.max(1))).min(JOB_TOKENS);
    let mut jobs: Vec<Vec<TokenBatch>> = Vec::new();
    let mut held = usize::MAX;
    for batch in batches {
        let size = batch.ids.len();
        if held.saturating_add(size) > limit {
            jobs.push(Vec::new());
            held = 0;
        }
        held += size;
        if let Some(job) = jobs.last_mut() {
            job.push(batch);
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::testing::write_small_bert;
    use tokenizers::TruncationParams;

    #[test]
    fn too_long_texts_and_pairs_are_cut_as_the_library_cuts_them() {
        let folder = tempfile::tempdir().expect("a folder");
        write_small_bert(folder.path(), 1);
        let mut library = Tokenizer::from_file(folder.path().join("tokenizer.json")).expect("a tokenizer");
        for max_tokens in [8, 9, 13] {
            let ours = TextTokenizer::new(library.clone(), max_tokens).expect("a tokenizer");
            let truncation = TruncationParams { max_length: max_tokens, ..TruncationParams::default() };
            library.with_truncation(Some(truncation)).expect("a limit");
            let same = |input: EncodeInput<'_>, shown: String| {
                let expected = library.encode(input.clone(), true).expect("tokens");
                let found = ours.encode(input).expect("tokens");
                assert_eq!(
                    (found.ids.as_slice(), found.types.as_slice()),
                    (expected.get_ids(), expected.get_type_ids()),
                    "{shown}"
                );
                assert_eq!(found.lost > 0, !expected.get_overflowing().is_empty(), "{shown}");
            };
            let words = |n: usize| {
                ["oil", "cake", "engine", "how"].iter().cycle().take(n).copied().collect::<Vec<_>>().join(" ")
            };
            for first in 0..20 {
                same(words(first).into(), format!("{first}"));
                for second in 0..20 {
                    same((words(first), words(second)).into(), format!("{first} and {second} of {max_tokens}"));
                }
            }
        }
    }

    #[test]
    fn a_text_without_special_tokens_keeps_its_first_tokens() {
        assert_eq!(kept_tokens(&[None; 5], 3), [0, 1, 2]);
        assert_eq!(kept_tokens(&[None, Some(0), Some(0), Some(0), None], 4), [0, 1, 2, 4]);
        assert_eq!(kept_tokens(&[Some(0), Some(0), Some(0), Some(1)], 2), [0, 3]);
    }

    fn texts(lengths: &[usize]) -> Vec<TokenSequence> {
        lengths.iter().map(|n| TokenSequence { ids: (1..=*n as u32).collect(), types: vec![0; *n], lost: 0 }).collect()
    }

    #[test]
    fn every_text_is_in_one_batch_with_all_its_tokens() {
        let texts = texts(&[3, 90, 0, 12, 91, 128, 128, 1, 100, 7]);
        for (batch_tokens, mask) in [(1, false), (256, false), (256, true), (10_000, true)] {
            let mut seen = Vec::new();
            for batch in jobs(&texts, batch_tokens, mask, 2).into_iter().flatten() {
                assert!(batch.rows() == 1 || batch.ids.len() <= batch_tokens);
                let n_real: i64 = batch.mask().iter().sum();
                assert!(if mask {
                    n_real as usize * 8 >= batch.ids.len() * 7
                } else {
                    n_real as usize == batch.ids.len()
                });
                for (row, text) in batch.texts.iter().enumerate() {
                    let ids: Vec<i64> = texts[*text].ids.iter().map(|id| i64::from(*id)).collect();
                    assert_eq!(batch.ids[row * batch.width..][..batch.lengths[row]], ids);
                    seen.push(*text);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 3, 4, 5, 6, 7, 8, 9]);
        }
    }

    #[test]
    fn what_is_cut_off_a_text_or_a_pair_is_counted_to_the_token() {
        let folder = tempfile::tempdir().unwrap();
        super::super::small_bert::write_small_bert(folder.path(), 0);
        let tokenizer = TextTokenizer::open(&folder.path().join("tokenizer.json"), 8).unwrap();
        let counts = |read: TokenSequence| (read.ids.len(), read.lost);
        let oil = |n: usize| vec!["oil"; n].join(" ");
        // A text gets two special tokens: one before it, one behind it.
        for (n, expected) in [(0, (2, 0)), (5, (7, 0)), (6, (8, 0)), (7, (8, 1)), (8, (8, 2)), (1000, (8, 994))] {
            assert_eq!(counts(tokenizer.encode(oil(n).as_str()).unwrap()), expected, "{n} words");
        }
        for (query, passage, expected) in
            [(3, 3, (7, 0)), (3, 4, (8, 0)), (3, 5, (8, 1)), (1, 100, (8, 94)), (100, 100, (8, 193))]
        {
            let (first, second) = (oil(query), oil(passage));
            let read = counts(tokenizer.encode((first.as_str(), second.as_str())).unwrap());
            assert_eq!(read, expected, "{query} and {passage} words");
        }
    }

    #[test]
    fn the_usage_of_texts_counts_those_that_were_cut() {
        let mut texts = texts(&[8, 3, 8]);
        texts[0].lost = 5;
        texts[2].lost = 1;
        let usage = TokenSequence::usage(&texts);
        assert_eq!((usage.prompt_tokens, usage.cut_texts, usage.cut_tokens), (19, 2, 6));
        assert_eq!(TokenSequence::usage(&texts[1..2]).cut_texts, 0);
    }

    #[test]
    fn long_texts_are_run_first_and_jobs_are_bounded() {
        let texts = texts(&[5; 3000]);
        let jobs = jobs(&texts, 1, false, 2);
        assert!(jobs.len() >= 8);
        assert!(jobs.iter().all(|job| job.iter().map(|batch| batch.ids.len()).sum::<usize>() <= JOB_TOKENS));
        assert!(self::jobs(&self::texts(&[]), 100, true, 2).is_empty());
    }
}
