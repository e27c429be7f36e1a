//! `load::eml`: a mail: its subject as a heading, who wrote to whom and when, and its text. Of a text that is there twice,
//! as plain text and as a web page, the page is taken if it has a table or much more text. What is quoted keeps its `>`.
//! Attachments, and mails in the mail, are documents of their own.

use super::format::{FileFormat, InnerFile, InnerFiles, Signature};
use super::inner_files::file_name;
use super::mime::{Mail, MimePart, SinglePart, begins_with_header};
use super::{LoadError, ParseLimits, Parsed, html, text};
use crate::types::{ReadingProblem, ReadingProblemKind};

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["eml"],
    signature: Signature::Text { begins: begins_as_mail, called: "a mail" },
    parse,
    inner_files: Some(InnerFiles::Beside(attachments)),
    keeps_headings: true,
    without_text: "the mail has neither a subject nor a text",
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

/// A web page has so many times the letters of the plain text beside it, if that only says that there is a page.
const MUCH_MORE: usize = 4;

/// Headers that programs write, which no text begins with.
const SIGNS: [&str; 6] = ["date", "message-id", "mime-version", "received", "return-path", "delivered-to"];

/// Whether a text begins with headers of a mail, and with nothing else.
fn begins_as_mail(head: &str) -> bool {
    let (mut names, mut is_first) = (Vec::new(), true);
    for line in head.lines().take_while(|line| !line.trim().is_empty()) {
        let continues = line.starts_with([' ', '\t']) && !is_first;
        let name = begins_with_header(line.as_bytes()).then(|| line.split(':').next().unwrap_or_default());
        match name {
            Some(name) if !continues => names.push(name.to_ascii_lowercase()),
            // The last line may be cut.
            _ if continues || head.ends_with(line) => {}
            _ => return false,
        }
        is_first = false;
    }
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let is_delivered =
        names.first().is_some_and(|first| ["received", "return-path", "delivered-to"].contains(&first.as_str()));
    names.len() > 1 && (is_delivered || has("from") && SIGNS.iter().any(|sign| has(sign)))
}

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let mail = Mail::read(bytes, limits)?;
    let content = MailContent::of(&mail.content, limits);
    let mut parsed = Parsed { title: mail.subject.clone(), author: mail.author.clone(), ..Parsed::default() };
    if let Some(subject) = &mail.subject {
        parsed.push_heading(1, subject);
    }
    let names: Vec<String> = content.files.iter().map(|file| name_of(file)).collect();
    let date = mail.date.as_ref().map(|date| format!("{date} {}", mail.time.as_deref().unwrap_or_default()));
    let attached = (!names.is_empty()).then(|| names.join(", "));
    let lines = [("From", &mail.from), ("To", &mail.to), ("Cc", &mail.cc), ("Date", &date), ("Attachments", &attached)];
    let lines = lines.iter().filter_map(|(name, value)| Some(format!("{name}: {}", value.as_ref()?.trim())));
    let lines = lines.collect::<Vec<_>>().join("\n");
    parsed.push_block(&lines);
    for text in content.texts {
        push_text(&mut parsed, text, limits)?;
    }
    let mut tell = |detail: &str| {
        parsed.problems.push(ReadingProblem {
            kind: ReadingProblemKind::UnreadPart,
            page: None,
            detail: detail.to_owned(),
        });
    };
    if content.is_encrypted {
        tell("a part of the mail is encrypted, or wrapped in a signature");
    }
    if content.has_damaged {
        tell("a part of the mail is damaged: what could be decoded was read");
    }
    if mail.subject.is_none() && parsed.text.trim() == lines.trim() && names.is_empty() {
        // Who wrote to whom is no text.
        parsed.text.clear();
    }
    let fields = [
        ("from", mail.from),
        ("to", mail.to),
        ("date", mail.date),
        ("message_id", mail.message_id),
        ("in_reply_to", mail.in_reply_to),
    ];
    Ok(fields.into_iter().fold(parsed, |parsed, (field, value)| parsed.with(field, value)))
}

/// Appends a text of the mail.
fn push_text(parsed: &mut Parsed, text: MailText, limits: &ParseLimits) -> Result<(), LoadError> {
    limits.check_text(parsed.text.len().saturating_add(text.text.len()))?;
    parsed.problems.extend(text.problems);
    match text.page {
        Some(page) => parsed.push_parsed(page),
        None => parsed.push_block(&plain(&text.text, text.flow)),
    }
    Ok(())
}

/// The text as it is written. A `#` at the beginning of a line is no heading, so such a line is set in. In a flowed text a
/// line that ends in a space goes on in the next one.
fn plain(text: &str, flow: Option<Flow>) -> String {
    let (mut plain, mut goes_on) = (String::with_capacity(text.len()), None);
    for line in text.trim_matches('\n').lines() {
        let quotes = line.len() - line.trim_start_matches('>').len();
        let unstuffed = if flow.is_some() && quotes == 0 { line.strip_prefix(' ').unwrap_or(line) } else { line };
        // What stands below `-- ` is the signature.
        let is_sign = line.trim_start_matches(['>', ' ']) == "-- ";
        if let Some(flow) = flow.filter(|_| goes_on == Some(quotes) && !is_sign) {
            if flow.drops_space {
                plain.pop();
            }
            plain.push_str(unstuffed.trim_start_matches('>').trim_start());
        } else {
            if !plain.is_empty() {
                plain.push('\n');
            }
            plain.push_str(if unstuffed.starts_with('#') { "    " } else { "" });
            plain.push_str(unstuffed);
        }
        goes_on = (line.ends_with(' ') && !is_sign && !line.trim().is_empty()).then_some(quotes);
    }
    plain
}

/// What a mail says, and the files in it.
struct MailContent<'p, 'a> {
    limits: &'p ParseLimits,
    texts: Vec<MailText>,
    files: Vec<&'p SinglePart<'a>>,
    is_encrypted: bool,
    has_damaged: bool,
}

/// How the lines of a text go on in the next ones (RFC 3676).
#[derive(Clone, Copy)]
struct Flow {
    /// Whether the space at the end of a line that goes on is no part of the text.
    drops_space: bool,
}

/// A text of a mail.
struct MailText {
    text: String,
    /// What a web page says.
    page: Option<Parsed>,
    flow: Option<Flow>,
    problems: Vec<ReadingProblem>,
}

impl MailText {
    fn letters(&self) -> usize {
        let text = self.page.as_ref().map_or(&self.text, |page| &page.text);
        text.chars().filter(|letter| letter.is_alphanumeric()).count()
    }
}

impl<'p, 'a> MailContent<'p, 'a> {
    fn of(part: &'p MimePart<'a>, limits: &'p ParseLimits) -> Self {
        let (texts, files) = (Vec::new(), Vec::new());
        let mut content = Self { limits, texts, files, is_encrypted: false, has_damaged: false };
        content.add(part);
        content
    }

    fn add(&mut self, part: &'p MimePart<'a>) {
        let (kind, parts) = match part {
            MimePart::Single(part) => return self.add_single(part),
            MimePart::Several { kind, parts } => (kind.as_str(), parts),
        };
        match kind {
            "alternative" => self.add_alternatives(parts),
            "related" => {
                let is_shown = |part: &MimePart<'_>| match part {
                    MimePart::Single(part) => {
                        part.media_type().starts_with("image/") || part.has_content_id() && !part.is_attached()
                    }
                    MimePart::Several { .. } => false,
                };
                let others = parts.iter().skip(1).filter(|part| !is_shown(part));
                parts.iter().take(1).chain(others).for_each(|part| self.add(part));
            }
            "signed" => parts.iter().take(1).for_each(|part| self.add(part)),
            "encrypted" => self.is_encrypted = true,
            _ => parts.iter().for_each(|part| self.add(part)),
        }
    }

    /// The same text in several forms.
    fn add_alternatives(&mut self, parts: &'p [MimePart<'a>]) {
        let (mut best, mut of_best) = (None, 0_usize);
        for part in parts {
            let Self { texts, files, is_encrypted, has_damaged, .. } = Self::of(part, self.limits);
            let named =
                files.into_iter().filter(|file| file.file_name().is_some() || file.media_type() == "message/rfc822");
            self.files.extend(named);
            self.is_encrypted |= is_encrypted;
            self.has_damaged |= has_damaged;
            let letters = texts.iter().map(MailText::letters).sum::<usize>();
            let has_table = texts.iter().filter_map(|text| text.page.as_ref()).any(|page| !page.tables.is_empty());
            let is_better = best.is_none()
                || letters > 0 && of_best == 0
                || has_table
                || letters > of_best.saturating_mul(MUCH_MORE);
            if is_better && !texts.is_empty() {
                (best, of_best) = (Some(texts), letters);
            }
        }
        self.texts.extend(best.unwrap_or_default());
    }

    fn add_single(&mut self, part: &'p SinglePart<'a>) {
        let media_type = part.media_type();
        let is_text = ["text/plain", "text/html", "message/delivery-status"].contains(&media_type.as_str());
        match media_type.as_str() {
            // How pages look, and programs in them, are no texts.
            "text/css" | "text/javascript" | "text/x-amp-html" => {}
            "application/pgp-signature" | "application/pkcs7-signature" | "application/x-pkcs7-signature" => {}
            "application/pkcs7-mime" | "application/x-pkcs7-mime" => self.is_encrypted = true,
            _ if !is_text || part.is_attached() || part.file_name().is_some() => {
                let decoded = part.decode();
                self.has_damaged |= decoded.is_damaged;
                if !decoded.bytes.is_empty() || part.file_name().is_some() {
                    self.files.push(part);
                }
            }
            _ => self.add_text(part, &media_type),
        }
    }

    fn add_text(&mut self, part: &'p SinglePart<'a>, media_type: &str) {
        let decoded = part.decode();
        self.has_damaged |= decoded.is_damaged;
        let says = |name: &str, value: &str| part.parameter(name).is_some_and(|said| said.eq_ignore_ascii_case(value));
        let flow = says("format", "flowed").then(|| Flow { drops_space: says("delsp", "yes") });
        if media_type != "text/html" {
            let text::Decoded { text, problems } = part.text(&decoded.bytes, None);
            self.texts.push(MailText { text, page: None, flow, problems });
            return;
        }
        let read = part.text(&decoded.bytes, html::declared_encoding(&decoded.bytes).as_deref());
        let (page, problems) = match html::parse_decoded(read, self.limits) {
            Ok(page) => (page, Vec::new()),
            Err(reason) => {
                let detail = format!("the web page of the mail: {reason}");
                let problem = ReadingProblem { kind: ReadingProblemKind::UnreadPart, page: None, detail };
                (Parsed::default(), vec![problem])
            }
        };
        self.texts.push(MailText { text: String::new(), page: Some(page), flow, problems });
    }
}

/// The files that are attached to a mail, and the mails in it.
fn attachments(
    bytes: &[u8],
    limits: &ParseLimits,
    each: &mut dyn FnMut(InnerFile<'_>) -> bool,
) -> Result<(), LoadError> {
    let mail = Mail::read(bytes, limits)?;
    for part in MailContent::of(&mail.content, limits).files {
        let decoded = part.decode();
        let names_encoding = part.parameter("charset").is_some()
            && ["text/plain", "text/csv", "text/tab-separated-values"].contains(&part.media_type().as_str());
        let bytes = match names_encoding {
            // The file itself does not say what the mail says of it.
            true => part.text(&decoded.bytes, None).text.into_bytes().into(),
            false => decoded.bytes,
        };
        let goes_on = each(InnerFile { name: name_of(part), bytes, is_damaged: decoded.is_damaged });
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// The name of a file in a mail.
fn name_of(part: &SinglePart<'_>) -> String {
    if let Some(name) = part.file_name() {
        return file_name(name);
    }
    match part.media_type().as_str() {
        "message/rfc822" | "message/global" => mail_name(&part.decode().bytes),
        "application/pdf" => "attachment.pdf".to_owned(),
        "text/plain" => "attachment.txt".to_owned(),
        "text/html" => "attachment.html".to_owned(),
        "text/csv" => "attachment.csv".to_owned(),
        _ => "attachment".to_owned(),
    }
}

/// The name of a mail that has no file of its own: its date and its subject.
pub(super) fn mail_name(mail: &[u8]) -> String {
    let mail = Mail::read_headers(mail);
    let (date, subject) = mail.map_or((None, None), |mail| (mail.date, mail.subject));
    let words: Vec<String> = date.into_iter().chain(subject).collect();
    let name = if words.is_empty() { "mail".to_owned() } else { words.join(" ") };
    // A stroke in a subject begins no folder.
    file_name(&format!("{}.eml", name.replace(['/', '\\'], "_")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::plain("a.eml", MAIL.as_bytes())
    }

    /// Two forms of a text with a table, a file and a mail.
    const MAIL: &str = "Return-Path: <ada@example.org>
From: =?utf-8?q?Ad=C3=A4?= Mill <ada@example.org>
To: Bo <bo@example.org>, cy@example.org
Cc: Di <di@example.org>
Subject: Prices of
 the mill
Date: Tue, 5 Mar 2024 09:30:00 +0100
Message-ID: <1@example.org>
In-Reply-To: <0@example.org>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=\"out er\"

A program that reads no parts shows this.
--out er
Content-Type: multipart/alternative; boundary=in

--in
Content-Type: text/plain; charset=iso-8859-1; format=flowed
Content-Transfer-Encoding: quoted-printable

Dear Bo,=20
rye is dear in Z=FCrich.

# no heading
> What does rye=20
> cost?
--=20
Ada
--in
Content-Type: multipart/related; boundary=rel

--rel
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: base64

PHA+RGVhciBCbyw8L3A+PHRhYmxlPjx0cj48dGg+Z3JhaW48L3RoPjx0aD5wcmljZTwvdGg+PC90
cj48dHI+PHRkPnJ5ZTwvdGQ+PHRkPjQyPC90ZD48L3RyPjwvdGFibGU+PGJsb2NrcXVvdGU+V2hh
dCBkb2VzIHJ5ZSBjb3N0PzwvYmxvY2txdW90ZT4=
--rel
Content-Type: image/png
Content-ID: <logo>
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--rel--
--in--
--out er
Content-Type: text/csv; name=\"../prices.csv\"
Content-Disposition: attachment; filename=\"../prices.csv\"

grain,price
rye,42
--out er
Content-Type: message/rfc822

From: Bo <bo@example.org>
Subject: Fwd: a/b
Date: Mon, 4 Mar 2024 10:00:00 +0000

What does rye cost?
--out er--
";

    fn parsed(mail: &str) -> Parsed {
        parse(mail.as_bytes(), &ParseLimits::default()).unwrap()
    }

    #[test]
    fn a_mail_says_who_wrote_to_whom_and_its_page_is_taken_for_its_table() {
        let mail = parsed(MAIL);
        let expected = "# Prices of the mill\n\nFrom: Adä Mill <ada@example.org>\nTo: Bo <bo@example.org>, cy@example.org\n\
            Cc: Di <di@example.org>\nDate: 2024-03-05 09:30 +01:00\nAttachments: prices.csv, 2024-03-04 Fwd: a_b.eml\n\n\
            Dear Bo,\n\n| grain | price |\n| --- | --- |\n| rye | 42 |\n>\n> What does rye cost?";
        assert_eq!(mail.text, expected);
        assert_eq!(&mail.text[mail.tables[0].span.start..][..7], "| grain");
        assert_eq!((mail.title.as_deref(), mail.author.as_deref()), (Some("Prices of the mill"), Some("Adä Mill")));
        assert_eq!(
            (mail.metadata["date"].as_str(), mail.metadata["in_reply_to"].as_str()),
            (Some("2024-03-05"), Some("0@example.org"))
        );
        assert!(mail.problems.is_empty(), "{:?}", mail.problems);
    }

    #[test]
    fn plain_text_is_taken_where_the_page_says_no_more() {
        let mail = parsed(&MAIL.replace(
            "PHA+RGVhciBCbyw8L3A+PHRhYmxlPjx0cj48dGg+Z3JhaW48L3RoPjx0aD5wcmljZTwvdGg+PC90\n\
            cj48dHI+PHRkPnJ5ZTwvdGQ+PHRkPjQyPC90ZD48L3RyPjwvdGFibGU+PGJsb2NrcXVvdGU+V2hh\n\
            dCBkb2VzIHJ5ZSBjb3N0PzwvYmxvY2txdW90ZT4=",
            "PHA+RGVhciBCbyw8L3A+",
        ));
        let body = mail.text.split_once(".eml\n\n").unwrap().1;
        assert_eq!(body, "Dear Bo, rye is dear in Zürich.\n\n    # no heading\n> What does rye cost?\n-- \nAda");
        assert_eq!(mail.headings.len(), 1);
    }

    #[test]
    fn encodings_flowed_lines_and_forms_of_other_programs_are_read_as_they_say() {
        let japanese = b"From: a\nContent-Type: text/html; charset=iso-2022-jp\n\n<meta charset=iso-2022-jp><p>\x1b$B$3$s\x1b(B</p>";
        let parsed = super::parse(japanese, &ParseLimits::default()).unwrap();
        assert!(parsed.text.ends_with("こん"), "{}", parsed.text);
        let flow = Flow { drops_space: true };
        assert_eq!(plain("a/lo \nng \n-- \nAda", Some(flow)), "a/long \n-- \nAda");
        let amp = "From: a\nSubject: x\nContent-Type: multipart/alternative; boundary=b\n\n--b\n\nshort\n--b\n\
            Content-Type: text/x-amp-html\n\n<html amp4email>and very much longer markup that nobody should read</html>\n--b\n\
            Content-Type: text/calendar\n\nBEGIN:VCALENDAR and very much more of it\n--b--\n";
        assert!(self::parsed(amp).text.ends_with("\n\nshort"), "{}", self::parsed(amp).text);
    }

    #[test]
    fn what_is_encrypted_or_damaged_is_told() {
        let told = |mail: &str| parsed(mail).problems.into_iter().map(|problem| problem.detail).collect::<Vec<_>>();
        let head = "From: a@example.org\nSubject: x\n";
        let encrypted = format!("{head}Content-Type: multipart/encrypted; boundary=b\n\n--b\n\nx\n--b--\n");
        assert_eq!(told(&encrypted), ["a part of the mail is encrypted, or wrapped in a signature"]);
        let damaged = format!("{head}Content-Transfer-Encoding: base64\n\nbWls*bA==");
        assert_eq!(told(&damaged), ["a part of the mail is damaged: what could be decoded was read"]);
    }

    #[test]
    fn a_text_that_begins_as_a_mail_is_one() {
        let begins = ["From: a\nDate: b\n\nwords", "Received: x\n\tby y\nX-A: b\n", "Subject: a\nFrom: b\nMIME-Ver"];
        assert_eq!(begins.map(begins_as_mail), [true, true, false]);
        let others = [
            "From: a\n\nDate: b",
            "Note: words\nand more\n",
            "From: here\nTo: there\n",
            "Date: 5 May\nPlace: Bern\n",
            "",
        ];
        assert_eq!(others.map(begins_as_mail), [false; 5]);
    }
}
