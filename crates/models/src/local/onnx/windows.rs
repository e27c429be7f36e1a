//! Splits a text of any length into windows of tokens. Windows overlap, so that a
//! token near the end of one has more context in the next one. For each token of the
//! text, or of its parts, one window is chosen from which its vector is taken.

use super::tokens::{TextTokenizer, TokenSequence};
use std::{cmp::Reverse, ops::Range};

/// A window that has no room for the tokens that it must share with the next one.
#[derive(Debug, thiserror::Error)]
#[error(
    "a window of {window} tokens has room for {room} of the text (the model adds {around} to every text), so windows \
     cannot overlap by {overlap}: lower `overlap`"
)]
pub(crate) struct WindowTooShort {
    window: usize,
    room: usize,
    /// Tokens that each window begins and ends with.
    around: usize,
    overlap: usize,
}

/// If a text is embedded as a whole, neighbouring windows share this fraction of a window: 1 / 8.
const OVERLAP_SHARE: usize = 8;

/// Special tokens and the prefix take more than half of a window.
#[derive(Debug, thiserror::Error)]
#[error(
    "a window of {window} tokens has room for {room} of the text, because the model's special tokens and its prefix take \
     {around}: raise `max_tokens`, or make `query_prefix` and `document_prefix` shorter"
)]
pub(crate) struct NoRoomForText {
    window: usize,
    room: usize,
    /// Tokens that each window begins and ends with.
    around: usize,
}

/// A window of a text that is embedded as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextWindow {
    /// What the model reads.
    pub(crate) tokens: TokenSequence,
    /// The tokens that are taken from this window and from no other, counted from the window's first token.
    pub(crate) own: Range<usize>,
}

impl From<TokenSequence> for TextWindow {
    /// The only window of a text, from which all tokens are taken.
    fn from(tokens: TokenSequence) -> Self {
        Self { own: 0..tokens.ids.len(), tokens }
    }
}

/// A whole text as the model reads it, before it is cut.
#[derive(Debug, Default)]
pub(crate) struct LongText {
    /// What begins every window: special tokens, and the model's prefix.
    head: TokenSequence,
    /// What ends every window.
    tail: TokenSequence,
    /// The text's own tokens.
    own: TokenSequence,
    /// Where each of these lies in the text, in bytes.
    places: Vec<Range<usize>>,
}

/// Tokens of a window that belong to a part of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenRange {
    /// The part's place in the list of parts.
    pub(crate) part: usize,
    /// The tokens, counted from the window's first.
    pub(crate) tokens: Range<usize>,
}

impl LongText {
    /// The tokens of a text with a prefix that every window repeats.
    pub(crate) fn read(tokenizer: &TextTokenizer, prefix: &str, text: &str) -> Result<Self, tokenizers::Error> {
        let encoding = tokenizer.encode_whole(&format!("{prefix}{text}"))?;
        let (special, offsets) = (encoding.get_special_tokens_mask(), encoding.get_offsets());
        let is_special = |mask: &&u32| **mask == 1;
        let before = special.iter().take_while(is_special).count();
        let after = special[before..].iter().rev().take_while(is_special).count();
        let end = special.len() - after;
        // A token that is half prefix and half text belongs to the text.
        let of_prefix = offsets[before..end].iter().take_while(|(_, end)| !prefix.is_empty() && *end <= prefix.len());
        let begin = before + of_prefix.count();
        let part = |range: Range<usize>| TokenSequence {
            ids: encoding.get_ids()[range.clone()].to_vec(),
            types: encoding.get_type_ids()[range].to_vec(),
            lost: 0,
        };
        let place =
            |(start, end): &(usize, usize)| start.saturating_sub(prefix.len())..end.saturating_sub(prefix.len());
        Ok(Self {
            head: part(0..begin),
            tail: part(end..special.len()),
            own: part(begin..end),
            places: offsets[begin..end].iter().map(place).collect(),
        })
    }

    /// Windows of at most `most` tokens, which share `overlap` of the text's
    /// tokens, and the tokens of `parts` that are taken from each. A window without
    /// any of these has no tokens.
    pub(crate) fn windows(
        &self,
        most: usize,
        overlap: usize,
        parts: &[Range<usize>],
    ) -> Result<Vec<(TokenSequence, Vec<TokenRange>)>, WindowTooShort> {
        let (n, around) = (self.own.ids.len(), self.head.ids.len() + self.tail.ids.len());
        let room = most.saturating_sub(around);
        if room <= overlap {
            return Err(WindowTooShort { window: most, room, around, overlap });
        }
        let windows = windows(n, room, overlap);
        let mut read: Vec<Vec<TokenRange>> = vec![Vec::new(); windows.len()];
        for (part, bytes) in parts.iter().enumerate() {
            for (window, tokens) in ranges_in_windows(self.tokens_in(bytes), &windows, n) {
                let shift = |token: usize| token - windows[window].start + self.head.ids.len();
                read[window].push(TokenRange { part, tokens: shift(tokens.start)..shift(tokens.end) });
            }
        }
        let cut = |(window, read): (Range<usize>, Vec<TokenRange>)| match read.is_empty() {
            true => (TokenSequence::default(), read),
            false => (self.cut(window), read),
        };
        Ok(windows.into_iter().zip(read).map(cut).collect())
    }

    /// Windows of at most `most` tokens for the whole text; one window if the text fits. Neighbouring windows of a
    /// longer text share an eighth of a window, and each takes its half of the shared tokens.
    pub(crate) fn in_windows(&self, most: usize) -> Result<Vec<TextWindow>, NoRoomForText> {
        let (n, before) = (self.own.ids.len(), self.head.ids.len());
        let around = before + self.tail.ids.len();
        if n + around <= most {
            return Ok(vec![self.cut(0..n).into()]);
        }
        let room = most.saturating_sub(around);
        if room < most.div_ceil(2) {
            return Err(NoRoomForText { window: most, room, around });
        }
        let windows = windows(n, room, room / OVERLAP_SHARE);
        let window = |(i, tokens): (usize, Range<usize>)| {
            let window = windows[i].clone();
            let shift = |token: usize| token - window.start + before;
            TextWindow { own: shift(tokens.start)..shift(tokens.end), tokens: self.cut(window) }
        };
        Ok(ranges_in_windows(0..n, &windows, n).into_iter().map(window).collect())
    }

    /// The tokens that share a byte with a part of the text.
    fn tokens_in(&self, part: &Range<usize>) -> Range<usize> {
        let start = self.places.partition_point(|place| place.end <= part.start);
        let end = self.places.partition_point(|place| place.start < part.end);
        start..end.max(start)
    }

    fn cut(&self, window: Range<usize>) -> TokenSequence {
        let Self { head, tail, own, .. } = self;
        TokenSequence {
            ids: [&head.ids, &own.ids[window.clone()], &tail.ids].concat(),
            types: [&head.types, &own.types[window], &tail.types].concat(),
            lost: 0,
        }
    }
}

/// The windows of a text of `n` tokens. The last one overlaps more, so that it is as long as the others.
fn windows(n: usize, room: usize, overlap: usize) -> Vec<Range<usize>> {
    let step = room.saturating_sub(overlap).max(1);
    let mut windows: Vec<Range<usize>> =
        (0..n).step_by(step).take_while(|start| start + room < n).map(|start| start..start + room).collect();
    windows.push(n.saturating_sub(room)..n);
    windows
}

/// From which windows tokens are taken. If windows hold all of them, from the one with
/// the most context around them; otherwise each from the window with the nearest middle.
fn ranges_in_windows(tokens: Range<usize>, windows: &[Range<usize>], n: usize) -> Vec<(usize, Range<usize>)> {
    if tokens.is_empty() {
        return Vec::new();
    }
    // At an end of the text, no window has more context.
    let around = |window: &Range<usize>| {
        let before = if window.start == 0 { usize::MAX } else { tokens.start - window.start };
        let after = if window.end == n { usize::MAX } else { window.end - tokens.end };
        before.min(after)
    };
    let holding = windows.iter().enumerate().filter(|(_, one)| one.start <= tokens.start && tokens.end <= one.end);
    if let Some((window, _)) = holding.min_by_key(|(_, window)| Reverse(around(window))) {
        return vec![(window, tokens)];
    }
    let mut ranges = Vec::new();
    let mut from = tokens.start;
    for (i, window) in windows.iter().enumerate() {
        // Of the tokens that two windows share, each takes the half on its side.
        let until = windows.get(i + 1).map_or(n, |next| usize::midpoint(next.start, window.end)).min(tokens.end);
        if from < until {
            ranges.push((i, from..until));
            from = until;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_a_text_and_share_what_they_should() {
        let ends = |n, overlap| windows(n, 10, overlap).into_iter().map(|one| (one.start, one.end)).collect::<Vec<_>>();
        assert_eq!(ends(0, 2), [(0, 0)]);
        assert_eq!(ends(5, 2), [(0, 5)]);
        assert_eq!(ends(10, 2), [(0, 10)]);
        assert_eq!(ends(11, 2), [(0, 10), (1, 11)]);
        assert_eq!(ends(30, 2), [(0, 10), (8, 18), (16, 26), (20, 30)]);
        assert_eq!(ends(20, 0), [(0, 10), (10, 20)]);
    }

    #[test]
    fn a_part_is_read_where_most_stands_around_it_and_each_token_once() {
        let windows = windows(30, 10, 4);
        assert_eq!(windows, [0..10, 6..16, 12..22, 18..28, 20..30]);
        assert_eq!(ranges_in_windows(0..2, &windows, 30), [(0, 0..2)], "nothing stands before the text");
        assert_eq!(ranges_in_windows(6..8, &windows, 30), [(0, 6..8)]);
        assert_eq!(ranges_in_windows(8..10, &windows, 30), [(1, 8..10)]);
        assert_eq!(ranges_in_windows(26..28, &windows, 30), [(4, 26..28)]);
        assert!(ranges_in_windows(3..3, &windows, 30).is_empty());
        for (start, end) in [(2, 12), (0, 30), (5, 26), (9, 23)] {
            let read = ranges_in_windows(start..end, &windows, 30);
            assert!(read.iter().all(|(window, tokens)| {
                windows[*window].start <= tokens.start && tokens.end <= windows[*window].end
            }));
            let tokens: Vec<usize> = read.into_iter().flat_map(|(_, tokens)| tokens).collect();
            assert_eq!(tokens, (start..end).collect::<Vec<_>>());
        }
        assert_eq!(ranges_in_windows(2..12, &windows, 30), [(0, 2..8), (1, 8..12)], "they meet in the middle of 6..10");
    }

    /// A text of `n` tokens, with two other tokens before it and one behind it.
    fn text_of(n: u32) -> LongText {
        let tokens = |ids: Range<u32>| TokenSequence { types: vec![0; ids.len()], ids: ids.collect(), lost: 0 };
        let places = (0..n as usize).map(|i| i..i + 1).collect();
        LongText { head: tokens(900..902), tail: tokens(902..903), own: tokens(0..n), places }
    }

    #[test]
    fn a_text_that_fits_is_one_window() {
        for n in [0, 1, 9] {
            let windows = text_of(n).in_windows(12).unwrap();
            assert_eq!(windows.len(), 1);
            assert_eq!((windows[0].tokens.ids.len(), windows[0].own.clone()), (n as usize + 3, 0..n as usize + 3));
        }
    }

    #[test]
    fn a_long_text_is_read_in_windows_of_which_each_token_is_own_once() {
        for (n, most) in
            [(10, 12), (17, 12), (18, 12), (19, 12), (100, 12), (1000, 12), (255, 256), (5000, 256), (7, 8)]
        {
            let windows = text_of(n).in_windows(most).unwrap();
            assert!(windows.len() > 1, "{n} in {most}");
            let mut own = Vec::new();
            for window in &windows {
                let ids = &window.tokens.ids;
                assert_eq!((ids.len(), &ids[..2], ids[most - 1]), (most, &[900, 901][..], 902), "{n} in {most}");
                assert!(2 <= window.own.start && window.own.start < window.own.end && window.own.end < most);
                own.extend_from_slice(&ids[window.own.clone()]);
            }
            assert_eq!(own, (0..n).collect::<Vec<_>>(), "{n} in {most}");
        }
    }

    #[test]
    fn windows_of_a_whole_text_share_an_eighth() {
        let windows = text_of(100).in_windows(19).unwrap();
        let shares = windows.windows(2).map(|two| {
            let (first, second) = (&two[0].tokens.ids, &two[1].tokens.ids);
            first[2..18].iter().filter(|id| second[2..18].contains(id)).count()
        });
        let shares: Vec<usize> = shares.collect();
        // The last window is as long as the others, so it may share more.
        let (last, others) = shares.split_last().unwrap();
        assert!(others.iter().all(|shared| *shared == 2) && *last >= 2, "{shares:?}");
    }

    #[test]
    fn a_prefix_that_takes_most_of_a_window_is_refused() {
        let error = text_of(100).in_windows(5).unwrap_err().to_string();
        assert!(error.contains("room for 2 of the text") && error.contains("raise `max_tokens`"), "{error}");
        assert!(text_of(2).in_windows(5).is_ok(), "a text that fits needs no window");
    }

    #[test]
    fn a_window_without_room_is_refused_and_one_that_nobody_reads_is_empty() {
        let tokens = |n: u32| TokenSequence { ids: (0..n).collect(), types: vec![0; n as usize], lost: 0 };
        let text =
            LongText { head: tokens(1), tail: tokens(1), own: tokens(20), places: (0..20).map(|i| i..i + 1).collect() };
        assert!(text.windows(6, 4, &[]).unwrap_err().to_string().contains("lower `overlap`"));
        let windows = text.windows(12, 2, &[0..3, 4..4]).unwrap();
        assert_eq!(windows[0].1, [TokenRange { part: 0, tokens: 1..4 }]);
        assert_eq!(windows[0].0.ids.len(), 12);
        assert!(windows[1..].iter().all(|(tokens, read)| tokens.ids.is_empty() && read.is_empty()));
    }
}
