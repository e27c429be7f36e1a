//! Puts an answer together from the pieces of its tokens: a character or a
//! stop text may be spread over several of them.

/// The answer so far.
#[derive(Debug)]
pub(crate) struct AnswerWriter {
    bytes: Vec<u8>,
    stop: Vec<String>,
    longest_stop: usize,
    /// How many bytes were handed out, and how long they are as text.
    given: usize,
    given_text: usize,
}

impl AnswerWriter {
    /// An empty answer that ends before the first of the `stop` texts.
    pub(crate) fn new(stop: &[String]) -> Self {
        let stop: Vec<String> = stop.iter().filter(|text| !text.is_empty()).cloned().collect();
        let longest_stop = stop.iter().map(String::len).max().unwrap_or(0);
        Self { bytes: Vec::new(), stop, longest_stop, given: 0, given_text: 0 }
    }

    /// Adds a token's bytes. Returns whether they complete a stop text, which is then removed with
    /// everything after it.
    pub(crate) fn push(&mut self, piece: &[u8]) -> bool {
        // A stop text that ends in this piece may begin before it.
        let from = (self.bytes.len() + 1).saturating_sub(self.longest_stop);
        self.bytes.extend_from_slice(piece);
        let window = &self.bytes[from.min(self.bytes.len())..];
        let met = self.stop.iter().filter_map(|text| position(window, text.as_bytes())).min();
        if let Some(at) = met {
            self.bytes.truncate(from + at);
        }
        met.is_some()
    }

    /// The text that can be handed out now: whole characters,
    /// none of which may still become a part of a stop text.
    pub(crate) fn ready(&mut self) -> String {
        let end = self.bytes.len() - self.beginning_of_stop();
        // Text that was handed out is never taken back.
        let open = &self.bytes[self.given..end.max(self.given)];
        // The first bytes of a character that is not whole yet.
        let last = open.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
        let is_incomplete = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
        let incomplete = if is_incomplete { last.len() } else { 0 };
        let whole = &open[..open.len() - incomplete];
        let text = String::from_utf8_lossy(whole).into_owned();
        self.given += whole.len();
        self.given_text += text.len();
        text
    }

    /// How many bytes at the end may be the beginning of a stop text.
    fn beginning_of_stop(&self) -> usize {
        let longest = self.longest_stop.saturating_sub(1).min(self.bytes.len());
        let may_become_stop = |length: &usize| {
            let end = &self.bytes[self.bytes.len() - length..];
            self.stop.iter().any(|stop| stop.len() > end.len() && stop.as_bytes().starts_with(end))
        };
        (1..=longest).rev().find(may_become_stop).unwrap_or(0)
    }

    /// The answer, and the offset from which it was not handed out yet. A
    /// character that the token limit cut in half is left out.
    pub(crate) fn finish(mut self) -> (String, usize) {
        if let Err(error) = std::str::from_utf8(&self.bytes)
            && error.error_len().is_none()
        {
            self.bytes.truncate(error.valid_up_to());
        }
        let text = String::from_utf8(self.bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let rest = self.given_text.min(text.len());
        (text, rest)
    }
}

fn position(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer, and whether a stop text was met. What is handed out on the
    /// way is the answer, too.
    fn write(stop: &[&str], pieces: &[&[u8]]) -> (String, bool) {
        let (given, answer, met) = written(stop, pieces);
        assert_eq!(given.concat(), answer);
        (answer, met)
    }

    fn written(stop: &[&str], pieces: &[&[u8]]) -> (Vec<String>, String, bool) {
        let stop: Vec<String> = stop.iter().map(|text| (*text).to_string()).collect();
        let mut writer = AnswerWriter::new(&stop);
        let mut given = Vec::new();
        let met = pieces.iter().any(|piece| {
            let met = writer.push(piece);
            given.push(writer.ready());
            met
        });
        let (answer, rest) = writer.finish();
        given.push(answer[rest..].to_owned());
        (given, answer, met)
    }

    #[test]
    fn a_stop_text_over_three_pieces_is_met_and_removed() {
        assert_eq!(write(&["\n\nQ:"], &[b"Paris.", b"\n", b"\nQ", b": next"]), ("Paris.".into(), true));
    }

    #[test]
    fn the_earliest_of_two_stop_texts_counts() {
        assert_eq!(write(&["five", "two"], &[b"one two three four five"]), ("one ".into(), true));
    }

    #[test]
    fn half_a_stop_text_stays() {
        assert_eq!(write(&["END"], &[b"the EN", b"G"]), ("the ENG".into(), false));
    }

    #[test]
    fn an_empty_stop_text_stops_nothing() {
        assert_eq!(write(&[""], &[b"all"]), ("all".into(), false));
    }

    #[test]
    fn a_character_spread_over_tokens_is_whole_again() {
        assert_eq!(write(&[], &[b"caf", &[0xc3], &[0xa9], b"!"]), ("café!".into(), false));
    }

    #[test]
    fn a_character_cut_by_the_limit_is_left_out() {
        assert_eq!(write(&[], &[b"caf", &[0xc3]]), ("caf".into(), false));
    }

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        assert_eq!(write(&[], &[b"a", &[0xff], b"b"]), ("a\u{fffd}b".into(), false));
    }
    #[test]
    fn what_may_become_a_stop_text_is_handed_out_only_when_it_did_not() {
        let (given, ..) = written(&["\n\nQ:", "END"], &[b"a\n", b"\n", b"b", b"E", b"N", b"X"]);
        assert_eq!(given, ["a", "", "\n\nb", "", "", "ENX", ""]);
        let (given, _, met) = written(&["END"], &[b"the E", b"N", b"D."]);
        assert_eq!((given, met), (vec!["the ".into(), "".into(), "".into(), "".into()], true));
    }

    #[test]
    fn characters_are_handed_out_whole() {
        let (given, ..) = written(&[], &[b"caf", &[0xc3], &[0xa9], &[0xf0, 0x9f], &[0x99, 0x82], &[0xff], &[0xc3]]);
        assert_eq!(given, ["caf", "", "é", "", "🙂", "\u{fffd}", "", "\u{fffd}"]);
        let (given, ..) = written(&["é!"], &[b"caf", &[0xc3], &[0xa9], b"."]);
        assert_eq!(given, ["caf", "", "", "é.", ""]);
    }
}
