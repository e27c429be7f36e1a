//! Writes a GGUF file of 200 KB with random weights, so that tests need no
//! download. Its answers are nonsense, but the same nonsense every time, and
//! they depend on every token before them.

use std::path::Path;

const WIDTH: u64 = 64;
const KEYS: u64 = 32;
const HIDDEN: u64 = 96;
const LAYERS: u32 = 2;

/// The kinds of token that llama.cpp tells apart.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

/// The context length the model claims to be trained with.
pub(super) const TRAINED: usize = 512;

/// Writes the model.
pub(crate) fn write(path: &Path) {
    let vocabulary = vocabulary();
    let tensors = tensors(vocabulary.len() as u64);
    let mut file = GgufFile::default();
    file.0.extend_from_slice(b"GGUF");
    file.u32(3);
    file.u64(tensors.len() as u64);
    file.u64(15);
    file.text_value("general.architecture", "llama");
    for (key, value) in [
        ("llama.context_length", TRAINED as u32),
        ("llama.embedding_length", WIDTH as u32),
        ("llama.block_count", LAYERS),
        ("llama.feed_forward_length", HIDDEN as u32),
        ("llama.attention.head_count", 2),
        ("llama.attention.head_count_kv", 1),
        ("llama.rope.dimension_count", KEYS as u32),
        ("tokenizer.ggml.bos_token_id", 1),
        ("tokenizer.ggml.eos_token_id", 2),
        ("tokenizer.ggml.unknown_token_id", 0),
    ] {
        file.text(key);
        file.u32(4);
        file.u32(value);
    }
    file.text("llama.attention.layer_norm_rms_epsilon");
    file.u32(6);
    file.0.extend(1e-5f32.to_le_bytes());
    file.text_value("tokenizer.ggml.model", "llama");
    file.list("tokenizer.ggml.tokens", 8, vocabulary.len());
    vocabulary.iter().for_each(|(text, _)| file.text(text));
    file.list("tokenizer.ggml.token_type", 5, vocabulary.len());
    vocabulary.iter().for_each(|(_, kind)| file.0.extend(kind.to_le_bytes()));
    let mut offset = 0;
    for (name, shape) in &tensors {
        file.text(name);
        file.u32(shape.len() as u32);
        shape.iter().for_each(|length| file.u64(*length));
        file.u32(0);
        file.u64(offset);
        offset += (shape.iter().product::<u64>() * 4).next_multiple_of(32);
    }
    let mut state = 1u64;
    for (name, shape) in &tensors {
        file.align();
        for _ in 0..shape.iter().product() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
            let value = if name.contains("norm") { 1.0 } else { uniform };
            file.0.extend(value.to_le_bytes());
        }
    }
    std::fs::write(path, file.0).expect("the test's folder can be written");
}

/// All bytes, all printable characters, and the words that tests choose from.
fn vocabulary() -> Vec<(String, i32)> {
    let mut tokens = vec![("<unk>".into(), UNKNOWN), ("<s>".into(), CONTROL), ("</s>".into(), CONTROL)];
    tokens.extend((0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), BYTE)));
    tokens.extend(('!'..='~').map(|c| (c.to_string(), NORMAL)));
    for text in ["\u{2581}", "Ye", "Yes", "\u{2581}Yes", "No", "\u{2581}No", "é"] {
        tokens.push((text.into(), NORMAL));
    }
    tokens.extend(["<|im_start|>", "<|im_end|>"].map(|text| (text.into(), CONTROL)));
    tokens
}

fn tensors(vocabulary: u64) -> Vec<(String, Vec<u64>)> {
    let mut tensors = vec![
        ("token_embd.weight".into(), vec![WIDTH, vocabulary]),
        ("output_norm.weight".into(), vec![WIDTH]),
        ("output.weight".into(), vec![WIDTH, vocabulary]),
    ];
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("attn_norm", vec![WIDTH]),
            ("attn_q", vec![WIDTH, WIDTH]),
            ("attn_k", vec![WIDTH, KEYS]),
            ("attn_v", vec![WIDTH, KEYS]),
            ("attn_output", vec![WIDTH, WIDTH]),
            ("ffn_norm", vec![WIDTH]),
            ("ffn_gate", vec![WIDTH, HIDDEN]),
            ("ffn_up", vec![WIDTH, HIDDEN]),
            ("ffn_down", vec![HIDDEN, WIDTH]),
        ] {
            tensors.push((format!("blk.{layer}.{name}.weight"), shape));
        }
    }
    tensors
}

#[derive(Default)]
struct GgufFile(Vec<u8>);

impl GgufFile {
    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn text_value(&mut self, key: &str, value: &str) {
        self.text(key);
        self.u32(8);
        self.text(value);
    }

    fn list(&mut self, key: &str, kind: u32, length: usize) {
        self.text(key);
        self.u32(9);
        self.u32(kind);
        self.u64(length as u64);
    }

    fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(32), 0);
    }
}
