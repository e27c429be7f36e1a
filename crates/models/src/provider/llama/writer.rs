//! Puts an answer together from the pieces of its tokens: a character or a
//! stop text may be spread over several of them.

/// The answer so far.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    stop: Vec<String>,
    longest_stop: usize,
}

impl Writer {
    /// An empty answer that ends before the first of the `stop` texts.
    pub(crate) fn new(stop: &[String]) -> Self {
        let stop: Vec<String> = stop.iter().filter(|text| !text.is_empty()).cloned().collect();
        let longest_stop = stop.iter().map(String::len).max().unwrap_or(0);
        Self { bytes: Vec::new(), stop, longest_stop }
    }

    /// Adds a token's bytes. Says whether a stop text was met; it and all
    /// that follows it is then gone.
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

    /// The answer. A character that the token limit cut in half is left out.
    pub(crate) fn finish(mut self) -> String {
        if let Err(error) = std::str::from_utf8(&self.bytes)
            && error.error_len().is_none()
        {
            self.bytes.truncate(error.valid_up_to());
        }
        String::from_utf8(self.bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

fn position(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(stop: &[&str], pieces: &[&[u8]]) -> (String, bool) {
        let stop: Vec<String> = stop.iter().map(|text| (*text).to_string()).collect();
        let mut writer = Writer::new(&stop);
        let met = pieces.iter().any(|piece| writer.push(piece));
        (writer.finish(), met)
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
}
