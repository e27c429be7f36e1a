//! `load::mime`: the parts of a mail: their headers, their decoded content, and the parts in them.
//!
//! Sources: RFC 5322 (messages), 2045 to 2047 (MIME), 2046 (multiparts), 3676 (flowed text).

use super::{LoadError, ParseLimits, text};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::{Address, ContentType, Message, MessageParser, MimeHeaders};
use memchr::memmem;
use std::borrow::Cow;

/// The deepest nesting of multiparts that is read.
const MOST_NESTED: usize = 32;

/// The headers of a mail or a part are read up to so many bytes.
const MOST_HEADER_BYTES: usize = 64 << 10;
/// With more encoded words, only the first bytes are read.
const MOST_ENCODED_WORDS: usize = 1_000;
const HOSTILE_HEADER_BYTES: usize = 4 << 10;

/// Characters of addresses and subjects that are kept.
const HEADER_CHARACTERS: usize = 10_000;

/// Base64 as mails have it: its end may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A part of a mail, or the whole of it.
#[derive(Debug)]
pub(super) enum MimePart<'a> {
    /// Several parts, and how they belong together, such as `alternative`.
    Several { kind: String, parts: Vec<MimePart<'a>> },
    /// One part.
    Single(SinglePart<'a>),
}

/// A part that is not divided further.
#[derive(Debug)]
pub(super) struct SinglePart<'a> {
    headers: Option<Message<'a>>,
    /// The type where none is written.
    usual_type: &'static str,
    body: &'a [u8],
}

/// The decoded content of a part.
#[derive(Debug)]
pub(super) struct DecodedPart<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    /// Whether some of it could not be decoded.
    pub(super) is_damaged: bool,
}

/// The headers of a mail, and its parts.
#[derive(Debug)]
pub(super) struct Mail<'a> {
    pub(super) subject: Option<String>,
    /// Name and address, such as `Ada Lovelace <ada@example.org>`.
    pub(super) from: Option<String>,
    /// The name of the first sender, or else the address.
    pub(super) author: Option<String>,
    pub(super) to: Option<String>,
    pub(super) cc: Option<String>,
    /// Such as `2024-03-05`.
    pub(super) date: Option<String>,
    /// Such as `09:30 +01:00`.
    pub(super) time: Option<String>,
    pub(super) message_id: Option<String>,
    pub(super) in_reply_to: Option<String>,
    pub(super) content: MimePart<'a>,
}

impl<'a> Mail<'a> {
    /// Reads a mail and the places of its parts.
    ///
    /// # Errors
    /// If it has no header, or more parts than are read.
    pub(super) fn read(bytes: &'a [u8], limits: &ParseLimits) -> Result<Self, LoadError> {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let (headers, body) = split_headers(bytes.trim_ascii_start());
        let Some(headers) = headers else {
            return Err(LoadError::Broken("it has no header, such as `From:` or `Subject:`".to_owned()));
        };
        let text = |text: &str| Some(clipped(text)).filter(|text| !text.is_empty());
        let date = headers.date().filter(|date| date.is_valid());
        let zone = |minutes: u16, is_before| {
            format!("{}{:02}:{:02}", if is_before { '-' } else { '+' }, minutes / 60, minutes % 60)
        };
        let time = date.map(|date| {
            let minutes = u16::from(date.tz_hour) * 60 + u16::from(date.tz_minute);
            format!("{:02}:{:02} {}", date.hour, date.minute, zone(minutes, date.tz_before_gmt))
        });
        let author = headers.from().and_then(|from| from.first()).and_then(|one| one.name().or(one.address()));
        Ok(Self {
            subject: headers.subject().and_then(text),
            from: headers.from().and_then(addresses),
            author: author.and_then(text),
            to: headers.to().and_then(addresses),
            cc: headers.cc().and_then(addresses),
            date: date.map(|date| format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)),
            time,
            message_id: headers.message_id().and_then(text),
            in_reply_to: headers.in_reply_to().as_text().and_then(text),
            content: PartReader { left: limits.pages as usize, limits }.part(headers, body, "text/plain", 0)?,
        })
    }
}

impl Mail<'_> {
    /// Reads the headers alone, if there are some.
    pub(super) fn read_headers(bytes: &[u8]) -> Option<Mail<'_>> {
        let bytes = bytes.trim_ascii_start();
        Mail::read(&bytes[..end_of_headers(bytes).0], &ParseLimits::default()).ok()
    }
}

/// Divides parts into parts, up to a number.
struct PartReader<'l> {
    left: usize,
    limits: &'l ParseLimits,
}

impl PartReader<'_> {
    fn part<'a>(
        &mut self,
        headers: Message<'a>,
        body: &'a [u8],
        usual_type: &'static str,
        depth: usize,
    ) -> Result<MimePart<'a>, LoadError> {
        let boundary = multipart(headers.content_type())
            .and_then(|kind| Some((kind, headers.content_type()?.attribute("boundary")?.to_owned())));
        let Some((kind, boundary)) = boundary.filter(|(_, boundary)| !boundary.is_empty() && depth < MOST_NESTED)
        else {
            return Ok(MimePart::Single(SinglePart { headers: Some(headers), usual_type, body }));
        };
        let usual_type = if kind == "digest" { "message/rfc822" } else { "text/plain" };
        let mut parts = Vec::new();
        for bytes in divided(body, &boundary) {
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                LoadError::OverLimit(format!(
                    "it has more than {} parts (`pages` under [corpus.limits])",
                    self.limits.pages
                ))
            })?;
            parts.push(match split_headers(bytes) {
                (Some(headers), body) => self.part(headers, body, usual_type, depth + 1)?,
                (None, body) => MimePart::Single(SinglePart { headers: None, usual_type, body }),
            });
        }
        Ok(MimePart::Several { kind, parts })
    }
}

/// How the parts of a multipart belong together.
fn multipart(found: Option<&ContentType<'_>>) -> Option<String> {
    let found = found.filter(|found| found.ctype().eq_ignore_ascii_case("multipart"))?;
    Some(found.subtype().unwrap_or("mixed").to_lowercase())
}

/// The headers of a part, if it has some, and what follows them.
fn split_headers(bytes: &[u8]) -> (Option<Message<'_>>, &[u8]) {
    // A part may begin with the blank line that ends its headers: it has none.
    if !begins_with_header(bytes) {
        return (None, bytes);
    }
    let end = end_of_headers(bytes);
    // Each begun encoded word may be looked for to the end of the headers, so many of them are an attack.
    let block = &bytes[..end.0.min(MOST_HEADER_BYTES)];
    let is_attack = memmem::find_iter(block, b"=?").nth(MOST_ENCODED_WORDS).is_some();
    let block = if is_attack { &block[..block.len().min(HOSTILE_HEADER_BYTES)] } else { block };
    let headers = MessageParser::default().parse_headers(block);
    match headers.filter(|headers| headers.parts.first().is_some_and(|part| !part.headers.is_empty())) {
        Some(headers) => (Some(headers), &bytes[end.1..]),
        None => (None, bytes),
    }
}

/// Whether the first line is a header, such as `Subject: words`.
pub(super) fn begins_with_header(bytes: &[u8]) -> bool {
    let end = memchr::memchr2(b':', b'\n', bytes).filter(|&end| bytes[end] == b':');
    end.map(|end| &bytes[..end]).is_some_and(|name| !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic()))
}

/// Where the headers end, and where the body begins.
fn end_of_headers(bytes: &[u8]) -> (usize, usize) {
    for at in memchr::memchr_iter(b'\n', bytes) {
        match &bytes[at + 1..] {
            [b'\n', ..] => return (at + 2, at + 2),
            [b'\r', b'\n', ..] => return (at + 3, at + 3),
            _ => {}
        }
    }
    (bytes.len(), bytes.len())
}

/// The parts between lines that are a boundary. What stands before the first and behind the last is for programs that
/// cannot read parts.
fn divided<'a>(body: &'a [u8], boundary: &str) -> Vec<&'a [u8]> {
    let mark = format!("--{boundary}");
    let (mut parts, mut begin) = (Vec::new(), None);
    for at in memmem::find_iter(body, mark.as_bytes()) {
        if at > 0 && body[at - 1] != b'\n' {
            continue;
        }
        let behind = &body[at + mark.len()..];
        let line_end = memchr::memchr(b'\n', behind).map_or(behind.len(), |end| end + 1);
        let line = behind[..line_end].trim_ascii();
        if !(line.is_empty() || line.starts_with(b"--")) {
            continue;
        }
        if let Some(begin) = begin.take() {
            parts.push(without_line_end(&body[begin..at.max(begin)]));
        }
        if line.starts_with(b"--") {
            return parts;
        }
        begin = Some(at + mark.len() + line_end);
    }
    // The end of a mail that was cut off.
    parts.extend(begin.map(|begin| &body[begin..]));
    parts
}

/// The line end before a boundary belongs to the boundary.
fn without_line_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// Names and addresses, as a mail program shows them.
fn addresses(address: &Address<'_>) -> Option<String> {
    let one = |one: &mail_parser::Addr<'_>| match (one.name(), one.address()) {
        (Some(name), Some(address)) => Some(format!("{name} <{address}>")),
        (name, address) => name.or(address).map(str::to_owned),
    };
    let all: Vec<String> = address.iter().filter_map(one).collect();
    Some(clipped(&all.join(", "))).filter(|all| !all.is_empty())
}

/// A header on one line, and not longer than a person wrote it.
fn clipped(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|letter| !letter.is_control()).take(HEADER_CHARACTERS).collect()
}

impl<'a> SinglePart<'a> {
    /// The type in lower case, such as `text/plain`.
    pub(super) fn media_type(&self) -> String {
        let written = self.content_type();
        written.map_or_else(
            || self.usual_type.to_owned(),
            |written| match written.subtype() {
                Some(kind) => format!("{}/{kind}", written.ctype()).to_lowercase(),
                None => written.ctype().to_lowercase(),
            },
        )
    }

    /// The value of a parameter of its type, such as `charset`.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.content_type()?.attribute(name)
    }

    /// The name of the file that it holds.
    pub(super) fn file_name(&self) -> Option<&str> {
        self.headers.as_ref()?.attachment_name().map(str::trim).filter(|name| !name.is_empty())
    }

    /// Whether it is said to be a file beside the text.
    pub(super) fn is_attached(&self) -> bool {
        let disposition = self.headers.as_ref().and_then(|headers| headers.content_disposition());
        disposition.is_some_and(|disposition| disposition.ctype().eq_ignore_ascii_case("attachment"))
    }

    /// Whether the text of the mail shows it by its name.
    pub(super) fn has_content_id(&self) -> bool {
        self.headers.as_ref().is_some_and(|headers| headers.content_id().is_some())
    }

    fn content_type(&self) -> Option<&ContentType<'_>> {
        self.headers.as_ref()?.content_type()
    }

    /// Its content without the encoding for the way.
    pub(super) fn decode(&self) -> DecodedPart<'a> {
        let encoding =
            self.headers.as_ref().and_then(|headers| headers.content_transfer_encoding()).unwrap_or_default();
        match encoding.trim().to_ascii_lowercase().as_str() {
            "base64" => decode_base64(self.body),
            "quoted-printable" => decode_quoted_printable(self.body),
            _ => DecodedPart { bytes: Cow::Borrowed(self.body), is_damaged: false },
        }
    }

    /// Its text in the encoding that it names, or else in another.
    pub(super) fn text(&self, bytes: &[u8], otherwise: Option<&str>) -> text::Decoded {
        let charset = self.parameter("charset").or(otherwise);
        if charset.is_some_and(|charset| charset.eq_ignore_ascii_case("utf-7"))
            && let Some(decode) = charset_decoder(b"utf-7")
        {
            return text::read(decode(bytes).as_bytes(), None);
        }
        text::read(bytes, charset)
    }
}

fn decode_base64(body: &[u8]) -> DecodedPart<'static> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let mut is_damaged = !body.iter().all(|byte| is_letter(byte) || is_space(byte));
    let letters: Vec<u8> = body.iter().copied().filter(is_letter).collect();
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3);
    // Some programs join encoded pieces, each with its own end.
    for piece in letters.split(|byte| *byte == b'=').filter(|piece| !piece.is_empty()) {
        // One letter alone is less than a byte.
        let whole = piece.len() - usize::from(piece.len() % 4 == 1);
        is_damaged |= BASE64.decode_vec(&piece[..whole], &mut bytes).is_err() || whole < piece.len();
    }
    DecodedPart { bytes: Cow::Owned(bytes), is_damaged }
}

fn decode_quoted_printable(body: &[u8]) -> DecodedPart<'static> {
    let (mut bytes, mut is_damaged) = (Vec::with_capacity(body.len()), false);
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let content = line.trim_ascii_end();
        // White space at the end of a line was added on the way.
        let (content, ends_soft) = match content.strip_suffix(b"=") {
            Some(content) => (content, true),
            None => (content, false),
        };
        let mut rest = content;
        while let Some(at) = memchr::memchr(b'=', rest) {
            bytes.extend_from_slice(&rest[..at]);
            let digit = |at: usize| rest.get(at).and_then(|byte| char::from(*byte).to_digit(16));
            match (digit(at + 1), digit(at + 2)) {
                (Some(high), Some(low)) => {
                    bytes.push((high * 16 + low) as u8);
                    rest = &rest[at + 3..];
                }
                _ => {
                    is_damaged = true;
                    bytes.push(b'=');
                    rest = &rest[at + 1..];
                }
            }
        }
        bytes.extend_from_slice(rest);
        if line.ends_with(b"\n") && !ends_soft {
            bytes.push(b'\n');
        }
    }
    DecodedPart { bytes: Cow::Owned(bytes), is_damaged }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(text: &str) -> Mail<'_> {
        Mail::read(text.as_bytes(), &ParseLimits::default()).unwrap()
    }

    #[test]
    fn headers_are_decoded() {
        let read = mail(
            "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= aus\n  Bern\nFrom: =?iso-8859-1?Q?J=F6rg?= <j@example.org>\n\
             To: a@example.org, Bo <b@example.org>\nDate: Tue, 5 Mar 2024 09:30:00 +0100\nMessage-ID: <1@x>\n\nbody",
        );
        assert_eq!(read.subject.as_deref(), Some("Grüße aus Bern"));
        assert_eq!(read.from.as_deref(), Some("Jörg <j@example.org>"));
        assert_eq!(read.author.as_deref(), Some("Jörg"));
        assert_eq!(read.to.as_deref(), Some("a@example.org, Bo <b@example.org>"));
        assert_eq!((read.date.as_deref(), read.time.as_deref()), (Some("2024-03-05"), Some("09:30 +01:00")));
        assert_eq!(read.message_id.as_deref(), Some("1@x"));
        let MimePart::Single(part) = read.content else { panic!("one part") };
        assert_eq!((part.media_type().as_str(), &*part.decode().bytes), ("text/plain", &b"body"[..]));
    }

    #[test]
    fn a_boundary_is_a_whole_line() {
        let body = b"before\r\n--ab\r\n\r\none --ab\r\n--abc\r\n--ab \r\nA: b\r\n\r\ntwo\r\n--ab--\r\nbehind";
        let parts = divided(body, "ab");
        assert_eq!(parts, [&b"\r\none --ab\r\n--abc"[..], b"A: b\r\n\r\ntwo"]);
        assert_eq!(divided(b"--ab\n\ncut of", "ab"), [&b"\ncut of"[..]]);
        assert_eq!(divided(b"--ab\n--ab\n--ab--", "ab"), [b"", b""]);
    }

    #[test]
    fn base64_is_read_around_damage() {
        let read = |text: &[u8]| {
            let decoded = decode_base64(text);
            (String::from_utf8_lossy(&decoded.bytes).into_owned(), decoded.is_damaged)
        };
        assert_eq!(read(b"bWls\r\nbA=="), ("mill".to_owned(), false));
        assert_eq!(read(b"bWls\r\nbA"), ("mill".to_owned(), false));
        assert_eq!(read(b"bWlsbA==bWlsbA=="), ("millmill".to_owned(), false));
        assert_eq!(read(b"bW!ls\nbA=="), ("mill".to_owned(), true));
        assert_eq!(read(b"bWlsb"), ("mil".to_owned(), true));
    }

    #[test]
    fn quoted_printable_is_read_around_damage() {
        let read = |text: &[u8]| {
            let decoded = decode_quoted_printable(text);
            (String::from_utf8_lossy(&decoded.bytes).into_owned(), decoded.is_damaged)
        };
        assert_eq!(read(b"a =C3=A9 b =\r\nc  \r\nd"), ("a é b c\nd".to_owned(), false));
        assert_eq!(read(b"1 =x 2=3"), ("1 =x 2=3".to_owned(), true));
    }

    #[test]
    fn mails_that_are_made_to_take_hours_end() {
        let limits = ParseLimits::default();
        let words = format!("From: a\nSubject: {}\n\nbody", "=?ab?q? ".repeat(1_000_000));
        assert!(Mail::read(words.as_bytes(), &limits).is_ok());
        let marks = format!("From: a\nContent-Type: multipart/mixed; boundary=b\n\n{}", "--b".repeat(3_000_000));
        assert!(Mail::read(marks.as_bytes(), &limits).is_ok());
        assert!(Mail::read(b"\xEF\xBB\xBFFrom: a\n\nb", &limits).is_ok());
    }

    #[test]
    fn a_mail_of_parts_in_parts_ends() {
        let deep: String =
            (0..5000).map(|i| format!("Content-Type: multipart/mixed; boundary=b{i}\n\n--b{i}\n")).collect();
        assert!(Mail::read(deep.as_bytes(), &ParseLimits::default()).is_ok());
        let many = format!("Content-Type: multipart/mixed; boundary=b\n\n{}", "--b\n".repeat(30_000));
        assert!(matches!(Mail::read(many.as_bytes(), &ParseLimits::default()), Err(LoadError::OverLimit(_))));
        assert!(matches!(Mail::read(b"\n\nwords", &ParseLimits::default()), Err(LoadError::Broken(_))));
    }
}
