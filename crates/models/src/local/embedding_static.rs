//! Static embeddings (the model2vec format): a text's vector is the mean of
//! its tokens' rows in a table. Thousands of times faster than a transformer
//! and clearly weaker: for tests, smoke runs, and as a baseline.

use super::{
    on_one_core,
    onnx::{Tensor, WeightFile, WeightsError},
};
use crate::{
    Absence, CpuBudget, EmbeddingModel, Error, Identity, InputKind, LongTexts, Matrix, Model, ModelFiles, ModelKind,
    Usage,
    model::refuse_long_texts,
    provider::{ModelContext, ModelSettings},
    tokens::{ModelTokenizer, estimate_tokens},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokenizers::Tokenizer;

pub(crate) const VERSION: u32 = 1;

/// Which static model, and how it is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A folder with `model.safetensors` and `tokenizer.json`, or
    /// `hf:owner/repository`.
    pub model: String,
    /// A text with more tokens than this is a long text. Default: 512.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// What happens with a long text: `cut` (its end is not read; cut texts are
    /// counted), `refuse` (an error), or `windows` (all of it is read; this model needs
    /// no windows, because a text's vector is the mean of its words). Default `cut`.
    #[serde(skip_serializing_if = "LongTexts::is_cut")]
    pub long_texts: LongTexts,
}

impl Config {
    fn limit(&self) -> usize {
        self.max_tokens.unwrap_or(512).max(1)
    }

    fn locate(&self, cx: &ModelContext) -> Result<(ModelFiles, PathBuf), Error> {
        if self.model.is_empty() {
            return Err(Error::Config("the static embedding model has no name: set `model`".to_owned()));
        }
        let files = cx.directory.locate(&self.model, ModelKind::Embedding)?;
        let missing =
            |name: &str| Error::NotHere { model: self.model.clone(), absence: Absence::lacks(&files.folder, name) };
        if !files.folder.join("tokenizer.json").is_file() {
            return Err(missing("tokenizer.json"));
        }
        let weights = files.with_extension("safetensors").map(Path::to_owned);
        let weights = weights.ok_or_else(|| missing("model.safetensors"))?;
        Ok((files, weights))
    }

    fn identity_of(&self, files: &ModelFiles) -> Identity {
        Identity {
            provider: "static".to_owned(),
            model: self.model.clone(),
            revision: files.sha256.clone(),
            parameters: serde_json::json!({ "max_tokens": self.limit() }),
        }
        .with_long_texts(self.long_texts)
    }
}

impl ModelSettings for Config {
    type Model = dyn EmbeddingModel;

    fn base_identity(&self, cx: &ModelContext) -> Result<Identity, Error> {
        Ok(self.identity_of(&self.locate(cx)?.0))
    }

    fn build(&self, cx: &ModelContext) -> Result<Arc<Self::Model>, Error> {
        let (files, weights) = self.locate(cx)?;
        let bytes = std::fs::read(&weights).map_err(|error| Error::bad_file(&weights, error))?;
        let table = VectorTable::read(&bytes).map_err(|error| Error::bad_file(&weights, error))?;
        let tokenizer = open_tokenizer(&files)?;
        // A word that is not in the vocabulary is left out of the mean.
        let unknown = serde_json::to_value(tokenizer.get_model()).unwrap_or_default();
        let unknown = unknown["unk_token"].as_str().and_then(|token| tokenizer.token_to_id(token));
        let (name, max_tokens, long_texts) = (self.model.clone(), self.limit(), self.long_texts);
        let reader = TextReader { name, max_tokens, long_texts, table, tokenizer, unknown };
        Ok(Arc::new(StaticEmbedder {
            identity: Self::versioned(self.identity_of(&files)),
            cpu: cx.cpu.clone(),
            reader: Arc::new(reader),
        }))
    }

    fn tokenizer(&self, cx: &ModelContext) -> Result<ModelTokenizer, Error> {
        let tokenizer = open_tokenizer(&self.locate(cx)?.0)?;
        let count = move |text: &str| {
            tokenizer.encode_fast(text, false).map_or_else(|_| estimate_tokens(text), |encoding| encoding.len())
        };
        Ok(ModelTokenizer::exact(count).with_limit(self.limit(), 0))
    }

    async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        self.locate(cx).map(|_| ())
    }
}

/// Opens the tokenizer in a model's folder and removes the limit and the padding that were saved with it.
fn open_tokenizer(files: &ModelFiles) -> Result<Tokenizer, Error> {
    let path = files.folder.join("tokenizer.json");
    let mut tokenizer = Tokenizer::from_file(&path).map_err(|error| Error::bad_file(&path, error))?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|error| Error::bad_file(&path, error))?;
    Ok(tokenizer)
}

/// Why a file is no table of vectors.
#[derive(Debug, thiserror::Error)]
enum TableError {
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error("its `mapping` points behind the {n_rows} rows of `embeddings`")]
    Mapping { n_rows: usize },
}

/// Rows by token.
struct VectorTable {
    columns: usize,
    rows: Vec<f32>,
    /// The row of each token, where tokens share rows.
    mapping: Option<Vec<usize>>,
    /// How much each token counts.
    weights: Option<Vec<f32>>,
}

impl VectorTable {
    fn read(bytes: &[u8]) -> Result<Self, TableError> {
        let file = WeightFile::parse(bytes)?;
        let table = file.tensor("embeddings")?;
        let (n_rows, columns) = table.rows_and_columns()?;
        let optional = |name: &str| if file.holds(name) { file.tensor(name).map(Some) } else { Ok(None) };
        let mapping: Option<Vec<usize>> =
            optional("mapping")?.map(|Tensor { values, .. }| values.into_iter().map(|row| row as usize).collect());
        if mapping.iter().flatten().any(|row| *row >= n_rows) {
            return Err(TableError::Mapping { n_rows });
        }
        let weights = optional("weights")?.map(|tensor| tensor.values);
        Ok(Self { columns, rows: table.values, mapping, weights })
    }

    fn add(&self, token: u32, sum: &mut [f32]) {
        let token = token as usize;
        let row = self.mapping.as_ref().map_or(Some(token), |mapping| mapping.get(token).copied());
        let weight = self.weights.as_ref().map_or(1.0, |weights| weights.get(token).copied().unwrap_or(1.0));
        if let Some(row) = row.and_then(|row| self.rows.chunks_exact(self.columns).nth(row)) {
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
        }
    }
}

struct StaticEmbedder {
    identity: Identity,
    cpu: CpuBudget,
    reader: Arc<TextReader>,
}

/// What reading texts needs, shared with the threads that may block.
struct TextReader {
    name: String,
    max_tokens: usize,
    long_texts: LongTexts,
    table: VectorTable,
    tokenizer: Tokenizer,
    unknown: Option<u32>,
}

impl TextReader {
    fn embed(&self, texts: &[String]) -> Result<(Matrix, Usage), Error> {
        let columns = self.table.columns;
        let mut matrix = Matrix { columns, data: vec![0.0; columns * texts.len()] };
        let mut usage = Usage::default();
        self.check_lengths(texts)?;
        for (text, sum) in texts.iter().zip(matrix.data.chunks_exact_mut(columns.max(1))) {
            let ids = self.ids(text, &mut usage)?;
            usage.prompt_tokens += ids.len() as u64;
            // Only the direction counts, so the sum is as good as the mean.
            ids.into_iter().filter(|id| Some(*id) != self.unknown).for_each(|id| self.table.add(id, sum));
        }
        matrix.normalize();
        Ok((matrix, usage))
    }

    /// The rows of each text's known tokens.
    fn embed_tokens(&self, texts: &[String]) -> Result<(Vec<Matrix>, Usage), Error> {
        let columns = self.table.columns;
        let mut usage = Usage::default();
        self.check_lengths(texts)?;
        let rows = |text: &String| {
            let mut ids = self.ids(text, &mut usage)?;
            ids.retain(|id| Some(*id) != self.unknown);
            usage.prompt_tokens += ids.len() as u64;
            let mut matrix = Matrix { columns, data: vec![0.0; columns * ids.len()] };
            let rows = matrix.data.chunks_exact_mut(columns.max(1));
            ids.into_iter().zip(rows).for_each(|(id, row)| self.table.add(id, row));
            matrix.normalize();
            Ok(matrix)
        };
        let matrices = texts.iter().map(rows).collect::<Result<Vec<_>, Error>>()?;
        Ok((matrices, usage))
    }

    /// Fails if a text is too long and the settings refuse such texts.
    fn check_lengths(&self, texts: &[String]) -> Result<(), Error> {
        match self.long_texts {
            LongTexts::Refuse => {
                let counts = self.count_tokens(texts)?;
                refuse_long_texts(&self.name, self.max_tokens, false, texts, counts.into_iter())
            }
            LongTexts::Cut | LongTexts::Windows => Ok(()),
        }
    }

    /// How many tokens each text has, also beyond the limit.
    fn count_tokens(&self, texts: &[String]) -> Result<Vec<usize>, Error> {
        let count = |text: &String| self.tokenizer.encode_fast(text.as_str(), false).map(|encoding| encoding.len());
        texts.iter().map(count).collect::<Result<Vec<_>, _>>().map_err(|error| Error::runtime(&self.name, error))
    }

    /// The tokens of a text that are read. If the text is long, counts in `usage` that it was cut or read whole.
    fn ids(&self, text: &str, usage: &mut Usage) -> Result<Vec<u32>, Error> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|error| Error::runtime(&self.name, error))?;
        let ids = encoding.get_ids();
        if ids.len() <= self.max_tokens {
            return Ok(ids.to_vec());
        }
        if self.long_texts == LongTexts::Windows {
            usage.windowed_texts += 1;
            return Ok(ids.to_vec());
        }
        usage.cut_texts += 1;
        usage.cut_tokens += (ids.len() - self.max_tokens) as u64;
        Ok(ids[..self.max_tokens].to_vec())
    }
}

impl StaticEmbedder {
    /// Reads texts on a thread of the budget.
    async fn read<T: Send + 'static>(
        &self,
        texts: &[String],
        read: impl FnOnce(&TextReader, &[String]) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reader, texts) = (self.reader.clone(), texts.to_vec());
        on_one_core(&self.cpu, &self.reader.name, move || read(&reader, &texts)).await
    }
}

impl Model for StaticEmbedder {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn concurrency(&self) -> usize {
        self.cpu.cores()
    }
}

#[async_trait]
impl EmbeddingModel for StaticEmbedder {
    fn dimensions(&self) -> usize {
        self.reader.table.columns
    }

    fn max_tokens(&self) -> usize {
        self.reader.long_texts.limit(self.reader.max_tokens)
    }

    async fn check_lengths(&self, texts: &[String], _kind: InputKind) -> Result<(), Error> {
        self.read(texts, TextReader::check_lengths).await
    }

    async fn count_tokens(&self, texts: &[String], _kind: InputKind) -> Result<Option<Vec<usize>>, Error> {
        self.read(texts, TextReader::count_tokens).await.map(Some)
    }

    async fn embed(&self, texts: &[String], _kind: InputKind) -> Result<(Matrix, Usage), Error> {
        self.read(texts, TextReader::embed).await
    }

    async fn embed_tokens(&self, texts: &[String], _kind: InputKind) -> Result<(Vec<Matrix>, Usage), Error> {
        self.read(texts, TextReader::embed_tokens).await
    }

    fn window(&self) -> Result<usize, Error> {
        let what =
            "vectors that depend on the surrounding text: a static model gives a word the same vector in every text";
        Err(Error::Unsupported { model: self.identity.model.clone(), what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelDirectory, testing::write_tiny_model};

    fn context(folder: &Path) -> ModelContext {
        let directory = ModelDirectory::new(folder.join("models"), Vec::new());
        ModelContext { directory, cpu: CpuBudget::new(1), environment: Arc::new(|_| None) }
    }

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[tokio::test]
    async fn shared_words_bring_texts_closer() {
        let folder = tempfile::tempdir().expect("a folder");
        write_tiny_model(folder.path(), &["engine", "oil", "change", "cake", "sugar"]).expect("written");
        let config = Config { model: folder.path().display().to_string(), ..Config::default() };
        let cx = context(folder.path());
        let model = config.build(&cx).expect("a model");
        assert_eq!(model.identity(), &config.identity(&cx).expect("an identity"));
        config.ready(&cx).await.expect("ready");
        let texts = ["Change the engine oil", "engine oil", "cake sugar", "nothing known", ""].map(str::to_owned);
        let (matrix, usage) = model.embed(&texts, InputKind::Document).await.expect("vectors");
        assert_eq!((matrix.rows(), matrix.columns), (5, model.dimensions()));
        assert!(cosine(matrix.row(0), matrix.row(1)) > cosine(matrix.row(0), matrix.row(2)) + 0.3);
        assert!((cosine(matrix.row(0), matrix.row(0)) - 1.0).abs() < 1e-5);
        assert!(matrix.row(3).iter().chain(matrix.row(4)).all(|value| *value == 0.0));
        assert_eq!(usage.prompt_tokens, 10);
    }

    #[tokio::test]
    async fn token_vectors_are_those_of_the_known_words() {
        let folder = tempfile::tempdir().expect("a folder");
        write_tiny_model(folder.path(), &["engine", "oil"]).expect("written");
        let config = Config { model: folder.path().display().to_string(), max_tokens: Some(3), ..Config::default() };
        let model = config.build(&context(folder.path())).expect("a model");
        let texts = ["oil for the engine", "oil oil engine engine", "engine", "nothing"].map(str::to_owned);
        let (tokens, usage) = model.embed_tokens(&texts, InputKind::Query).await.expect("vectors");
        assert_eq!(tokens.iter().map(Matrix::rows).collect::<Vec<_>>(), [1, 3, 1, 0]);
        assert_eq!((usage.prompt_tokens, usage.cut_texts, usage.cut_tokens), (5, 2, 2), "two have four words");
        assert_eq!((tokens[0].row(0), tokens[1].row(2)), (tokens[1].row(1), tokens[2].row(0)));
        let (whole, _) = model.embed(&texts[2..3], InputKind::Query).await.expect("vectors");
        assert_eq!(whole.row(0), tokens[2].row(0));
    }

    #[tokio::test]
    async fn a_long_text_is_cut_and_counted_refused_or_read_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        write_tiny_model(folder.path(), &["engine", "oil", "cake"]).expect("written");
        let cx = context(folder.path());
        let config =
            |long_texts| Config { model: folder.path().display().to_string(), max_tokens: Some(2), long_texts };
        let texts = ["engine oil", "engine oil cake cake cake"].map(str::to_owned);
        let build = |long_texts| config(long_texts).build(&cx).expect("a model");
        let cut = build(LongTexts::Cut);
        let (vectors, usage) = cut.embed(&texts, InputKind::Document).await.expect("vectors");
        assert_eq!(vectors.row(0), vectors.row(1));
        assert_eq!((usage.prompt_tokens, usage.cut_texts, usage.cut_tokens, usage.windowed_texts), (4, 1, 3, 0));
        let whole = build(LongTexts::Windows);
        let (vectors, usage) = whole.embed(&texts, InputKind::Query).await.expect("vectors");
        let (cakes, _) = cut.embed(&["cake".to_owned()], InputKind::Query).await.expect("vectors");
        assert!(cosine(vectors.row(1), cakes.row(0)) > 0.8);
        assert_eq!((usage.prompt_tokens, usage.cut_texts, usage.windowed_texts), (7, 0, 1));
        assert_eq!((cut.max_tokens(), whole.max_tokens()), (2, usize::MAX));
        let refusing = build(LongTexts::Refuse);
        refusing.embed(&texts[..1], InputKind::Document).await.expect("it fits");
        for kind in [InputKind::Query, InputKind::Document] {
            for refused in [
                refusing.embed(&texts, kind).await.map(|_| ()),
                refusing.embed_tokens(&texts, kind).await.map(|_| ()),
                refusing.check_lengths(&texts, kind).await,
            ] {
                assert!(matches!(refused, Err(Error::TextTooLong { tokens: 5, limit: 2, longer: 1, of: 2, .. })));
            }
        }
        cut.check_lengths(&texts, InputKind::Query).await.expect("it cuts");
        let identities = [LongTexts::Cut, LongTexts::Refuse, LongTexts::Windows]
            .map(|long_texts| config(long_texts).identity(&cx).expect("an identity").parameters);
        assert_eq!(identities[0], serde_json::json!({ "max_tokens": 2 }), "as before there was the setting");
        assert!(identities[1] != identities[0] && identities[2] != identities[0] && identities[1] != identities[2]);
    }

    #[test]
    fn a_folder_without_a_model_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tokenizer.json"), "{}").expect("written");
        let config = Config { model: folder.path().display().to_string(), ..Config::default() };
        assert!(matches!(config.identity(&context(folder.path())), Err(Error::NotHere { .. })));
    }

    #[test]
    fn tokens_can_share_rows_and_have_weights() {
        let tensor =
            |shape, data| safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape, data).expect("a tensor");
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let (rows, weights) = (bytes(&[1.0, 0.0, 0.0, 1.0]), bytes(&[1.0, 2.0, 3.0]));
        let mapping: Vec<u8> = [0_i64, 1, 1].iter().flat_map(|value| value.to_le_bytes()).collect();
        let mapping =
            safetensors::tensor::TensorView::new(safetensors::Dtype::I64, vec![3], &mapping).expect("a tensor");
        let tensors =
            [("embeddings", tensor(vec![2, 2], &rows)), ("weights", tensor(vec![3], &weights)), ("mapping", mapping)];
        let file = safetensors::serialize(tensors, None).expect("a file");
        let table = VectorTable::read(&file).expect("a table");
        let mut sum = [0.0; 2];
        [0, 1, 2, 99].into_iter().for_each(|token| table.add(token, &mut sum));
        assert_eq!(sum, [1.0, 5.0]);
    }
}
