//! Grapheme clusters: what readers take for one character.
//!
//! A cluster may have several characters: a letter and a combining accent, an emoji and its
//! skin tone, the two halves of a flag, the emoji of a family. A cut within a cluster
//! shows broken characters. The line end CR LF is one cluster too, but it may be cut, because
//! the white space at the ends of a chunk is dropped.
//! Source: Unicode UAX 29, extended grapheme clusters, by `unicode-segmentation`.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// Whether a text may be cut at a byte offset: it is not within a character or a grapheme cluster.
/// CR LF may be cut.
pub fn may_cut(text: &str, at: usize) -> bool {
    if at == 0 || at >= text.len() {
        return at <= text.len();
    }
    let bytes = text.as_bytes();
    if bytes[at - 1].is_ascii() && bytes[at].is_ascii() {
        return true;
    }
    text.is_char_boundary(at) && GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0).unwrap_or(true)
}

/// The byte offset where each grapheme cluster of a text starts. CR LF counts as two.
pub fn cluster_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.grapheme_indices(true)
        .flat_map(|(start, cluster)| [Some(start), (cluster == "\r\n").then_some(start + 1)].into_iter().flatten())
}

/// The first `n` grapheme clusters of a text.
pub fn first_clusters(text: &str, n: usize) -> &str {
    text.grapheme_indices(true).nth(n).map_or(text, |(end, _)| &text[..end])
}

/// The last byte offset up to `at` where a text may be cut.
pub fn cut_before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| may_cut(text, at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: &str = "👩‍👩‍👧";
    /// A syllable in three characters.
    const HANGUL: &str = "\u{1112}\u{1161}\u{11ab}";

    #[test]
    fn what_readers_take_for_one_character_is_not_cut() {
        for cluster in ["e\u{301}", FAMILY, "🇩🇪", "👍🏽", HANGUL, "क्षि", "ก็", "\u{feff}"] {
            let text = format!("a{cluster}b");
            let inside = (2..=cluster.len()).filter(|&at| may_cut(&text, at));
            assert_eq!(inside.count(), 0, "{cluster:?}");
            assert!(may_cut(&text, 0) && may_cut(&text, text.len()) && !may_cut(&text, text.len() + 1));
        }
        assert!(may_cut("🇩🇪🇫🇷", "🇩🇪".len()) && !may_cut("🇩🇪🇫🇷", "🇩".len()));
    }

    #[test]
    fn clusters_are_counted_and_line_ends_are_two() {
        assert_eq!(cluster_starts("a\r\nb").collect::<Vec<_>>(), [0, 1, 2, 3]);
        let text = format!("{FAMILY}e\u{301}x");
        assert_eq!(cluster_starts(&text).count(), 3);
        assert_eq!(first_clusters(&text, 1), FAMILY);
        assert_eq!(first_clusters(&text, 2), format!("{FAMILY}e\u{301}"));
        assert_eq!((first_clusters(&text, 9), first_clusters(&text, 0)), (text.as_str(), ""));
        assert_eq!(cut_before(&text, FAMILY.len() - 1), 0);
        assert_eq!(cut_before(&text, FAMILY.len() + 1), FAMILY.len());
        assert_eq!(cut_before(&text, usize::MAX), text.len());
    }

    #[test]
    fn each_cluster_starts_where_the_text_may_be_cut() {
        let mixed = "a\r\n👩‍👩‍👧🇩🇪🇫🇷e\u{301}\u{301} \u{301}क्षि\u{200b}\u{200f}한ｶﾞ؟".repeat(3);
        let starts: Vec<usize> = cluster_starts(&mixed).collect();
        let allowed: Vec<usize> = (0..mixed.len()).filter(|&at| may_cut(&mixed, at)).collect();
        assert_eq!(starts, allowed);
    }
}
