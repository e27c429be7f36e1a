//! Files of older formats.

use super::*;
use numbers::{write_number, write_text};

/// Writes a file as the formats 1 and 2 were written.
fn old_file(index: &Bm25Index, format: u32) -> Vec<u8> {
    let [segment] = index.segments.as_slice() else { panic!("one file") };
    let mut bytes = segment::MAGIC.to_vec();
    bytes.extend(format.to_le_bytes());
    if format == 2 {
        write_text(&mut bytes, &serde_json::to_string(&index.settings.analysis).unwrap());
        write_number(&mut bytes, index.settings.languages.len() as u64);
        for (language, texts) in &index.settings.languages {
            write_text(&mut bytes, language.name());
            write_number(&mut bytes, u64::from(*texts));
        }
    }
    write_number(&mut bytes, index.entries as u64);
    segment.lengths().iter().for_each(|length| write_number(&mut bytes, u64::from(u32::from_le_bytes(*length))));
    let dictionary = segment.dictionary();
    write_number(&mut bytes, dictionary.len() as u64);
    for term in 0..dictionary.len() {
        write_text(&mut bytes, str::from_utf8(dictionary.text(term)).unwrap());
        let mut postings = TermPostings::default();
        segment.list(term).append_to(&mut postings, &MovedEntries::all_behind(0), segment.lengths()).unwrap();
        write_number(&mut bytes, postings.entries.len() as u64);
        let mut next = 0;
        for (&entry, &count) in postings.entries.iter().zip(&postings.counts) {
            write_number(&mut bytes, u64::from(entry - next));
            write_number(&mut bytes, u64::from(count));
            next = entry + 1;
        }
    }
    bytes.extend(blake3::hash(&bytes).as_bytes());
    bytes
}

#[test]
fn files_of_format_2_become_files_of_format_3() {
    let mut random = Random(2);
    let texts: Vec<String> = (0..800).map(|i| random.words(i % 31, 500)).collect();
    for index in [Bm25Index::build(&texts), mixed(), Bm25Index::build::<&str>(&[])] {
        let old = old_file(&index, 2);
        Bm25Index::verify_bytes(&old).unwrap();
        assert_eq!(Bm25Index::from_bytes(&old).unwrap(), index);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.bm25");
        std::fs::write(&file, &old).unwrap();
        let opened = Bm25Index::open_files(std::slice::from_ref(&file)).unwrap();
        assert_eq!(bits(&opened.search("word1 word3 Prozess", 9)), bits(&index.search("word1 word3 Prozess", 9)));
        for place in 0..old.len().min(300) {
            let mut damaged = old.clone();
            damaged[place] ^= 1;
            assert!(Bm25Index::from_bytes(&damaged).is_err() && Bm25Index::from_bytes(&old[..place]).is_err());
        }
    }
}

#[test]
fn files_of_version_1_are_english_and_fit_all_settings() {
    let language = LanguageChoice::Named(Language::ENGLISH);
    let analysis = TextAnalysis { language, ..TextAnalysis::default() };
    let english = Bm25Index::of(&IndexedTexts { texts: &TEXTS, documents: &[0], analysis: &analysis, languages: None });
    let old = Bm25Index::from_bytes(&old_file(&english, 1)).unwrap();
    assert!(old.fits(&TextAnalysis::default()) && !english.fits(&TextAnalysis::default()));
    assert_eq!(old.to_bytes(), english.to_bytes());
    assert_eq!(old.search("cats running", 4), english.search("cats running", 4));
}

#[test]
fn the_bytes_that_format_2_had_are_read() {
    // Written by the version before format 3, of the texts "a mill" and "mill fox mill".
    let bytes: Vec<u8> =
        (0..FIXTURE.len()).step_by(2).map(|i| u8::from_str_radix(&FIXTURE[i..i + 2], 16).unwrap()).collect();
    let index = Bm25Index::from_bytes(&bytes).unwrap();
    assert_eq!(index, Bm25Index::build(&["a mill", "mill fox mill"]));
}

const FIXTURE: &str = "5256424d3235000a02000000447b226c616e6775616765223a226175746f222c22746f6b656e73223a226175746f222c2273\
                       74656d6d6572223a747275652c2273746f705f776f726473223a747275657d0107656e676c697368020201030203666f7801\
                       0101046d696c6c020001000203d513267bca76bea0c840e103eba62f56ec23ba9a79dfbc010b483ad5025c27";
