//! What damaged files do: they are refused, or searches find something else.

use super::*;

/// A file with lists of several blocks.
fn file() -> Vec<u8> {
    let mut random = Random(3);
    let texts: Vec<String> = (0..1500).map(|i| random.words(1 + i % 23, 900)).collect();
    Bm25Index::build(&texts).to_bytes()
}

/// Opens bytes as a file is opened, without reading all of them.
fn opened(bytes: Vec<u8>) -> Option<Bm25Index> {
    Some(Bm25Index::of_segment(Segment::new(SegmentBytes::Owned(bytes)).ok()?, false))
}

fn searches(index: &Bm25Index) {
    for (text, k) in [("word1 word2 word900 word7 word1", 3), ("word0 word3 word450", 1000), ("word2", usize::MAX)] {
        let hits = index.search(text, k);
        assert!(hits.iter().all(|&(entry, _)| (entry as usize) < index.entries()), "{text}");
        assert!(index.search_where(text, k, Saturation { k1: 3.0, b: 0.1 }, |entry| entry % 2 == 0).len() <= k);
        let entries: Vec<u32> = (0..3000).step_by(7).collect();
        assert_eq!(index.scores(text, &entries).len(), entries.len());
    }
    drop(index.to_bytes());
}

#[test]
fn no_changed_byte_ends_a_search() {
    let good = file();
    let mut random = Random(11);
    let mut n_opened = 0;
    // All bytes of the header and the settings, and others at random.
    let places: Vec<usize> = (0..300).chain((0..1500).map(|_| random.below(good.len()))).collect();
    for place in places {
        let mut bytes = good.clone();
        let change = [1, 0x80, 0xff, 1 << random.below(8)][random.below(4)];
        bytes[place] ^= change;
        assert!(Bm25Index::verify_bytes(&bytes).is_err(), "{place}");
        if let Some(index) = opened(bytes) {
            assert!(index.verify().is_err());
            searches(&index);
            n_opened += 1;
        }
    }
    assert!(n_opened > 1000);
}

#[test]
fn no_run_of_changed_bytes_ends_a_search() {
    let good = file();
    let mut random = Random(5);
    for _ in 0..600 {
        let mut bytes = good.clone();
        let (start, n) = (random.below(good.len()), 1 + random.below(40));
        let value = [0, 0xff, 0x7f, random.below(256) as u8][random.below(4)];
        let end = good.len().min(start + n);
        bytes[start..end].fill(value);
        if let Some(index) = opened(bytes) {
            searches(&index);
        }
    }
}

#[test]
fn files_that_are_cut_off_are_refused() {
    let good = file();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.bm25");
    for length in (0..200).chain((200..good.len()).step_by(97)) {
        std::fs::write(&path, &good[..length]).unwrap();
        assert!(Bm25Index::open_files(std::slice::from_ref(&path)).is_err(), "{length}");
        assert!(Bm25Index::verify_bytes(&good[..length]).is_err());
    }
    std::fs::write(&path, &good).unwrap();
    Bm25Index::open_files(std::slice::from_ref(&path)).unwrap().verify().unwrap();
}

#[test]
fn a_damaged_file_opens_and_is_found_by_verifying() {
    let mut bytes = file();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.bm25");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let index = Bm25Index::open_files(std::slice::from_ref(&path)).unwrap();
    assert!(index.verify().unwrap_err().to_string().contains("checksum"));
}

#[test]
fn what_makes_no_sense_is_found_even_with_a_right_checksum() {
    let good = file();
    let segment = Segment::new(SegmentBytes::Owned(good.clone())).unwrap();
    let mut random = Random(9);
    for _ in 0..300 {
        let mut bytes = good.clone();
        // Behind the settings.
        let start = HEADER + segment.facts.bytes[0] as usize;
        bytes[start + random.below(good.len() - start)] ^= 1 << random.below(8);
        let header = segment.facts.header(&blake3::hash(&bytes[HEADER..]));
        bytes[..HEADER].copy_from_slice(&header);
        let index = Bm25Index::from_bytes(&bytes).unwrap();
        searches(&index);
        // The length of an entry changes the sum of lengths; the text of a term may become another one.
        let is_found = index.verify().is_err();
        assert!(is_found || Bm25Index::from_bytes(&index.to_bytes()).unwrap() == index);
    }
}
