//! `load::pdf_page`: what the parsers of PDFs have in common: a page, its lines, and what was read badly on it.

use crate::types::{ReadingProblem, ReadingProblemKind};
use pdfium_render::prelude::{PdfDocument, PdfPage, PdfRect};
use serde::{Deserialize, Serialize};

/// Fewer symbols without a letter on a page are taken for bullets.
const UNMAPPED: usize = 20;

/// Why a page was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UnreadPage {
    Damaged,
    /// The process that read it ended.
    Crashed,
    TooSlow,
}

impl UnreadPage {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Damaged => "the page is damaged",
            Self::Crashed => "PDFium crashed on the page",
            Self::TooSlow => "the page took too long to read",
        }
    }
}

/// A page by its number from 1; none if it is damaged.
pub(super) fn page<'d>(document: &'d PdfDocument<'_>, number: u32) -> Option<PdfPage<'d>> {
    document.pages().get(i32::try_from(number.checked_sub(1)?).ok()?).ok()
}

/// A page's text line by line, or none where the page is damaged.
pub(super) fn page_text(page: &PdfPage<'_>) -> Option<String> {
    let text = page.text().ok()?;
    // `all()` drops text outside a box from (0, 0), so pages with other
    // coordinates would lose text.
    let all = text.inside_rect(PdfRect::new_from_values(-1e6, -1e6, 1e6, 1e6));
    if all.is_empty() && !text.is_empty() {
        // Half of a surrogate pair makes the text of a whole page undecodable, so each character is read alone.
        return Some(text.chars().iter().filter_map(|character| character.unicode_char()).collect());
    }
    Some(all)
}

/// What was read badly on a page with this text.
pub(super) fn problems(number: u32, unread: Option<UnreadPage>, is_blank: bool, text: &str) -> Vec<ReadingProblem> {
    let mut found = Vec::new();
    let mut tell = |kind, detail: String| found.push(ReadingProblem { kind, page: Some(number), detail });
    if let Some(unread) = unread {
        tell(ReadingProblemKind::UnreadPart, unread.in_words().to_owned());
    } else if is_blank {
        tell(ReadingProblemKind::NoText, "the page has no text".to_owned());
    }
    let replaced = text.matches('\u{fffd}').count();
    if replaced > 0 {
        tell(ReadingProblemKind::ReplacedCharacters, format!("{} on the page", characters(replaced, "U+FFFD")));
    }
    // Fonts that do not name their letters give numbers that Unicode leaves to each program.
    let unmapped = text.chars().filter(|character| matches!(character, '\u{e000}'..='\u{f8ff}')).count();
    if unmapped > UNMAPPED {
        tell(
            ReadingProblemKind::UnmappedFont,
            format!("{} on the page", characters(unmapped, "symbols without a letter")),
        );
    }
    found
}

fn characters(count: usize, what: &str) -> String {
    format!("{count} {} as {what}", if count == 1 { "character stands" } else { "characters stand" })
}
