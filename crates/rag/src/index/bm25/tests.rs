//! Scores, languages and files of BM25 indexes.

mod build;
mod damage;
mod old_files;
mod segments;

use super::{
    blocks::{MovedEntries, TermPostings},
    weight::idf,
    *,
};
use crate::analysis::{Language, LanguageChoice};

const TEXTS: [&str; 4] =
    ["the cat sat on the mat", "the dog chased the cat", "dogs and cats running", "a quick brown fox"];

#[test]
fn scores_agree_with_the_reference() {
    let index = Bm25Index::build(&TEXTS);
    let found = index.search("cats running", 4);
    let expected = [(2, 0.62426), (0, 0.14267), (1, 0.14267)];
    assert_eq!(found.len(), expected.len(), "what shares no word is not found");
    for ((entry, score), (expected_entry, expected_score)) in found.into_iter().zip(expected) {
        assert_eq!(entry, expected_entry);
        assert!((score - expected_score).abs() < 5e-6, "{score} is not {expected_score}");
    }
}

#[test]
fn scores_of_chosen_entries_are_those_of_the_search() {
    let index = Bm25Index::build(&TEXTS);
    let found = index.search("the running dog of a cat", 9);
    let entries: Vec<u32> = found.iter().map(|hit| hit.0).collect();
    assert_eq!(index.scores("the running dog of a cat", &entries), found.iter().map(|hit| hit.1).collect::<Vec<_>>());
    assert_eq!(index.scores("cats", &[3]), [0.0]);
}

/// The hits if all postings are added up in the order of the query, with the formula as it stands in the module.
fn all_added_up(
    index: &Bm25Index,
    text: &str,
    saturation: Saturation,
    passes: impl Fn(u32) -> bool,
) -> Vec<(u32, f32)> {
    let (k1, b) = (f64::from(saturation.k1), f64::from(saturation.b));
    let mut scores = vec![0.0f32; index.entries];
    for term in index.query(text) {
        let (mut postings, mut first) = (TermPostings::default(), 0);
        for (segment, number) in index.segments.iter().zip(&term.numbers) {
            if let Some(number) = number {
                let all = MovedEntries::all_behind(first);
                segment.list(*number).append_to(&mut postings, &all, segment.lengths()).unwrap();
            }
            first += segment.entries();
        }
        let idf = idf(index.entries, postings.entries.len() as u64);
        for ((entry, count), length) in postings.entries.into_iter().zip(postings.counts).zip(postings.lengths) {
            let (count, length) = (f64::from(count), f64::from(length));
            let weight = (idf * count / (count + k1 * (1.0 - b + b * length / index.mean_length))) as f32;
            scores[entry as usize] += weight;
        }
    }
    let mut hits: Vec<(u32, f32)> =
        (0u32..).zip(scores).filter(|&(entry, score)| score > 0.0 && passes(entry)).collect();
    hits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    hits
}

/// Hits with the bits of their scores.
fn bits(hits: &[(u32, f32)]) -> Vec<(u32, u32)> {
    hits.iter().map(|&(entry, score)| (entry, score.to_bits())).collect()
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }

    /// A text of this many words, of which those with high numbers are rare.
    fn words(&mut self, n: usize, vocabulary: usize) -> String {
        let word = |random: &mut Self| vocabulary / (1 + random.below(vocabulary)) + random.below(3);
        (0..n).map(|_| format!("word{} ", word(self))).collect()
    }
}

#[test]
fn hits_are_those_of_adding_up_all_postings() {
    let mut random = Random(1);
    let mut words = |n: usize| random.words(n, 2000);
    let texts: Vec<String> = (0..700).map(|i| words(1 + i % 90)).collect();
    let queries: Vec<String> = (0..60).map(|i| words(1 + i % 23)).collect();
    let index = Bm25Index::build(&texts);
    let passing: [fn(u32) -> bool; 3] = [|_| true, |entry| entry % 3 == 0, |entry| entry > 690];
    for query in &queries {
        for (k1, b) in [(1.5, 0.75), (0.9, 0.4), (0.0, 1.0), (50.0, 1.0)] {
            for passes in passing {
                let saturation = Saturation { k1, b };
                let all = all_added_up(&index, query, saturation, passes);
                for k in [1, 2, 10, 100, 1000, usize::MAX] {
                    let best = &all[..k.min(all.len())];
                    assert_eq!(index.search_where(query, k, saturation, passes), best, "{query}, {k1}, {b}, {k}");
                }
            }
        }
        let entries: Vec<u32> = (0..700).rev().collect();
        let scores = index.scores(query, &entries);
        let all = all_added_up(&index, query, Saturation::default(), |_| true);
        assert!(all.iter().all(|&(entry, score)| scores[699 - entry as usize] == score), "{query}");
    }
    assert_eq!(index.search(&queries[0], 0), []);
}

#[test]
fn a_repeated_term_counts_twice() {
    let index = Bm25Index::build(&TEXTS);
    assert_eq!(index.search("cat cat", 1)[0].1, 2.0 * index.search("cat", 1)[0].1);
}

#[test]
fn a_query_of_unknown_or_frequent_words_finds_nothing() {
    let index = Bm25Index::build(&TEXTS);
    assert_eq!(index.search("the and zebra", 5), []);
    assert_eq!(index.search("", 5), []);
    assert_eq!(Bm25Index::build::<&str>(&[]).search("cat", 5), []);
    assert_eq!(Bm25Index::build(&["", "the"]).search("cat", 5), []);
}

#[test]
fn bytes_are_the_same_for_every_number_of_threads_and_read_back_equal() {
    let texts: Vec<String> =
        (0..3000).map(|i| format!("word{} thing{} words the {}", i % 17, i % 401, TEXTS[i % 4])).collect();
    let built_by = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Bm25Index::build(&texts))
    };
    let index = built_by(1);
    let bytes = index.to_bytes();
    assert_eq!(built_by(3).to_bytes(), bytes);
    assert_eq!(Bm25Index::from_bytes(&bytes).unwrap(), index);
}

const GERMAN: [&str; 2] = [
    "Zombieprozesse verschwinden, sobald ihr Elternprozess den Rückgabewert abgeholt hat. Wer sie loswerden will, \
     beendet den Elternprozess, denn ein toter Prozess kann kein Signal mehr empfangen und belegt nur noch einen Platz.",
    "Die Paketverwaltung löst Abhängigkeiten auf und entfernt, was niemand mehr braucht. Vor einer größeren \
     Aktualisierung sollte man die Festplatte sichern, damit nichts verloren geht, falls etwas schiefläuft.",
];
const JAPANESE: &str = "パッケージ管理システムは依存関係を自動的に解決します。設定ファイルは更新のときに上書きされません。管理者が変更した内容はそのまま残ります。";
const ENGLISH: &str = "The package manager resolves dependencies by itself and removes what nobody needs any more. Files \
                       that the administrator has changed are kept when a package is upgraded to another version of it.";

fn mixed() -> Bm25Index {
    let japanese = JAPANESE.repeat(4);
    let texts = [GERMAN[0], GERMAN[1], ENGLISH, &japanese];
    let given =
        IndexedTexts { texts: &texts, documents: &[0, 2, 3], analysis: &TextAnalysis::default(), languages: None };
    Bm25Index::of(&given)
}

#[test]
fn each_document_is_cut_by_the_rules_of_its_language() {
    let index = mixed();
    let languages: Vec<(&str, u32)> = index.settings.languages.iter().map(|&(found, n)| (found.name(), n)).collect();
    assert_eq!(languages, [("german", 2), ("english", 1), ("japanese", 1)]);
    let first = |text: &str| index.search(text, 1).first().map(|hit| hit.0);
    assert_eq!(first("Prozess"), Some(0), "a part of a compound");
    assert_eq!(first("Abhaengigkeit Festplatten"), Some(1));
    assert_eq!(first("upgrading packages"), Some(2));
    assert_eq!(first("依存関係"), Some(3));
    assert_eq!(first("уйти"), None);
}

#[test]
fn a_named_language_is_that_of_all_texts() {
    let language = LanguageChoice::Named(Language::named("german").unwrap());
    let analysis = TextAnalysis { language, ..TextAnalysis::default() };
    let given = IndexedTexts { texts: &TEXTS, documents: &[0], analysis: &analysis, languages: None };
    assert_eq!(Bm25Index::of(&given).settings.languages, [(Language::named("german").unwrap(), 4)]);
}

#[test]
fn an_index_of_several_languages_reads_back_equal() {
    let index = mixed();
    assert_eq!(Bm25Index::from_bytes(&index.to_bytes()).unwrap(), index);
}

#[test]
fn other_weights_of_terms_agree_with_the_formula() {
    let index = Bm25Index::build(&["mill", "mill mill barn"]);
    let score = |k1, b| index.search_where("mill", 2, Saturation { k1, b }, |_| true)[0].1;
    let idf = (1.0f64 + 0.5 / 2.5).ln();
    // Two occurrences in a text of three words, where the mean is two.
    let expected = idf * 2.0 / (2.0 + 0.9 * (0.6 + 0.4 * 1.5));
    assert!((f64::from(score(0.9, 0.4)) - expected).abs() < 1e-6);
    assert!((f64::from(score(0.0, 0.4)) - idf).abs() < 1e-6);
}

#[test]
fn damage_is_found() {
    let bytes = Bm25Index::build(&TEXTS).to_bytes();
    let reason = |bytes: &[u8]| Bm25Index::from_bytes(bytes).unwrap_err().to_string();
    assert!(reason(b"hello").contains("not a BM25 index"));
    assert!(reason(&bytes[..10]).contains("too short"));
    assert!(reason(&bytes[..bytes.len() - 1]).contains("checksum"));
    let mut flipped = bytes.clone();
    flipped[30] ^= 1;
    assert!(reason(&flipped).contains("checksum"));
    let mut newer = bytes;
    newer[8] = 9;
    assert!(reason(&newer).contains("format 9"));
}
