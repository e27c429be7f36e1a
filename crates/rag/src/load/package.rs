//! `load::package`: the description that an EPUB holds of itself: title,
//! authors, the order of its parts and its table of contents (EPUB 2 and 3). It
//! is read here and not by a library, so that every byte is checked against the
//! limits of [`Archive`] and [`Xml`]. If the table of contents is damaged, only
//! the table is lost.

use super::archive::{Archive, path_below};
use super::xml::{self, Node, Xml};
use super::{LoadError, ParseLimits};
use std::collections::{HashMap, HashSet};

/// Font obfuscation keeps fonts from being copied; it does not hide the text.
const FONT_OBFUSCATION: &[&str] = &["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"];

/// An EPUB's package document.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) title: Option<String>,
    pub(super) authors: Vec<String>,
    pub(super) date: Option<String>,
    pub(super) language: Option<String>,
    pub(super) publisher: Option<String>,
    /// The parts in reading order, as names in the archive.
    pub(super) spine: Vec<String>,
    pub(super) contents: Vec<Entry>,
    /// Where printed pages begin; the labels are their numbers.
    pub(super) pages: Vec<Entry>,
}

/// A line of a table of contents, or of a list of pages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The part's name in the archive.
    pub(super) part: String,
    /// The id of the element in it, where the line names one.
    pub(super) fragment: Option<String>,
    /// What the line says.
    pub(super) label: String,
    /// How deep the line stands, from 1.
    pub(super) level: u32,
}

/// What a book says about where its parts begin.
#[derive(Debug, Default)]
struct Navigation {
    contents: Vec<Entry>,
    pages: Vec<Entry>,
}

pub(super) fn read(archive: &mut Archive<'_>, limits: &ParseLimits) -> Result<Package, LoadError> {
    let location = package_location(archive, limits)?;
    let document = xml::decode(&archive.require(&location)?);
    let opf = Opf::parse(&document, limits)?;
    let resolve = |href: &str| resolve(&location, href).0;

    let by_id: HashMap<&str, &ManifestItem> = opf.items.iter().map(|item| (item.id.as_str(), item)).collect();
    let navigation = opf.items.iter().find(|item| item.properties.split_whitespace().any(|one| one == "nav"));
    let readable = |item: &&&ManifestItem| item.media_type.contains("html") || item.media_type.contains("dtbook");
    // A table of contents repeats every heading and adds nothing, so it is not
    // part of the text.
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
    let mut found = Navigation::default();
    for (item, parse) in [(navigation, parse_navigation as ParseNavigation), (ncx, parse_ncx)] {
        let Some(item) = item else { continue };
        let part = resolve(&item.href);
        let Some(bytes) = archive.read(&part)? else { continue };
        let more = match parse(&xml::decode(&bytes), &part, limits) {
            Err(LoadError::OverLimit(reason)) => return Err(LoadError::OverLimit(reason)),
            other => other.unwrap_or_default(),
        };
        // The EPUB 3 form comes first; the EPUB 2 form fills the gaps.
        if found.contents.is_empty() {
            found.contents = more.contents;
        }
        if found.pages.is_empty() {
            found.pages = more.pages;
        }
    }
    Ok(Package { spine, contents: found.contents, pages: found.pages, ..opf.package })
}

type ParseNavigation = fn(&str, &str, &ParseLimits) -> Result<Navigation, LoadError>;

fn package_location(archive: &mut Archive<'_>, limits: &ParseLimits) -> Result<String, LoadError> {
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

/// A package document as it is written: parts are named by their ids.
#[derive(Debug, Default)]
struct Opf {
    package: Package,
    items: Vec<ManifestItem>,
    spine: Vec<String>,
    contents_id: Option<String>,
}

#[derive(Debug, Default)]
struct ManifestItem {
    id: String,
    href: String,
    media_type: String,
    properties: String,
}

impl Opf {
    fn parse(text: &str, limits: &ParseLimits) -> Result<Self, LoadError> {
        let mut opf = Self::default();
        let package = &mut opf.package;
        let mut xml = Xml::new(text, limits);
        while let Some(node) = xml.next()? {
            let Node::Open(start) = node else { continue };
            let attribute = |name: &str| xml::attribute(&start, name).map(|value| value.into_owned());
            match xml::local(&start) {
                "title" if package.title.is_none() => package.title = content(&mut xml)?,
                "date" if package.date.is_none() => package.date = content(&mut xml)?,
                "language" if package.language.is_none() => package.language = content(&mut xml)?,
                "publisher" if package.publisher.is_none() => package.publisher = content(&mut xml)?,
                "creator" => {
                    // Translators and editors are listed here too, with their role.
                    let is_author = attribute("role").is_none_or(|role| role == "aut");
                    package.authors.extend(content(&mut xml)?.filter(|_| is_author));
                }
                "item" => opf.items.push(ManifestItem {
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

/// EPUB 3: the links inside `<nav epub:type="toc">` and `<nav epub:type="page-list">`.
fn parse_navigation(text: &str, part: &str, limits: &ParseLimits) -> Result<Navigation, LoadError> {
    let mut found = Navigation::default();
    let mut xml = Xml::new(text, limits);
    // The list that is being read, and which of the elements open in it are lists.
    let mut inside = None;
    let mut open: Vec<bool> = Vec::new();
    while let Some(node) = xml.next()? {
        match (node, inside) {
            (Node::Open(start), Some(is_contents)) => {
                let href = xml::attribute(&start, "href").filter(|_| xml::local(&start) == "a");
                let Some(href) = href else {
                    open.push(xml::local(&start) == "ol");
                    continue;
                };
                let level = u32::try_from(open.iter().filter(|is_list| **is_list).count()).unwrap_or(u32::MAX);
                let entry = content(&mut xml)?.map(|label| entry(part, &href, label, level.max(1)));
                if is_contents { found.contents.extend(entry) } else { found.pages.extend(entry) }
            }
            (Node::Open(start), None) if xml::local(&start) == "nav" => {
                let kind = xml::attribute(&start, "type").unwrap_or_default();
                let is = |wanted: &str| kind.split_whitespace().any(|one| one == wanted);
                if is("toc") || is("page-list") {
                    inside = Some(is("toc"));
                    open.clear();
                }
            }
            (Node::Close, Some(_)) if open.pop().is_none() => inside = None,
            _ => {}
        }
    }
    Ok(found)
}

/// EPUB 2: `navPoint`s in each other, each with a label and then a target; and
/// `pageTarget`s, the same for printed pages.
fn parse_ncx(text: &str, part: &str, limits: &ParseLimits) -> Result<Navigation, LoadError> {
    let mut found = Navigation::default();
    let mut xml = Xml::new(text, limits);
    let mut label = None;
    let mut open: Vec<PackageElement> = Vec::new();
    while let Some(node) = xml.next()? {
        let start = match node {
            Node::Open(start) => start,
            Node::Close => {
                open.pop();
                continue;
            }
            _ => continue,
        };
        match xml::local(&start) {
            "navLabel" => {
                label = content(&mut xml)?;
                continue;
            }
            "content" => {
                if let (Some(label), Some(href)) = (label.take(), xml::attribute(&start, "src")) {
                    let count = open.iter().filter(|element| **element == PackageElement::Point).count();
                    let entry = entry(part, &href, label, u32::try_from(count).unwrap_or(u32::MAX).max(1));
                    let is_page = open.contains(&PackageElement::PageTarget);
                    if is_page { found.pages.push(entry) } else { found.contents.push(entry) }
                }
                open.push(PackageElement::Other);
            }
            "navPoint" => open.push(PackageElement::Point),
            "pageTarget" => open.push(PackageElement::PageTarget),
            _ => open.push(PackageElement::Other),
        }
    }
    Ok(found)
}

#[derive(PartialEq)]
enum PackageElement {
    Point,
    PageTarget,
    Other,
}

fn entry(base: &str, href: &str, label: String, level: u32) -> Entry {
    let (part, fragment) = resolve(base, href);
    Entry { part, fragment, label, level }
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
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    (path_below(folder, &path), fragment)
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
fn refuse_encrypted(archive: &mut Archive<'_>, spine: &[String], limits: &ParseLimits) -> Result<(), LoadError> {
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
    fn an_epub_2_table_of_contents_is_read_in_order_and_depth_beside_its_pages() {
        let ncx = "<ncx><docTitle><text>T</text></docTitle><navMap>
            <navPoint><navLabel><text>One &amp; all</text></navLabel><content src='a.html#x'/>
            <navPoint><navLabel><text>Deeper</text></navLabel><content src='a.html#y'/></navPoint></navPoint>
            <navPoint><navLabel><text>Two</text></navLabel><content src='b.html'/></navPoint>
            </navMap><pageList><pageTarget><navLabel><text>1</text></navLabel><content src='a.html#p1'/></pageTarget></pageList></ncx>";
        let found = parse_ncx(ncx, "toc.ncx", &ParseLimits::default()).unwrap();
        let lines: Vec<(&str, u32)> = found.contents.iter().map(|entry| (entry.label.as_str(), entry.level)).collect();
        assert_eq!(lines, [("One & all", 1), ("Deeper", 2), ("Two", 1)]);
        let pages: Vec<_> = found.pages.iter().map(|entry| (entry.label.as_str(), entry.fragment.as_deref())).collect();
        assert_eq!(pages, [("1", Some("p1"))]);
    }

    #[test]
    fn of_an_epub_3_navigation_the_toc_and_the_pages_count() {
        let nav = "<html><body><nav epub:type='landmarks'><a href='z.xhtml'>Start</a></nav>
            <nav epub:type='toc'><h2>Contents</h2><ol><li><a href='a.xhtml'><span>One</span></a>
            <ol><li><a href='a.xhtml#b'>Deeper</a></li></ol></li></ol></nav>
            <nav epub:type='page-list'><ol><li><a href='a.xhtml#p7'>7</a></li></ol></nav><a href='q.xhtml'>No</a></body></html>";
        let found = parse_navigation(nav, "nav.xhtml", &ParseLimits::default()).unwrap();
        let entry = |fragment: Option<&str>, label: &str, level| Entry {
            part: "a.xhtml".into(),
            fragment: fragment.map(str::to_owned),
            label: label.into(),
            level,
        };
        assert_eq!(found.contents, [entry(None, "One", 1), entry(Some("b"), "Deeper", 2)]);
        assert_eq!(found.pages, [entry(Some("p7"), "7", 1)]);
    }
}
