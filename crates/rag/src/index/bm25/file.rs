//! The file of a BM25 index.

use super::{Bm25Index, cut::CutTexts, postings::Postings};
use crate::{
    Error,
    analysis::{Language, LanguageChoice, TextAnalysis},
};

const MAGIC: [u8; 8] = *b"RVBM25\0\n";
const FORMAT: u32 = 2;
/// The format of version 0.1. It stores no languages, because all texts were cut as English.
const FORMAT_OF_ENGLISH: u32 = 1;
const CHECKSUM: usize = 32;

impl Bm25Index {
    /// The index as bytes. Equal indexes give equal bytes. Nothing that can be
    /// computed again is stored.
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
        write_number(&mut bytes, self.postings.terms.len() as u64);
        for (number, term) in self.postings.terms.iter().enumerate() {
            write_text(&mut bytes, term);
            write_number(&mut bytes, self.postings.range(number).len() as u64);
            let mut next = 0;
            for (entry, count) in self.postings.of(number) {
                // Entries ascend, so the gap to the last one is a small number.
                write_number(&mut bytes, u64::from(entry - next));
                write_number(&mut bytes, u64::from(count));
                next = entry + 1;
            }
        }
        bytes.extend(blake3::hash(&bytes).as_bytes());
        bytes
    }

    /// Reads an index from the bytes that [`to_bytes`](Self::to_bytes) returned.
    ///
    /// # Errors
    /// Bytes that are not a complete, undamaged index of this format or that of version 0.1.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let Some(body) = bytes.strip_prefix(&MAGIC) else { return Err(bad("not a BM25 index")) };
        let (Some(format), Some(checksum)) = (body.first_chunk::<4>(), bytes.last_chunk::<CHECKSUM>()) else {
            return Err(bad("too short for a BM25 index"));
        };
        let format = u32::from_le_bytes(*format);
        if format != FORMAT && format != FORMAT_OF_ENGLISH {
            return Err(bad(format!(
                "format {format} of a BM25 index; this version reads {FORMAT_OF_ENGLISH} and {FORMAT}"
            )));
        }
        let end = bytes.len() - CHECKSUM;
        if end < MAGIC.len() + 4 || blake3::hash(&bytes[..end]).as_bytes() != checksum {
            return Err(bad("its content does not match its checksum; delete it and run again"));
        }
        let mut reader = NumberReader(&bytes[MAGIC.len() + 4..end]);
        let index = if format == FORMAT { reader.index() } else { reader.index_of_english() };
        index.ok_or_else(|| bad("its content makes no sense; delete it and run again"))
    }
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    write_number(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

/// Writes a number in bytes of seven bits, the lowest bits first. The top bit of a byte says that more bytes follow.
fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct NumberReader<'a>(&'a [u8]);

impl<'a> NumberReader<'a> {
    fn index_of_english(&mut self) -> Option<Bm25Index> {
        let language = LanguageChoice::Named(Language::ENGLISH);
        let analysis = TextAnalysis { language, ..TextAnalysis::default() };
        let index = self.texts(analysis, Vec::new())?;
        let languages = vec![(Language::ENGLISH, index.lengths.len() as u32)];
        Some(Bm25Index { languages, is_of_version_1: true, ..index })
    }

    fn index(&mut self) -> Option<Bm25Index> {
        let analysis = serde_json::from_str(self.text()?).ok()?;
        let n_languages = self.number()?;
        let mut languages = Vec::new();
        for _ in 0..n_languages {
            languages.push((Language::named(self.text()?)?, self.small()?));
        }
        self.texts(analysis, languages)
    }

    fn texts(&mut self, analysis: TextAnalysis, languages: Vec<(Language, u32)>) -> Option<Bm25Index> {
        let n_texts = self.number()?;
        let lengths = (0..n_texts).map(|_| self.small()).collect::<Option<Vec<u32>>>()?;
        let n_terms = self.number()?;
        let (mut terms, mut starts, mut entries, mut counts) = (Vec::new(), vec![0], Vec::new(), Vec::new());
        for _ in 0..n_terms {
            terms.push(self.text()?.to_owned());
            let mut next = 0u32;
            for _ in 0..self.number()? {
                let entry = next.checked_add(self.small()?)?;
                if entry as usize >= lengths.len() {
                    return None;
                }
                entries.push(entry);
                counts.push(self.small().filter(|&count| count > 0)?);
                next = entry.checked_add(1)?;
            }
            starts.push(entries.len());
        }
        let postings = Postings { terms, starts, entries, counts };
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

pub(super) fn bad(reason: impl Into<String>) -> Error {
    Error::BadIndex { path: "BM25 index".to_owned(), reason: reason.into() }
}
