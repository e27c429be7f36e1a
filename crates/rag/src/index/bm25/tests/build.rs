//! Indexes that are built segment by segment.

use super::{super::build::segments, *};
use crate::index::EntryTexts;

/// Texts with the documents that they are in.
struct Texts(Vec<(String, String)>);

impl EntryTexts for Texts {
    fn entries(&self) -> usize {
        self.0.len()
    }

    fn text(&self, entry: usize) -> &str {
        &self.0[entry].1
    }

    fn document(&self, entry: usize) -> &str {
        &self.0[entry].0
    }
}

/// German documents, an English one, and documents too short for a language, which count as German.
fn texts() -> Texts {
    let chunk = |document: &str, text: &str| (document.to_owned(), text.to_owned());
    let mut all = vec![chunk("short", "Haus"), chunk("english", ENGLISH), chunk("english", "The cats are running.")];
    for i in 0..9 {
        all.push(chunk(&format!("german {i}"), GERMAN[i % 2]));
        all.push(chunk(&format!("german {i}"), "Zombieprozesse verschwinden."));
        all.push(chunk(&format!("number {i}"), &format!("Prozesse {i}")));
    }
    Texts(all)
}

#[test]
fn the_file_is_the_same_however_many_segments_its_texts_are_built_in() {
    let (texts, folder) = (texts(), tempfile::tempdir().unwrap());
    let rows: Vec<&str> = texts.0.iter().map(|(_, text)| text.as_str()).collect();
    let documents = document_starts(texts.0.iter().map(|(document, _)| document.as_str()));
    for language in [LanguageChoice::Auto, LanguageChoice::Named(Language::ENGLISH)] {
        let analysis = TextAnalysis { language, ..TextAnalysis::default() };
        let given = IndexedTexts { texts: &rows, documents: &documents, analysis: &analysis, languages: None };
        let whole = Bm25Index::of(&given).to_bytes();
        for (documents, most_texts, most_bytes) in [
            (1, usize::MAX, usize::MAX),
            (3, 2, usize::MAX),
            (1_000, 7, usize::MAX),
            (5, 1_000, 300),
            (1_000, 1_000, 1 << 20),
        ] {
            let cut = segments(&texts, documents, most_texts, most_bytes);
            let (target, cache) = (folder.path().join("index"), folder.path().join("cache"));
            // The second time its segments are there.
            for _ in 0..2 {
                Bm25Index::write_in_segments(&texts, &analysis, &target, (&cut, &cache)).unwrap();
                assert!(std::fs::read(&target).unwrap() == whole, "{} segments", cut.len());
            }
        }
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the index and the cache: {left:?}");
}

#[test]
fn a_document_is_never_divided_between_segments() {
    let texts = texts();
    assert_eq!(segments(&texts, 1, usize::MAX, usize::MAX).len(), 20);
    assert_eq!(segments(&texts, u64::MAX, 1, usize::MAX).len(), 20);
    assert_eq!(segments(&texts, u64::MAX, usize::MAX, usize::MAX).len(), 1);
    assert!(segments(&Texts(Vec::new()), 1, 1, 1).is_empty());
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    Bm25Index::write(&Texts(Vec::new()), &TextAnalysis::default(), &empty, folder.path()).unwrap();
    assert_eq!(Bm25Index::open_files(&[empty]).unwrap().entries(), 0);
}

#[test]
fn segments_are_about_equally_long_also_where_documents_stand_in_the_order_of_their_hashes() {
    let hash = |name: &String| *blake3::hash(name.as_bytes()).as_bytes();
    let mut names: Vec<String> = (0..20_000).map(|number| format!("folder/{number}.txt")).collect();
    names.sort_by_key(hash);
    let texts = Texts(names.into_iter().map(|name| (name, String::new())).collect());
    let lengths: Vec<usize> =
        segments(&texts, 256, usize::MAX, usize::MAX).iter().map(ExactSizeIterator::len).collect();
    // 78 are expected. The number of those after the fewest is exponentially distributed.
    assert!((65..=95).contains(&lengths.len()), "{lengths:?}");
    let (last, others) = lengths.split_last().unwrap();
    assert!(others.iter().all(|length| (128..1_400).contains(length)) && *last < 1_400, "{lengths:?}");
}

/// The names and times of the files in a folder.
fn files(folder: &std::path::Path) -> std::collections::BTreeMap<String, u64> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())).collect()
}

/// Writes the index of texts in segments of about eight documents, and compares its bytes with those of an index that is
/// built in one piece. Returns the number of segments, and the files that are kept for the next index.
fn write_in_segments(texts: &Texts, folder: &Path) -> (usize, std::collections::BTreeMap<String, u64>) {
    let (target, cache, analysis) = (folder.join("index"), folder.join("cache"), TextAnalysis::default());
    let cut = segments(texts, 8, usize::MAX, usize::MAX);
    Bm25Index::write_in_segments(texts, &analysis, &target, (&cut, &cache)).unwrap();
    let rows: Vec<&str> = texts.0.iter().map(|(_, text)| text.as_str()).collect();
    let documents = document_starts(texts.0.iter().map(|(document, _)| document.as_str()));
    let given = IndexedTexts { texts: &rows, documents: &documents, analysis: &analysis, languages: None };
    assert!(std::fs::read(&target).unwrap() == Bm25Index::of(&given).to_bytes());
    (cut.len(), files(&cache))
}

/// Changes a byte in the middle of each file with this ending.
fn damage(folder: &Path, ending: &str) {
    for name in files(folder).keys().filter(|name| name.ends_with(ending)) {
        let mut bytes = std::fs::read(folder.join(name)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        // In place, the index itself would change too: it is the same file under another name.
        std::fs::remove_file(folder.join(name)).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn of_texts_that_have_changed_a_little_few_segments_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let mut texts = Texts((0..400).map(|i| (format!("{i:03}"), format!("{ENGLISH} Number {i}."))).collect());
    let (cut, first) = write_in_segments(&texts, folder.path());
    assert!(cut > 25, "{cut}");
    assert_eq!(first.len(), 2 * cut + 2, "the languages and the terms of each segment, the index and its content");
    // An edit, a document less and one more: at most as many segments, and two where a border is gone.
    texts.0[100].1 += " It was edited.";
    texts.0.remove(250);
    texts.0.insert(300, ("299b".to_owned(), "The cats are running.".to_owned()));
    let (_, second) = write_in_segments(&texts, folder.path());
    let new: Vec<_> = second.keys().filter(|name| !first.contains_key(*name)).collect();
    assert!((4..=10).contains(&new.len()), "{new:?}");
    let count = |ending: &str| second.keys().filter(|name| name.ends_with(ending)).count();
    assert_eq!((count(".merged"), count(".content")), (1, 1), "the new index replaces the one before");

    // Damaged files are made again.
    for ending in [".merged", ".content", ".bm25", ".languages"] {
        damage(&cache, ending);
        texts.0[200].1 += " Once more.";
        write_in_segments(&texts, folder.path());
    }
    ["", ".merged", ".bm25"].iter().for_each(|ending| damage(&cache, ending));
    write_in_segments(&texts, folder.path());

    // Documents whose language is not clear are cut by that of most of the text.
    for (_, text) in &mut texts.0 {
        *text = GERMAN[0].to_owned();
    }
    texts.0[7].1 = "Zombieprozesse".to_owned();
    write_in_segments(&texts, folder.path());
}

#[test]
fn segments_of_an_earlier_index_are_read_there_and_the_file_is_that_of_all_texts() {
    let (folder, mut random) = (tempfile::tempdir().unwrap(), Random(11));
    let cache = folder.path().join("cache");
    let text = |random: &mut Random| {
        let n_words = 1 + random.below(60);
        format!("{} {}", [ENGLISH, GERMAN[1], "short"][random.below(3)], random.words(n_words, 900))
    };
    let mut texts = Texts(Vec::new());
    for i in 0..4_500 {
        texts.0.push((format!("{:04}", i / 3), text(&mut random)));
    }
    write_in_segments(&texts, folder.path());
    let of_terms = || files(&cache).keys().filter(|name| name.ends_with(".bm25")).count();
    for round in 0..12 {
        // Without these files, segments that are not read in the earlier index are made again.
        for name in files(&cache).keys().filter(|name| name.ends_with(".bm25")) {
            std::fs::remove_file(cache.join(name)).unwrap();
        }
        // Texts are edited, added and removed, and a term is in no text any more.
        for _ in 0..round {
            let place = random.below(texts.0.len());
            match random.below(3) {
                0 => texts.0[place].1 = text(&mut random),
                1 => drop(texts.0.remove(place)),
                _ => texts.0.insert(place, (format!("{}a", texts.0[place].0), text(&mut random))),
            }
        }
        let (cut, _) = write_in_segments(&texts, folder.path());
        assert!(of_terms() <= 3 * round, "{} of {cut} segments are made again after {round} changes", of_terms());
    }
    // Documents in another order.
    texts.0.rotate_left(333);
    write_in_segments(&texts, folder.path());
    // Most of them are gone.
    texts.0.truncate(100);
    write_in_segments(&texts, folder.path());
}
