//! The sample of a corpus' files: which files are drawn, and what reading and parsing them gives. Nothing is stored.

use crate::{Error, blocking::compute, prepare::text_sample::SampledDocument, session::Session, task::read};
use eval::statistics::StratifiedSample;
use futures::{StreamExt, TryStreamExt, future, stream};
use rag::{
    Metadata,
    load::{self, Rejected, Source, SourceFile, Unread},
};
use serde::Serialize;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
    time::Instant,
};

/// The seed of the sample, so that the same corpus has the same sample.
pub(super) const SEED: u64 = 35;
/// Files that are read at once.
const READS: usize = 8;

/// The files of a sample, read and parsed.
pub(super) struct SampledFiles {
    /// Which files were drawn and could be read.
    pub(super) sample: StratifiedSample,
    /// What each of these files gave, in the order of the weights of the sample.
    pub(super) files: Vec<SampledFile>,
    /// The documents of these files, in their order.
    pub(super) documents: Vec<SampledDocument>,
    /// The number of the file of each document.
    pub(super) file_of_document: Vec<usize>,
    /// Files that gave no document: those of the sample, and those that are too large to be read.
    pub(super) rejected: Vec<Rejected>,
    /// The number of files that the sample was drawn from.
    pub(super) population: usize,
    /// Files that were drawn and cannot be read now.
    pub(super) unread: Vec<Unread>,
    /// The files of the corpus by the ending of their names.
    pub(super) endings: Vec<SampledEnding>,
    /// The bytes of the sampled files.
    pub(super) bytes: u64,
}

impl SampledFiles {
    /// How many of these files gave a document.
    pub(super) fn files_with_documents(&self) -> usize {
        self.files.iter().filter(|file| file.text_bytes.is_some()).count()
    }
}

/// A file of a sample.
pub(super) struct SampledFile {
    /// The bytes of the texts of its documents; none if it gave no document.
    pub(super) text_bytes: Option<usize>,
    /// How long its parsing took.
    pub(super) seconds: f64,
}

/// The files whose names have an ending.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledEnding {
    /// The ending in lower case, such as `.pdf`; empty for names without one.
    pub ending: String,
    /// Files of the corpus.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files of the sample.
    pub sampled: usize,
}

/// What a drawn file gave.
struct ParsedFile {
    place: usize,
    /// The documents of the file and of the files in it, and those of them that gave none; an error if the file cannot be
    /// read now.
    outcome: Result<(Vec<SampledDocument>, Vec<Rejected>), Unread>,
    seconds: f64,
}

/// Draws at most so many of these files, and reads and parses them.
pub(super) async fn read_sample(
    session: &Session,
    source: &Source,
    listed: &[SourceFile],
    metadata: &BTreeMap<String, Metadata>,
    most: usize,
) -> Result<SampledFiles, Error> {
    let limits = &session.experiment.corpus.limits;
    let mut by_ending: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut rejected = Vec::new();
    for (place, file) in listed.iter().enumerate() {
        match limits.check_file(file.bytes) {
            Err(reason) => rejected.push(Rejected { path: file.path.clone(), reason }),
            Ok(()) => by_ending.entry(ending(&file.path)).or_default().push(place),
        }
    }
    let groups: Vec<Vec<usize>> = by_ending.into_values().collect();
    let sizes: Vec<u64> = listed.iter().map(|file| file.bytes).collect();
    let drawn = StratifiedSample::draw(&groups, &sizes, most, SEED);

    let read = |place: usize| {
        let file = listed.get(place).cloned();
        async move {
            let file = file?;
            let content = read::content(source, &file, limits).await;
            Some((place, file, content))
        }
    };
    let parse = |(place, file, content): (usize, SourceFile, Result<read::ReadContent, Unread>)| {
        let limits = limits.clone();
        let known = metadata.get(&file.path).cloned().unwrap_or_default();
        compute(move || {
            let began = Instant::now();
            let outcome = content.map(|content| {
                let (mut documents, mut rejected) = (Vec::new(), Vec::new());
                let bytes = content.as_deref().map_err(Clone::clone);
                load::parse_files(&file.path, bytes, &limits, &mut |path, parsed| match parsed {
                    Ok(mut document) => {
                        document.metadata.extend(known.clone());
                        documents.push(SampledDocument::of(&document));
                    }
                    Err(reason) => rejected.push(Rejected { path: path.to_owned(), reason }),
                });
                (documents, rejected)
            });
            ParsedFile { place, outcome, seconds: began.elapsed().as_secs_f64() }
        })
    };
    let cores = session.context().cpu.cores().max(1);
    let places = drawn.places();
    let contents = stream::iter(places).map(read).buffered(READS).filter_map(future::ready);
    let parsed: Vec<ParsedFile> = contents.map(parse).buffered(cores).try_collect().await?;

    let mut unread = Vec::new();
    let mut by_place = HashMap::new();
    let mut missing = BTreeSet::new();
    for ParsedFile { place, outcome, seconds } in parsed {
        match outcome {
            Ok(outcome) => _ = by_place.insert(place, (outcome, seconds)),
            Err(reason) => {
                missing.insert(place);
                unread.push(reason);
            }
        }
    }
    let sample = drawn.without(&missing);
    let places = sample.places();
    let endings = count_endings(listed, &places);
    let bytes = places.iter().filter_map(|&place| sizes.get(place)).sum();
    let (mut files, mut documents, mut file_of_document) = (Vec::new(), Vec::new(), Vec::new());
    for place in places {
        let Some(((of_file, without), seconds)) = by_place.remove(&place) else { continue };
        let text_bytes = of_file.iter().map(|document| document.bytes).reduce(|sum, bytes| sum + bytes);
        documents.extend(of_file);
        file_of_document.resize(documents.len(), files.len());
        rejected.extend(without);
        files.push(SampledFile { text_bytes, seconds });
    }
    rejected.sort_by(|one, other| one.path.cmp(&other.path));
    let population = groups.iter().map(Vec::len).sum();
    Ok(SampledFiles { sample, files, documents, file_of_document, rejected, population, unread, endings, bytes })
}

/// The ending of a file's name in lower case, with its dot; empty if there is none.
fn ending(path: &str) -> String {
    let ending = Path::new(path).extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.map(|ending| format!(".{ending}")).unwrap_or_default()
}

/// Counts files and sampled files by ending, those with the most bytes first.
fn count_endings(listed: &[SourceFile], sampled: &[usize]) -> Vec<SampledEnding> {
    let mut counts: BTreeMap<String, SampledEnding> = BTreeMap::new();
    for file in listed {
        let ending = ending(&file.path);
        let new = || SampledEnding { ending: ending.clone(), files: 0, bytes: 0, sampled: 0 };
        let count = counts.entry(ending.clone()).or_insert_with(new);
        (count.files, count.bytes) = (count.files + 1, count.bytes.saturating_add(file.bytes));
    }
    for file in sampled.iter().filter_map(|&place| listed.get(place)) {
        if let Some(count) = counts.get_mut(&ending(&file.path)) {
            count.sampled += 1;
        }
    }
    let mut counts: Vec<SampledEnding> = counts.into_values().collect();
    counts.sort_by_key(|count| Reverse(count.bytes));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_those_of_names_in_lower_case() {
        let found = ["a/b.PDF", "a.b/c", "x.tar.gz", ".hidden", "é.Txt"].map(ending);
        assert_eq!(found, [".pdf", "", ".gz", "", ".txt"]);
    }
}
