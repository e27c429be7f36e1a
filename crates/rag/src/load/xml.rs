//! `load::xml`: a pull reader for the XML inside EPUB and DOCX. It limits the
//! nesting, never expands entities that a document defines, and keeps only its
//! place in the text.

use super::{LoadError, ParseLimits, text};
use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event, attributes::Attribute};
use std::borrow::Cow;

/// The next part of a document.
#[derive(Debug)]
pub(super) enum Node<'a> {
    /// An element begins. An empty element begins and ends.
    Open(BytesStart<'a>),
    /// The innermost element ends.
    Close,
    /// Text, with character references resolved.
    Text(Cow<'a, str>),
    /// A reference to an entity that XML does not define, without `&` and `;`.
    Entity(String),
}

pub(super) struct Xml<'a> {
    reader: Reader<&'a [u8]>,
    depth: u32,
    limit: u32,
    close_is_due: bool,
}

impl<'a> Xml<'a> {
    /// Starts at the top of `text`.
    pub(super) fn new(text: &'a str, limits: &ParseLimits) -> Self {
        Self { reader: Reader::from_str(text), depth: 0, limit: limits.nesting, close_is_due: false }
    }

    /// The next node, or none at the end. Declarations, comments and
    /// processing instructions are passed over.
    pub(super) fn next(&mut self) -> Result<Option<Node<'a>>, LoadError> {
        if std::mem::take(&mut self.close_is_due) {
            return Ok(Some(Node::Close));
        }
        loop {
            let event = self.reader.read_event().map_err(|error| broken(&error))?;
            let node = match event {
                Event::Start(start) => {
                    self.depth += 1;
                    if self.depth > self.limit {
                        let reason = format!("elements are nested more than {} deep", self.limit);
                        return Err(LoadError::OverLimit(reason));
                    }
                    Node::Open(start)
                }
                Event::Empty(start) => {
                    self.close_is_due = true;
                    Node::Open(start)
                }
                Event::End(_) => {
                    self.depth -= 1;
                    Node::Close
                }
                Event::Text(text) => Node::Text(text.into_inner()),
                Event::CData(text) => Node::Text(text.into_inner()),
                Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(|error| broken(&error))? {
                    Some(character) => Node::Text(Cow::Owned(character.to_string())),
                    None => match resolve_xml_entity(&reference) {
                        Some(text) => Node::Text(Cow::Borrowed(text)),
                        None => Node::Entity(reference.to_string()),
                    },
                },
                Event::Eof if self.depth > 0 => {
                    return Err(LoadError::Broken("the XML ends inside an element".to_owned()));
                }
                Event::Eof => return Ok(None),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
            };
            return Ok(Some(node));
        }
    }
}

/// The bytes of an XML part as text, in the encoding that it declares.
pub(super) fn decode(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(200)];
    let declared = head.utf8_chunks().next().and_then(|chunk| {
        let declaration = chunk.valid().strip_prefix("<?xml")?.split("?>").next()?;
        let label = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
        let quote = label.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        label[1..].split(quote).next().map(str::to_owned)
    });
    text::decode(bytes, declared.as_deref())
}

/// An element's name without its prefix.
pub(super) fn local<'s>(start: &'s BytesStart<'_>) -> &'s str {
    start.local_name().into_inner()
}

/// The value of an attribute, whatever its prefix.
pub(super) fn attribute<'s>(start: &'s BytesStart<'_>, name: &str) -> Option<Cow<'s, str>> {
    let mut attributes = start.attributes();
    let found = attributes.with_checks(false).flatten().find(|one| one.key.local_name().into_inner() == name)?;
    Some(match found.normalized_value(XmlVersion::Implicit1_0) {
        Ok(value) => value,
        // A reference that XML does not know stays as it was written.
        Err(_) => found.value,
    })
}

/// The value of an attribute that has a prefix, where another of the same name has none.
pub(super) fn prefixed_attribute<'s>(start: &'s BytesStart<'_>, name: &str) -> Option<Cow<'s, str>> {
    let mut attributes = start.attributes();
    let is_it = |one: &Attribute<'_>| one.key.prefix().is_some() && one.key.local_name().into_inner() == name;
    attributes.with_checks(false).flatten().find(is_it).map(|one| one.value)
}

fn broken(error: &quick_xml::Error) -> LoadError {
    LoadError::Broken(format!("not well-formed XML: {error}"))
}

/// The texts of the elements with these names, without the spaces around them; several elements of one name are one
/// text. None for an element that is missing or empty.
pub(super) fn texts_of<const COUNT: usize>(
    text: &str,
    names: [&str; COUNT],
    limits: &ParseLimits,
) -> Result<[Option<String>; COUNT], LoadError> {
    let mut found = [const { String::new() }; COUNT];
    let mut current = None;
    let mut xml = Xml::new(text, limits);
    while let Some(node) = xml.next()? {
        match (node, current) {
            (Node::Open(start), _) => current = names.iter().position(|name| *name == local(&start)),
            (Node::Text(text), Some(field)) => found[field].push_str(&text),
            (Node::Close, _) => current = None,
            _ => {}
        }
    }
    let given = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    Ok(found.map(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, LoadError> {
        let mut xml = Xml::new(text, &ParseLimits::default());
        let mut seen = String::new();
        while let Some(node) = xml.next()? {
            match node {
                Node::Open(start) => seen.push_str(&format!("<{}>", local(&start))),
                Node::Close => seen.push_str("</>"),
                Node::Text(text) => seen.push_str(&text),
                Node::Entity(name) => seen.push_str(&format!("[{name}]")),
            }
        }
        Ok(seen)
    }

    #[test]
    fn every_element_that_opens_closes() {
        assert_eq!(read("<?xml version='1.0'?><w:a>x&amp;&#233;<b/><![CDATA[<]]></w:a>").unwrap(), "<a>x&é<b></><</>");
    }

    #[test]
    fn entities_of_the_document_are_not_expanded() {
        let bomb = "<!DOCTYPE a [<!ENTITY b '&c;&c;'><!ENTITY c 'x'>]><a>&b;</a>";
        assert_eq!(read(bomb).unwrap(), "<a>[b]</>");
    }

    #[test]
    fn broken_and_deep_documents_are_refused() {
        assert!(matches!(read("<a><b></a>"), Err(LoadError::Broken(_))));
        assert!(matches!(read("<a><b>"), Err(LoadError::Broken(_))));
        assert!(matches!(read(&"<a>".repeat(100_000)), Err(LoadError::OverLimit(_))));
    }

    #[test]
    fn attributes_are_found_without_their_prefix() {
        let mut xml = Xml::new("<w:p w:val='a &amp; b' id='&x;'/>", &ParseLimits::default());
        let Some(Node::Open(start)) = xml.next().unwrap() else { panic!("an element") };
        assert_eq!(attribute(&start, "val").as_deref(), Some("a & b"));
        assert_eq!(attribute(&start, "id").as_deref(), Some("&x;"));
        assert_eq!(attribute(&start, "none"), None);
    }

    #[test]
    fn the_declared_encoding_is_used() {
        assert!(decode(b"<?xml version='1.0' encoding=\"iso-8859-1\"?><a>\xE9</a>").ends_with("<a>é</a>"));
    }
}
