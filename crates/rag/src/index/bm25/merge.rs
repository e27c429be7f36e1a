//! Makes one file of several, without the postings of more than one term in memory.

use super::{
    Bm25Index,
    blocks::TermPostings,
    segment::{HEADER, Segment, Settings, bad},
    spool::Spool,
    writer::SegmentWriter,
};
use crate::{Error, analysis::Language};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use store::StagedFile;

impl Bm25Index {
    /// Makes one file of the files of several indexes, whose entries follow each other. It is byte for byte the file of
    /// all their texts.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged, files whose texts were cut by other settings, or a full disk.
    pub fn merge(segments: &[&Path], target: &Path) -> Result<(), Error> {
        let files: Vec<PathBuf> = segments.iter().map(|file| (*file).to_owned()).collect();
        let index = Self::open(&files)?;
        let staged = StagedFile::beside(target).map_err(|error| bad(error.to_string()))?;
        let write = || -> io::Result<()> {
            let file = BufWriter::with_capacity(1 << 20, File::create(staged.path())?);
            let spools = [Spool::beside(target), Spool::beside(target)];
            let (mut file, header) = write_merged(&index.segments, &index.settings, file, spools)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header)?;
            file.flush()?;
            // Otherwise a power cut could leave a name without all of its bytes.
            file.get_ref().sync_data()?;
            std::fs::rename(staged.path(), target)
        };
        write().map_err(|error| bad(format!("{}: {error}", target.display())))
    }
}

/// Writes one file of several; returns the header that belongs at its start.
pub(super) fn write_merged<W: Write>(
    segments: &[Arc<Segment>],
    settings: &Settings,
    to: W,
    spools: [Spool; 2],
) -> io::Result<(W, [u8; HEADER])> {
    let mut writer = SegmentWriter::begin(to, settings, spools)?;
    let mut firsts = Vec::with_capacity(segments.len());
    let mut first = 0;
    for segment in segments {
        firsts.push(first);
        first += segment.entries();
        writer.lengths(segment.lengths().iter().map(|length| u32::from_le_bytes(*length)))?;
    }
    // The next term of each file.
    let next = |file: usize, term: usize| {
        let dictionary = segments[file].dictionary();
        (term < dictionary.len()).then(|| Reverse((dictionary.text(term), file, term)))
    };
    let mut heads: BinaryHeap<_> = (0..segments.len()).filter_map(|file| next(file, 0)).collect();
    let (mut postings, mut list) = (TermPostings::default(), Vec::new());
    while let Some(&Reverse((text, ..))) = heads.peek() {
        postings.clear();
        while let Some(&Reverse((same, file, term))) = heads.peek()
            && same == text
        {
            heads.pop();
            heads.extend(next(file, term + 1));
            let segment = &segments[file];
            if segment.list(term).append_to(&mut postings, firsts[file], segment.lengths()).is_none() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a file to merge is damaged"));
            }
        }
        list.clear();
        postings.write(&mut list);
        writer.term(text, postings.entries.len() as u32, &list)?;
    }
    writer.finish().map(|(to, _, header)| (to, header))
}

/// The languages of several indexes together, as [`by_frequency`].
pub(super) fn all_languages<'a>(of_each: impl Iterator<Item = &'a Settings>) -> Vec<(Language, u32)> {
    let mut counts: HashMap<Language, u32> = HashMap::new();
    for (language, texts) in of_each.flat_map(|settings| &settings.languages) {
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
