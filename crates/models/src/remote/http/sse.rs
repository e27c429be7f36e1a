//! Server-sent events: how a streamed answer is cut into events. Bytes go in
//! as the network delivers them, whole events come out.
//!
//! Own code, since the crates for it bring a parser library or a second body
//! type along and take events of any size. Source: WHATWG HTML, "Server-sent
//! events", on how an event stream is interpreted. `id` and `retry` are for
//! reconnecting to a stream, which no provider offers for answers.

/// An event with more bytes than this cannot be part of an answer.
const MOST: usize = 16 << 20;

/// The mark that a stream may begin with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// What kind it is; empty for most.
    pub(crate) name: String,
    /// Its lines of data, joined by line feeds.
    pub(crate) data: String,
}

/// An event that is longer than any answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

/// Cuts bytes into events, and holds the beginning of the event that is not whole yet.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    /// Whether the last byte was a carriage return: a line feed after it
    /// belongs to the same end of line.
    after_return: bool,
    /// Whether the first line is over.
    has_line: bool,
}

impl SseParser {
    /// Takes bytes, cut anywhere, and gives the events that they complete.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLong> {
        let mut events = Vec::new();
        while let Some((&first, rest)) = bytes.split_first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if self.line.len() + self.event.data.len() > MOST {
                return Err(EventTooLong);
            }
            let Some(end) = end else { break };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.end_line());
        }
        Ok(events)
    }

    /// The last event, if the stream ended before its empty line: some
    /// servers close right after the last data.
    pub(super) fn end(mut self) -> Option<SseEvent> {
        self.end_line().or_else(|| self.event())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let is_first = !std::mem::replace(&mut self.has_line, true);
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(&line);
        if line.is_empty() {
            return self.event();
        }
        // The line is complete, so no character of it is cut in half.
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event.name),
            // A comment has no name; other fields are not for us.
            _ => {}
        }
        None
    }

    /// The event at an empty line; none without data.
    fn event(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a stream whose bytes come in parts of this size.
    fn events(stream: &[u8], size: usize) -> Vec<(String, String)> {
        let mut parser = SseParser::default();
        let mut events: Vec<SseEvent> =
            stream.chunks(size).flat_map(|part| parser.push(part).expect("they are short")).collect();
        events.extend(parser.end());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn data(stream: &str, size: usize) -> Vec<String> {
        events(stream.as_bytes(), size).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn bytes_may_be_cut_anywhere_also_inside_of_a_character() {
        let stream = "data: {\"é\": \"日本🙂\"}\r\n\r\ndata:two\n\n\ndata: [DONE]\n\n";
        for size in 1..=stream.len() {
            assert_eq!(data(stream, size), ["{\"é\": \"日本🙂\"}", "two", "[DONE]"], "in parts of {size}");
        }
    }

    #[test]
    fn all_three_ends_of_line_are_one_end() {
        for size in [1, 2, 3, 100] {
            assert_eq!(data("data: a\r\rdata: b\r\n\r\ndata: c\n\n", size), ["a", "b", "c"], "in parts of {size}");
        }
    }

    #[test]
    fn lines_of_data_are_joined_and_one_space_belongs_to_the_field() {
        assert_eq!(data("data: a\ndata:  b\ndata\ndata:c\n\n", 5), ["a\n b\n\nc"]);
    }

    #[test]
    fn comments_and_events_without_data_are_passed_over() {
        let stream =
            ": ping\n\nid: 7\nretry: 10\n\nevent: nothing\n\n: ping\ndata: a\n: ping\n\nunknown: x\ndata: b\n\n";
        assert_eq!(events(stream.as_bytes(), 4), [(String::new(), "a".to_owned()), (String::new(), "b".to_owned())]);
    }

    #[test]
    fn an_event_may_have_a_name_which_is_its_own() {
        let expected = [("error".to_owned(), "{}".to_owned()), (String::new(), "x".to_owned())];
        assert_eq!(events(b"event: error\ndata: {}\n\ndata: x\n\n", 3), expected);
    }

    #[test]
    fn what_stands_last_without_an_empty_line_counts() {
        assert_eq!(data("data: a\n\ndata: [DONE]\n", 2), ["a", "[DONE]"]);
        assert_eq!(data("data: a\n\ndata: [DONE]", 2), ["a", "[DONE]"]);
        assert!(data(": ping\n", 2).is_empty());
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_at_the_beginning_only() {
        assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: b\n\n", 1), ["a"], "the second is another field");
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let mut parser = SseParser::default();
        let part = vec![b'x'; MOST / 2];
        assert_eq!(parser.push(b"data: "), Ok(Vec::new()));
        assert_eq!(parser.push(&part), Ok(Vec::new()));
        assert_eq!(parser.push(&part), Err(EventTooLong));
    }

    #[test]
    fn any_bytes_give_the_same_events_however_they_are_cut() {
        let seeds: [&[u8]; 2] = [
            b"\xef\xbb\xbfevent: delta\nid: 7\ndata: {\"a\":\"\xc3\xa9\"}\r\n\r\n: note\n\ndata: [DONE]\n\n",
            b"data: a\rdata\r\rretry: 3\n\ndata: cut",
        ];
        let words: [&[u8]; 8] =
            [b"\r", b"\n", b"\r\n\r\n", b"data:", b"event: error\n", b":", b"\xef\xbb\xbf", b"\xf0\x9f"];
        fuzz::run("event-stream", &seeds, &words, |bytes| {
            let whole = events(bytes, bytes.len().max(1));
            for size in [1, 2, 7] {
                assert_eq!(events(bytes, size), whole, "in parts of {size}");
            }
        });
    }
}
