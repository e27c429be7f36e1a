//! Streams as they are on the wire, for servers in tests.

use serde::Deserialize;
use serde_json::Value;
use wiremock::ResponseTemplate;

/// How events are written.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    #[default]
    ServerSentEvents,
    /// Frames with lengths and checksums, as AWS has them.
    AwsEventStream,
}

/// One event of a stream.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireEvent {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) is_exception: bool,
    /// JSON, or what is no JSON, as a string.
    pub(super) data: Value,
}

impl WireEvent {
    fn text(&self) -> String {
        self.data.as_str().map_or_else(|| self.data.to_string(), str::to_owned)
    }
}

impl Form {
    pub(super) fn response<'a>(self, events: impl IntoIterator<Item = &'a WireEvent>) -> ResponseTemplate {
        let bytes: Vec<u8> = events.into_iter().flat_map(|event| self.event(event)).collect();
        let kind = match self {
            Self::ServerSentEvents => "text/event-stream; charset=utf-8",
            Self::AwsEventStream => "application/vnd.amazon.eventstream",
        };
        ResponseTemplate::new(200).set_body_raw(bytes, kind)
    }

    pub(super) fn event(self, event: &WireEvent) -> Vec<u8> {
        match self {
            Self::ServerSentEvents => {
                let name = if event.name.is_empty() { String::new() } else { format!("event: {}\n", event.name) };
                format!("{name}data: {}\n\n", event.text()).into_bytes()
            }
            Self::AwsEventStream => {
                let (kind, name) =
                    if event.is_exception { ("exception", ":exception-type") } else { ("event", ":event-type") };
                let headers =
                    [(":message-type", kind), (name, &event.name), (":content-type", "application/json")].map(header);
                frame(&headers.concat(), event.text().as_bytes())
            }
        }
    }
}

/// A header with a text: 7 is the type of texts.
fn header((name, value): (&str, &str)) -> Vec<u8> {
    let name_length = u8::try_from(name.len()).expect("a short name");
    let value_length = u16::try_from(value.len()).expect("a short value").to_be_bytes();
    [&[name_length], name.as_bytes(), &[7], &value_length, value.as_bytes()].concat()
}

fn frame(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).expect("a short frame").to_be_bytes();
    let mut frame = [length(16 + headers.len() + payload.len()), length(headers.len())].concat();
    frame.extend(checksum(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload);
    frame.extend(checksum(&frame).to_be_bytes());
    frame
}

/// CRC-32, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

#[test]
fn the_checksum_is_the_usual_one() {
    assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
}
