//! A writer of ONNX files: the part of the format that the converter
//! and tests need, in the protobuf wire format, without a protobuf library.
//! It does not check a graph; ONNX Runtime does when it loads one.

/// The version of the operator set that graphs are written in.
const OPERATORS: i64 = 18;
/// The version of the file format that goes with it.
const FORMAT: i64 = 9;
/// The domain of ONNX Runtime's own fused operators.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// What a tensor holds, as the format numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    Float = 1,
    Uint8 = 2,
    Int8 = 3,
    Int32 = 6,
    Int64 = 7,
}

/// A setting of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
}

/// One dimension of an input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dimension {
    Fixed(usize),
    Named(&'static str),
}

/// A graph that grows node by node, in the order of computation. Values are
/// known by name; methods return the names they made.
#[derive(Debug, Default)]
pub(crate) struct OnnxGraph {
    nodes: ProtobufMessage,
    initializers: ProtobufMessage,
    inputs: ProtobufMessage,
    outputs: ProtobufMessage,
    n_nodes: usize,
}

impl OnnxGraph {
    pub(crate) fn input(&mut self, name: &str, element: ElementType, dimensions: &[Dimension]) -> String {
        self.inputs.message(11, &value_info(name, element, dimensions));
        name.to_owned()
    }

    /// Declares the value `of` as the output `name`.
    pub(crate) fn output(&mut self, name: &str, of: &str, element: ElementType, dimensions: &[Dimension]) {
        self.write_node("Identity", "", &[of], &[name.to_owned()], &[]);
        self.outputs.message(12, &value_info(name, element, dimensions));
    }

    /// A constant of floats.
    pub(crate) fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, ElementType::Float, shape, &bytes)
    }

    /// A constant of small integers.
    pub(crate) fn int8s(&mut self, name: &str, shape: &[usize], values: &[i8]) -> String {
        let bytes: Vec<u8> = values.iter().map(|value| value.cast_unsigned()).collect();
        self.constant(name, ElementType::Int8, shape, &bytes)
    }

    /// A constant of bytes, such as four-bit numbers packed two to a byte.
    pub(crate) fn uint8s(&mut self, name: &str, shape: &[usize], values: &[u8]) -> String {
        self.constant(name, ElementType::Uint8, shape, values)
    }

    /// A constant of integers, such as axes.
    pub(crate) fn int64s(&mut self, name: &str, values: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, ElementType::Int64, &[values.len()], &bytes)
    }

    fn constant(&mut self, name: &str, element: ElementType, shape: &[usize], bytes: &[u8]) -> String {
        let mut tensor = ProtobufMessage::default();
        for size in shape {
            tensor.integer(1, *size as i64);
        }
        tensor.integer(2, element as i64);
        tensor.text(8, name);
        tensor.bytes(9, bytes);
        self.initializers.message(5, &tensor);
        name.to_owned()
    }

    /// A node of the standard operators with one output.
    pub(crate) fn node(&mut self, operator: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> String {
        let output = self.fresh(operator, "");
        self.write_node(operator, "", inputs, std::slice::from_ref(&output), attributes);
        output
    }

    /// A node of ONNX Runtime's own operators with one output. An empty input
    /// name leaves an optional input out.
    pub(crate) fn fused(&mut self, operator: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> String {
        let output = self.fresh(operator, "");
        self.write_node(operator, MICROSOFT, inputs, std::slice::from_ref(&output), attributes);
        output
    }

    /// A node with `N` outputs.
    pub(crate) fn node_of<const N: usize>(
        &mut self,
        domain: &str,
        operator: &str,
        inputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) -> [String; N] {
        let outputs: [String; N] = std::array::from_fn(|i| self.fresh(operator, &format!("_{i}")));
        self.write_node(operator, domain, inputs, &outputs, attributes);
        outputs
    }

    fn fresh(&self, operator: &str, suffix: &str) -> String {
        format!("{operator}_{}{suffix}", self.n_nodes)
    }

    fn write_node(
        &mut self,
        operator: &str,
        domain: &str,
        inputs: &[&str],
        outputs: &[String],
        attributes: &[(&str, Attribute)],
    ) {
        let mut node = ProtobufMessage::default();
        inputs.iter().for_each(|input| node.text(1, input));
        outputs.iter().for_each(|output| node.text(2, output));
        node.text(3, &format!("{operator}_node_{}", self.n_nodes));
        node.text(4, operator);
        for (name, attribute) in attributes {
            let mut message = ProtobufMessage::default();
            message.text(1, name);
            match attribute {
                Attribute::Float(value) => {
                    message.float(2, *value);
                    message.integer(20, 1);
                }
                Attribute::Int(value) => {
                    message.integer(3, *value);
                    message.integer(20, 2);
                }
            }
            node.message(5, &message);
        }
        if !domain.is_empty() {
            node.text(7, domain);
        }
        self.nodes.message(1, &node);
        self.n_nodes += 1;
    }

    /// The whole model as the bytes of a file.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut graph = self.nodes;
        graph.text(2, "reverie");
        for part in [self.initializers, self.inputs, self.outputs] {
            graph.0.extend_from_slice(&part.0);
        }
        let mut model = ProtobufMessage::default();
        model.integer(1, FORMAT);
        model.text(2, "reverie");
        model.message(7, &graph);
        for (domain, version) in [("", OPERATORS), (MICROSOFT, 1)] {
            let mut operators = ProtobufMessage::default();
            operators.text(1, domain);
            operators.integer(2, version);
            model.message(8, &operators);
        }
        model.0
    }
}

fn value_info(name: &str, element: ElementType, dimensions: &[Dimension]) -> ProtobufMessage {
    let mut shape = ProtobufMessage::default();
    for dimension in dimensions {
        let mut message = ProtobufMessage::default();
        match dimension {
            Dimension::Fixed(size) => message.integer(1, *size as i64),
            Dimension::Named(name) => message.text(2, name),
        }
        shape.message(1, &message);
    }
    let mut tensor = ProtobufMessage::default();
    tensor.integer(1, element as i64);
    tensor.message(2, &shape);
    let mut kind = ProtobufMessage::default();
    kind.message(1, &tensor);
    let mut value = ProtobufMessage::default();
    value.text(1, name);
    value.message(2, &kind);
    value
}

/// A protobuf message in the making: fields one after the other.
#[derive(Debug, Default)]
struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    fn integer(&mut self, field: u64, value: i64) {
        self.varint(field << 3);
        self.varint(value.cast_unsigned());
    }

    fn float(&mut self, field: u64, value: f32) {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Seven bits a byte, lowest first; the high bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_wire_format_of_protobuf() {
        let mut message = ProtobufMessage::default();
        message.integer(1, 150);
        message.text(2, "testing");
        message.float(3, 1.0);
        message.integer(4, -1);
        let mut expected = vec![0x08, 0x96, 0x01, 0x12, 0x07];
        expected.extend_from_slice(b"testing");
        expected.extend_from_slice(&[0x1d, 0, 0, 0x80, 0x3f, 0x20]);
        expected.extend_from_slice(&[0xff; 9]);
        expected.push(1);
        assert_eq!(message.0, expected);
    }

    #[test]
    fn names_of_values_are_unique() {
        let mut graph = OnnxGraph::default();
        let a = graph.node("Relu", &["x"], &[]);
        let b = graph.node("Relu", &[&a], &[]);
        let [c, d] = graph.node_of("", "Split", &[&b], &[("axis", Attribute::Int(1))]);
        assert!(a != b && b != c && c != d);
    }
}
