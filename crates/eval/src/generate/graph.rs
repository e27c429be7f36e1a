//! A graph of passages, connected if they name the same thing or use the same words.
//!
//! When to use it: to find passages that one question can need together. Both kinds
//! of edges are found by rules, so the graph needs no model and is always the same.
//!
//! - **Entities** are names and terms: words with a capital inside a sentence,
//!   runs of them, and words with marks, digits or capitals inside (`apt-get`,
//!   `/etc/fstab`, `IPv6`). In scripts without spaces, entities are titles and names
//!   between quotation marks, runs of Katakana, and Latin names and terms. Entities that
//!   many passages share are ignored, because they connect nothing worth asking about.
//! - **Similarity** is that of BM25, as a share of the score that the passage
//!   has for itself.
//!
//! Source for joining passages by shared entities with the frequent ones left
//! out: Ragas 0.4 builds its test sets from such a graph, with a model.

use crate::statistics::Random;
use crate::words::{Pattern, content_stems, is_unspaced, language_of, pattern, sentences};
use rag::{Chunk, analysis::TextAnalysis, index::Bm25Index};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

/// Entities in more passages than this share (or 3) are ignored.
const COMMON: f64 = 0.02;
/// A partner with a larger share of the passage's own score repeats it.
const SAME: f64 = 0.7;
/// A partner with a smaller share has another topic.
const RELATED: f64 = 0.12;
/// Shorter names are mostly initials.
const SHORTEST_ENTITY: usize = 3;
/// The number of similar passages among which a partner is searched.
const NEIGHBOURS: usize = 12;

/// Two passages, by their indices in the list of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) first: usize,
    pub(super) second: usize,
    /// The name in both, as written; `None` if they are only similar.
    pub(super) shared: Option<String>,
}

pub(super) struct PassageGraph<'a> {
    passages: Vec<&'a Chunk>,
    index: Bm25Index,
    /// Entities by lower-case name: as written, with their passages in order.
    entities: BTreeMap<String, (String, Vec<usize>)>,
}

impl<'a> PassageGraph<'a> {
    pub(super) fn build(passages: &[&'a Chunk]) -> Self {
        let texts: Vec<&str> = passages.iter().map(|chunk| chunk.text.as_str()).collect();
        let mut found: BTreeMap<String, (String, Vec<usize>)> = BTreeMap::new();
        for (i, text) in texts.iter().enumerate() {
            for entity in entities(text) {
                let (_, places) = found.entry(entity.to_lowercase()).or_insert_with(|| (entity, Vec::new()));
                places.push(i);
            }
        }
        let most = ((COMMON * texts.len() as f64) as usize).max(3);
        found.retain(|_, (_, places)| (2..=most).contains(&places.len()));
        Self {
            passages: passages.to_vec(),
            index: Bm25Index::of_chunks(passages, &TextAnalysis::default()),
            entities: found,
        }
    }

    /// The number of entities that connect passages.
    pub(super) fn n_entities(&self) -> usize {
        self.entities.len()
    }

    /// The passages nearest to a text, best first.
    pub(super) fn nearest(&self, text: &str, k: usize) -> Vec<&'a Chunk> {
        self.index.search(text, k).into_iter().map(|(row, _)| self.passages[row as usize]).collect()
    }

    /// Pairs that name the same thing, in random order. No passage comes
    /// twice, and pairs across documents come before pairs within one.
    pub(super) fn by_entity(&self, seed: u64) -> Vec<Pair> {
        let mut entities: Vec<&(String, Vec<usize>)> = self.entities.values().collect();
        Random::new(seed).shuffle(&mut entities);
        let mut used = HashSet::new();
        let mut pairs = Vec::new();
        for across in [true, false] {
            for (name, places) in &entities {
                let mut candidates =
                    places.iter().enumerate().flat_map(|(i, &a)| places[i + 1..].iter().map(move |&b| (a, b)));
                let fits = |&(a, b): &(usize, usize)| {
                    !used.contains(&a)
                        && !used.contains(&b)
                        && self.can_be_combined(a, b)
                        && (self.documents_differ(a, b) == across)
                };
                if let Some((first, second)) = candidates.find(fits) {
                    used.extend([first, second]);
                    pairs.push(Pair { first, second, shared: Some((*name).clone()) });
                }
            }
        }
        pairs
    }

    /// Pairs of passages with related topics, in the order of the passages. No passage
    /// comes twice.
    pub(super) fn by_similarity(&self) -> impl Iterator<Item = Pair> {
        let mut used = HashSet::new();
        (0..self.passages.len()).filter_map(move |first| {
            if used.contains(&first) {
                return None;
            }
            let text = &self.passages[first].text;
            let own = self.index.scores(text, &[u32::try_from(first).ok()?])[0];
            let partner = self.index.search(text, NEIGHBOURS).into_iter().find(|&(row, score)| {
                let (second, share) = (row as usize, f64::from(score / own));
                second != first
                    && !used.contains(&second)
                    && (RELATED..SAME).contains(&share)
                    && self.can_be_combined(first, second)
            });
            let second = partner?.0 as usize;
            used.extend([first, second]);
            Some(Pair { first, second, shared: None })
        })
    }

    /// Whether two passages do not overlap and do not follow each other.
    fn can_be_combined(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.passages[a], self.passages[b]);
        a.document != b.document || a.number.abs_diff(b.number) > 1
    }

    fn documents_differ(&self, a: usize, b: usize) -> bool {
        self.passages[a].document != self.passages[b].document
    }
}

/// The names and terms of a text, each once, in alphabetical order.
fn entities(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let language = language_of(&[text]);
    let mut keep = |run: &mut Vec<&str>| {
        let name = run.join(" ");
        if name.chars().count() >= SHORTEST_ENTITY && !content_stems(&name, language).is_empty() {
            found.insert(name);
        }
        run.clear();
    };
    for sentence in sentences(text) {
        if sentence.chars().any(is_unspaced) {
            names_without_spaces(sentence).for_each(|name| keep(&mut vec![name]));
            continue;
        }
        let mut run: Vec<&str> = Vec::new();
        for (i, raw) in sentence.split_whitespace().enumerate() {
            let opens = raw.trim_start_matches(['(', '[', '"', '“', '‘', '\'', '`', '«']);
            let word = opens.trim_end_matches(|c: char| !c.is_alphanumeric());
            // The first word of a sentence always has a capital.
            if is_term(word) || (i > 0 && word.starts_with(char::is_uppercase)) {
                run.push(word);
                // Punctuation ends a name.
                if word.len() == opens.len() {
                    continue;
                }
            }
            if !run.is_empty() {
                keep(&mut run);
            }
        }
        if !run.is_empty() {
            keep(&mut run);
        }
    }
    found
}

/// A text between quotation marks (group 1), a run of Katakana (group 2), or a Latin word
/// (group 3).
static NAME_WITHOUT_SPACES: Pattern = LazyLock::new(|| {
    pattern(
        r"[《〈「『“]([^《〈「『“》〉」』”]{2,20})[》〉」』”]|([\p{Katakana}ー・]{3,})|([A-Za-z0-9/][A-Za-z0-9/_.+-]+)",
    )
});

/// The names and terms of a sentence in a script without spaces.
fn names_without_spaces(sentence: &str) -> impl Iterator<Item = &str> {
    NAME_WITHOUT_SPACES.captures_iter(sentence).filter_map(|found| {
        match (found.get(1).or(found.get(2)), found.get(3)) {
            (Some(name), _) => Some(name.as_str()),
            (None, latin) => latin
                .map(|word| word.as_str().trim_end_matches(|c: char| !c.is_alphanumeric()))
                .filter(|word| is_term(word) || word.starts_with(char::is_uppercase)),
        }
    })
}

/// Whether a word is a term: it has marks, digits or capitals inside.
fn is_term(word: &str) -> bool {
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let inside = word.trim_matches(|c: char| !c.is_alphanumeric());
    let marked = inside.contains(['/', '_', '.', '-', '+']) || word.starts_with('/');
    let mixed = word.chars().any(|c| c.is_ascii_digit()) || word.chars().skip(1).any(char::is_uppercase);
    letters >= 2 && (marked || mixed)
}

#[cfg(test)]
mod tests {
    use super::super::tests::chunk;
    use super::*;

    #[test]
    fn names_and_terms_are_entities_and_plain_words_are_not() {
        let found =
            entities("The file /etc/fstab is read by Jan Tesch, who likes apt-get. Every mount is listed (see IPv6).");
        let names: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(names, ["/etc/fstab", "IPv6", "Jan Tesch", "apt-get"]);
    }

    #[test]
    fn names_in_scripts_without_spaces_are_found() {
        let names = |text: &str| entities(text).into_iter().collect::<Vec<_>>();
        assert_eq!(
            names("请用apt-get命令安装Debian。参见《系统管理手册》，不要用su。"),
            ["Debian", "apt-get", "系统管理手册"]
        );
        assert_eq!(names("この「設定ファイル」はパッケージを使います。"), ["パッケージ", "設定ファイル"]);
    }

    fn passages() -> Vec<Chunk> {
        let texts = [
            ("a.txt", 0, "The mill was built by Jan Tesch in a valley. It ground rye for the villages there."),
            ("a.txt", 1, "In the valley the miller Jan Tesch sold flour. Everyone in the villages bought it."),
            ("b.txt", 0, "Later on Jan Tesch went to Riga. There is a stone on the way that tells of him."),
            ("b.txt", 5, "Rye and wheat are ground in a mill. The mill in a valley takes its force from the river."),
        ];
        texts.iter().map(|(document, number, text)| chunk(document, *number, text)).collect()
    }

    #[test]
    fn passages_that_name_the_same_thing_are_joined_across_documents_first() {
        let passages = passages();
        let list: Vec<&Chunk> = passages.iter().collect();
        let graph = PassageGraph::build(&list);
        let pairs = graph.by_entity(1);
        assert_eq!(pairs, [Pair { first: 0, second: 2, shared: Some("Jan Tesch".into()) }]);
        assert_eq!(graph.n_entities(), 1);
    }

    #[test]
    fn similar_passages_are_joined_and_neighbours_are_not() {
        let passages = passages();
        let list: Vec<&Chunk> = passages.iter().collect();
        let pairs: Vec<Pair> = PassageGraph::build(&list).by_similarity().collect();
        assert!(pairs.contains(&Pair { first: 0, second: 3, shared: None }), "{pairs:?}");
        assert!(pairs.iter().all(|pair| !(pair.first == 0 && pair.second == 1)), "{pairs:?}");
    }

    #[test]
    fn what_stands_in_many_passages_joins_none() {
        let passages: Vec<Chunk> =
            (0..9).map(|i| chunk("a.txt", i * 3, &format!("It is known that Debian has part {i} of it."))).collect();
        let list: Vec<&Chunk> = passages.iter().collect();
        assert!(PassageGraph::build(&list).by_entity(0).is_empty());
    }
}
