//! PDFs, made here object by object. They need the PDFium library in the folder
//! that `REVERIE_TEST_LIBRARIES` names and are skipped, saying so, without it.

use super::super::*;
use super::assert_pages_fit;

/// Writes a PDF: a header, these objects, a cross-reference table, a trailer.
pub(super) fn pdf(objects: &[String], trailer: &str) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n%\xE2\xE3\xCF\xD3\n".to_vec();
    let mut table = String::from("0000000000 65535 f \n");
    for (index, object) in objects.iter().enumerate() {
        table.push_str(&format!("{:010} 00000 n \n", bytes.len()));
        bytes.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).bytes());
    }
    let start = bytes.len();
    let size = objects.len() + 1;
    let end = format!(
        "xref\n0 {size}\n{table}trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n"
    );
    bytes.extend(end.bytes());
    bytes
}

pub(super) fn page_with(content: &str) -> String {
    format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len())
}

/// Two pages, a title and an author, and a bookmark for each page.
fn two_pages(first: &str, second: &str, trailer: &str) -> Vec<u8> {
    let page = |content: u32| {
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [1000 1000 1600 1800] /Contents {content} 0 R
            /Resources << /Font << /F 3 0 R >> >> >>"
        )
    };
    pdf(
        &[
            "<< /Type /Catalog /Pages 2 0 R /Outlines 9 0 R >>".to_owned(),
            "<< /Type /Pages /Kids [4 0 R 5 0 R] /Count 2 >>".to_owned(),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
            page(6),
            page(7),
            page_with(first),
            page_with(second),
            "<< /Title (The Title) /Author (A. Writer) >>".to_owned(),
            "<< /Type /Outlines /First 10 0 R /Last 11 0 R /Count 2 >>".to_owned(),
            "<< /Title (One) /Parent 9 0 R /Next 11 0 R /Dest [4 0 R /Fit] >>".to_owned(),
            "<< /Title (Two) /Parent 9 0 R /Prev 10 0 R /Dest [5 0 R /Fit] >>".to_owned(),
        ],
        &format!("/Info 8 0 R {trailer}"),
    )
}

fn line(y: u32, text: &str) -> String {
    format!("BT /F 12 Tf 1050 {y} Td ({text}) Tj ET ")
}

pub(in crate::load) fn sample() -> Vec<u8> {
    let first = line(1700, "Words on the first page.") + &line(1680, "Second line.");
    two_pages(&first, &line(1700, "Words on page two."), "")
}

/// Loads the library, or says why the test does nothing.
pub(super) fn has_library() -> bool {
    match std::env::var_os("REVERIE_TEST_LIBRARIES") {
        Some(folder) => {
            bind_pdfium(&std::path::Path::new(&folder).join("libpdfium.so")).unwrap();
            true
        }
        None => {
            skips::skip("REVERIE_TEST_LIBRARIES does not name a folder with libpdfium.so");
            false
        }
    }
}

#[test]
fn pages_title_author_and_chapters_are_read() {
    if !has_library() {
        return;
    }
    let document = parse("a.txt", &sample(), &ParseLimits::default()).unwrap();
    assert_eq!(document.format, Format::Pdf);
    assert_eq!(document.text, "Words on the first page.\nSecond line.\n\nWords on page two.");
    assert_eq!((document.title.as_deref(), document.author.as_deref()), (Some("The Title"), Some("A. Writer")));
    let headings: Vec<(usize, &str)> =
        document.headings.iter().map(|heading| (heading.start, heading.title.as_str())).collect();
    assert_eq!(headings, [(0, "One"), (document.pages[1].span.start, "Two")]);
    assert_eq!(document.page_at(document.text.find("two").unwrap()).unwrap().number, 2);
    assert_pages_fit(&document);
}

/// Two pages with bookmarks that name places on them.
fn outlined(bookmarks: &[(&str, &str)]) -> Vec<u8> {
    let first = line(1700, "Intro words.") + &line(1680, "1. Mills") + &line(1660, "About mills.");
    let second = line(1700, "More of mills.") + &line(1680, "1.1  Wind") + &line(1660, "About wind.");
    let page = |content: u32| {
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [1000 1000 1600 1800] /Contents {content} 0 R
            /Resources << /Font << /F 3 0 R >> >> >>"
        )
    };
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R /Outlines 8 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [4 0 R 5 0 R] /Count 2 >>".to_owned(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
        page(6),
        page(7),
        page_with(&first),
        page_with(&second),
        format!("<< /Type /Outlines /First 9 0 R /Last {} 0 R >>", 8 + bookmarks.len()),
    ];
    for (i, (title, dest)) in bookmarks.iter().enumerate() {
        let next = if i + 1 < bookmarks.len() { format!("/Next {} 0 R", 10 + i) } else { String::new() };
        objects.push(format!("<< /Title ({title}) /Parent 8 0 R {next} /Dest {dest} >>"));
    }
    pdf(&objects, "")
}

#[test]
fn a_bookmark_begins_where_its_title_stands_and_not_on_top_of_the_page() {
    if !has_library() {
        return;
    }
    let bytes = outlined(&[("Mills", "[4 0 R /XYZ 1050 1690 0]"), ("1.1 Wind", "[5 0 R /XYZ 1050 1690 0]")]);
    let document = parse("a.pdf", &bytes, &ParseLimits::default()).unwrap();
    let found: Vec<(&str, &str)> = document
        .headings
        .iter()
        .map(|heading| (heading.title.as_str(), document.text[heading.start..].lines().next().unwrap()))
        .collect();
    assert_eq!(found, [("Mills", "1. Mills"), ("1.1 Wind", "1.1 Wind")], "{}", document.text);
}

#[test]
fn a_bookmark_whose_title_is_not_in_the_text_names_nothing_that_may_stand_before_it() {
    if !has_library() {
        return;
    }
    let bytes = outlined(&[("Mills", "[4 0 R /XYZ 1050 1690 0]"), ("A picture", "[4 0 R /XYZ 1050 1400 0]")]);
    let document = parse("a.pdf", &bytes, &ParseLimits::default()).unwrap();
    let found: Vec<(&str, usize)> =
        document.headings.iter().map(|heading| (heading.title.as_str(), heading.start)).collect();
    let mills = document.text.find("1. Mills").unwrap();
    // From its page on nobody knows; from the next page on, it is sure.
    assert_eq!(found, [("Mills", mills), ("", mills), ("A picture", document.pages[1].span.start)]);
}

#[test]
fn a_password_a_limit_and_missing_text_are_told_apart() {
    if !has_library() {
        return;
    }
    let key = "00".repeat(32);
    let locked = format!("/Encrypt << /Filter /Standard /V 1 /R 2 /O <{key}> /U <{key}> /P -4 >> /ID [<00> <00>]");
    let read = |bytes: &[u8], limits: &ParseLimits| parse("a.pdf", bytes, limits).unwrap_err();
    assert_eq!(read(&two_pages("", "", &locked), &ParseLimits::default()), LoadError::Encrypted);
    assert!(matches!(read(&two_pages("", "", ""), &ParseLimits::default()), LoadError::Empty(_)));
    let one = ParseLimits { pages: 1, ..ParseLimits::default() };
    assert!(matches!(read(&sample(), &one), LoadError::OverLimit(_)));
    assert!(matches!(read(b"%PDF-1.7\nnothing", &ParseLimits::default()), LoadError::Broken(_)));
}

#[test]
fn damaged_pdfs_never_panic() {
    if !has_library() {
        return;
    }
    let whole = sample();
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xA5;
        for bytes in [&whole[..at], &damaged] {
            if let Ok(document) = parse("a.pdf", bytes, &ParseLimits::default()) {
                assert_pages_fit(&document);
            }
        }
    }
}

#[test]
fn without_the_library_the_error_says_what_to_do() {
    let missing = bind_pdfium(std::path::Path::new("/no/such/libpdfium.so"));
    // Another test may have loaded it already; then there is nothing to say.
    assert!(matches!(missing, Ok(()) | Err(LoadError::Library(_) | LoadError::NoLibrary(_))));
}
