//! Files of the formats 1 and 2, which were read as a whole: the settings and languages, the length of each text, and
//! each term with its postings, and BLAKE3 of all that. They become a file of the current format in memory.

use super::{
    cut::CutTexts,
    numbers::{NumberReader, short},
    postings::Postings,
    segment::{CHECKSUM, FORMAT, MAGIC, Settings, bad},
};
use crate::{
    Error,
    analysis::{Language, LanguageChoice, TextAnalysis},
};

const FORMAT_OF_NUMBERS: u32 = 2;
/// The format of version 0.1. It stores no languages, because all texts were cut as English.
pub(super) const FORMAT_OF_ENGLISH: u32 = 1;

/// The format of a file, if it is one that is read.
pub(super) fn format(bytes: &[u8]) -> Result<u32, Error> {
    let Some(body) = bytes.strip_prefix(&MAGIC) else { return Err(bad("not a BM25 index")) };
    let format = short(body, 0);
    if body.len() < 4 || bytes.len() < MAGIC.len() + 4 + CHECKSUM {
        return Err(bad("too short for a BM25 index"));
    }
    match format {
        FORMAT_OF_ENGLISH | FORMAT_OF_NUMBERS | FORMAT => Ok(format),
        _ => {
            let reason = format!("format {format} of a BM25 index; this version reads {FORMAT_OF_ENGLISH} to {FORMAT}");
            Err(bad(reason))
        }
    }
}

/// Reads a file of an old format.
pub(super) fn read(bytes: &[u8], format: u32) -> Result<CutTexts, Error> {
    let (content, checksum) = bytes.split_at(bytes.len().saturating_sub(CHECKSUM));
    if blake3::hash(content).as_bytes() != checksum {
        return Err(bad("its content does not match its checksum; delete it and run again"));
    }
    let mut reader = NumberReader(content.get(MAGIC.len() + 4..).unwrap_or_default());
    let texts =
        if format == FORMAT_OF_ENGLISH { texts_in_english(&mut reader) } else { texts_in_languages(&mut reader) };
    texts
        .filter(|texts| reader.0.is_empty() && texts.postings.terms.is_sorted_by(|a, b| a < b))
        .ok_or_else(|| bad("its content makes no sense; delete it and run again"))
}

fn texts_in_english(reader: &mut NumberReader<'_>) -> Option<CutTexts> {
    let language = LanguageChoice::Named(Language::ENGLISH);
    let analysis = TextAnalysis { language, ..TextAnalysis::default() };
    let (postings, lengths) = numbers(reader)?;
    let settings = Settings { analysis, languages: vec![(Language::ENGLISH, lengths.len() as u32)] };
    Some(CutTexts { settings, postings, lengths })
}

fn texts_in_languages(reader: &mut NumberReader<'_>) -> Option<CutTexts> {
    let settings = Settings::read(reader)?;
    let (postings, lengths) = numbers(reader)?;
    Some(CutTexts { settings, postings, lengths })
}

/// The postings, and the number of terms of each text.
fn numbers(reader: &mut NumberReader<'_>) -> Option<(Postings, Vec<u32>)> {
    let n_texts = reader.number()?;
    let lengths = (0..n_texts).map(|_| reader.small()).collect::<Option<Vec<u32>>>()?;
    let n_terms = reader.number()?;
    let (mut terms, mut starts, mut entries, mut counts) = (Vec::new(), vec![0], Vec::new(), Vec::new());
    for _ in 0..n_terms {
        terms.push(reader.text()?.to_owned());
        let mut next = 0u32;
        for _ in 0..reader.number()? {
            let entry = next.checked_add(reader.small()?)?;
            if entry as usize >= lengths.len() {
                return None;
            }
            entries.push(entry);
            counts.push(reader.small().filter(|&count| count > 0)?);
            next = entry.checked_add(1)?;
        }
        starts.push(entries.len());
    }
    Some((Postings { terms, starts, entries, counts }, lengths))
}
