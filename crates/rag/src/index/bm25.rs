//! Search by words with BM25, in the variant of Lucene: good at names, codes
//! and rare words, where vectors are weak.
//!
//! A term adds `idf · tf / (tf + k1 (1 − b + b · length / mean length))` with
//! `idf = ln(1 + (N − df + ½) / (df + ½))`, k1 = 1.5 and b = 0.75 by default. The module
//! [`analysis`](crate::analysis) cuts texts into terms; a term that occurs twice in the
//! query counts twice. For English, scores agree with LlamaIndex's `BM25Retriever` (bm25s).
//! Unlike it, the search returns only what shares a term with the query, instead of
//! filling up with scores of zero.
//!
//! The index knows the languages of its documents. A query is cut by the rules of its own
//! language, if that is one of them and clear; otherwise by the rules of all of them, as a
//! few words may be of any.
//!
//! Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25
//! and Beyond, 2009; Kamphuis et al., Which BM25 Do You Mean?, 2020.

use super::{Index, IndexedTexts, MadeFrom, document_starts, kind::only, top::Top};
use crate::{
    Chunk, Error,
    analysis::{Analyzer, Language, TextAnalysis, document_languages},
};
use rayon::prelude::*;
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    path::PathBuf,
};

/// How often a term occurs and how long the text is: how much that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// The larger, the more a further occurrence of a term adds. 0 or more.
    pub k1: f32,
    /// How much a long text is held against it, from 0 to 1.
    pub b: f32,
}

impl Default for Saturation {
    fn default() -> Self {
        Self { k1: 1.5, b: 0.75 }
    }
}

const MAGIC: [u8; 8] = *b"RVBM25\0\n";
const FORMAT: u32 = 2;
const CHECKSUM: usize = 32;
/// How many texts a thread cuts into terms in one batch.
const BATCH_TEXTS: usize = 512;

/// The words of texts in a fixed order: entry `i` is the `i`-th searchable chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Bm25Index {
    analysis: TextAnalysis,
    /// The languages of its texts, each with the number of its texts, the most frequent first.
    languages: Vec<(Language, u32)>,
    /// In the order of their bytes.
    terms: Vec<String>,
    /// The postings of term `i` are `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    /// Entries that hold the term, ascending within a term.
    entries: Vec<u32>,
    /// How often they hold it.
    counts: Vec<u32>,
    /// What each occurrence of the term in the query adds to the entry's score, with the
    /// default [`Saturation`].
    weights: Vec<f32>,
    lengths: Vec<u32>,
    mean_length: f64,
}

/// The texts of an index, cut into terms.
struct CutTexts {
    analysis: TextAnalysis,
    languages: Vec<(Language, u32)>,
    /// For each term the entries that hold it and how often, in the order of the terms' bytes.
    postings: Vec<(String, Vec<(u32, u32)>)>,
    lengths: Vec<u32>,
}

impl Index for Bm25Index {
    const NAME: &'static str = "bm25";
    const TITLE: &'static str = "BM25 index";
    const VERSION: u32 = 2;
    const MADE_FROM: MadeFrom = MadeFrom::Texts(|texts| Self::of(texts).to_bytes());

    fn open_files(files: &[PathBuf]) -> Result<Self, Error> {
        let file = only(files)?;
        let bytes = std::fs::read(file).map_err(|error| bad(format!("{}: {error}", file.display())))?;
        Self::from_bytes(&bytes)
    }

    /// Its file was compared with its checksum when it was opened.
    fn verify(&self) -> Result<(), Error> {
        Ok(())
    }

    fn verify_bytes(bytes: &[u8]) -> Result<(), Error> {
        Self::from_bytes(bytes).map(drop)
    }

    fn entries(&self) -> usize {
        self.lengths.len()
    }
}

impl Bm25Index {
    /// Reads texts of one document, with default settings of how they are cut.
    pub fn build<T: AsRef<str>>(texts: &[T]) -> Self {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        Self::of(&IndexedTexts { texts: &texts, documents: &[0], analysis: &TextAnalysis::default() })
    }

    /// Reads the texts of chunks; those of a document follow each other.
    pub fn of_chunks(chunks: &[&Chunk], analysis: &TextAnalysis) -> Self {
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        let documents = document_starts(chunks.iter().map(|chunk| chunk.document.as_str()));
        Self::of(&IndexedTexts { texts: &texts, documents: &documents, analysis })
    }

    /// Reads all texts, with the threads of the current rayon pool. Equal
    /// texts give an equal index.
    pub fn of(given: &IndexedTexts<'_>) -> Self {
        let languages = text_languages(given);
        let batches = given.texts.par_chunks(BATCH_TEXTS).zip(languages.par_chunks(BATCH_TEXTS));
        let analyzers = || Analyzers::new(given.analysis);
        let read = |analyzers: &mut Analyzers<'_>, (texts, languages)| PartialIndex::read(analyzers, texts, languages);
        let parts: Vec<PartialIndex> = batches.map_init(analyzers, read).collect();
        let mut postings: HashMap<String, Vec<(u32, u32)>> = HashMap::new();
        let mut lengths = Vec::with_capacity(given.texts.len());
        for part in parts {
            let first = lengths.len() as u32;
            for (term, found) in part.postings {
                let found = found.into_iter().map(|(entry, count)| (first + entry, count));
                postings.entry(term).or_default().extend(found);
            }
            lengths.extend(part.lengths);
        }
        let mut postings: Vec<(String, Vec<(u32, u32)>)> = postings.into_iter().collect();
        postings.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (analysis, languages) = (given.analysis.clone(), by_frequency(&languages));
        Self::assemble(CutTexts { analysis, languages, postings, lengths })
    }

    /// How its texts were cut into terms.
    pub fn analysis(&self) -> &TextAnalysis {
        &self.analysis
    }

    /// The languages of its texts, each with the number of its texts, the most frequent first.
    pub fn languages(&self) -> &[(Language, u32)] {
        &self.languages
    }

    /// At most `k` entries that share a term with the text, with their scores,
    /// best first, equal ones by entry.
    pub fn search(&self, text: &str, k: usize) -> Vec<(u32, f32)> {
        self.search_where(text, k, Saturation::default(), |_| true)
    }

    /// [`search`](Self::search) among the entries that pass.
    pub fn search_where(
        &self,
        text: &str,
        k: usize,
        saturation: Saturation,
        passes: impl Fn(u32) -> bool,
    ) -> Vec<(u32, f32)> {
        let mut scores = vec![0.0f32; self.lengths.len()];
        let mut touched = Vec::new();
        let mut add = |entry: u32, weight: f32| {
            let score = &mut scores[entry as usize];
            if *score == 0.0 {
                touched.push(entry);
            }
            *score += weight;
        };
        for term in self.query(text) {
            let postings = self.postings(term);
            if saturation == Saturation::default() {
                self.entries[postings.clone()].iter().zip(&self.weights[postings]).for_each(|(&e, &w)| add(e, w));
            } else {
                let idf = self.idf(postings.len());
                postings.for_each(|at| add(self.entries[at], self.weight(at, idf, saturation)));
            }
        }
        let mut top = Top::new(k);
        for entry in touched.into_iter().filter(|&entry| passes(entry)) {
            top.push(entry, scores[entry as usize]);
        }
        top.into_sorted()
    }

    /// The scores of some entries, 0 where no term is shared.
    pub fn scores(&self, text: &str, entries: &[u32]) -> Vec<f32> {
        let mut scores = vec![0.0f32; entries.len()];
        for term in self.query(text) {
            let postings = self.postings(term);
            for (entry, score) in entries.iter().zip(&mut scores) {
                if let Ok(at) = self.entries[postings.clone()].binary_search(entry) {
                    *score += self.weights[postings.start + at];
                }
            }
        }
        scores
    }

    /// The terms of a text that an entry holds too, each once, in the order of the text.
    pub fn shared_terms(&self, text: &str, entry: u32) -> Vec<&str> {
        let mut seen = HashSet::new();
        let holds = |&term: &usize| self.entries[self.postings(term)].binary_search(&entry).is_ok();
        let shared = self.query(text).into_iter().filter(|&term| seen.insert(term)).filter(holds);
        shared.map(|term| self.terms[term].as_str()).collect()
    }

    /// The terms of a query that some entry holds, repetitions included.
    fn query(&self, text: &str) -> Vec<usize> {
        let languages: Vec<Language> = self.languages.iter().map(|(language, _)| *language).collect();
        let languages = match Language::among(text, &languages) {
            Some(language) => vec![language],
            None => languages,
        };
        let (mut found, mut seen): (Vec<usize>, HashSet<usize>) = (Vec::new(), HashSet::new());
        for language in languages {
            let mut of_language = Vec::new();
            Analyzer::new(&self.analysis, language).terms(text, |term| {
                if let Ok(term) = self.terms.binary_search_by(|known| known.as_str().cmp(term)) {
                    of_language.push(term);
                }
            });
            // A term counts by one language only, or words that two languages cut alike would count twice.
            of_language.retain(|term| !seen.contains(term));
            seen.extend(&of_language);
            found.extend(of_language);
        }
        found
    }

    fn postings(&self, term: usize) -> Range<usize> {
        self.starts[term]..self.starts[term + 1]
    }

    /// The weight of a term that this many texts hold.
    fn idf(&self, holding: usize) -> f64 {
        let (texts, holding) = (self.lengths.len() as f64, holding as f64);
        (1.0 + (texts - holding + 0.5) / (holding + 0.5)).ln()
    }

    /// What a posting adds to its entry's score.
    fn weight(&self, posting: usize, idf: f64, Saturation { k1, b }: Saturation) -> f32 {
        let (k1, b) = (f64::from(k1), f64::from(b));
        let (count, length) =
            (f64::from(self.counts[posting]), f64::from(self.lengths[self.entries[posting] as usize]));
        (idf * count / (count + k1 * (1.0 - b + b * length / self.mean_length))) as f32
    }

    fn assemble(CutTexts { analysis, languages, postings, lengths }: CutTexts) -> Self {
        let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        let mean_length = total as f64 / lengths.len().max(1) as f64;
        let mut index = Self {
            analysis,
            languages,
            terms: Vec::new(),
            starts: vec![0],
            entries: Vec::new(),
            counts: Vec::new(),
            weights: Vec::new(),
            lengths,
            mean_length,
        };
        for (term, found) in postings {
            let idf = index.idf(found.len());
            for (entry, count) in found {
                index.entries.push(entry);
                index.counts.push(count);
                index.weights.push(index.weight(index.entries.len() - 1, idf, Saturation::default()));
            }
            index.terms.push(term);
            index.starts.push(index.entries.len());
        }
        index
    }

    /// The index as bytes: equal indexes are equal bytes, and nothing that can
    /// be computed again is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        write_text(&mut bytes, &serde_json::to_string(&self.analysis).unwrap_or_default());
        write_number(&mut bytes, self.languages.len() as u64);
        for (language, texts) in &self.languages {
            write_text(&mut bytes, language.name());
            write_number(&mut bytes, u64::from(*texts));
        }
        write_number(&mut bytes, self.lengths.len() as u64);
        self.lengths.iter().for_each(|&length| write_number(&mut bytes, u64::from(length)));
        write_number(&mut bytes, self.terms.len() as u64);
        for (term, range) in self.terms.iter().zip(self.starts.windows(2)) {
            write_text(&mut bytes, term);
            write_number(&mut bytes, (range[1] - range[0]) as u64);
            let mut next = 0;
            for at in range[0]..range[1] {
                // Entries ascend, so the gap to the last one is a small number.
                write_number(&mut bytes, u64::from(self.entries[at] - next));
                write_number(&mut bytes, u64::from(self.counts[at]));
                next = self.entries[at] + 1;
            }
        }
        bytes.extend(blake3::hash(&bytes).as_bytes());
        bytes
    }

    /// Reads [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// Bytes that are not a complete, undamaged index of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let Some(body) = bytes.strip_prefix(&MAGIC) else { return Err(bad("not a BM25 index")) };
        let (Some(format), Some(checksum)) = (body.first_chunk::<4>(), bytes.last_chunk::<CHECKSUM>()) else {
            return Err(bad("too short for a BM25 index"));
        };
        let format = u32::from_le_bytes(*format);
        if format != FORMAT {
            return Err(bad(format!("format {format} of a BM25 index; this version reads {FORMAT}")));
        }
        let end = bytes.len() - CHECKSUM;
        if end < MAGIC.len() + 4 || blake3::hash(&bytes[..end]).as_bytes() != checksum {
            return Err(bad("its content does not match its checksum; delete it and run again"));
        }
        let mut reader = NumberReader(&bytes[MAGIC.len() + 4..end]);
        reader.index().ok_or_else(|| bad("its content makes no sense; delete it and run again"))
    }
}

/// The postings of the texts of one batch.
struct PartialIndex {
    postings: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
}

impl PartialIndex {
    fn read(analyzers: &mut Analyzers<'_>, texts: &[&str], languages: &[Language]) -> Self {
        let mut part = Self { postings: HashMap::new(), lengths: Vec::with_capacity(texts.len()) };
        for ((entry, text), &language) in (0u32..).zip(texts).zip(languages) {
            let mut length = 0;
            analyzers.of(language).terms(text, |term| {
                length += 1;
                if !part.postings.contains_key(term) {
                    part.postings.insert(term.to_owned(), Vec::new());
                }
                let Some(found) = part.postings.get_mut(term) else { return };
                match found.last_mut() {
                    Some((last, count)) if *last == entry => *count += 1,
                    _ => found.push((entry, 1)),
                }
            });
            part.lengths.push(length);
        }
        part
    }
}

/// An analyzer for each language that was met.
struct Analyzers<'a> {
    analysis: &'a TextAnalysis,
    made: HashMap<Language, Analyzer>,
}

impl<'a> Analyzers<'a> {
    fn new(analysis: &'a TextAnalysis) -> Self {
        Self { analysis, made: HashMap::new() }
    }

    fn of(&mut self, language: Language) -> &mut Analyzer {
        self.made.entry(language).or_insert_with(|| Analyzer::new(self.analysis, language))
    }
}

/// The language of each text: the one that the settings name, or that of its document.
fn text_languages(given: &IndexedTexts<'_>) -> Vec<Language> {
    if let Some(language) = given.analysis.language.language() {
        return vec![language; given.texts.len()];
    }
    let ends = given.documents.iter().skip(1).copied().chain([given.texts.len()]);
    let lengths = given.documents.iter().zip(ends).map(|(first, end)| end - first);
    let found = document_languages(given.texts, given.documents);
    found.into_iter().zip(lengths).flat_map(|(language, length)| std::iter::repeat_n(language, length)).collect()
}

/// Each language with the number of its texts, the most frequent first, equal ones by name.
fn by_frequency(languages: &[Language]) -> Vec<(Language, u32)> {
    let mut counts: HashMap<Language, u32> = HashMap::new();
    for language in languages {
        *counts.entry(*language).or_default() += 1;
    }
    let mut counts: Vec<(Language, u32)> = counts.into_iter().collect();
    counts.sort_by_key(|&(language, count)| (std::cmp::Reverse(count), language));
    counts
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    write_number(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

/// Seven bits at a time, the lowest first; the top bit says that more follow.
fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct NumberReader<'a>(&'a [u8]);

impl<'a> NumberReader<'a> {
    fn index(&mut self) -> Option<Bm25Index> {
        let analysis = serde_json::from_str(self.text()?).ok()?;
        let n_languages = self.number()?;
        let mut languages = Vec::new();
        for _ in 0..n_languages {
            languages.push((Language::named(self.text()?)?, self.small()?));
        }
        let n_texts = self.number()?;
        let lengths = (0..n_texts).map(|_| self.small()).collect::<Option<Vec<u32>>>()?;
        let n_terms = self.number()?;
        let mut postings = Vec::new();
        for _ in 0..n_terms {
            let term = self.text()?.to_owned();
            let mut found = Vec::new();
            let mut next = 0u32;
            for _ in 0..self.number()? {
                let entry = next.checked_add(self.small()?)?;
                if entry as usize >= lengths.len() {
                    return None;
                }
                found.push((entry, self.small()?));
                next = entry.checked_add(1)?;
            }
            postings.push((term, found));
        }
        self.0.is_empty().then(|| Bm25Index::assemble(CutTexts { analysis, languages, postings, lengths }))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        str::from_utf8(text).ok()
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

fn bad(reason: impl Into<String>) -> Error {
    Error::BadIndex { path: "BM25 index".to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::LanguageChoice;

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
        assert_eq!(
            index.scores("the running dog of a cat", &entries),
            found.iter().map(|hit| hit.1).collect::<Vec<_>>()
        );
        assert_eq!(index.scores("cats", &[3]), [0.0]);
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
        let index = Bm25Index::build(&texts);
        let bytes = index.to_bytes();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(pool.install(|| Bm25Index::build(&texts)).to_bytes(), bytes);
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
        let given = IndexedTexts { texts: &texts, documents: &[0, 2, 3], analysis: &TextAnalysis::default() };
        Bm25Index::of(&given)
    }

    #[test]
    fn each_document_is_cut_by_the_rules_of_its_language() {
        let index = mixed();
        let languages: Vec<(&str, u32)> = index.languages().iter().map(|&(found, n)| (found.name(), n)).collect();
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
        let given = IndexedTexts { texts: &TEXTS, documents: &[0], analysis: &analysis };
        assert_eq!(Bm25Index::of(&given).languages(), [(Language::named("german").unwrap(), 4)]);
    }

    #[test]
    fn an_index_of_several_languages_reads_back_equal() {
        let index = mixed();
        assert_eq!(Bm25Index::from_bytes(&index.to_bytes()).unwrap(), index);
    }

    #[test]
    fn the_shared_terms_of_an_entry_are_in_the_order_of_the_query() {
        let index = Bm25Index::build(&TEXTS);
        assert_eq!(index.shared_terms("running with the dogs, dogs and zebras", 2), ["run", "dog"]);
        assert!(index.shared_terms("zebra", 2).is_empty());
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
}
