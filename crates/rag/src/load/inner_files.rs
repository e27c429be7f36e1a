//! `load::inner_files`: files in files: attachments of a mail, and the mails of a mailbox. Each is a document of its own,
//! whose path begins with that of the file that it is in: `inbox/mail.eml/invoice.pdf`.

use super::format::{InnerFile, InnerFiles};
use super::{LoadError, ParseLimits, panic_message, parse, sniff};
use crate::Document;
use bytes::Bytes;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The deepest nesting of files in files, such as of mails that were forwarded with all their attachments.
const MOST_NESTED: usize = 8;
/// The longest name of a file in a file, in characters.
const NAME_CHARACTERS: usize = 120;

/// Is called with the path of a file, and its bytes or why it cannot be read.
pub type VisitFile<'v> = dyn FnMut(&str, Result<&[u8], LoadError>) + 'v;

/// Calls `each` with a file and with every file in it, each with its path, its bytes, or why it cannot be read. A mailbox
/// itself is left out, because it has no text of its own. Never calls it for nothing: a file in which nothing can be found is
/// given as it is.
///
/// Files in files are read to a depth of 8. Together they are at most [`ParseLimits::pages`] files and
/// [`ParseLimits::unpacked_bytes`]; where one of these ends the reading, the path of the rest is that
/// of the file with `/…`, and the reason is its error.
pub fn visit_files(path: &str, bytes: &[u8], limits: &ParseLimits, each: &mut VisitFile<'_>) {
    let mut visit = Visit { limits, files: limits.pages, bytes: limits.unpacked_bytes, each };
    visit.file(path, bytes, 0);
}

/// Calls `each` with what [`parse`] makes of the content of a file and of every file in it ([`visit_files`]), each with its
/// path.
pub fn parse_files(
    path: &str,
    content: Result<&[u8], LoadError>,
    limits: &ParseLimits,
    each: &mut dyn FnMut(&str, Result<Document, LoadError>),
) {
    match content {
        Err(reason) => each(path, Err(reason)),
        Ok(bytes) => visit_files(path, bytes, limits, &mut |path, bytes| {
            each(path, bytes.and_then(|bytes| parse(path, bytes, limits)));
        }),
    }
}

/// What was found of a path in a file.
#[derive(Debug)]
pub struct FileLookup {
    /// The bytes of the file of this path, or why it cannot be read; none if there is no such file.
    pub found: Option<Result<Bytes, LoadError>>,
    /// The paths of the other files.
    pub others: Vec<String>,
}

/// Looks in a file, whose path is `outer`, for the file of the path `wanted`. The path of the file itself finds it, unless it
/// is a mailbox.
pub fn find_file(outer: &str, bytes: &Bytes, wanted: &str, limits: &ParseLimits) -> FileLookup {
    let mut lookup = FileLookup { found: None, others: Vec::new() };
    visit_files(outer, bytes, limits, &mut |path, content| match path == wanted {
        true => {
            lookup.found = Some(content.map(|content| match path == outer {
                true => bytes.clone(),
                false => Bytes::copy_from_slice(content),
            }))
        }
        false => lookup.others.push(path.to_owned()),
    });
    lookup
}

/// A walk through a file and the files in it.
struct Visit<'v> {
    limits: &'v ParseLimits,
    /// How many files may still be read.
    files: u32,
    /// How many bytes they may still have.
    bytes: u64,
    each: &'v mut VisitFile<'v>,
}

impl Visit<'_> {
    fn file(&mut self, path: &str, bytes: &[u8], depth: usize) {
        let is_small = self.limits.check_file(bytes.len() as u64).is_ok();
        let format = if is_small { sniff::format(path, bytes).ok() } else { None };
        let (files, has_text) = match format.map(|format| &format.definition().inner_files) {
            Some(Some(InnerFiles::Beside(files))) => (*files, true),
            Some(Some(InnerFiles::Only(files))) => (*files, false),
            _ => return (self.each)(path, Ok(bytes)),
        };
        if has_text {
            (self.each)(path, Ok(bytes));
        }
        let mut names = HashMap::new();
        let mut stopped = None;
        let limits = self.limits;
        let mut inner = |file: InnerFile<'_>| {
            let name = distinct(file.name, &mut names);
            let inner_path = format!("{path}/{name}");
            stopped = self.count(file.bytes.len() as u64, depth).err();
            if stopped.is_some() {
                return false;
            }
            if file.bytes.is_empty() || file.is_damaged && file.bytes.len() < 16 {
                (self.each)(&inner_path, Err(LoadError::Broken("it cannot be decoded".to_owned())));
            } else {
                self.file(&inner_path, &file.bytes, depth + 1);
            }
            true
        };
        let read = catch_unwind(AssertUnwindSafe(|| files(bytes, limits, &mut inner)));
        let read = read.unwrap_or_else(|panic| Err(LoadError::Broken(panic_message(&*panic))));
        match (stopped, read) {
            // The path of the file itself was given already.
            (Some(reason), _) => (self.each)(&format!("{path}/…"), Err(reason)),
            // Its own text was given, or refused for the same reason.
            (None, Err(reason)) if !has_text => (self.each)(path, Err(reason)),
            _ => {}
        }
    }

    /// Counts a file in a file.
    fn count(&mut self, bytes: u64, depth: usize) -> Result<(), LoadError> {
        let over = |what: String| LoadError::OverLimit(format!("{what}: the rest of the files in it was not read"));
        if depth >= MOST_NESTED {
            return Err(over(format!("files are nested more than {MOST_NESTED} deep")));
        }
        let more = |limit: u64, what: &str, key: &str| {
            over(format!("more than {limit} {what} (`{key}` under [corpus.limits])"))
        };
        self.files = self.files.checked_sub(1).ok_or_else(|| more(self.limits.pages.into(), "files", "pages"))?;
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| more(self.limits.unpacked_bytes, "bytes", "unpacked_bytes"))?;
        Ok(())
    }
}

/// A name that no earlier file of the same file has: `name (2).pdf`.
fn distinct(name: String, names: &mut HashMap<String, u32>) -> String {
    let count = names.entry(name.to_lowercase()).or_insert(0);
    *count += 1;
    if *count == 1 {
        return name;
    }
    let number = *count;
    let (stem, ending) = split_ending(&name);
    let numbered = format!("{stem} ({number}){ending}");
    // A file may be called so already.
    distinct(numbered, names)
}

/// A name without its ending, and the ending with its dot.
fn split_ending(name: &str) -> (&str, &str) {
    let dot = name.rfind('.').filter(|&dot| dot > 0 && name.len() - dot <= 10);
    name.split_at(dot.unwrap_or(name.len()))
}

/// A name that can be a part of a path: without folders and control characters, and not too long.
pub(super) fn file_name(written: &str) -> String {
    let last = written.rsplit(['/', '\\']).next().unwrap_or(written);
    let clean: String = last.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let name = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    let (stem, ending) = split_ending(&name);
    let kept: String = stem.chars().take(NAME_CHARACTERS).collect();
    let name = format!("{}{ending}", kept.trim());
    if name.trim_matches(['.', ' ']).is_empty() { "attachment".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::zipped;
    use super::*;

    fn visited(path: &str, bytes: &[u8], limits: &ParseLimits) -> Vec<(String, Result<usize, LoadError>)> {
        let mut visited = Vec::new();
        visit_files(path, bytes, limits, &mut |path, bytes| visited.push((path.to_owned(), bytes.map(<[u8]>::len))));
        visited
    }

    fn with_parts(subject: &str, parts: &[&str]) -> String {
        let parts: String = parts.iter().map(|part| format!("--=b\n{part}\n")).collect();
        format!(
            "From: a@example.org\nSubject: {subject}\nContent-Type: multipart/mixed; boundary=\"=b\"\n\n{parts}--=b--\n"
        )
    }

    #[test]
    fn other_files_are_given_as_they_are() {
        let limits = ParseLimits::default();
        for (path, bytes) in
            [("a.txt", &b"words"[..]), ("a.docx", &zipped(&[("a", "b")])), ("a.pdf", b""), ("a.xyz", b"\x00\x01")]
        {
            assert_eq!(visited(path, bytes, &limits), [(path.to_owned(), Ok(bytes.len()))]);
        }
    }

    #[test]
    fn attachments_follow_their_mail_and_names_are_told_apart() {
        let file = "Content-Disposition: attachment; filename=../a.csv\n\nb,c";
        let inner = with_parts("in/ner", &[file]).replace("=b", "=c");
        let message = format!("Content-Type: message/rfc822\n\n{inner}");
        let empty = "Content-Disposition: attachment; filename=b.pdf\nContent-Transfer-Encoding: base64\n\n!!!";
        let mail = with_parts("outer", &["\ntext", file, file, &message, empty]);
        let found = visited("m.eml", mail.as_bytes(), &ParseLimits::default());
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        let expected =
            ["m.eml", "m.eml/a.csv", "m.eml/a (2).csv", "m.eml/in_ner.eml", "m.eml/in_ner.eml/a.csv", "m.eml/b.pdf"];
        assert_eq!(paths, expected);
        assert!(matches!(found[5].1, Err(LoadError::Broken(_))));
        assert_eq!(found[2].1, Ok(3));
        let box_of_one = format!("From a Tue Mar  5 09:30:00 2024\n{mail}");
        let found = visited("all.mbox", box_of_one.as_bytes(), &ParseLimits::default());
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths[..2], ["all.mbox/outer.eml", "all.mbox/outer.eml/a.csv"]);
    }

    #[test]
    fn mails_in_mails_and_many_files_end_with_a_reason() {
        let (mut nested, head) =
            ("Subject: deep\n\nwords".to_owned(), "From: a\nSubject: x\nContent-Type: message/rfc822\n\n");
        for _ in 0..2_000 {
            nested = format!("{head}{nested}");
        }
        let found = visited("m.eml", nested.as_bytes(), &ParseLimits::default());
        let reasons = |found: &[(String, Result<usize, LoadError>)]| -> Vec<String> {
            found.iter().filter_map(|(path, bytes)| Some(format!("{path}: {}", bytes.as_ref().err()?))).collect()
        };
        assert_eq!(found.len(), 10, "{found:?}");
        assert!(reasons(&found)[0].contains("nested more than 8 deep"), "{:?}", reasons(&found));
        let mail = with_parts("x", &["Content-Disposition: attachment; filename=a.txt\n\nwords"; 5]);
        let limits = ParseLimits { pages: 5, ..ParseLimits::default() };
        assert_eq!(visited("m.eml", mail.as_bytes(), &limits).len(), 6);
        let limits = ParseLimits { unpacked_bytes: 12, ..limits };
        let found = visited("m.eml", mail.as_bytes(), &limits);
        let expected = "m.eml/…: over a limit: more than 12 bytes (`unpacked_bytes` under [corpus.limits]): the rest of the \
                        files in it was not read";
        assert_eq!(reasons(&found), [expected]);
        assert_eq!(visited("a.mbox", b"From here on, words.", &ParseLimits::default()).len(), 1);
    }

    #[test]
    fn names_are_parts_of_a_path() {
        for (written, name) in [
            ("../../etc/passwd", "passwd"),
            ("C:\\a\\b.pdf", "b.pdf"),
            ("a\r\n b\0.txt", "a b.txt"),
            ("..", "attachment"),
            ("", "attachment"),
        ] {
            assert_eq!(file_name(written), name);
        }
        assert_eq!(file_name(&format!("{}.pdf", "x".repeat(500))).len(), NAME_CHARACTERS + 4);
    }
}
