//! Whether a file is what would be written for the texts that it says.

use super::{
    blocks::{MovedEntries, TermPostings},
    segment::{Segment, bad, verify_checksum},
};
use crate::Error;
use rayon::prelude::*;

impl Segment {
    /// Compares all bytes with the checksum alone.
    pub(super) fn verify_checksum(&self) -> Result<(), Error> {
        verify_checksum(self.bytes())
    }

    /// Compares all bytes with the checksum, and with what would be written for the texts that they say.
    pub(super) fn verify(&self) -> Result<(), Error> {
        self.verify_checksum()?;
        let makes_sense = makes_sense(self);
        makes_sense.then_some(()).ok_or_else(|| bad("its content makes no sense; delete it and run again"))
    }
}

/// Reads all lists and writes them again: every list has only one form.
fn makes_sense(segment: &Segment) -> bool {
    let (dictionary, lengths) = (segment.dictionary(), segment.lengths());
    let lengths_of = || lengths.iter().map(|length| u32::from_le_bytes(*length));
    let total: u64 = lengths_of().map(u64::from).sum();
    if total != segment.facts.total_length || lengths_of().max().unwrap_or(0) != segment.facts.longest {
        return false;
    }
    let is_written_so = |(postings, list): &mut (TermPostings, Vec<u8>), term: usize| {
        let text = dictionary.text(term);
        if str::from_utf8(text).is_err() || term > 0 && dictionary.text(term - 1) >= text {
            return false;
        }
        postings.clear();
        list.clear();
        if segment.list(term).append_to(postings, &MovedEntries::all_behind(0), lengths).is_none() {
            return false;
        }
        postings.write(list);
        !postings.entries.is_empty() && list == dictionary.list(term)
    };
    let terms = (0..dictionary.len()).into_par_iter().with_min_len(256);
    let all = terms.map_init(|| (TermPostings::default(), Vec::new()), |scratch, term| is_written_so(scratch, term));
    all.all(|is_so| is_so) && dictionary.is_whole()
}
