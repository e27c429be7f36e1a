//! `load::docx_styles`: the parts of a word-processor file that its body refers
//! to: paragraph styles, footnotes and endnotes.

use super::xml::{self, Node, Xml};
use super::{LoadError, ParseLimits};
use std::collections::HashMap;

/// What paragraph styles mean for the structure of a text.
#[derive(Debug, Default)]
pub(super) struct Styles {
    by_id: HashMap<String, Style>,
}

#[derive(Debug, Default)]
struct Style {
    name: String,
    based_on: Option<String>,
    outline_level: Option<u8>,
    is_list: bool,
}

impl Styles {
    pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Self, LoadError> {
        let mut styles = Self::default();
        let mut current: Option<(String, Style)> = None;
        let mut xml = Xml::new(text, limits);
        while let Some(node) = xml.next()? {
            let Node::Open(start) = node else { continue };
            let value = || xml::attribute(&start, "val").map(|value| value.into_owned());
            match (xml::local(&start), &mut current) {
                ("style", _) => {
                    styles.by_id.extend(current.take());
                    let id = xml::attribute(&start, "styleId").unwrap_or_default().into_owned();
                    current = Some((id, Style::default()));
                }
                ("name", Some((_, style))) => style.name = value().unwrap_or_default().to_lowercase(),
                ("basedOn", Some((_, style))) => style.based_on = value(),
                ("outlineLvl", Some((_, style))) => style.outline_level = value().and_then(|level| level.parse().ok()),
                ("numPr", Some((_, style))) => style.is_list = true,
                _ => {}
            }
        }
        styles.by_id.extend(current);
        Ok(styles)
    }

    /// The heading level, from 1, of paragraphs of a style.
    pub(super) fn heading(&self, id: &str) -> Option<u8> {
        let by_name = |name: &str| match name {
            "title" => Some(1),
            _ => name.strip_prefix("heading ")?.trim().parse().ok(),
        };
        // Files without a style sheet still use the built-in identifiers.
        let built_in = || id.strip_prefix("Heading").and_then(|level| level.parse().ok());
        let found = self.chain(id).find_map(|style| {
            by_name(&style.name).or_else(|| style.outline_level.filter(|level| *level < 9).map(|level| level + 1))
        });
        found.or_else(built_in).map(|level: u8| level.clamp(1, 6))
    }

    pub(super) fn is_list(&self, id: &str) -> bool {
        let name_tells = |name: &str| name.starts_with("list bullet") || name.starts_with("list number");
        self.chain(id).any(|style| style.is_list || name_tells(&style.name)) && self.heading(id).is_none()
    }

    /// Whether paragraphs of a style are lines of a table of contents.
    pub(super) fn is_contents(&self, id: &str) -> bool {
        let level = self.by_id.get(id).and_then(|style| style.name.strip_prefix("toc "));
        level.is_some_and(|level| level.parse::<u8>().is_ok())
    }

    /// A style and the styles that it is based on. A circle of styles ends the chain.
    fn chain(&self, id: &str) -> impl Iterator<Item = &Style> {
        let parent = |style: &&Style| self.by_id.get(style.based_on.as_deref()?);
        std::iter::successors(self.by_id.get(id), parent).take(16)
    }
}

/// Footnotes and endnotes, by kind and id.
#[derive(Debug, Default)]
pub(super) struct Notes {
    texts: HashMap<(&'static str, String), String>,
}

impl Notes {
    pub(super) fn parse(&mut self, kind: &'static str, text: &str, limits: &ParseLimits) -> Result<(), LoadError> {
        let mut id = None;
        let mut note = String::new();
        let mut inside_text = false;
        let mut xml = Xml::new(text, limits);
        while let Some(node) = xml.next()? {
            match node {
                Node::Open(start) => {
                    inside_text = xml::local(&start) == "t";
                    match xml::local(&start) {
                        name if name == kind => {
                            self.add(kind, id.take(), &mut note);
                            // Notes with a type are only the lines that are drawn above notes.
                            let is_text = xml::attribute(&start, "type").is_none();
                            id = xml::attribute(&start, "id").filter(|_| is_text).map(|id| id.into_owned());
                        }
                        "p" | "tab" | "br" => note.push(' '),
                        _ => {}
                    }
                }
                Node::Close => inside_text = false,
                Node::Text(text) if inside_text => note.push_str(&text),
                _ => {}
            }
        }
        self.add(kind, id, &mut note);
        Ok(())
    }

    fn add(&mut self, kind: &'static str, id: Option<String>, note: &mut String) {
        let text = note.split_whitespace().collect::<Vec<_>>().join(" ");
        note.clear();
        if let Some(id) = id.filter(|_| !text.is_empty()) {
            self.texts.insert((kind, id), text);
        }
    }

    pub(super) fn get(&self, kind: &'static str, id: &str) -> Option<&str> {
        self.texts.get(&(kind, id.to_owned())).map(String::as_str)
    }
}
