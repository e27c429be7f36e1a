//! `quantization`: the network that reads lines, with 8-bit numbers in its large convolutions. It then takes 60 % of the
//! time, and reads about 2 of 1,000 characters differently, as often for the better as for the worse.
//!
//! Source: Jacob et al. 2018, arXiv:1712.05877 (static quantization after training). Weights have a step for each output
//! channel and lie around zero; the values between the convolutions have one step and one zero for the whole tensor, from
//! the ranges that `benches/parse/calibrate.py` measured on lines of many kinds. Values outside are clipped.

use super::runtime;
use crate::Error;
use prost::Message;
use std::collections::{HashMap, HashSet};

/// Convolutions, which are followed by the addition of a constant: the least and the largest value of their input, and
/// of the sum.
const RANGES: &[(&str, [f32; 4])] = &[
    ("Conv.4", [0.0000, 15.5603, -13.2692, 14.5327]),
    ("Conv.8", [-1.1421, 1.4610, -4.4555, 2.3553]),
    ("Conv.9", [-0.1700, 2.4346, -2.6489, 2.7204]),
    ("Conv.11", [-1.6912, 1.8509, -4.0530, 2.4604]),
    ("Conv.12", [-0.1700, 2.6706, -3.1587, 3.0352]),
    ("Conv.14", [-1.3022, 1.5781, -3.4408, 1.7044]),
    ("Conv.15", [-0.1700, 1.6653, -4.1289, 4.5010]),
    ("Conv.17", [-4.0571, 3.1150, -5.1959, 2.8533]),
    ("Conv.18", [-0.1700, 2.8452, -1.8779, 1.8909]),
    ("Conv.22", [-0.6900, 0.7621, -2.9824, 1.1073]),
    ("Conv.23", [-0.1700, 0.8724, -2.8543, 2.3237]),
    ("Conv.25", [-1.5799, 1.6584, -3.6151, 1.1217]),
    ("Conv.26", [-0.1700, 0.8270, -3.1987, 3.7360]),
    ("Conv.30", [-0.9068, 0.7683, -3.2644, 1.4895]),
    ("Conv.31", [-0.1700, 1.3312, -2.0144, 2.1611]),
    ("Conv.33", [-1.1355, 1.1847, -3.3270, 1.0305]),
    ("Conv.34", [-0.1700, 0.8555, -2.5756, 2.9024]),
    ("Conv.38", [-0.5048, 0.6424, -3.0682, 1.5853]),
    ("Conv.39", [-0.1700, 1.5631, -2.1253, 2.0471]),
    ("Conv.41", [-1.1007, 1.0780, -2.5846, 1.0262]),
    ("Conv.42", [-0.1700, 0.8203, -3.0987, 3.3044]),
    ("Conv.44", [-2.0033, 2.1096, -4.8563, 2.7595]),
    ("Conv.45", [-0.1700, 2.7839, -1.1135, 1.5985]),
    ("Conv.49", [-0.6338, 0.6213, -3.7269, 1.9749]),
    ("Conv.50", [-0.1700, 2.0102, -2.2901, 2.1801]),
    ("Conv.52", [-5.4220, 4.8888, -4.2119, 2.1027]),
    ("Conv.53", [-0.1700, 1.9420, -8.1122, 7.8324]),
];
/// The largest weight.
const LIMIT: f32 = 127.0;

/// How many `Identity` nodes are followed to a constant.
const MOST_NAMES: usize = 8;

/// Types of numbers in a tensor, as ONNX counts them.
const FLOAT: i32 = 1;
const UINT8: i32 = 2;
const INT8: i32 = 3;
const INT32: i32 = 6;

/// Rewrites the file of the network whose ranges are in [`RANGES`].
///
/// # Errors
/// If it is no ONNX file, or another network.
pub(super) fn quantized(file: &[u8]) -> Result<Vec<u8>, Error> {
    let mut model = NetworkFile::decode(file).map_err(runtime::failed)?;
    let graph = model.graph.as_mut().ok_or_else(|| runtime::failed("its file has no network"))?;
    let found: Vec<QuantizedConvolution> = RANGES
        .iter()
        .map(|(name, [low, high, sum_low, sum_high])| {
            QuantizedConvolution::of(
                graph,
                name,
                EightBitScale::of(*low, *high),
                EightBitScale::of(*sum_low, *sum_high),
            )
        })
        .collect::<Option<_>>()
        .ok_or_else(|| runtime::failed("it is another network than the one whose ranges are known"))?;
    graph.replace(found);
    // What is said of values that are gone is no longer true.
    graph.value_info.clear();
    Ok(model.encode_to_vec())
}

/// How a number is written with 8 bits: `value = step × (number - zero)`.
#[derive(Debug, Clone, Copy)]
struct EightBitScale {
    step: f32,
    zero: u8,
}

impl EightBitScale {
    /// That of the values in a range. Zero can always be written.
    fn of(low: f32, high: f32) -> Self {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let step = (high - low) / 255.0;
        Self { step, zero: (-low / step).round_ties_even() as u8 }
    }
}

/// Nodes in the place of a convolution and an addition.
struct QuantizedConvolution {
    convolution: String,
    addition: String,
    nodes: [NetworkNode; 3],
    constants: Vec<ConstantTensor>,
}

impl QuantizedConvolution {
    /// None if the graph has no such convolution.
    fn of(graph: &NetworkGraph, name: &str, input: EightBitScale, sum: EightBitScale) -> Option<Self> {
        let convolution = graph.node.iter().find(|node| node.name() == name && node.op_type() == "Conv")?;
        let [read, weights] = &convolution.input[..] else { return None };
        let output = convolution.output.first()?;
        let addition = graph.node.iter().find(|node| node.input.contains(output) && node.op_type() == "Add")?;
        let added = graph.constant(addition.input.iter().find(|name| *name != output)?)?.floats()?;
        let weights = graph.constant(weights)?;
        let (channels, values) = (added.len(), weights.floats()?);
        let is_whole = channels > 0 && values.len() >= channels && values.len().is_multiple_of(channels);
        if !is_whole || weights.dims.first() != Some(&i64::try_from(channels).ok()?) {
            return None;
        }
        let of_channels = values.chunks_exact(values.len() / channels);
        let largest = |values: &[f32]| values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        // A channel of zeros may have any step but zero.
        let step = |values| Some(largest(values) / LIMIT).filter(|step| *step > 0.0).unwrap_or(1.0);
        let steps: Vec<f32> = of_channels.clone().map(step).collect();
        let numbers = of_channels.zip(&steps).flat_map(|(values, step)| values.iter().map(move |value| value / step));
        let numbers: Vec<u8> = numbers.map(|number| (number.round_ties_even() as i8).cast_unsigned()).collect();
        let added =
            added.iter().zip(&steps).map(|(value, step)| (value / (step * input.step)).round_ties_even() as i32);
        let every_channel = [i64::try_from(channels).ok()?];
        let named = |part: &str| format!("{name}.{part}");
        let constant = |part: &str, data_type, dims: &[i64], bytes: Vec<u8>| ConstantTensor {
            dims: dims.to_vec(),
            data_type: Some(data_type),
            name: Some(named(part)),
            raw_data: Some(bytes),
            ..ConstantTensor::default()
        };
        let constants = vec![
            constant("input_step", FLOAT, &[], input.step.to_le_bytes().to_vec()),
            constant("input_zero", UINT8, &[], vec![input.zero]),
            constant("weights", INT8, &weights.dims, numbers),
            constant("steps", FLOAT, &every_channel, steps.iter().flat_map(|step| step.to_le_bytes()).collect()),
            constant("zeros", INT8, &every_channel, vec![0; channels]),
            constant("sum_step", FLOAT, &[], sum.step.to_le_bytes().to_vec()),
            constant("sum_zero", UINT8, &[], vec![sum.zero]),
            constant("added", INT32, &every_channel, added.flat_map(i32::to_le_bytes).collect()),
        ];
        let (input, result) = (named("input"), named("sum"));
        let quantize = [read.clone(), named("input_step"), named("input_zero")];
        let convolve: Vec<String> =
            ["input", "input_step", "input_zero", "weights", "steps", "zeros", "sum_step", "sum_zero", "added"]
                .map(named)
                .to_vec();
        let dequantize = [result.clone(), named("sum_step"), named("sum_zero")];
        let nodes = [
            NetworkNode::new("QuantizeLinear", quantize.to_vec(), vec![input]),
            NetworkNode {
                attribute: convolution.attribute.clone(),
                ..NetworkNode::new("QLinearConv", convolve, vec![result])
            },
            NetworkNode::new("DequantizeLinear", dequantize.to_vec(), addition.output.clone()),
        ];
        Some(Self { convolution: name.to_owned(), addition: addition.name().to_owned(), nodes, constants })
    }
}

/// A file of a network (<https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>). Parts that stay as they are, such as the
/// metadata, are not looked into.
#[derive(Clone, PartialEq, Message)]
struct NetworkFile {
    #[prost(int64, optional, tag = "1")]
    ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    producer_version: Option<String>,
    #[prost(message, optional, tag = "7")]
    graph: Option<NetworkGraph>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    opset_import: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    metadata_props: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct NetworkGraph {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NetworkNode>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<ConstantTensor>,
    #[prost(bytes = "vec", repeated, tag = "11")]
    input: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "12")]
    output: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    value_info: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct NetworkNode {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    name: Option<String>,
    #[prost(string, optional, tag = "4")]
    op_type: Option<String>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    attribute: Vec<Vec<u8>>,
    #[prost(string, optional, tag = "7")]
    domain: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ConstantTensor {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    data_type: Option<i32>,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    raw_data: Option<Vec<u8>>,
}

impl NetworkGraph {
    /// A constant, which may have been given other names.
    fn constant(&self, name: &str) -> Option<&ConstantTensor> {
        let mut name = name;
        for _ in 0..MOST_NAMES {
            if let Some(tensor) = self.initializer.iter().find(|tensor| tensor.name() == name) {
                return Some(tensor);
            }
            let made_by = self.node.iter().find(|node| node.output.iter().any(|output| output == name))?;
            name = made_by.input.first().filter(|_| made_by.op_type() == "Identity")?;
        }
        None
    }

    /// Replaces the convolutions by their new nodes, and removes the constants that no node uses any more.
    fn replace(&mut self, convolutions: Vec<QuantizedConvolution>) {
        let additions: HashSet<String> = convolutions.iter().map(|new| new.addition.clone()).collect();
        let mut new: HashMap<String, [NetworkNode; 3]> = HashMap::new();
        for convolution in convolutions {
            self.initializer.extend(convolution.constants);
            new.insert(convolution.convolution, convolution.nodes);
        }
        let old = std::mem::take(&mut self.node);
        self.node = old
            .into_iter()
            .filter(|node| !additions.contains(node.name()))
            .flat_map(|node| new.remove(node.name()).map_or_else(|| vec![node], Vec::from))
            .collect();
        let needed: HashSet<&String> = self.node.iter().flat_map(|node| &node.input).collect();
        let is_needed = |names: &[String]| names.iter().any(|name| needed.contains(name));
        // Constants get other names by nodes of their own.
        let unneeded: HashSet<String> = self
            .node
            .iter()
            .filter(|node| node.op_type() == "Identity" && !is_needed(&node.output))
            .filter(|node| node.input.first().is_some_and(|name| self.constant(name).is_some()))
            .flat_map(|node| node.output.clone())
            .collect();
        self.node.retain(|node| !node.output.iter().any(|output| unneeded.contains(output)));
        let needed: HashSet<&String> = self.node.iter().flat_map(|node| &node.input).collect();
        self.initializer.retain(|tensor| tensor.name.as_ref().is_some_and(|name| needed.contains(name)));
    }
}

impl NetworkNode {
    fn new(op_type: &str, input: Vec<String>, output: Vec<String>) -> Self {
        let name = output.first().map(|output| format!("{op_type} of {output}"));
        Self { input, output, name, op_type: Some(op_type.to_owned()), ..Self::default() }
    }
}

impl ConstantTensor {
    /// Its numbers, if they are floats.
    fn floats(&self) -> Option<Vec<f32>> {
        if self.data_type != Some(FLOAT) {
            return None;
        }
        let Some(bytes) = &self.raw_data else { return Some(self.float_data.clone()) };
        Some(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network of one convolution of two channels, whose constants have other names where they are used.
    fn network(name: &str) -> Vec<u8> {
        let constant = |name: &str, dims: &[i64], values: &[f32]| ConstantTensor {
            dims: dims.to_vec(),
            data_type: Some(FLOAT),
            name: Some(name.to_owned()),
            raw_data: Some(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            ..ConstantTensor::default()
        };
        let node = |name: &str, op_type: &str, input: &[&str], output: &str| NetworkNode {
            name: Some(name.to_owned()),
            ..NetworkNode::new(op_type, input.iter().map(|&name| name.to_owned()).collect(), vec![output.to_owned()])
        };
        let graph = NetworkGraph {
            node: vec![
                node("Identity.0", "Identity", &["w"], "weights"),
                node("Identity.1", "Identity", &["b"], "bias"),
                node(name, "Conv", &["x", "weights"], "product"),
                node("Add.0", "Add", &["product", "bias"], "y"),
            ],
            initializer: vec![
                constant("w", &[2, 3, 1, 1], &[0.5, -1.0, 0.25, 0.0, 0.0, 0.0]),
                constant("b", &[1, 2, 1, 1], &[0.1, -0.25]),
            ],
            value_info: vec![vec![1]],
            ..NetworkGraph::default()
        };
        NetworkFile { graph: Some(graph), metadata_props: vec![vec![7]], ..NetworkFile::default() }.encode_to_vec()
    }

    #[test]
    fn a_convolution_is_written_with_eight_bits() {
        let NetworkFile { graph: Some(graph), .. } = NetworkFile::decode(&network("c")[..]).expect("a model") else {
            unreachable!()
        };
        let found = QuantizedConvolution::of(&graph, "c", EightBitScale::of(-1.0, 1.55), EightBitScale::of(0.0, 2.55))
            .expect("it");
        let mut graph = graph;
        graph.replace(vec![found]);
        let operators: Vec<&str> = graph.node.iter().map(NetworkNode::op_type).collect();
        assert_eq!(operators, ["QuantizeLinear", "QLinearConv", "DequantizeLinear"]);
        assert_eq!((graph.node[0].input[0].as_str(), graph.node[2].output[0].as_str()), ("x", "y"));
        let bytes = |name: &str| graph.constant(name).and_then(|tensor| tensor.raw_data.clone()).expect("a constant");
        assert_eq!(bytes("c.weights"), [64_i8, -127, 32, 0, 0, 0].map(i8::cast_unsigned));
        assert_eq!(graph.constant("c.steps").and_then(ConstantTensor::floats), Some(vec![1.0 / 127.0, 1.0]));
        // Steps of the bias are those of the weights times that of the input, which is 0.01.
        let bias: Vec<i32> =
            bytes("c.added").as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
        assert_eq!(bias, [1270, -25]);
        assert_eq!((bytes("c.input_zero"), bytes("c.sum_zero")), (vec![100], vec![0]));
        assert!(graph.constant("w").is_none() && graph.constant("b").is_none());
    }

    #[test]
    fn another_network_is_refused() {
        let error = quantized(&network("c")).expect_err("no such convolutions");
        assert!(error.to_string().contains("another network"), "{error}");
        assert!(quantized(b"no network").is_err());
    }
}
