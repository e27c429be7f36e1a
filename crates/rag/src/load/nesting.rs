//! `load::nesting`: refuses HTML that is nested too deeply before a parser
//! reads it. The work of an HTML parser grows with depth times length, and
//! unclosed formatting tags are opened again in every later paragraph, so a
//! small file can cost minutes. This scan is linear in the length times the
//! limit. If it is not sure, it counts more nesting than a parser would.

use super::LoadError;

/// Elements whose end tag may be left out: the parser closes them itself, so
/// they cannot be nested without one of the counted elements between them.
const SELF_ENDING: &[&str] =
    &["p", "li", "dt", "dd", "option", "optgroup", "colgroup", "rp", "rt", "a", "html", "head", "body"];
/// Parts of a table, which end by themselves and end the formatting inside.
const TABLE_PARTS: &[&str] = &["td", "th", "tr", "thead", "tbody", "tfoot", "caption"];
/// Elements that never have content.
const VOID: &[&str] =
    &["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];
/// Elements whose content is not markup.
const RAW: &[&str] = &["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"];
/// Elements that the parser opens again after their parent was closed.
const FORMATTING: &[&str] =
    &["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];
/// How much deeper unclosed formatting may be nested: careless pages leave it open.
const FORMATTING_FACTOR: usize = 4;
/// The most attributes of a tag. Each is compared with all others.
const ATTRIBUTES: usize = 256;

/// Whether the elements of `html` are nested at most `limit` deep.
pub(super) fn check(html: &str, limit: u32) -> Result<(), LoadError> {
    let limit = limit as usize;
    let mut open = OpenElements::default();
    let mut rest = html;
    while let Some((tag, after)) = next_tag(rest) {
        rest = after;
        if tag.attributes > ATTRIBUTES {
            return Err(LoadError::OverLimit(format!("a tag has more than {ATTRIBUTES} attributes")));
        }
        if tag.closes {
            open.close(tag.name);
        } else if is_in(RAW, tag.name) && !open.is_foreign() {
            match end_of_raw(rest, tag.name) {
                Some(end) => rest = &rest[end..],
                None => break,
            }
        } else {
            open.open(tag.name);
        }
        if open.elements.len() > limit || open.formatting.len() > FORMATTING_FACTOR * limit {
            return Err(LoadError::OverLimit(format!("elements are nested more than {limit} deep")));
        }
    }
    Ok(())
}

/// The elements that are open, about as a parser would see it.
#[derive(Default)]
struct OpenElements<'a> {
    elements: Vec<&'a str>,
    formatting: Vec<&'a str>,
    /// How much formatting was open outside of each open table.
    outside: Vec<usize>,
}

impl<'a> OpenElements<'a> {
    fn open(&mut self, name: &'a str) {
        if is_in(TABLE_PARTS, name) {
            self.end_cell();
        } else if is_in(FORMATTING, name) {
            self.formatting.push(name);
        } else if !is_in(VOID, name) && !is_in(SELF_ENDING, name) {
            if name.eq_ignore_ascii_case("table") {
                self.outside.push(self.formatting.len());
            }
            self.elements.push(name);
        }
    }

    fn close(&mut self, name: &str) {
        let same = |other: &&str| other.eq_ignore_ascii_case(name);
        if is_in(TABLE_PARTS, name) {
            self.end_cell();
        } else if let Some(at) = self.formatting.iter().rposition(same) {
            self.formatting.remove(at);
        } else if let Some(depth) = self.elements.iter().rposition(same) {
            // Only the innermost match counts; a stray end tag closes nothing.
            self.elements.truncate(depth);
            if name.eq_ignore_ascii_case("table") {
                self.end_cell();
                self.outside.pop();
            }
        }
    }

    fn end_cell(&mut self) {
        if let Some(outside) = self.outside.last() {
            self.formatting.truncate(*outside);
        }
    }

    /// Inside SVG and MathML no element is raw.
    fn is_foreign(&self) -> bool {
        self.elements.iter().any(|name| is_in(&["svg", "math"], name))
    }
}

struct Tag<'a> {
    closes: bool,
    name: &'a str,
    attributes: usize,
}

/// The next tag, with what follows it. Comments and declarations are passed over.
fn next_tag(mut html: &str) -> Option<(Tag<'_>, &str)> {
    loop {
        html = &html[html.find('<')? + 1..];
        if let Some(comment) = html.strip_prefix("!--") {
            html = &comment[end_of_comment(comment)?..];
        } else {
            let closes = html.starts_with('/');
            let body = &html[usize::from(closes)..];
            if body.starts_with(|first: char| first.is_ascii_alphabetic()) {
                let (end, attributes) = end_of_tag(body)?;
                let is_name = |byte: u8| !byte.is_ascii_whitespace() && byte != b'/' && byte != b'>';
                let name = &body[..body.bytes().position(|byte| !is_name(byte)).unwrap_or(end)];
                return Some((Tag { closes, name, attributes }, &body[end + 1..]));
            }
        }
    }
}

/// Where a comment ends, after its `<!--`. `<!-->` is a whole comment.
fn end_of_comment(comment: &str) -> Option<usize> {
    if comment.starts_with('>') || comment.starts_with("->") {
        return Some(0);
    }
    let mut from = 0;
    loop {
        let at = from + comment[from..].find("--")?;
        if comment[at + 2..].starts_with('>') || comment[at + 2..].starts_with("!>") {
            return Some(at + 2);
        }
        from = at + 1;
    }
}

/// Where in a tag the scan is. The states are those of the HTML standard, so
/// that a stray quote hides no markup from this scan that a parser would see.
enum TagState {
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Unquoted,
    Quoted(u8),
}

/// Where the `>` is that ends a tag, and how many attributes come before it.
fn end_of_tag(body: &str) -> Option<(usize, usize)> {
    let mut place = TagState::TagName;
    let mut attributes = 0;
    for (at, byte) in body.bytes().enumerate() {
        let is_space = byte.is_ascii_whitespace();
        if byte == b'>' && !matches!(place, TagState::Quoted(_)) {
            return Some((at, attributes));
        }
        place = match (place, byte) {
            (TagState::Quoted(quote), _) if quote == byte => TagState::BeforeName,
            (TagState::Quoted(quote), _) => TagState::Quoted(quote),
            (TagState::BeforeValue, b'"' | b'\'') => TagState::Quoted(byte),
            (TagState::BeforeValue, _) if is_space => TagState::BeforeValue,
            (TagState::BeforeValue | TagState::Unquoted, _) if !is_space => TagState::Unquoted,
            (TagState::Name | TagState::AfterName, b'=') => TagState::BeforeValue,
            (TagState::Name, _) if is_space => TagState::AfterName,
            (TagState::AfterName, _) if is_space => TagState::AfterName,
            (_, b'/') => TagState::BeforeName,
            (TagState::TagName, _) if !is_space => TagState::TagName,
            (TagState::Name, _) => TagState::Name,
            (_, _) if is_space => TagState::BeforeName,
            _ => {
                attributes += 1;
                TagState::Name
            }
        };
    }
    None
}

fn is_in(names: &[&str], name: &str) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

fn end_of_raw(html: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = html[from..].find("</") {
        let at = from + found;
        let end = at + 2 + name.len();
        if html.get(at + 2..end).is_some_and(|other| other.eq_ignore_ascii_case(name)) {
            return Some(at);
        }
        from = at + 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(html: &str) -> bool {
        matches!(check(html, 64), Err(LoadError::OverLimit(_)))
    }

    #[test]
    fn ordinary_pages_pass_whatever_is_left_open() {
        let page = "<!DOCTYPE html><p>one<p>two<br><li>x<a href='>'>y".repeat(1000);
        assert_eq!(check(&page, 64), Ok(()));
        assert_eq!(check(&"<table><tr><td><font><b>x<td><b>y".repeat(60), 64), Ok(()));
        assert_eq!(check(&format!("<table>{}", "<tr><td><font><b>x".repeat(1000)), 64), Ok(()));
        assert_eq!(check(&"<b>bold".repeat(100), 64), Ok(()));
        assert_eq!(check(&"</div><div>".repeat(1000), 64), Ok(()));
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(is_refused(&"<div>".repeat(100_000)));
        assert!(is_refused(&"<DIV class=\"a\">".repeat(300)));
        assert!(is_refused(&"<b><i></b>x".repeat(1000)));
    }

    #[test]
    fn formatting_that_outlives_its_parent_is_refused() {
        let page: String = (0..1000).map(|i| format!("<div><font size={i}></div>")).collect();
        assert!(is_refused(&page));
    }

    #[test]
    fn scripts_and_comments_are_not_markup() {
        let script = format!("<script>{}</SCRIPT>", "'<div>'".repeat(1000));
        let comment = format!("<!--{}-->", "<div>".repeat(1000));
        assert_eq!(check(&format!("{script}{comment}<p>x"), 16), Ok(()));
    }

    #[test]
    fn nothing_hides_markup_that_a_parser_sees() {
        let deep = "<div>".repeat(100);
        for start in [
            "<p a==\">",
            "<p =\">",
            "<p\">",
            "<p a='b'\">",
            "<p a=b\">",
            "<!-->",
            "<!--->",
            "<!--x--!>",
            "<svg><style>",
        ] {
            assert!(is_refused(&format!("{start}{deep}")), "{start}");
        }
        assert!(!is_refused(&format!("<p a = \"{deep}")));
    }

    #[test]
    fn a_tag_with_very_many_attributes_is_refused() {
        let attributes: String = (0..300).map(|i| format!(" a{i}=1")).collect();
        assert!(is_refused(&format!("<p{attributes}>")));
    }
}
