//! `load::markdown`: Markdown is kept unchanged, so that a span is also a place
//! in the source; title, author and headings are read from it.

use super::format::{FileFormat, NO_TEXT, Signature};
use super::headings::clip_title;
use super::{LoadError, Parsed, text};
use crate::types::{Heading, Metadata, Span, Table};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::Value;
use std::ops::Range;

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["md", "markdown"],
    signature: Signature::Name,
    parse: |bytes, _| parse(bytes),
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

/// Reads a Markdown file. The title is the front matter's, else the first
/// first-level heading.
fn parse(bytes: &[u8]) -> Result<Parsed, LoadError> {
    let text::Decoded { text, problems } = text::read(bytes, None);
    let (front_matter, body) = split_front_matter(&text);
    let title = value(front_matter, "title").or_else(|| first_heading(body));
    let author = value(front_matter, "author").or_else(|| value(front_matter, "authors"));
    let headings = headings(&text);
    let metadata = fields(front_matter);
    let tables = tables(&text);
    Ok(Parsed { title, author, text, headings, metadata, tables, problems, ..Parsed::default() })
}

/// The headings of a Markdown text that stand in no list, quote or code.
pub(crate) fn headings(text: &str) -> Vec<Heading> {
    let mut found: Vec<Heading> = Vec::new();
    // A parser would read front matter between two rules as an underlined heading.
    let begin = match split_front_matter(text) {
        ("", _) => 0,
        (_, body) => text.len() - body.len(),
    };
    let mut open: Option<Heading> = None;
    let mut depth = 0usize;
    for (event, range) in Parser::new_ext(&text[begin..], Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                let at = begin + range.start;
                let start = text[..at].rfind('\n').map_or(0, |line_end| line_end + 1);
                open = Some(Heading { start, level: level as u32, title: String::new() });
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some(heading) = open.take() {
                    let title = heading.title.split_whitespace().collect::<Vec<_>>().join(" ");
                    if !title.is_empty() {
                        found.push(Heading { title: clip_title(title), ..heading });
                    }
                }
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut open {
                    heading.title.push_str(&part);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut open {
                    heading.title.push(' ');
                }
            }
            Event::Start(Tag::BlockQuote(_) | Tag::List(_)) => depth += 1,
            Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_)) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

/// The tables of a Markdown text.
pub(super) fn tables(text: &str) -> Vec<Table> {
    if !text.contains('|') {
        return Vec::new();
    }
    let table = |(event, range): (Event<'_>, Range<usize>)| match event {
        Event::Start(Tag::Table(columns)) => {
            let lines = text[range.clone()].trim_end();
            let span = Span { start: range.start, end: range.start + lines.len() };
            // One line is the line of dashes.
            let rows = lines.lines().count().saturating_sub(1) as u32;
            Some(Table { span, rows, columns: columns.len() as u32, header_rows: 1, ..Table::default() })
        }
        _ => None,
    };
    Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter().filter_map(table).collect()
}

/// Front matter is a block between two `---` lines at the very top.
fn split_front_matter(text: &str) -> (&str, &str) {
    let Some(rest) = text.strip_prefix("---\n") else { return ("", text) };
    match rest.find("\n---\n").or_else(|| rest.strip_suffix("\n---").map(str::len)) {
        Some(end) => (&rest[..end], rest.get(end + 5..).unwrap_or_default()),
        None => ("", text),
    }
}

/// The lines `key: value` of front matter, but for title and author: texts,
/// numbers, true and false, and lists of these in one line.
fn fields(front_matter: &str) -> Metadata {
    let is_key = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
    let field = |line: &str| {
        let (key, written) = line.split_once(':').filter(|(key, _)| is_key(key))?;
        let written = written.trim();
        let list = written.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
        let read = match list {
            Some(items) => items.split(',').filter_map(|item| scalar(item.trim())).collect::<Vec<_>>().into(),
            None => scalar(written)?,
        };
        Some((key.to_owned(), read))
    };
    let others = |(key, _): &(String, Value)| !["title", "author", "authors"].contains(&key.as_str());
    front_matter.lines().filter_map(field).filter(others).collect()
}

/// A value as YAML means it.
fn scalar(written: &str) -> Option<Value> {
    let quoted = ['"', '\''].iter().find_map(|quote| written.strip_prefix(*quote)?.strip_suffix(*quote));
    match (quoted, written) {
        (Some(text), _) => Some(text.into()),
        (None, "true") => Some(true.into()),
        (None, "false") => Some(false.into()),
        (None, plain) if plain.is_empty() || plain == "null" || plain.starts_with(['[', '{', '|', '>', '&', '*']) => {
            None
        }
        (None, plain) => Some(match serde_json::from_str::<serde_json::Number>(plain) {
            Ok(number) => number.into(),
            Err(_) => plain.into(),
        }),
    }
}

/// The value of a `key: value` line. Lists and nested YAML are left alone.
fn value(front_matter: &str, key: &str) -> Option<String> {
    let line = front_matter.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let value = line.trim();
    let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    let plain = quoted.unwrap_or(value);
    let is_scalar = !plain.is_empty() && !plain.starts_with(['[', '{', '|', '>']);
    is_scalar.then(|| plain.to_owned())
}

fn first_heading(body: &str) -> Option<String> {
    let mut fence: Option<&str> = None;
    for line in body.lines() {
        let start = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|marker| start.starts_with(marker));
        match (fence, marker) {
            // A `#` inside a code fence is a comment, not a heading.
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if open == marker => fence = None,
            (None, None) => {
                if let Some(title) = line.strip_prefix("# ") {
                    return Some(title.trim().trim_end_matches('#').trim_end().to_owned());
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;
    use crate::pins_tests::text;

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::plain("a.md", format!("---\ntitle: Mills\n---\n{}", text()).as_bytes())
    }

    #[test]
    fn text_is_kept_and_the_first_heading_is_the_title() {
        let parsed = parse(b"```sh\n# not this\n```\n# A title #\n\nBody\r\n").unwrap();
        assert_eq!(parsed.title.as_deref(), Some("A title"));
        assert_eq!(parsed.text, "```sh\n# not this\n```\n# A title #\n\nBody\n");
    }

    #[test]
    fn headings_are_read_as_markdown_means_them() {
        let text = "---\ntitle: x\n---\n# A\n## B ##\nx\n```sh\n# no\n```\n### C#\nUse `it`\n===\n    # code\n#hash\n> # quote\n\n- # item\n\n# E";
        let found = headings(text);
        let all: Vec<(u32, &str)> = found.iter().map(|heading| (heading.level, heading.title.as_str())).collect();
        assert_eq!(all, [(1, "A"), (2, "B"), (3, "C#"), (1, "Use it"), (1, "E")]);
        assert!(text[found[2].start..].starts_with("### C#") && text[found[3].start..].starts_with("Use"));
    }

    #[test]
    fn other_lines_of_front_matter_are_metadata_with_their_types() {
        let text = "---\ntitle: T\nyear: 2021\ndraft: false\ntags: [old, \"by water\", 3]\nlang: 'en'\nmore:\n  - x\nnote: |\n---\nText.";
        let metadata = parse(text.as_bytes()).unwrap().metadata;
        let expected =
            serde_json::json!({ "year": 2021, "draft": false, "tags": ["old", "by water", 3], "lang": "en" });
        assert_eq!(serde_json::to_value(metadata).unwrap(), expected);
    }

    #[test]
    fn front_matter_names_title_and_author() {
        let parsed = parse(b"---\ntitle: \"The book\"\nauthor: A. Writer\ntags: [a]\n---\n# Other\n").unwrap();
        assert_eq!(parsed.title.as_deref(), Some("The book"));
        assert_eq!(parsed.author.as_deref(), Some("A. Writer"));
        assert!(parsed.text.starts_with("---\n"));
    }

    #[test]
    fn a_rule_at_the_top_is_not_front_matter() {
        let parsed = parse(b"---\nno end\n# Title\n").unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Title"));
    }

    #[test]
    fn front_matter_alone_does_no_harm() {
        assert_eq!(parse(b"---\ntitle: x\n---").unwrap().title.as_deref(), Some("x"));
    }
}
