//! A document's text with the beginnings of its pages, and what was read badly.

use rag::{Document, ReadingProblem};
use std::{collections::BTreeMap, fmt::Write};

/// The most problems that are listed; the others are counted.
const LISTED: usize = 20;

/// The text, and a line before each page where the format has pages.
pub fn document(document: &Document) -> String {
    let (mut text, mut written) = (String::new(), 0);
    for page in &document.pages {
        text.push_str(&document.text[written..page.span.start]);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "── page {} ──", page.number);
        written = page.span.start;
    }
    text.push_str(&document.text[written..]);
    text.truncate(text.trim_end().len());
    text
}

/// One page's text alone. None if the document has no such page.
pub fn page(document: &Document, number: u32) -> Option<String> {
    let page = document.pages.iter().find(|page| page.number == number)?;
    Some(document.text[page.span.start..page.span.end].trim_end().to_owned())
}

/// What was read badly, a line for each; empty if nothing was.
pub fn problems(problems: &[ReadingProblem]) -> String {
    let mut text = String::new();
    for problem in problems.iter().take(LISTED) {
        let page = problem.page.map(|page| format!("page {page}: ")).unwrap_or_default();
        let _ = writeln!(text, "note: {page}{}", problem.detail);
    }
    if problems.len() > LISTED {
        let _ = writeln!(text, "note: and {} more (--json lists all)", problems.len() - LISTED);
    }
    text
}

/// The narrowest column of two texts beside each other.
const NARROWEST: usize = 24;
/// The width where there is no terminal.
const WIDTH: usize = 160;
/// The most different words that are listed; the others are counted.
const WORDS: usize = 30;

/// Words with how much more often one text has them than another.
pub type WordSurplus = Vec<(String, usize)>;

/// The words that one of two texts has more often than the other, and how much more often: those of the first text, and
/// those of the second, the most frequent first.
pub fn different_words(first: &str, second: &str) -> (WordSurplus, WordSurplus) {
    let words = |text: &str| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for word in text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
        counts
    };
    let (first, second) = (words(first), words(second));
    let more = |one: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>| {
        let surplus = |(word, count): (&String, &usize)| {
            let more = count.checked_sub(other.get(word).copied().unwrap_or(0)).filter(|more| *more > 0)?;
            Some((word.clone(), more))
        };
        let mut words: WordSurplus = one.iter().filter_map(surplus).collect();
        words.sort_by_key(|(_, more)| std::cmp::Reverse(*more));
        words
    };
    (more(&first, &second), more(&second, &first))
}

/// Two texts beside each other, each with its title and what was read badly, and the words that only one of them has.
pub fn side_by_side(
    texts: [(String, &str); 2],
    problems: [String; 2],
    different: [&[(String, usize)]; 2],
    width: Option<usize>,
) -> String {
    let column = (width.unwrap_or(WIDTH).saturating_sub(3) / 2).max(NARROWEST);
    let wrap = |text: &str| -> Vec<String> {
        let lines = text.lines().flat_map(|line| textwrap::wrap(line, column));
        lines.map(|line| line.into_owned()).collect()
    };
    let rule = "─".repeat(column);
    let mut sides = texts.each_ref().map(|(title, text)| [wrap(title), vec![rule.clone()], wrap(text)].concat());
    let length = sides.iter().map(Vec::len).max().unwrap_or(0);
    sides.iter_mut().for_each(|side| side.resize(length, String::new()));
    let [first, second] = &sides;
    let mut shown = String::new();
    for (left, right) in first.iter().zip(second) {
        let gap = " ".repeat(column.saturating_sub(console::measure_text_width(left)));
        let _ = writeln!(shown, "{}", format!("{left}{gap} │ {right}").trim_end());
    }
    for (((title, _), problems), words) in texts.iter().zip(&problems).zip(different) {
        let _ = writeln!(shown);
        let listed = words.iter().take(WORDS).map(|(word, more)| match more {
            1 => word.clone(),
            more => format!("{word} ×{more}"),
        });
        let listed = listed.collect::<Vec<_>>().join(", ");
        let rest = words.len().saturating_sub(WORDS);
        let rest = if rest > 0 { format!(" and {rest} more (--json lists all)") } else { String::new() };
        let listed = if words.is_empty() { "none".to_owned() } else { format!("{listed}{rest}") };
        let _ = writeln!(shown, "words that only {title} reads: {listed}");
        shown.push_str(problems);
    }
    shown.truncate(shown.trim_end().len());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use rag::{Format, Page, ReadingProblemKind, Span};

    #[test]
    fn a_line_stands_before_each_page_and_the_text_is_whole() {
        let text = "Preface. Barn owls swallow voles.\nThey sleep.";
        let page = |number, start, end| Page { number, span: Span { start, end } };
        let mut found = Document {
            path: "owls.pdf".to_owned(),
            content: store::Key::of_bytes(text.as_bytes()),
            format: Format::Pdf,
            title: None,
            author: None,
            text: text.to_owned(),
            pages: vec![page(7, 9, 33), page(8, 34, text.len())],
            headings: Vec::new(),
            metadata: Default::default(),
            tables: Vec::new(),
            problems: Vec::new(),
        };
        let shown = document(&found);
        assert_eq!(shown, "Preface. \n── page 7 ──\nBarn owls swallow voles.\n── page 8 ──\nThey sleep.");
        assert_eq!(super::page(&found, 8).as_deref(), Some("They sleep."));
        assert_eq!(super::page(&found, 9), None);
        found.pages.clear();
        assert_eq!(document(&found), text);
    }

    #[test]
    fn two_texts_stand_beside_each_other_with_the_words_that_only_one_has() {
        let texts = ["Barn owls swallow voles whole and alive at night.", "| Barn owls | swallow voles voles |"];
        let (first, second) = different_words(texts[0], texts[1]);
        assert_eq!(second, [("voles".to_owned(), 1)]);
        let sides = [("1 text".to_owned(), texts[0]), ("2 layout".to_owned(), texts[1])];
        let shown =
            side_by_side(sides, [String::new(), "note: a broken table\n".to_owned()], [&first, &second], Some(60));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], format!("1 text{} │ 2 layout", " ".repeat(22)));
        assert_eq!(lines[2], "Barn owls swallow voles      │ | Barn owls | swallow voles");
        assert!(
            lines.iter().all(|line| line.starts_with("words") || console::measure_text_width(line) <= 60),
            "{shown}"
        );
        assert!(shown.ends_with("words that only 2 layout reads: voles\nnote: a broken table"), "{shown}");
        assert!(shown.contains("words that only 1 text reads: alive, and, at, night, whole"), "{shown}");
    }

    #[test]
    fn the_first_problems_are_listed_and_the_others_counted() {
        let kind = ReadingProblemKind::NoText;
        let problem = |page| ReadingProblem { kind, page: Some(page), detail: "the page has no text".to_owned() };
        let all: Vec<ReadingProblem> = (1..=23).map(problem).collect();
        let told = problems(&all);
        assert!(told.starts_with("note: page 1: the page has no text\n"), "{told}");
        assert!(told.ends_with("note: page 20: the page has no text\nnote: and 3 more (--json lists all)\n"), "{told}");
        let of_file = [ReadingProblem { page: None, ..problem(1) }];
        assert_eq!(problems(&of_file), "note: the page has no text\n");
        assert_eq!(problems(&[]), "");
    }
}
