//! `load::sniff`: finds out the format of a file from its bytes. The name only
//! decides between formats that look alike (plain text and Markdown), and tells
//! what was expected if the bytes cannot be read.

use super::format::{Entries, Signature};
use super::{Format, LoadError, text};

/// Binary files that are worth naming in a report.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"\xFF\xD8\xFF", "a JPEG image"),
    (b"\x89PNG\r\n\x1A\n", "a PNG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF file (WebP, WAV or AVI)"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"\x1F\x8B", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xFD7zXZ\0", "an xz archive"),
    (b"7z\xBC\xAF\x27\x1C", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7FELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"%!PS", "PostScript"),
    (b"AT&TFORM", "a DjVu file"),
    (b"ITSF", "a compiled HTML help file"),
    (b"SQLite format 3", "an SQLite database"),
];

/// What Office files before 2007 begin with, and encrypted ones since.
pub(super) const COMPOUND_FILE: &[u8] = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";

pub(super) fn format(path: &str, bytes: &[u8]) -> Result<Format, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty("the file has no bytes".to_owned()));
    }
    let extension = extension(path);
    let named = extension.as_deref().and_then(by_extension);
    let unreadable = |found: &str| match (named, &extension) {
        (Some(_), Some(extension)) => {
            LoadError::Mislabelled { named: format!(".{extension}"), found: found.to_owned() }
        }
        _ => LoadError::UnknownFormat(found.to_owned()),
    };

    if let Some(format) = by_bytes(bytes, named) {
        return Ok(format);
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return in_archive(bytes, named).and_then(|found| found.map_err(unreadable));
    }
    if bytes.starts_with(COMPOUND_FILE) {
        let old = "an old binary Office file; save it as .docx or .pptx";
        return Err(in_compound_file(bytes).unwrap_or_else(|| match named {
            Some(Format::Xls) => LoadError::Broken("no sheets are found in the workbook".to_owned()),
            _ => unreadable(old),
        }));
    }
    if let Some((_, name)) = SIGNATURES.iter().find(|(signature, _)| bytes.starts_with(signature)) {
        // Text may begin with `MZ`, `BZh` or `GIF8`; text has no control bytes.
        if is_binary(bytes) || *name == "PostScript" {
            return Err(unreadable(name));
        }
    }
    if is_binary(bytes) {
        return Err(unreadable("unknown binary data"));
    }
    let by_text = by_text(bytes);
    if named.is_some_and(|named| !named.definition().signature.is_text()) {
        // Mostly what a failed download left behind, which must not be cited as the book.
        return Err(unreadable(by_text.map_or("plain text", |(_, called)| called)));
    }
    match (by_text, named, extension) {
        (Some((format, _)), _, _) | (None, Some(format), _) => Ok(format),
        (None, None, None) => Ok(Format::Text),
        (None, None, Some(extension)) => Err(LoadError::UnknownFormat(format!(
            "text, but .{extension} files are not read; rename it to .txt if it is prose"
        ))),
    }
}

/// The lower-case extension of a path's last component. `.profile` has none.
pub(super) fn extension(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty() && !extension.is_empty()).then(|| extension.to_lowercase())
}

/// What an extension promises.
pub(super) fn by_extension(extension: &str) -> Option<Format> {
    Format::ALL.iter().copied().find(|format| format.definition().extensions.contains(&extension))
}

/// The format whose own bytes these are.
fn by_bytes(bytes: &[u8], named: Option<Format>) -> Option<Format> {
    let mut formats = Format::ALL.iter().copied();
    formats.find(|format| match &format.definition().signature {
        Signature::Bytes(is) => is(bytes, named == Some(*format)),
        _ => false,
    })
}

/// The format of a ZIP archive; the inner error names another kind of archive.
fn in_archive(bytes: &[u8], named: Option<Format>) -> Result<Result<Format, &'static str>, LoadError> {
    let entries = match Entries::read(bytes) {
        Ok(entries) => entries,
        Err(error) if named.is_some_and(|named| matches!(named.definition().signature, Signature::Archive(_))) => {
            return Err(LoadError::Broken(format!("the archive cannot be read: {error}")));
        }
        Err(_) => return Ok(Err("a damaged ZIP archive")),
    };
    let mut formats = Format::ALL.iter().copied();
    let found = formats.find(|format| match &format.definition().signature {
        Signature::Archive(is) => is(&entries),
        _ => false,
    });
    Ok(if let Some(format) = found {
        Ok(format)
    } else if entries.has("xl/workbook.bin") {
        Err("a binary Excel workbook; save it as .xlsx")
    } else {
        Err("a ZIP archive")
    })
}

/// The format of a text that begins as no other does, and what it is called.
fn by_text(bytes: &[u8]) -> Option<(Format, &'static str)> {
    let head = text::decode(&bytes[..bytes.len().min(4096)], None);
    Format::ALL.iter().find_map(|format| match &format.definition().signature {
        Signature::Text { begins, called } => begins(&head).then_some((*format, *called)),
        _ => None,
    })
}

/// Encrypted Office files are OLE containers with a stream of this name.
fn in_compound_file(bytes: &[u8]) -> Option<LoadError> {
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.windows(name.len()).any(|window| window == name).then_some(LoadError::Encrypted)
}

/// Whether bytes are no text in any encoding: control characters beyond those
/// of text files, in the first 8 KiB.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(8192)];
    let marked = sample.starts_with(b"\xFF\xFE") || sample.starts_with(b"\xFE\xFF");
    if marked || text::utf16_without_mark(sample).is_some() {
        return false;
    }
    let control = |byte: &&u8| **byte < 0x20 && !matches!(**byte, b'\t' | b'\n' | b'\r' | 0x0C | 0x08 | 0x1B);
    let count = sample.iter().filter(control).count();
    // A single control byte in a long text is allowed; in binary data one in ten bytes is one.
    count * 50 > sample.len()
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::zipped;
    use super::*;

    #[test]
    fn content_decides_over_the_name() {
        assert_eq!(format("a.txt", b"%PDF-1.7\n\xE2\xE3"), Ok(Format::Pdf));
        assert_eq!(format("a.txt", b"\n<!-- x --><!DOCTYPE HTML><p>"), Ok(Format::Html));
        assert_eq!(format("a.txt", b"<?xml version='1.0'?><html>"), Ok(Format::Html));
    }

    #[test]
    fn the_name_decides_between_kinds_of_text() {
        assert_eq!(format("a.MD", b"words"), Ok(Format::Markdown));
        assert_eq!(format("a.html", b"words <b>here</b>"), Ok(Format::Html));
        assert_eq!(format("a/README", b"words"), Ok(Format::Text));
        assert!(matches!(format("a.css", b"p { }"), Err(LoadError::UnknownFormat(_))));
    }

    #[test]
    fn prose_about_pdf_is_prose() {
        assert_eq!(format("a.md", b"A file begins with %PDF-1.7 and so on"), Ok(Format::Markdown));
        assert_eq!(format("a.pdf", b"junk %PDF-1.7\n"), Ok(Format::Pdf));
    }

    #[test]
    fn text_that_is_named_as_a_book_is_refused() {
        let cases =
            [("broken.pdf", &b"no PDF"[..], "plain text"), ("a.epub", b"<!DOCTYPE html><p>Log in", "a web page")];
        for (name, bytes, what) in cases {
            let Err(LoadError::Mislabelled { named, found }) = format(name, bytes) else { panic!("{name}") };
            assert!(name.ends_with(&named) && found == what, "{named} {found}");
        }
    }

    #[test]
    fn binary_data_is_named() {
        let jpeg = [b"\xFF\xD8\xFF\xE0\0\x10JFIF\0\x01\x01".as_slice(), &[0; 64]].concat();
        let expected = LoadError::Mislabelled { named: ".pdf".to_owned(), found: "a JPEG image".to_owned() };
        assert_eq!(format("photo.pdf", &jpeg), Err(expected));
        assert_eq!(format("photo.jpg", &jpeg), Err(LoadError::UnknownFormat("a JPEG image".to_owned())));
        assert!(matches!(format("a.txt", &[7; 100]), Err(LoadError::Mislabelled { .. })));
    }

    #[test]
    fn a_document_that_was_packed_again_and_a_damaged_workbook_are_known() {
        let kind = "application/vnd.oasis.opendocument.text";
        let packed = zipped(&[("content.xml", "<office:document-content/>"), ("mimetype", kind)]);
        assert_eq!(format("a.odt", &packed), Ok(Format::Odt));
        let damaged = [COMPOUND_FILE, &[7; 600]].concat();
        assert!(matches!(format("a.xls", &damaged), Err(LoadError::Broken(_))));
        assert!(matches!(format("a.docx", &damaged), Err(LoadError::Mislabelled { .. })));
    }

    #[test]
    fn no_bytes_is_empty() {
        assert!(matches!(format("a.pdf", b""), Err(LoadError::Empty(_))));
    }

    #[test]
    fn encrypted_office_files_are_told_from_old_ones() {
        let mut bytes = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".to_vec();
        bytes.extend([0; 600]);
        assert!(matches!(format("a.docx", &bytes), Err(LoadError::Mislabelled { .. })));
        bytes.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(format("a.docx", &bytes), Err(LoadError::Encrypted));
    }

    #[test]
    fn a_damaged_archive_is_broken_where_one_was_promised() {
        assert!(matches!(format("a.epub", b"PK\x03\x04 cut"), Err(LoadError::Broken(_))));
        assert!(matches!(format("a.zip", b"PK\x03\x04 cut"), Err(LoadError::UnknownFormat(_))));
    }

    #[test]
    fn utf16_text_is_text() {
        let bytes: Vec<u8> = "some words here".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(format("a.txt", &bytes), Ok(Format::Text));
    }
}
