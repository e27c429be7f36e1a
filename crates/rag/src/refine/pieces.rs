//! The text of a passage as pieces of its document, so that steps can join,
//! shorten and cut passages while spans stay true.
//!
//! Where two pieces do not touch, something stands between them in the text of
//! the passage: a line end or two for the white space between chunks (at most
//! [`BLANK`] bytes), ` … ` for everything else.

use crate::{
    ChunkTable, Passage, Span,
    analysis::{sentences, text_language},
    fence,
};
use std::collections::HashSet;
use unicode_segmentation::UnicodeSegmentation;

/// Between pieces, where text was left out.
pub(super) const LEFT_OUT: &str = " … ";
/// A gap between chunks of at most this many bytes counts as white space: a rule of thumb,
/// because the text in the gap is not at hand.
const BLANK: usize = 8;

/// A stretch of a document's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) span: Span,
    pub(super) text: &'a str,
}

impl<'a> Piece<'a> {
    pub(super) fn chunk(table: &'a ChunkTable, row: u32) -> Self {
        let chunk = table.chunk(row);
        Self { span: chunk.span, text: chunk.text }
    }

    /// A part of it, by bytes of its text.
    pub(super) fn part(self, from: usize, to: usize) -> Self {
        let text = self.text.get(from..to).unwrap_or_default();
        // The place of a part is unknown if the text is not the document's: a Python program may change chunks.
        let is_exact = self.text.len() == self.span.len();
        let span = if is_exact { Span { start: self.span.start + from, end: self.span.start + to } } else { self.span };
        Self { span, text }
    }
}

impl Passage {
    /// Its text, stretch by stretch, each with where it lies in the document's
    /// text.
    pub fn pieces(&self) -> Vec<(Span, &str)> {
        pieces(self).into_iter().map(|Piece { span, text }| (span, text)).collect()
    }
}

/// The pieces of a passage, in their order.
pub(super) fn pieces(passage: &Passage) -> Vec<Piece<'_>> {
    let whole = || vec![Piece { span: passage.span, text: &passage.text }];
    if passage.parts.is_empty() {
        return whole();
    }
    let mut rest = passage.text.as_str();
    let mut pieces = Vec::with_capacity(passage.parts.len());
    for &span in &passage.parts {
        if !pieces.is_empty() {
            rest = rest.strip_prefix(LEFT_OUT).unwrap_or_else(|| rest.trim_start_matches('\n'));
        }
        let Some((text, after)) = rest.split_at_checked(span.len()) else { return whole() };
        pieces.push(Piece { span, text });
        rest = after;
    }
    pieces
}

/// The text between two pieces with `gap` bytes between them in the document.
pub(super) fn between(gap: usize) -> &'static str {
    match gap {
        1 => "\n",
        2..=BLANK => "\n\n",
        _ => LEFT_OUT,
    }
}

/// [`between`] for sentences, where text may have been left out. A rule of thumb: a gap of
/// at most two bytes is white space, a larger one is left-out text. Smaller than [`BLANK`],
/// because a short sentence such as `No.` may be what was left out.
fn left_out(gap: usize) -> &'static str {
    if gap <= 2 { between(gap) } else { LEFT_OUT }
}

/// Pieces of one document in its order, each byte once.
pub(super) struct JoinedPieces {
    pub(super) text: String,
    pub(super) span: Span,
    /// As [`Passage::parts`].
    pub(super) parts: Vec<Span>,
}

/// Joins pieces; `between` is what stands between two that do not touch. None
/// if there are no pieces.
pub(super) fn join(mut pieces: Vec<Piece<'_>>, between: fn(usize) -> &'static str) -> Option<JoinedPieces> {
    pieces.sort_by_key(|piece| (piece.span.start, std::cmp::Reverse(piece.span.end)));
    // Reserves 8 bytes for each separator, which is more than any separator has.
    let mut text = String::with_capacity(pieces.iter().map(|piece| piece.text.len() + 8).sum());
    let mut parts: Vec<Span> = Vec::new();
    for piece in pieces {
        match parts.last_mut() {
            Some(last) if piece.span.start <= last.end => {
                if piece.span.end > last.end {
                    text.push_str(piece.text.get(last.end - piece.span.start..).unwrap_or_default());
                    last.end = piece.span.end;
                }
            }
            last => {
                let end = last.map(|last| last.end);
                // A part never begins with white space, so that the parts of a
                // text can be told from what stands between them.
                let from = end.map_or(0, |_| piece.text.len() - piece.text.trim_start().len());
                let piece = piece.part(from, piece.text.len());
                if piece.text.is_empty() {
                    continue;
                }
                if let Some(end) = end {
                    text.push_str(between(piece.span.start - end));
                }
                text.push_str(piece.text);
                parts.push(piece.span);
            }
        }
    }
    let span = Span { start: parts.first()?.start, end: parts.last()?.end };
    if parts.len() == 1 {
        parts.clear();
    }
    Some(JoinedPieces { text, span, parts })
}

impl JoinedPieces {
    pub(super) fn into_passage(self, passage: Passage) -> Passage {
        Passage { text: self.text, span: self.span, parts: self.parts, ..passage }
    }
}

/// The searchable chunks of the document that holds a row, as a range of
/// positions in [`ChunkTable::searchable`].
pub(super) fn of_document(table: &ChunkTable, row: u32) -> std::ops::Range<usize> {
    let first = table.sibling(row, 0);
    let rows = table.searchable();
    let from = rows.partition_point(|&other| other < first);
    let n = rows[from..].partition_point(|&other| table.sibling(other, 0) == first);
    from..from + n
}

/// The rows of passages, each once, in their order.
pub(super) fn rows_of<'a>(passages: impl IntoIterator<Item = &'a Passage>) -> Vec<u32> {
    let mut seen = HashSet::new();
    passages.into_iter().flat_map(|passage| &passage.rows).copied().filter(|&row| seen.insert(row)).collect()
}

/// The sentences of a passage, to keep some of them.
pub(super) struct Sentences<'a> {
    pieces: Vec<Piece<'a>>,
    /// For each sentence: the number of its piece, and its start and end in the piece's text, in bytes.
    places: Vec<(usize, usize, usize)>,
}

impl<'a> Sentences<'a> {
    /// Splits a passage into sentences without white space at their ends. If the passage is
    /// recognised as a language other than English, the rules of that language are used, else those
    /// of Unicode (UAX 29).
    pub(super) fn of(passage: &'a Passage) -> Self {
        let pieces = pieces(passage);
        let language = text_language(&passage.text);
        let mut places = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            let spans: Vec<Span> = match language {
                Some(language) => sentences(piece.text, Some(language)),
                None => {
                    let bounds = piece.text.split_sentence_bound_indices();
                    bounds.map(|(start, sentence)| Span { start, end: start + sentence.len() }).collect()
                }
            };
            for Span { start, end } in spans {
                let sentence = &piece.text[start..end];
                let from = start + (sentence.len() - sentence.trim_start().len());
                let to = from + sentence.trim().len();
                if from < to {
                    places.push((i, from, to));
                }
            }
        }
        Self { pieces, places }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.places.iter().map(|&(i, from, to)| self.pieces[i].part(from, to).text)
    }

    /// Joins the sentences whose positions `keeps` accepts; none if it accepts none.
    /// Neighbours keep the white space between them.
    pub(super) fn keep(&self, keeps: impl Fn(usize) -> bool) -> Option<JoinedPieces> {
        let mut kept: Vec<(usize, usize, usize)> = Vec::new();
        let mut before = None;
        for (n, &(i, from, to)) in self.places.iter().enumerate().filter(|(n, _)| keeps(*n)) {
            match kept.last_mut() {
                Some(last) if last.0 == i && before == n.checked_sub(1) => last.2 = to,
                _ => kept.push((i, from, to)),
            }
            before = Some(n);
        }
        join(kept.into_iter().map(|(i, from, to)| self.pieces[i].part(from, to)).collect(), left_out)
    }

    /// The passage up to the end of its first `n` sentences.
    fn beginning(&self, n: usize) -> Option<JoinedPieces> {
        let &(last, _, end) = self.places.get(n.checked_sub(1)?)?;
        let mut kept = self.pieces[..=last].to_vec();
        kept[last] = self.pieces[last].part(0, end);
        join(kept, between)
    }
}

/// The longest beginning of a passage that is at most `limit` tokens and ends
/// with a sentence; none if its first sentence is longer.
pub(super) fn beginning(passage: &Passage, limit: usize, count: &dyn Fn(&str) -> usize) -> Option<Passage> {
    let sentences = Sentences::of(passage);
    let fits = |&n: &usize| sentences.beginning(n).is_some_and(|joined| count(&joined.text) <= limit);
    // The count grows with the text.
    let n = (1..=sentences.len()).collect::<Vec<_>>().partition_point(fits);
    Some(sentences.beginning(n)?.into_passage(passage.clone()))
}

/// [`beginning`], but cut after a word or a character if the first sentence is
/// longer than `limit`.
pub(super) fn some_beginning(passage: &Passage, limit: usize, count: &dyn Fn(&str) -> usize) -> Option<Passage> {
    beginning(passage, limit, count).or_else(|| {
        let first = *pieces(passage).first()?;
        let cut = fence::beginning(first.text, limit, count);
        let from = first.text.find(cut).filter(|_| !cut.is_empty())?;
        Some(join(vec![first.part(from, from + cut.len())], between)?.into_passage(passage.clone()))
    })
}

/// What the tests of steps share.
#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Chunk, Context, Document, Format, Hit, chunk::ChunkerConfig};

    /// The chunks of these texts, by this chunker.
    pub(crate) fn chunks(chunker: serde_json::Value, texts: &[&str]) -> std::sync::Arc<ChunkTable> {
        let chunker: ChunkerConfig = serde_json::from_value(chunker).unwrap();
        let chunker = chunker.build(&Context::default()).unwrap();
        let chunks: Vec<Chunk> = (0..)
            .zip(texts)
            .flat_map(|(i, text)| {
                let document = Document {
                    path: format!("{i}.md"),
                    content: store::Key::of_bytes(text.as_bytes()),
                    format: Format::Markdown,
                    title: None,
                    author: None,
                    text: (*text).to_owned(),
                    pages: Vec::new(),
                    headings: crate::load::markdown_headings(text),
                    metadata: Default::default(),
                    tables: Vec::new(),
                    problems: Vec::new(),
                };
                chunker.chunk_now(&document).unwrap()
            })
            .collect();
        ChunkTable::new(chunks).into()
    }

    /// Hits on these rows, the first with the score 1, then 1/2 and so on.
    pub(crate) fn hits(table: &ChunkTable, rows: &[u32]) -> Vec<Passage> {
        (1u8..).zip(rows).map(|(i, &row)| table.passage(Hit { row, score: 1.0 / f32::from(i) })).collect()
    }

    /// Asserts that a passage holds only text of its document, no byte twice.
    pub(crate) fn assert_true(passage: &Passage, document: &str) {
        let pieces = pieces(passage);
        let mut end = passage.span.start;
        for (i, piece) in pieces.iter().enumerate() {
            assert_eq!(document.get(piece.span.start..piece.span.end), Some(piece.text), "{passage:?}");
            assert!(if i == 0 { piece.span.start == end } else { piece.span.start > end }, "{passage:?}");
            end = piece.span.end;
        }
        assert_eq!(end, passage.span.end, "{passage:?}");
        assert!(passage.parts.len() != 1, "one part is the whole: {passage:?}");
        let between = passage.text.len() - pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
        assert!(between <= LEFT_OUT.len() * passage.parts.len(), "{passage:?}");
    }

    fn piece(text: &str, start: usize, end: usize) -> Piece<'_> {
        Piece { span: Span { start, end }, text: &text[start..end] }
    }

    #[test]
    fn no_byte_comes_twice_and_gaps_are_seen() {
        let text = "One two. Three four. Five.\n\nSix and seven and eight. Nine.";
        let joined = join(vec![piece(text, 9, 26), piece(text, 0, 20), piece(text, 28, 31)], between).unwrap();
        assert_eq!(joined.text, "One two. Three four. Five.\n\nSix");
        assert_eq!(joined.parts, [Span { start: 0, end: 26 }, Span { start: 28, end: 31 }]);
        let far = join(vec![piece(text, 0, 8), piece(text, 52, 58)], between).unwrap();
        assert_eq!(far.text, "One two. … Nine.");
        let passage = far.into_passage(crate::generate::tests::passage("x"));
        let again: Vec<&str> = pieces(&passage).iter().map(|piece| piece.text).collect();
        assert_eq!(again, ["One two.", "Nine."]);
        assert_true(&passage, text);
        assert!(join(Vec::new(), between).is_none());
    }

    #[test]
    fn sentences_of_other_languages_end_by_their_own_rules() {
        let of = |text: &str| -> Vec<String> {
            let passage = crate::generate::tests::passage(text);
            Sentences::of(&passage).texts().map(str::to_owned).collect()
        };
        let german = [
            "Das Paketverwaltungssystem löst Abhängigkeiten z. B. selbst auf und entfernt\nPakete, die nicht mehr \
             gebraucht werden.",
            "Wer laut Dr. Müller eine ältere Version behalten will, hält das Paket fest.",
            "Danach wird es bei keiner Aktualisierung des Systems angefasst, bis die Sperre aufgehoben ist.",
        ];
        assert_eq!(of(&german.join(" ")), german);
        assert_eq!(of("One line\nand another. The end."), ["One line", "and another.", "The end."]);
        assert_eq!(of("第一句话。第二句话！"), ["第一句话。", "第二句话！"]);
    }

    #[test]
    fn a_beginning_ends_with_a_sentence_whatever_its_parts() {
        let text = "One two. Three four. Five.\n\nSix and seven and eight. Nine.";
        let joined = join(vec![piece(text, 0, 26), piece(text, 28, 58)], between).unwrap();
        let passage = joined.into_passage(crate::generate::tests::passage("x"));
        let words = |text: &str| text.split_whitespace().count();
        let upto = |limit| beginning(&passage, limit, &words);
        assert!(upto(1).is_none());
        for limit in 2..12 {
            let cut = upto(limit).unwrap();
            assert!(words(&cut.text) <= limit && cut.text.ends_with('.'), "{cut:?}");
            assert_true(&cut, text);
        }
        assert_eq!(upto(9).unwrap().text, "One two. Three four. Five.");
        assert_eq!(upto(11).unwrap(), passage);
    }
}
