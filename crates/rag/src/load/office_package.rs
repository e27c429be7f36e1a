//! `load::office_package`: what the archives of word processors, spreadsheets and presentations in Microsoft's form
//! share: which part is the main one, which parts a part refers to, and title, author, date and language.

use super::archive::{Archive, path_below};
use super::xml::{self, Node, Xml};
use super::{LoadError, ParseLimits, Parsed};

/// A reference from one part to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartRelation {
    pub(super) id: String,
    /// The last part of its type, such as `slide`.
    pub(super) kind: String,
    /// The part that it leads to, as the archive names it.
    pub(super) target: String,
}

/// The part that holds the text. Its name is not fixed, but nearly all files use the `usual` one.
pub(super) fn main_part(archive: &mut Archive<'_>, usual: &str, limits: &ParseLimits) -> Result<String, LoadError> {
    let found = relations(archive, "", limits)?.into_iter().find(|relation| relation.kind == "officeDocument");
    Ok(found.map_or_else(|| usual.to_owned(), |relation| relation.target))
}

/// The parts that a part refers to, in the order of the file; those of the archive itself for an empty name. References
/// to places outside the archive are left out.
pub(super) fn relations(
    archive: &mut Archive<'_>,
    part: &str,
    limits: &ParseLimits,
) -> Result<Vec<PartRelation>, LoadError> {
    let (folder, name) = part.rsplit_once('/').map_or(("", part), |(folder, name)| (folder, name));
    let list = if folder.is_empty() { format!("_rels/{name}.rels") } else { format!("{folder}/_rels/{name}.rels") };
    let Some(bytes) = archive.read(&list)? else { return Ok(Vec::new()) };
    let text = xml::decode(&bytes);
    let mut xml = Xml::new(&text, limits);
    let mut found = Vec::new();
    while let Some(node) = xml.next()? {
        let Node::Open(start) = node else { continue };
        let get = |name| xml::attribute(&start, name).unwrap_or_default();
        if xml::local(&start) != "Relationship" || get("TargetMode") == "External" {
            continue;
        }
        found.push(PartRelation {
            id: get("Id").into_owned(),
            kind: get("Type").rsplit('/').next().unwrap_or_default().to_owned(),
            target: path_below(folder, &get("Target")),
        });
    }
    Ok(found)
}

/// Adds the title, author, date and language that the archive states.
pub(super) fn with_core_properties(
    mut parsed: Parsed,
    archive: &mut Archive<'_>,
    limits: &ParseLimits,
) -> Result<Parsed, LoadError> {
    let Some(bytes) = archive.read("docProps/core.xml")? else { return Ok(parsed) };
    // Damaged metadata must not cost the text.
    let names = ["title", "creator", "created", "language"];
    let [title, author, date, language] = xml::texts_of(&xml::decode(&bytes), names, limits).unwrap_or_default();
    parsed.title = title.or(parsed.title);
    parsed.author = author;
    Ok(parsed.with("date", date).with("language", language))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::archive::tests::zipped;

    #[test]
    fn targets_are_found_from_the_folder_of_the_part_that_names_them() {
        let list = "<Relationships><Relationship Id='a' Type='http://x/slide' Target='slides/slide1.xml'/>
            <Relationship Id='b' Type='http://x/notesSlide' Target='../notes/n1.xml'/>
            <Relationship Id='c' Type='http://x/theme' Target='/ppt/theme1.xml'/>
            <Relationship Id='d' Type='http://x/hyperlink' Target='https://x' TargetMode='External'/></Relationships>";
        let bytes = zipped(&[("ppt/_rels/presentation.xml.rels", list)]);
        let limits = ParseLimits::default();
        let mut archive = Archive::open(&bytes, &limits).unwrap();
        let found = relations(&mut archive, "ppt/presentation.xml", &limits).unwrap();
        let found: Vec<_> = found.iter().map(|one| (one.kind.as_str(), one.target.as_str())).collect();
        assert_eq!(
            found,
            [("slide", "ppt/slides/slide1.xml"), ("notesSlide", "notes/n1.xml"), ("theme", "ppt/theme1.xml")]
        );
        assert_eq!(relations(&mut archive, "ppt/other.xml", &limits).unwrap(), []);
    }
}
