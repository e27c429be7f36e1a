//! `load::package`: what an EPUB says about itself: title, authors, the order
//! of its parts and its table of contents (EPUB 2 and 3). It is read here and
//! not by a library so that every byte passes the limits of
//! [`Archive`] and [`Xml`]; a damaged table of contents costs only itself.

use super::archive::Archive;
use super::xml::{self, Node, Xml};
use super::{Limits, LoadError};
use std::collections::{HashMap, HashSet};

/// Font obfuscation keeps fonts from being copied; it does not hide the text.
const FONT_OBFUSCATION: &[&str] = &["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"];

/// An EPUB's package document.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) title: Option<String>,
    pub(super) authors: Vec<String>,
    /// The parts in reading order, as names in the archive.
    pub(super) spine: Vec<String>,
    /// The table of contents.
    pub(super) contents: Vec<Entry>,
}

/// A line of a table of contents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The part's name in the archive.
    pub(super) part: String,
    /// The id of the element in it, where the line names one.
    pub(super) fragment: Option<String>,
    /// What the line says.
    pub(super) label: String,
}

/// Reads the package of an EPUB.
pub(super) fn read(archive: &mut Archive<'_>, limits: &Limits) -> Result<Package, LoadError> {
    let location = package_location(archive, limits)?;
    let document = xml::decode(&archive.require(&location)?);
    let mut opf = Opf::parse(&document, limits)?;
    let resolve = |href: &str| resolve(&location, href).0;

    let by_id: HashMap<&str, &Item> = opf.items.iter().map(|item| (item.id.as_str(), item)).collect();
    let navigation = opf.items.iter().find(|item| item.properties.split_whitespace().any(|one| one == "nav"));
    let readable = |item: &&&Item| item.media_type.contains("html") || item.media_type.contains("dtbook");
    // A table of contents repeats every heading without saying anything, so it
    // is no part of the text.
    let mut spine: Vec<String> = Vec::new();
    let mut listed = HashSet::new();
    for id in &opf.spine {
        let item = by_id.get(id.as_str()).filter(readable);
        let item = item.filter(|item| navigation.is_none_or(|navigation| navigation.id != item.id));
        let part = item.map(|item| resolve(&item.href));
        // Some books list a part once more for each of its sections.
        spine.extend(part.filter(|part| listed.insert(part.clone())));
    }
    refuse_encrypted(archive, &spine, limits)?;

    let ncx = opf.contents_id.as_deref().and_then(|id| by_id.get(id).copied());
    let ncx = ncx.or_else(|| opf.items.iter().find(|item| item.media_type == "application/x-dtbncx+xml"));
    let mut contents = Vec::new();
    for (item, parse) in [(navigation, parse_navigation as ParseContents), (ncx, parse_ncx)] {
        let Some(item) = item.filter(|_| contents.is_empty()) else { continue };
        let part = resolve(&item.href);
        let Some(bytes) = archive.read(&part)? else { continue };
        contents = match parse(&xml::decode(&bytes), &part, limits) {
            Err(LoadError::OverLimit(reason)) => return Err(LoadError::OverLimit(reason)),
            other => other.unwrap_or_default(),
        };
    }
    Ok(Package { title: opf.titles.drain(..).next(), authors: opf.authors, spine, contents })
}

type ParseContents = fn(&str, &str, &Limits) -> Result<Vec<Entry>, LoadError>;

fn package_location(archive: &mut Archive<'_>, limits: &Limits) -> Result<String, LoadError> {
    if let Some(bytes) = archive.read("META-INF/container.xml")? {
        let text = xml::decode(&bytes);
        let mut xml = Xml::new(&text, limits);
        while let Some(node) = xml.next()? {
            if let Node::Open(start) = node
                && xml::local(&start) == "rootfile"
                && let Some(path) = xml::attribute(&start, "full-path")
            {
                return Ok(path.into_owned());
            }
        }
    }
    let package = archive.names().find(|name| name.ends_with(".opf"));
    package.ok_or_else(|| LoadError::Broken("the EPUB has no package document".to_owned()))
}

#[derive(Debug, Default)]
struct Opf {
    titles: Vec<String>,
    authors: Vec<String>,
    items: Vec<Item>,
    spine: Vec<String>,
    contents_id: Option<String>,
}

#[derive(Debug, Default)]
struct Item {
    id: String,
    href: String,
    media_type: String,
    properties: String,
}

impl Opf {
    fn parse(text: &str, limits: &Limits) -> Result<Self, LoadError> {
        let mut opf = Self::default();
        let mut xml = Xml::new(text, limits);
        while let Some(node) = xml.next()? {
            let Node::Open(start) = node else { continue };
            let attribute = |name: &str| xml::attribute(&start, name).map(|value| value.into_owned());
            match xml::local(&start) {
                "title" => opf.titles.extend(content(&mut xml)?),
                "creator" => {
                    // Translators and editors stand here too, with their role.
                    let is_author = attribute("role").is_none_or(|role| role == "aut");
                    opf.authors.extend(content(&mut xml)?.filter(|_| is_author));
                }
                "item" => opf.items.push(Item {
                    id: attribute("id").unwrap_or_default(),
                    href: attribute("href").unwrap_or_default(),
                    media_type: attribute("media-type").unwrap_or_default(),
                    properties: attribute("properties").unwrap_or_default(),
                }),
                "itemref" => opf.spine.extend(attribute("idref")),
                "spine" => opf.contents_id = attribute("toc"),
                _ => {}
            }
            if opf.spine.len() > limits.pages as usize {
                return Err(LoadError::OverLimit(format!("the book has more than {} parts", limits.pages)));
            }
        }
        Ok(opf)
    }
}

/// The text inside the element that was just opened, up to its end.
fn content(xml: &mut Xml<'_>) -> Result<Option<String>, LoadError> {
    let mut text = String::new();
    let mut depth = 1;
    while depth > 0 {
        match xml.next()? {
            Some(Node::Open(_)) => depth += 1,
            Some(Node::Close) => depth -= 1,
            Some(Node::Text(part)) => text.push_str(&part),
            Some(Node::Entity(_)) => text.push(' '),
            None => break,
        }
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok((!text.is_empty()).then_some(text))
}

/// EPUB 3: the links inside `<nav epub:type="toc">`.
fn parse_navigation(text: &str, part: &str, limits: &Limits) -> Result<Vec<Entry>, LoadError> {
    let mut entries = Vec::new();
    let mut xml = Xml::new(text, limits);
    let mut inside = 0u32;
    while let Some(node) = xml.next()? {
        match node {
            Node::Open(start) if inside > 0 => {
                let href = xml::attribute(&start, "href").filter(|_| xml::local(&start) == "a");
                match href {
                    Some(href) => entries.extend(content(&mut xml)?.map(|label| entry(part, &href, label))),
                    None => inside += 1,
                }
            }
            Node::Open(start) if xml::local(&start) == "nav" => {
                let kind = xml::attribute(&start, "type").unwrap_or_default();
                inside = u32::from(kind.split_whitespace().any(|one| one == "toc"));
            }
            Node::Close => inside = inside.saturating_sub(1),
            _ => {}
        }
    }
    Ok(entries)
}

/// EPUB 2: `navPoint`s, each with a label and then a target.
fn parse_ncx(text: &str, part: &str, limits: &Limits) -> Result<Vec<Entry>, LoadError> {
    let mut entries = Vec::new();
    let mut xml = Xml::new(text, limits);
    let mut label = None;
    while let Some(node) = xml.next()? {
        let Node::Open(start) = node else { continue };
        match xml::local(&start) {
            // A list of printed pages is not a table of contents.
            "pageList" => break,
            "navLabel" => label = content(&mut xml)?,
            "content" => {
                if let (Some(label), Some(href)) = (label.take(), xml::attribute(&start, "src")) {
                    entries.push(entry(part, &href, label));
                }
            }
            _ => {}
        }
    }
    Ok(entries)
}

fn entry(base: &str, href: &str, label: String) -> Entry {
    let (part, fragment) = resolve(base, href);
    Entry { part, fragment, label }
}

/// The archive name and fragment that `href`, found in the part `base`, means.
fn resolve(base: &str, href: &str) -> (String, Option<String>) {
    let (path, fragment) = match href.split_once('#') {
        Some((path, fragment)) => (path, Some(decode_percent(fragment)).filter(|fragment| !fragment.is_empty())),
        None => (href, None),
    };
    if path.is_empty() {
        return (base.to_owned(), fragment);
    }
    let path = decode_percent(path);
    let mut parts: Vec<&str> = match path.starts_with('/') {
        true => Vec::new(),
        false => base.split('/').collect(),
    };
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    (parts.join("/"), fragment)
}

fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Refuses books whose text is encrypted (copy protection).
fn refuse_encrypted(archive: &mut Archive<'_>, spine: &[String], limits: &Limits) -> Result<(), LoadError> {
    let Some(bytes) = archive.read("META-INF/encryption.xml")? else { return Ok(()) };
    let text = xml::decode(&bytes);
    let mut xml = Xml::new(&text, limits);
    let mut hides_text = false;
    while let Some(node) = xml.next()? {
        let Node::Open(start) = node else { continue };
        match xml::local(&start) {
            "EncryptedData" => hides_text = true,
            "EncryptionMethod" => {
                let algorithm = xml::attribute(&start, "Algorithm").unwrap_or_default();
                hides_text = !FONT_OBFUSCATION.contains(&algorithm.as_ref());
            }
            "CipherReference" if hides_text => {
                let uri = xml::attribute(&start, "URI").unwrap_or_default();
                if spine.contains(&resolve("", &uri).0) {
                    return Err(LoadError::Encrypted);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_from_the_part_that_holds_them() {
        assert_eq!(
            resolve("OEBPS/content.opf", "text/a%20b.xhtml#s%31"),
            ("OEBPS/text/a b.xhtml".into(), Some("s1".into()))
        );
        assert_eq!(resolve("OEBPS/toc/nav.xhtml", "../a.xhtml"), ("OEBPS/a.xhtml".into(), None));
        assert_eq!(resolve("content.opf", "./../../a%zz.xhtml"), ("a%zz.xhtml".into(), None));
        assert_eq!(resolve("a/nav.xhtml", "#here"), ("a/nav.xhtml".into(), Some("here".into())));
    }

    #[test]
    fn an_epub_2_table_of_contents_is_read_in_order() {
        let ncx = "<ncx><docTitle><text>T</text></docTitle><navMap>
            <navPoint><navLabel><text>One &amp; all</text></navLabel><content src='a.html#x'/>
            <navPoint><navLabel><text>Deeper</text></navLabel><content src='a.html#y'/></navPoint></navPoint>
            </navMap><pageList><pageTarget><navLabel><text>1</text></navLabel><content src='a.html#p1'/></pageTarget></pageList></ncx>";
        let labels: Vec<String> =
            parse_ncx(ncx, "toc.ncx", &Limits::default()).unwrap().into_iter().map(|entry| entry.label).collect();
        assert_eq!(labels, ["One & all", "Deeper"]);
    }

    #[test]
    fn only_the_toc_of_an_epub_3_navigation_counts() {
        let nav = "<html><body><nav epub:type='landmarks'><a href='z.xhtml'>Start</a></nav>
            <nav epub:type='toc'><ol><li><a href='a.xhtml'><span>One</span></a></li></ol></nav></body></html>";
        let entries = parse_navigation(nav, "nav.xhtml", &Limits::default()).unwrap();
        assert_eq!(entries, [Entry { part: "a.xhtml".into(), fragment: None, label: "One".into() }]);
    }
}
