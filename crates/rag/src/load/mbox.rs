//! `load::mbox`: a mailbox: one mail behind the other. Each is a document of its own, and the mailbox has no text.
//!
//! Source: RFC 4155; lines that begin with `From ` are quoted with `>` in mails, as `mboxrd` does.

use super::eml::mail_name;
use super::format::{FileFormat, InnerFile, InnerFiles, Signature};
use super::mime::begins_with_header;
use super::{LoadError, ParseLimits};
use memchr::memmem;
use std::borrow::Cow;

/// What each mail begins with, at the beginning of a line.
const FROM: &[u8] = b"From ";

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["mbox"],
    signature: Signature::Text { begins: |head| begins_mail(head.as_bytes()), called: "a mailbox" },
    parse: |_, _| Err(LoadError::Empty("a mailbox has no text beside its mails".to_owned())),
    inner_files: Some(InnerFiles::Only(mails)),
    keeps_headings: true,
    without_text: "the mailbox has no mail",
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

fn mails(bytes: &[u8], _: &ParseLimits, each: &mut dyn FnMut(InnerFile<'_>) -> bool) -> Result<(), LoadError> {
    let bytes = bytes.trim_ascii_start();
    let starts = memmem::find_iter(bytes, FROM).filter(|&at| is_start(bytes, at));
    let starts: Vec<usize> = starts.collect();
    if starts.is_empty() {
        return Err(LoadError::Broken("no line begins a mail: `From `, a sender and a date".to_owned()));
    }
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    for (start, end) in starts.iter().copied().zip(ends) {
        let begins = memchr::memchr(b'\n', &bytes[start..end]).map_or(end, |line| start + line + 1);
        let mail = unquoted(&bytes[begins..end]);
        if !each(InnerFile { name: mail_name(&mail), bytes: mail, is_damaged: false }) {
            break;
        }
    }
    Ok(())
}

/// Whether a mail begins here: behind a blank line, and with headers below.
fn is_start(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    let is_behind_blank = before.is_empty() || before.ends_with(b"\n\n") || before.ends_with(b"\n\r\n");
    is_behind_blank && begins_mail(&bytes[at..])
}

/// Whether a line with a sender and a date stands here, and a header below it.
fn begins_mail(bytes: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', bytes) else { return false };
    let line = String::from_utf8_lossy(&bytes[..end.min(1000)]);
    let Some(line) = line.strip_prefix("From ") else { return false };
    let is_year = |word: &str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = |word: &str| {
        word.len() >= 5 && word.contains(':') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    };
    line.split_whitespace().any(is_year)
        && line.split_whitespace().any(is_time)
        && begins_with_header(&bytes[end + 1..])
}

/// The mail without the marks before lines that begin with `From `.
fn unquoted(mail: &[u8]) -> Cow<'_, [u8]> {
    if memmem::find(mail, b">From ").is_none() {
        return Cow::Borrowed(mail);
    }
    let mut plain = Vec::with_capacity(mail.len());
    for line in mail.split_inclusive(|byte| *byte == b'\n') {
        let quotes = line.iter().take_while(|byte| **byte == b'>').count();
        let is_quoted = quotes > 0 && line[quotes..].starts_with(FROM);
        plain.extend_from_slice(&line[usize::from(is_quoted)..]);
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::plain("a.mbox", MAILBOX.as_bytes())
    }

    const MAILBOX: &str = "From ada@example.org Tue Mar  5 09:30:00 2024
From: ada@example.org
Subject: One
Date: Tue, 5 Mar 2024 09:30:00 +0100

>From here it is far.
>>From there too.

From there it was 10:30 in 2024,
and no mail begins.

From bo@example.org Wed Mar  6 09:30:00 2024
From: bo@example.org
Subject: One
Date: Tue, 5 Mar 2024 10:30:00 +0100

Two.
";

    #[test]
    fn mails_are_named_by_date_and_subject_and_begin_only_where_a_header_follows() {
        let mut found = Vec::new();
        let limits = ParseLimits::default();
        mails(MAILBOX.as_bytes(), &limits, &mut |file| {
            found.push((file.name, String::from_utf8(file.bytes.into_owned()).unwrap()));
            true
        })
        .unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0, "2024-03-05 One.eml");
        assert!(
            found[0].1.ends_with(
                "\nFrom here it is far.\n>From there too.\n\nFrom there it was 10:30 in 2024,\nand no mail begins.\n\n"
            ),
            "{}",
            found[0].1
        );
        assert!(found[1].1.starts_with("From: bo"), "{}", found[1].1);
        let without = mails(b"words", &limits, &mut |_| true);
        assert!(matches!(without, Err(LoadError::Broken(_))));
    }
}
