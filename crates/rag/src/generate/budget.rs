//! Which passages, and how much of them, fit into a number of tokens.

use crate::{
    Passage,
    fence::{self, cut},
};

/// Less of a passage than this is not worth showing, in tokens.
const LEAST_TOKENS: usize = 16;

/// A passage or a part of one as it is shown to a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NumberedSource {
    /// The passage's number, from 1.
    pub(super) number: u32,
    /// The text with its fence.
    pub(super) text: String,
    /// Its length.
    pub(super) tokens: usize,
}

/// Turns passages into sources, in order, until `total` tokens are used up; the
/// last one is cut at the end of a sentence. A passage that is longer than
/// `window` becomes several sources. Also returns how many passages are left out.
pub(super) fn sources(
    passages: &[Passage],
    total: usize,
    window: usize,
    count: &dyn Fn(&str) -> usize,
) -> (Vec<NumberedSource>, u32) {
    let mut sources: Vec<NumberedSource> = Vec::new();
    let mut left = total;
    for (index, (number, passage)) in (1u32..).zip(passages).enumerate() {
        let frame = count(&fence::source(number, passage, ""));
        let mut rest = passage.text.trim();
        let before = sources.len();
        while !rest.is_empty() {
            let room = left.min(window).saturating_sub(frame);
            let end = if room < LEAST_TOKENS { 0 } else { cut(rest, room, count) };
            if end == 0 {
                break;
            }
            let text = fence::source(number, passage, &rest[..end]);
            let tokens = count(&text);
            left = left.saturating_sub(tokens);
            sources.push(NumberedSource { number, text, tokens });
            rest = rest[end..].trim_start();
        }
        if !rest.is_empty() {
            let partly = usize::from(sources.len() > before);
            return (sources, (passages.len() - index - partly) as u32);
        }
    }
    (sources, 0)
}

/// Groups of consecutive items of at most `window` tokens together; an item
/// longer than that is a group of its own.
pub(super) fn groups<T>(items: Vec<T>, window: usize, tokens: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut used = 0;
    for item in items {
        let size = tokens(&item);
        match groups.last_mut() {
            Some(group) if used + size <= window => group.push(item),
            _ => {
                used = 0;
                groups.push(vec![item]);
            }
        }
        used += size;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::passage;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn long(sentences: usize) -> Passage {
        passage(&"One two three four five. ".repeat(sentences))
    }

    #[test]
    fn what_fits_is_whole() {
        let passages = [long(4), long(4)];
        let (sources, dropped) = sources(&passages, 1000, 1000, &words);
        assert_eq!(dropped, 0);
        assert_eq!(sources.iter().map(|source| source.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(sources[0].tokens, words(&sources[0].text));
    }

    #[test]
    fn the_passage_that_crosses_the_total_is_cut_after_a_sentence_and_the_rest_is_counted() {
        let passages = [long(4), long(10), long(1), long(1)];
        let frame = words(&fence::source(1, &passages[0], ""));
        let (sources, dropped) = sources(&passages, 20 + frame + frame + 23, 1000, &words);
        assert_eq!((sources.len(), dropped), (2, 2));
        assert_eq!(sources[1].text.matches("five.").count(), 4);
        assert!(sources.iter().map(|source| source.tokens).sum::<usize>() <= 20 + frame + frame + 23);
    }

    #[test]
    fn a_passage_that_cannot_begin_is_left_out() {
        let (sources, dropped) = sources(&[long(4), long(4)], 30, 1000, &words);
        assert_eq!((sources.len(), dropped), (1, 1));
    }

    #[test]
    fn a_passage_longer_than_a_call_is_shown_in_parts_without_loss() {
        let passages = [long(20)];
        let (sources, dropped) = sources(&passages, usize::MAX, 40, &words);
        assert_eq!(dropped, 0);
        assert!(sources.len() > 2 && sources.iter().all(|source| source.number == 1 && source.tokens <= 40));
        assert_eq!(sources.iter().map(|source| source.text.matches("five.").count()).sum::<usize>(), 20);
    }

    #[test]
    fn groups_hold_as_much_as_fits() {
        assert_eq!(groups(vec![3, 3, 3, 9, 1], 6, |&size| size), [vec![3, 3], vec![3], vec![9], vec![1]]);
        assert!(groups(Vec::<usize>::new(), 6, |&size| size).is_empty());
    }
}
