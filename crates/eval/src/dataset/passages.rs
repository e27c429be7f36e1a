//! Finds the places of passages that another system returned, by their text.
//!
//! Another system may name its documents otherwise or not at all, and its passages may be cut, joined, or begin with a
//! title. A passage is found if at least 80 % of its letters and digits stand in one document, in the same order. White
//! space, punctuation, markup and case do not count. Documents are read once, in any order, however many passages there are: a
//! few short pieces of each passage, its probes, are searched all at once (Aho and Corasick, Efficient String Matching,
//! 1975), and where one is found, as much of the passage as stands there is compared.

use super::fold::{Fold, fold, folded};
use aho_corasick::AhoCorasick;
use rag::Span;
use std::{cmp::Reverse, collections::BTreeMap, ops::Range};

/// The share of a passage's text that must stand in a document.
const LEAST_SHARE: f64 = 0.8;
/// Probes of each passage, spread over its text.
const PROBES: usize = 8;
/// The length of a probe, in bytes of the folded text.
const PROBE_BYTES: usize = 32;
/// Shorter texts, in bytes of the folded text, may stand somewhere by chance. They are only found in the
/// document that they name, or if they stand in one place alone.
const FEWEST_BYTES: usize = 24;
/// The most stretches of a passage that are compared in one document.
const MOST_STRETCHES: usize = 64;
/// The most marks after a stretch that belong to it.
const MOST_MARKS: usize = 3;
/// How far apart two stretches of a passage may be in the document, as a multiple of the passage's length.
const WIDEST_GAP: usize = 4;

/// A passage whose place is searched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassageQuery {
    /// The text of the passage.
    pub text: String,
    /// The document that the system names.
    pub document: Option<String>,
    /// The places of the golden evidence. Of several places of the same text, one with evidence is taken.
    pub evidence: Vec<(String, Span)>,
}

/// Where a passage stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassagePlace {
    /// The path of the document.
    pub document: String,
    /// The stretches of the document's text that the passage contains, in order.
    pub parts: Vec<Span>,
    /// Whether the passage stands in other places too.
    pub is_ambiguous: bool,
}

/// A search for the places of passages. The order of documents does not change the result.
#[derive(Debug)]
pub struct PassageAnchoring {
    passages: Vec<SoughtPassage>,
    probes: AhoCorasick,
    /// The passage of each probe, and the place of the probe in its folded text.
    places: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct SoughtPassage {
    query: PassageQuery,
    folded: String,
    best: Option<PassageCandidate>,
    n_candidates: usize,
}

/// A place where a passage may stand.
#[derive(Debug)]
struct PassageCandidate {
    rank: Rank,
    document: String,
    parts: Vec<Span>,
}

/// The order of candidates, the best greatest: one in the named document, one with evidence, one with more text, the
/// first document by its path, the first place.
type Rank = (bool, bool, usize, Reverse<String>, Reverse<usize>);

/// A stretch of a passage that stands in a document. Both ranges have the same length.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    start_in_document: usize,
    start: usize,
    length: usize,
}

impl PassageAnchoring {
    /// A search for these passages.
    ///
    /// # Errors
    /// Too many passages for one search: their probes have more than 2³¹ bytes together.
    pub fn new(queries: Vec<PassageQuery>) -> Result<Self, aho_corasick::BuildError> {
        let passage = |query: PassageQuery| {
            let folded = folded(&query.text, Fold::Letters);
            SoughtPassage { query, folded, best: None, n_candidates: 0 }
        };
        let passages: Vec<SoughtPassage> = queries.into_iter().map(passage).collect();
        let (mut probes, mut places) = (Vec::new(), Vec::new());
        for (number, passage) in passages.iter().enumerate() {
            for range in probes_of(&passage.folded) {
                places.push((number, range.start));
                probes.push(passage.folded[range].as_bytes());
            }
        }
        let probes = AhoCorasick::new(&probes)?;
        Ok(Self { passages, probes, places })
    }

    /// Searches one document.
    pub fn visit(&mut self, path: &str, text: &str) {
        let document = folded(text, Fold::Letters);
        let mut stretches: BTreeMap<usize, Vec<Stretch>> = BTreeMap::new();
        for hit in self.probes.find_overlapping_iter(&document) {
            let (number, start) = self.places[hit.pattern().as_usize()];
            let found = stretches.entry(number).or_default();
            let is_known = |stretch: &Stretch| {
                start >= stretch.start
                    && start < stretch.start + stretch.length
                    && hit.start() + stretch.start == stretch.start_in_document + start
            };
            if found.len() < MOST_STRETCHES && !found.iter().any(is_known) {
                found.push(stretch(&self.passages[number].folded, &document, start, hit.start()));
            }
        }
        let mut offsets: Option<Vec<(usize, usize)>> = None;
        for (number, mut found) in stretches {
            found.sort();
            let passage = &mut self.passages[number];
            for chain in chains(&found, passage.folded.len()) {
                let matched: usize = chain.iter().map(|stretch| stretch.length).sum();
                if (matched as f64) < LEAST_SHARE * passage.folded.len() as f64 {
                    continue;
                }
                let offsets = offsets.get_or_insert_with(|| fold(text, Fold::Letters).flat_map(bytes_of).collect());
                let parts = chain.iter().map(|stretch| with_punctuation(text, span(offsets, stretch))).collect();
                passage.consider(path, parts, matched);
            }
        }
    }

    /// The place of each passage, in the order in which they were given; `None` if no document has enough of its
    /// text.
    pub fn finish(self) -> Vec<Option<PassagePlace>> {
        self.passages.into_iter().map(SoughtPassage::place).collect()
    }
}

impl SoughtPassage {
    /// Takes a candidate into account.
    fn consider(&mut self, path: &str, parts: Vec<Span>, matched: usize) {
        let named = self.query.document.as_deref().is_some_and(|named| is_named(path, named));
        let overlaps = |(document, span): &(String, Span)| {
            document == path && parts.iter().any(|part| part.start < span.end && span.start < part.end)
        };
        let has_evidence = self.query.evidence.iter().any(overlaps);
        let start = parts.first().map_or(0, |part| part.start);
        let rank = (named, has_evidence, matched, Reverse(path.to_owned()), Reverse(start));
        self.n_candidates += 1;
        if self.best.as_ref().is_none_or(|best| best.rank < rank) {
            self.best = Some(PassageCandidate { rank, document: path.to_owned(), parts });
        }
    }

    fn place(self) -> Option<PassagePlace> {
        let PassageCandidate { rank: (is_named, ..), document, parts } = self.best?;
        let is_ambiguous = self.n_candidates > 1;
        if is_ambiguous && !is_named && self.folded.len() < FEWEST_BYTES {
            return None;
        }
        Some(PassagePlace { document, parts, is_ambiguous })
    }
}

/// Whether a system means this document by a name: its path, the end of its path, or its path without an ending.
fn is_named(path: &str, name: &str) -> bool {
    let ends_with = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '\\']))
    };
    let without_ending = |path: &str| path.rsplit_once('.').map_or(path.len(), |(stem, _)| stem.len());
    let name = name.trim();
    !name.is_empty()
        && (ends_with(path, name) || ends_with(name, path) || ends_with(&path[..without_ending(path)], name))
}

/// The probes of a folded text.
fn probes_of(folded: &str) -> impl Iterator<Item = Range<usize>> {
    let last = folded.len().saturating_sub(PROBE_BYTES);
    let n = (folded.len() / PROBE_BYTES).clamp(1, PROBES);
    let range = move |number: usize| {
        let start = folded.floor_char_boundary(last * number / n.saturating_sub(1).max(1));
        start..folded.floor_char_boundary((start + PROBE_BYTES).min(folded.len()))
    };
    (0..n).map(range).filter(|range| !range.is_empty())
}

/// The longest stretch of a passage that stands in a document and contains the probe, which starts at these places.
fn stretch(passage: &str, document: &str, start: usize, start_in_document: usize) -> Stretch {
    let (head, tail) = (&passage.as_bytes()[..start], &passage.as_bytes()[start..]);
    let (head_there, tail_there) =
        (&document.as_bytes()[..start_in_document], &document.as_bytes()[start_in_document..]);
    let before = head.iter().rev().zip(head_there.iter().rev()).take_while(|(a, b)| a == b).count();
    let after = tail.iter().zip(tail_there).take_while(|(a, b)| a == b).count();
    // Two different characters may begin or end with the same bytes.
    let first = passage.ceil_char_boundary(start - before);
    let end = passage.floor_char_boundary(start + after);
    Stretch { start_in_document: start_in_document - (start - first), start: first, length: end - first }
}

/// Stretches that may be one passage: each in the order of the passage and of the document, without overlap, and not
/// far apart. `found` is sorted by the place in the document.
fn chains(found: &[Stretch], passage_bytes: usize) -> Vec<Vec<Stretch>> {
    let widest = passage_bytes.saturating_mul(WIDEST_GAP);
    let end = |stretch: &Stretch| stretch.start_in_document + stretch.length;
    let mut chains = Vec::new();
    let near = |a: &Stretch, b: &Stretch| b.start_in_document <= end(a) + widest;
    for group in found.chunk_by(near) {
        // The most text of a chain that ends with each stretch, and the stretch before it.
        let mut best: Vec<(usize, Option<usize>)> = Vec::new();
        for (place, stretch) in group.iter().enumerate() {
            let follows = |earlier: &usize| {
                let earlier = &group[*earlier];
                earlier.start + earlier.length <= stretch.start && end(earlier) <= stretch.start_in_document
            };
            let before = (0..place).filter(follows).max_by_key(|&earlier| (best[earlier].0, Reverse(earlier)));
            best.push((stretch.length + before.map_or(0, |earlier| best[earlier].0), before));
        }
        // Each occurrence of a text is a place of its own.
        let whole =
            group.iter().filter(|stretch| stretch.length == passage_bytes).cloned().map(|stretch| vec![stretch]);
        let mut of_group: Vec<Vec<Stretch>> = whole.collect();
        if of_group.is_empty() {
            let mut next = (0..group.len()).max_by_key(|&place| (best[place].0, Reverse(place)));
            let mut chain = Vec::new();
            while let Some(place) = next {
                chain.push(group[place].clone());
                next = best[place].1;
            }
            chain.reverse();
            of_group.push(chain);
        }
        chains.append(&mut of_group);
    }
    chains
}

/// For each byte of a folded character, its start and end in the text.
fn bytes_of((c, start, end): (char, usize, usize)) -> impl Iterator<Item = (usize, usize)> {
    std::iter::repeat_n((start, end), c.len_utf8())
}

/// The span of the text for a stretch of its folded form.
fn span(offsets: &[(usize, usize)], stretch: &Stretch) -> Span {
    let first = stretch.start_in_document;
    Span { start: offsets[first].0, end: offsets[first + stretch.length - 1].1 }
}

/// The span with the marks that end it, such as a full stop and a closing bracket.
fn with_punctuation(text: &str, span: Span) -> Span {
    let marks = text[span.end..].chars().take_while(|c| !c.is_alphanumeric() && !c.is_whitespace());
    Span { end: span.end + marks.take(MOST_MARKS).map(char::len_utf8).sum::<usize>(), ..span }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOK: &str = "The mill by the river was built in 1790. Its wheel is of oak, and it turns when the snow melts.\n\n\
        In winter the miller mends the sails of boats - a trade that his mother taught him - and sells rope. Nobody \
        else in the valley knows how to splice a hawser, so people come from far away and pay in flour.";
    const OTHER: &str =
        "A barn stands behind the mill. In winter the miller mends the sails of boats. The barn is red.";

    fn query(text: &str) -> PassageQuery {
        PassageQuery { text: text.to_owned(), document: None, evidence: Vec::new() }
    }

    fn search(queries: Vec<PassageQuery>, documents: &[(&str, &str)]) -> Vec<Option<PassagePlace>> {
        let mut forwards = PassageAnchoring::new(queries.clone()).unwrap();
        documents.iter().for_each(|(path, text)| forwards.visit(path, text));
        let mut backwards = PassageAnchoring::new(queries).unwrap();
        documents.iter().rev().for_each(|(path, text)| backwards.visit(path, text));
        let found = forwards.finish();
        assert_eq!(found, backwards.finish(), "the order of documents changes the result");
        found
    }

    fn texts(place: &PassagePlace, text: &str) -> Vec<String> {
        place.parts.iter().map(|part| text[part.start..part.end].to_owned()).collect()
    }

    fn one(query: PassageQuery) -> Option<(String, Vec<String>)> {
        let documents = [("book.txt", BOOK), ("other/barn.md", OTHER)];
        let place = search(vec![query], &documents).remove(0)?;
        let text = documents.iter().find(|(path, _)| *path == place.document).unwrap().1;
        Some((place.document.clone(), texts(&place, text)))
    }

    #[test]
    fn a_passage_is_found_where_it_stands_however_it_is_written() {
        let found = one(query("Its wheel is of oak,\u{a0}and it  turns when the snow melts.")).unwrap();
        assert_eq!(found.0, "book.txt");
        assert_eq!(found.1, ["Its wheel is of oak, and it turns when the snow melts."]);
        let found =
            one(query("mends the sails of boats – a trade that his mo-\nther taught him – and sells rope")).unwrap();
        assert_eq!(found.1, ["mends the sails of boats - a trade that his mother taught him - and sells rope."]);
    }

    #[test]
    fn markup_and_case_do_not_count() {
        let written =
            "## ITS WHEEL\n\n* _Its_ **wheel** is of [oak](oak.html), and it turns when the\n  snow melts.\n\n| | |";
        let found = one(query(&written.replace("## ITS WHEEL\n\n", "").replace("(oak.html)", ""))).unwrap();
        assert_eq!(found.1, ["Its wheel is of oak, and it turns when the snow melts."]);
    }

    #[test]
    fn a_title_before_it_and_an_ellipsis_in_it_do_not_count() {
        let found = one(query(
            "Trades: In winter the miller mends the sails of boats - a trade that his mother taught him - and sells rope. […] \
             so people come from far away and pay in flour.",
        ));
        let (document, parts) = found.unwrap();
        assert_eq!(document, "book.txt");
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert!(parts[0].contains("In winter the miller") && parts[0].ends_with("sells rope."), "{parts:?}");
        assert_eq!(parts[1], "so people come from far away and pay in flour.");
    }

    #[test]
    fn a_text_that_is_only_half_there_is_not_found() {
        let invented = "Its wheel is of oak, and it turns when the snow melts. The fee for a sack of rye is two coins, \
                        and the miller keeps a tenth of all that he grinds for the poor of the parish.";
        assert_eq!(one(query(invented)), None);
        assert_eq!(one(query("")), None);
        assert_eq!(one(query("the mill")), None, "it stands in both");
    }

    #[test]
    fn the_named_document_then_evidence_then_the_first_path_is_taken() {
        let text = "In winter the miller mends the sails of boats";
        let at = |document: Option<&str>, evidence: &[(&str, usize)]| {
            let evidence = evidence.iter().map(|&(path, start)| (path.to_owned(), Span { start, end: start + 9 }));
            let document = document.map(str::to_owned);
            one(PassageQuery { text: text.to_owned(), document, evidence: evidence.collect() }).unwrap().0
        };
        assert_eq!(at(None, &[]), "book.txt");
        assert_eq!(at(None, &[("other/barn.md", OTHER.find("winter").unwrap())]), "other/barn.md");
        for name in ["barn.md", "barn", "other/barn.md", "/home/me/other/barn.md", "other/barn"] {
            assert_eq!(at(Some(name), &[("book.txt", BOOK.find("winter").unwrap())]), "other/barn.md", "{name}");
        }
        assert_eq!(at(Some("arn.md"), &[]), "book.txt");
        let both = search(vec![query(text)], &[("book.txt", BOOK), ("other/barn.md", OTHER)]);
        assert!(both[0].as_ref().unwrap().is_ambiguous);
    }

    #[test]
    fn a_text_that_stands_twice_in_a_document_is_taken_where_the_evidence_is() {
        let line = "Clean the filter with warm water. ";
        let text = format!("Pump A. {line}Pump B. {line}");
        let second = text.rfind("Clean").unwrap();
        let with = PassageQuery {
            evidence: vec![("m.txt".to_owned(), Span { start: second, end: second + 5 })],
            ..query(line)
        };
        let found = search(vec![query(line), with], &[("m.txt", &text)]);
        let starts: Vec<usize> = found.iter().map(|place| place.as_ref().unwrap().parts[0].start).collect();
        assert_eq!(starts, [text.find("Clean").unwrap(), second]);
    }

    #[test]
    fn every_part_of_a_text_is_found_at_an_equal_text() {
        let text = format!("{BOOK} 東京タワーは1958年に完成した。{OTHER} Größe: naïve café — “ﬁne”… {BOOK}");
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let mut queries = Vec::new();
        for (i, &start) in starts.iter().enumerate().step_by(7) {
            for length in [40, 90, 300] {
                let Some(&end) = starts.get(i + length) else { continue };
                queries.push((query(&text[start..end]), text[start..end].to_owned()));
            }
        }
        let found = search(queries.iter().map(|(query, _)| query.clone()).collect(), &[("a.txt", &text)]);
        let plain = |text: &str| folded(text, Fold::Letters);
        for (place, (_, wanted)) in found.iter().zip(&queries) {
            let place = place.as_ref().unwrap_or_else(|| panic!("not found: {wanted}"));
            assert_eq!(plain(&texts(place, &text).concat()), plain(wanted));
        }
    }

    #[test]
    fn a_text_of_one_letter_takes_no_quadratic_time() {
        let text = "a".repeat(1_000_000);
        let found = search(vec![query(&text[..200]), query(&"a".repeat(100_000))], &[("a.txt", &text)]);
        assert!(found.iter().all(Option::is_some));
    }
}
