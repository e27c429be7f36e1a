//! `load::markdown`: Markdown is kept as it stands, so that a span is also a
//! place in the source; only title and author are read from it.

use super::{LoadError, Parsed, text};

/// Reads a Markdown file. The title is the front matter's, else the first
/// first-level heading.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, LoadError> {
    let text = text::decode(bytes, None);
    let (front_matter, body) = split_front_matter(&text);
    let title = value(front_matter, "title").or_else(|| first_heading(body));
    let author = value(front_matter, "author").or_else(|| value(front_matter, "authors"));
    Ok(Parsed { title, author, text, pages: Vec::new() })
}

/// Front matter is a block between two `---` lines at the very top.
fn split_front_matter(text: &str) -> (&str, &str) {
    let Some(rest) = text.strip_prefix("---\n") else { return ("", text) };
    match rest.find("\n---\n").or_else(|| rest.strip_suffix("\n---").map(str::len)) {
        Some(end) => (&rest[..end], rest.get(end + 5..).unwrap_or_default()),
        None => ("", text),
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

    #[test]
    fn text_is_kept_and_the_first_heading_is_the_title() {
        let parsed = parse(b"```sh\n# not this\n```\n# A title #\n\nBody\r\n").unwrap();
        assert_eq!(parsed.title.as_deref(), Some("A title"));
        assert_eq!(parsed.text, "```sh\n# not this\n```\n# A title #\n\nBody\n");
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
