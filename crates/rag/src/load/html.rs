//! `load::html`: a web page's content as Markdown. The content is the page's
//! `main` or only `article`, else its body without navigation and footers.
//! Title and author come from the head.

use super::element::MarkupOrigin;
use super::format::{FileFormat, NO_TEXT, Signature};
use super::markup::{Markdown, Writer};
use super::{LoadError, ParseLimits, Parsed, nesting, text};
use scraper::{CaseSensitivity, ElementRef, Html, Node};
use std::borrow::Cow;
use std::collections::HashSet;

pub(super) const FORMAT: FileFormat = FileFormat {
    extensions: &["html", "htm", "xhtml"],
    signature: Signature::Text { begins: begins_as_html, called: "a web page" },
    parse,
    inner_files: None,
    keeps_headings: true,
    without_text: NO_TEXT,
    library: None,
    #[cfg(test)]
    sample: tests::sample,
};

/// Whether a text begins as a web page does, behind comments and what XML puts first.
fn begins_as_html(head: &str) -> bool {
    let mut rest = head.trim_start();
    loop {
        let passed = if rest.starts_with("<!--") {
            rest.find("-->").map(|end| end + 3)
        } else if rest.starts_with("<?xml") {
            rest.find("?>").map(|end| end + 2)
        } else {
            None
        };
        match passed {
            Some(end) => rest = rest[end..].trim_start(),
            None => break,
        }
    }
    let start: String = rest.chars().take(16).collect::<String>().to_ascii_lowercase();
    ["<!doctype html", "<html", "<head>", "<body"].iter().any(|tag| start.starts_with(tag))
}

fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, LoadError> {
    parse_decoded(text::read(bytes, declared_encoding(bytes).as_deref()), limits)
}

/// Reads a page whose text is known.
pub(super) fn parse_decoded(decoded: text::Decoded, limits: &ParseLimits) -> Result<Parsed, LoadError> {
    let text::Decoded { text: html, problems } = decoded;
    nesting::check(&html, limits.nesting)?;
    let document = Html::parse_document(&html);
    let facts = Facts::of(&document);
    let nothing = HashSet::new();
    let write = |root, origin| write(root, Writer::new(origin, &nothing, limits));
    let mut markdown = facts.content.map(|root| write(root, MarkupOrigin::Page)).transpose()?.unwrap_or_default();
    if markdown.text.is_empty() {
        markdown = write(document.root_element(), MarkupOrigin::Page)?;
    }
    if markdown.text.is_empty() {
        // A page that is only navigation is better read than lost.
        markdown = write(document.root_element(), MarkupOrigin::Book)?;
    }
    let Markdown { text, headings, tables, .. } = markdown;
    let title = facts.title.or_else(|| headings.first().map(|heading| heading.title.clone()));
    let parsed = Parsed { title, author: facts.author, text, headings, tables, problems, ..Parsed::default() };
    Ok(parsed.with("date", facts.date).with("language", facts.language))
}

/// Turns a page of an e-book into Markdown, all of it, and notes where the
/// elements with `wanted` ids begin.
pub(super) fn to_markdown(html: &str, wanted: &HashSet<String>, limits: &ParseLimits) -> Result<Markdown, LoadError> {
    nesting::check(html, limits.nesting)?;
    let document = Html::parse_document(html);
    write(document.root_element(), Writer::new(MarkupOrigin::Book, wanted, limits))
}

/// Walks a tree without recursion, because a file decides how deep the tree is.
fn write(root: ElementRef<'_>, mut writer: Writer<'_>) -> Result<Markdown, LoadError> {
    let mut node = *root;
    loop {
        match node.value() {
            Node::Element(element) => {
                let holds_prose = element.has_class(SIDEBAR, CaseSensitivity::CaseSensitive)
                    && ElementRef::wrap(node).is_some_and(holds_prose);
                writer.open(element.name(), |name| match element.attr(name) {
                    Some(classes) if holds_prose && name == "class" => {
                        let others = classes.split_whitespace().filter(|class| *class != SIDEBAR);
                        Some(others.collect::<Vec<_>>().join(" ").into())
                    }
                    value => value.map(Cow::Borrowed),
                });
            }
            Node::Text(text) => writer.text(text),
            _ => {}
        }
        if let Some(child) = node.first_child() {
            node = child;
            continue;
        }
        loop {
            if node.value().is_element() {
                writer.close();
            }
            if node.id() == root.id() {
                return writer.finish();
            }
            if let Some(next) = node.next_sibling() {
                node = next;
                break;
            }
            match node.parent() {
                Some(parent) => node = parent,
                None => return writer.finish(),
            }
        }
    }
}

/// A CSS class. On many sites it marks the menu next to the content; in DocBook it marks boxes within the content.
const SIDEBAR: &str = "sidebar";

/// Whether more than half of an element's letters and digits are outside links. In a menu, most are in links.
fn holds_prose(element: ElementRef<'_>) -> bool {
    let (mut letters, mut in_links) = (0, 0);
    for node in element.descendants() {
        let Some(text) = node.value().as_text() else { continue };
        let inside = |names: &[&str]| {
            let above = node.ancestors().take_while(|above| above.id() != element.id());
            above.filter_map(|above| above.value().as_element()).any(|above| names.contains(&above.name()))
        };
        if inside(&["script", "style", "template", "noscript", "select", "button"]) {
            continue;
        }
        let count = text.chars().filter(|c| c.is_alphanumeric()).count();
        letters += count;
        in_links += if inside(&["a"]) { count } else { 0 };
    }
    2 * in_links < letters
}

/// What one pass over a page finds.
#[derive(Default)]
struct Facts<'a> {
    title: Option<String>,
    author: Option<String>,
    date: Option<String>,
    language: Option<String>,
    content: Option<ElementRef<'a>>,
}

impl<'a> Facts<'a> {
    fn of(document: &'a Html) -> Self {
        let mut shared_title = None;
        let mut title = None;
        let mut author = None;
        let mut date = None;
        let mut main = None;
        let mut articles = Vec::new();
        for element in document.root_element().descendent_elements() {
            match element.value().name() {
                "title" if title.is_none() => title = words(element.text()),
                "meta" => {
                    let name = element.attr("property").or(element.attr("name")).unwrap_or_default();
                    let content = element.attr("content").and_then(|content| words([content].into_iter()));
                    match name.to_ascii_lowercase().as_str() {
                        "og:title" => shared_title = shared_title.or(content),
                        // The Open Graph author is often a link to a profile.
                        "author" | "dc.creator" | "citation_author" | "article:author" => {
                            author = author.or(content.filter(|author| !author.starts_with("http")));
                        }
                        "article:published_time" | "date" | "dc.date" | "citation_publication_date" => {
                            date = date.or(content);
                        }
                        _ => {}
                    }
                }
                "main" if main.is_none() => main = Some(element),
                "article" => articles.push(element),
                _ if main.is_none() && element.attr("role") == Some("main") => main = Some(element),
                _ => {}
            }
        }
        // Several articles are a list of them: then the page itself is the content.
        let only_article = (articles.len() == 1).then(|| articles.remove(0));
        let language = document.root_element().attr("lang").map(str::to_owned);
        Self { title: shared_title.or(title), author, date, language, content: main.or(only_article) }
    }
}

fn words<'t>(texts: impl Iterator<Item = &'t str>) -> Option<String> {
    let text: String = texts.collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// The encoding that a page names for itself, in its first 2 KiB.
pub(super) fn declared_encoding(bytes: &[u8]) -> Option<String> {
    let head: String = bytes.iter().take(2048).map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    let after = head.split_once("charset").or_else(|| head.split_once("encoding"))?.1;
    let label = after.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = label.find(|character: char| !character.is_ascii_alphanumeric() && !"-_:.".contains(character));
    Some(label[..end.unwrap_or(label.len())].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::format::sample::Sample;

    /// Headings, lists, tables, code, links and what is not to be read.
    const HTML: &str = "<!DOCTYPE html><html lang='en'><head><title>Mills &amp; rye</title><meta name='author' content='A. Writer'>
<style>p { color: red }</style><script>var x = '<p>not this</p>';</script></head><body><nav><a href='/'>Home</a></nav><main>
<h1>Mills</h1><p>A mill <b>grinds</b> <a href='rye.html'>rye</a>,&nbsp;not&#8203; stones.<br>New line.</p><h2 id=x>Parts</h2>
<ul><li>wheel<li>stone<ol><li>upper</li><li>lower</li></ol></ul><table><caption>Sizes</caption><tr><th>part</th><th>m</th></tr>
<tr><td rowspan=2>wheel</td><td>3</td></tr><tr><td>4</td></tr></table><pre><code># no heading
  grind --fine</code></pre><blockquote><p>Old <em>mills</em> turn slowly.</p></blockquote><dl><dt>rye<dd>a grass</dl>
<h3>Empty</h3><h2>Überall</h2><p>中文句子。<img src=a.png alt='a mill'> &lt;tag&gt; 5 * 3 _x_</p></main><footer>Imprint</footer></body></html>";

    /// What the format's output is pinned for.
    pub(super) fn sample() -> Sample {
        Sample::plain("a.html", HTML.as_bytes())
    }

    fn markdown(html: &str) -> String {
        parse(html.as_bytes(), &ParseLimits::default()).unwrap().text
    }

    #[test]
    fn headings_paragraphs_and_inline_marks() {
        let html =
            "<h1>A <em>big</em>\n title<a class='headerlink'>¶</a></h1>\n<p>Some\n  <b>bold</b>, <a href='x'>linked</a>
            text&nbsp;with 2*3 and snake_case.<br>Next line.</p><h3></h3><div>End</div>";
        let expected = "# A big title\n\nSome bold, linked text with 2*3 and snake_case.\nNext line.\n\nEnd";
        assert_eq!(markdown(html), expected);
    }

    #[test]
    fn lists_nest_and_count() {
        let html = "<p>Before</p><ul><li><p>one</p><p>more</p></li><li>two<ol start=3><li>three</li><li>four</li></ol></li></ul>After";
        let expected = "Before\n\n- one\n\n  more\n- two\n  3. three\n  4. four\n\nAfter";
        assert_eq!(markdown(html), expected);
    }

    #[test]
    fn definitions_stay_with_their_terms() {
        let html = "<dl><dt>term</dt><dd><p>What it means.</p></dd><dt>other</dt><dd>This.</dd></dl>";
        assert_eq!(markdown(html), "term\nWhat it means.\n\nother\nThis.");
    }

    #[test]
    fn code_is_fenced_and_kept_as_it_is() {
        let html = "<pre><code class='language-sh'>if x; then\n\n\t<b>echo</b> *\nfi\n</code></pre><pre>a ``` b</pre>";
        assert_eq!(markdown(html), "```sh\nif x; then\n\n\techo *\nfi\n```\n\n````\na ``` b\n````");
    }

    #[test]
    fn quotes_are_marked_on_every_line() {
        assert_eq!(markdown("<blockquote><p>a</p><p>b<br>c</p></blockquote>d"), "> a\n>\n> b\n> c\n\nd");
    }

    #[test]
    fn data_tables_become_rows_and_layout_tables_blocks() {
        let data = "<table><caption>T</caption><tr><th>a<th>b<tr><td>1<br>2<td><ul><li>x</ul></table>";
        assert_eq!(markdown(data), "T\n\n| a | b |\n| --- | --- |\n| 1 2 | - x |");
        let layout = "<table><tr><td>menu</td><td><h1>Title</h1><table><tr><td>1<td>2</table></td></tr></table>";
        assert_eq!(markdown(layout), "menu\n\n# Title\n\n1\n\n2");
    }

    #[test]
    fn what_surrounds_the_content_is_left_out() {
        let html = "<body><nav>menu</nav><header>site</header><main><h1>Title</h1><aside>ad</aside><p>Text</p></main>
            <footer>imprint</footer><script>var x</script></body>";
        assert_eq!(markdown(html), "# Title\n\nText");
        assert_eq!(markdown("<nav>menu</nav><p hidden>no</p><p style='display: none'>no</p><p>yes</p>"), "yes");
        assert_eq!(markdown("<article>one</article><article>two</article>"), "one\n\ntwo");
        assert_eq!(markdown("<main> </main><p>outside</p>"), "outside");
        assert_eq!(markdown("<nav>only a menu</nav>"), "only a menu");
    }

    #[test]
    fn a_sidebar_is_a_menu_if_it_is_mostly_links_and_otherwise_content() {
        let menu = "<div class='left sidebar'><h3>Docs</h3><a href=a>Installation</a> <a href=b>Configuration</a></div><p>Text</p>";
        assert_eq!(markdown(menu), "Text");
        let script = format!(
            "<div class=sidebar><script>{}</script><a href=a>Installation</a></div><p>Text</p>",
            "x".repeat(99)
        );
        assert_eq!(markdown(&script), "Text");
        let note = "<p>Text</p><div class=sidebar><p>GOING FURTHER</p><p>Servers may have a <a href=a>clock</a> of their own.</p></div>";
        assert!(markdown(note).ends_with("of their own."), "{}", markdown(note));
    }

    #[test]
    fn the_head_tells_title_and_author() {
        let html = "<head><title>Page &mdash; Site</title><meta property=og:title content='Page'>
            <meta name=author content=' A.  Writer '></head><body>x";
        let parsed = parse(html.as_bytes(), &ParseLimits::default()).unwrap();
        assert_eq!((parsed.title.as_deref(), parsed.author.as_deref()), (Some("Page"), Some("A. Writer")));
        let parsed = parse(b"<h2>Only a heading</h2>", &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Only a heading"));
    }

    #[test]
    fn the_declared_encoding_is_used() {
        let parsed = parse(b"<meta charset=iso-8859-2><p>\xE8", &ParseLimits::default()).unwrap();
        assert_eq!(parsed.text, "č");
    }

    #[test]
    fn headings_are_those_of_the_page_and_not_lines_that_look_alike() {
        let html = "<h1>One</h1><p># no heading</p><h2>Two</h2><blockquote><h3>Quoted</h3></blockquote>
            <table><tr><td>menu</td><td><h3>In a cell</h3>words</td></tr></table><h2></h2>";
        let parsed = parse(html.as_bytes(), &ParseLimits::default()).unwrap();
        let found: Vec<(u32, &str)> =
            parsed.headings.iter().map(|heading| (heading.level, heading.title.as_str())).collect();
        assert_eq!(found, [(1, "One"), (2, "Two"), (3, "In a cell")]);
        for heading in &parsed.headings {
            let mark = format!("{} {}", "#".repeat(heading.level as usize), heading.title);
            assert!(parsed.text[heading.start..].starts_with(&mark), "{}", parsed.text);
        }
    }

    #[test]
    fn a_small_page_cannot_become_a_huge_text() {
        let limits = ParseLimits { text_bytes: 1 << 20, ..ParseLimits::default() };
        let quoted = format!("{}{}", "<blockquote>".repeat(200), "x<br>".repeat(50_000));
        let code = format!("{}<pre>{}</pre>", "<blockquote>".repeat(200), "x\n".repeat(50_000));
        let padded = format!("<table><tr>{}</tr>{}</table>", "<td>x".repeat(2000), "<tr><td>x".repeat(2000));
        for html in [quoted, code, padded] {
            assert!(html.len() < 1 << 20);
            assert!(matches!(parse(html.as_bytes(), &limits), Err(LoadError::OverLimit(_))));
        }
    }

    #[test]
    fn deep_nesting_is_refused_before_it_is_parsed() {
        let html = "<div>".repeat(100_000);
        assert!(matches!(parse(html.as_bytes(), &ParseLimits::default()), Err(LoadError::OverLimit(_))));
    }
}
