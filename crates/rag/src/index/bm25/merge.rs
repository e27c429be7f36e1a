//! Makes one file of several, with the postings of some terms in memory at a time.

use super::{
    Bm25Index,
    blocks::{MovedEntries, TermPostings},
    segment::{HEADER, Segment, Settings, bad},
    spool::Spool,
    writer::SegmentWriter,
};
use crate::{Error, analysis::Language};
use foldhash::HashMap as FastHashMap;
use rayon::prelude::*;
use std::{
    cmp::Reverse,
    collections::HashMap,
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::StagedFile;

/// The most terms of a batch, and about the most postings of a batch that has more than one.
const BATCH_TERMS: usize = 1 << 14;
const BATCH_POSTINGS: u64 = 1 << 22;

impl Bm25Index {
    /// Makes one file of the files of several indexes, whose entries follow each other. It is byte for byte the file of
    /// all their texts.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged, files whose texts were cut by other settings, or a full disk.
    pub fn merge(segments: &[&Path], target: &Path) -> Result<(), Error> {
        let files: Vec<PathBuf> = segments.iter().map(|file| (*file).to_owned()).collect();
        let Self { segments, settings, .. } = Self::open(&files)?;
        write_file(&Merge::of_whole(&segments), &settings, target)
    }
}

/// Writes one file of several, flushes it to the disk and gives it its name.
pub(super) fn write_file(merge: &Merge<'_>, settings: &Settings, target: &Path) -> Result<(), Error> {
    let staged = StagedFile::beside(target).map_err(|error| bad(error.to_string()))?;
    let write = || -> io::Result<()> {
        let file = BufWriter::with_capacity(1 << 20, File::create(staged.path())?);
        let spools = [Spool::beside(target), Spool::beside(target)];
        let (mut file, header) = merge.write(settings, file, spools)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header)?;
        file.flush()?;
        // Otherwise a power cut could leave a name without all of its bytes.
        file.get_ref().sync_data()?;
        std::fs::rename(staged.path(), target)
    };
    write().map_err(|error| bad(format!("{}: {error}", target.display())))
}

/// Files to merge, and which of their entries the merged file has.
pub(super) struct Merge<'a> {
    files: &'a [Arc<Segment>],
    /// The merged file in order: each part is the place of a file in `files`, and a range of its entries. The ranges of one
    /// file ascend. Those of the first file may be anywhere; those of the other files come in the order of `files`.
    parts: Vec<(usize, Range<u32>)>,
}

impl<'a> Merge<'a> {
    /// Merges all entries of files, one file after the other.
    pub(super) fn of_whole(files: &'a [Arc<Segment>]) -> Self {
        Self { files, parts: files.iter().enumerate().map(|(file, segment)| (file, 0..segment.entries())).collect() }
    }

    /// Merges these entries of files. Each part has the place of its file and a range of the file's entries, which is
    /// behind the ranges of earlier parts of the same file. The places ascend, apart from those of the first file.
    ///
    /// # Errors
    /// If there are more entries than can be numbered.
    pub(super) fn of_parts(files: &'a [Arc<Segment>], parts: Vec<(usize, Range<u32>)>) -> Result<Self, Error> {
        check_count(parts.iter().map(|(_, entries)| entries.len() as u64).sum())?;
        Ok(Self { files, parts })
    }

    /// Writes the merged file; returns the header that belongs at its start.
    pub(super) fn write<W: Write>(
        &self,
        settings: &Settings,
        to: W,
        spools: [Spool; 2],
    ) -> io::Result<(W, [u8; HEADER])> {
        let mut writer = SegmentWriter::begin(to, settings, spools)?;
        // For each file, where its entries are in the merged file.
        let mut moved: Vec<Vec<MovedEntries>> = vec![Vec::new(); self.files.len()];
        let mut first = 0;
        for (file, entries) in &self.parts {
            let lengths = self.files[*file].lengths().get(entries.start as usize..entries.end as usize);
            let lengths = lengths.ok_or_else(damaged)?;
            writer.lengths(lengths.iter().map(|length| u32::from_le_bytes(*length)))?;
            match moved[*file].last_mut() {
                Some(last) if last.is_continued_by(entries, first) => last.entries.end = entries.end,
                _ => moved[*file].push(MovedEntries { entries: entries.clone(), first }),
            }
            first += entries.len() as u32;
        }
        let merged = MergedTerms::of(self.files);
        let list = |postings: &mut TermPostings, term: &MergedTerm<'_>| {
            postings.clear();
            let mut of_first = 0;
            for &(file, number) in &merged.places[term.first_place..][..term.files] {
                let (segment, moved) = (&self.files[file as usize], &moved[file as usize]);
                let list = segment.list(number as usize);
                list.append_to(postings, moved, segment.lengths()).ok_or_else(damaged)?;
                if file == 0 {
                    of_first = postings.entries.len();
                }
            }
            postings.merge_from(of_first);
            let mut list = Vec::new();
            postings.write(&mut list);
            Ok((postings.entries.len() as u32, list))
        };
        for terms in merged.batches() {
            let lists = terms.par_iter().with_min_len(16).map_init(TermPostings::default, list);
            for (term, (frequency, list)) in terms.iter().zip(lists.collect::<io::Result<Vec<_>>>()?) {
                // A term may be in none of the entries that are taken.
                if frequency > 0 {
                    writer.term(term.text, frequency, &list)?;
                }
            }
        }
        writer.finish().map(|(to, _, header)| (to, header))
    }
}

/// Fails if there are more entries than an index can number.
pub(super) fn check_count(entries: u64) -> Result<(), Error> {
    match entries > u64::from(u32::MAX) {
        true => Err(bad("more entries than can be numbered (4,294,967,295)")),
        false => Ok(()),
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a file to merge is damaged")
}

/// The terms of several files.
struct MergedTerms<'a> {
    /// Each term once, sorted by its bytes.
    terms: Vec<MergedTerm<'a>>,
    /// For each term, the files that have it, in order, each with the number of the term in its dictionary.
    places: Vec<(u32, u32)>,
}

/// A term of several files.
struct MergedTerm<'a> {
    text: &'a [u8],
    /// Where its places begin, and how many it has.
    first_place: usize,
    files: usize,
    /// Its postings in all files.
    postings: u64,
}

impl<'a> MergedTerms<'a> {
    fn of(segments: &'a [Arc<Segment>]) -> Self {
        let (mut terms, mut numbers) = (Vec::<MergedTerm<'_>>::new(), FastHashMap::<&[u8], u32>::default());
        // The number of each term of each file.
        let mut numbers_of_files = Vec::new();
        for segment in segments {
            let dictionary = segment.dictionary();
            for place in 0..dictionary.len() {
                let text = dictionary.text(place);
                let number = *numbers.entry(text).or_insert_with(|| {
                    terms.push(MergedTerm { text, first_place: 0, files: 0, postings: 0 });
                    (terms.len() - 1) as u32
                });
                let term = &mut terms[number as usize];
                term.files += 1;
                term.postings += u64::from(dictionary.frequency(place));
                numbers_of_files.push(number);
            }
        }
        drop(numbers);
        let mut next = 0;
        let mut next_places: Vec<usize> = Vec::with_capacity(terms.len());
        for term in &mut terms {
            (term.first_place, next) = (next, next + term.files);
            next_places.push(term.first_place);
        }
        let mut places = vec![(0, 0); numbers_of_files.len()];
        let mut numbers = numbers_of_files.into_iter();
        for (file, segment) in segments.iter().enumerate() {
            for (place, number) in numbers.by_ref().take(segment.dictionary().len()).enumerate() {
                let next = &mut next_places[number as usize];
                places[*next] = (file as u32, place as u32);
                *next += 1;
            }
        }
        terms.par_sort_unstable_by_key(|term| term.text);
        Self { terms, places }
    }

    /// The terms in batches, whose postings are in memory together.
    fn batches(&self) -> impl Iterator<Item = &[MergedTerm<'a>]> {
        let mut left = self.terms.as_slice();
        std::iter::from_fn(move || {
            let mut postings = 0;
            let fits = |term: &&MergedTerm<'_>| {
                let is_first = postings == 0;
                postings += term.postings;
                is_first || postings <= BATCH_POSTINGS
            };
            let size = left.iter().take(BATCH_TERMS).take_while(fits).count();
            let (batch, rest) = left.split_at_checked(size).filter(|(batch, _)| !batch.is_empty())?;
            left = rest;
            Some(batch)
        })
    }
}

/// The languages of several indexes together, as [`by_frequency`].
pub(super) fn all_languages<'a>(of_each: impl Iterator<Item = &'a [(Language, u32)]>) -> Vec<(Language, u32)> {
    let mut counts: HashMap<Language, u32> = HashMap::new();
    for (language, texts) in of_each.flatten() {
        let count = counts.entry(*language).or_default();
        *count = count.saturating_add(*texts);
    }
    by_frequency(counts)
}

/// Each language with the number of its texts, the most frequent first; equally frequent ones by name.
pub(super) fn by_frequency(counts: HashMap<Language, u32>) -> Vec<(Language, u32)> {
    let mut counts: Vec<(Language, u32)> = counts.into_iter().collect();
    counts.sort_by_key(|&(language, count)| (Reverse(count), language));
    counts
}
