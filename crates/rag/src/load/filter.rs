//! `load::filter`: which of the files at a corpus' address belong to the corpus.

use super::sniff;
use glob::{MatchOptions, Pattern};

/// Letter case does not matter, and `*` stays within a folder (`**` does not).
pub(crate) const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: false, require_literal_separator: true, require_literal_leading_dot: false };

/// The patterns of the user.
#[derive(Debug, Clone)]
pub(super) struct FileFilter {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl FileFilter {
    /// Parses patterns. A pattern without `/` matches names in any folder; a
    /// pattern that ends in `/` matches everything below that folder.
    pub(super) fn parse(include: &[String], exclude: &[String]) -> Result<Self, PatternError> {
        let all = |texts: &[String]| texts.iter().map(|text| pattern(text)).collect::<Result<Vec<_>, _>>();
        Ok(Self { include: all(include)?, exclude: all(exclude)? })
    }

    /// Whether a file belongs to the corpus. `address` is the pattern that
    /// stands in the corpus' address, if one does.
    pub(super) fn takes(&self, path: &str, address: Option<&Pattern>) -> bool {
        let is_in_address = address.is_none_or(|pattern| pattern.matches_with(path, MATCHING));
        let is_included = match (self.include.is_empty(), address) {
            (true, None) => is_known(path),
            (true, Some(_)) => true,
            (false, _) => self.include.iter().any(|pattern| matches(pattern, path)),
        };
        is_in_address && is_included && !self.is_left_out(path)
    }

    /// Whether a file is left out of the corpus only because its type is unknown, not because of a pattern.
    pub(super) fn lacks_type(&self, path: &str, address: Option<&Pattern>) -> bool {
        self.include.is_empty() && address.is_none() && !is_known(path) && !self.is_left_out(path)
    }

    /// Whether a file is left out because it is hidden or excluded. Hidden files belong to tools, not to the user.
    fn is_left_out(&self, path: &str) -> bool {
        let is_hidden = path.split('/').any(|part| part.starts_with('.'));
        is_hidden || self.exclude.iter().any(|pattern| matches(pattern, path))
    }
}

fn matches(pattern: &Pattern, path: &str) -> bool {
    match pattern.as_str().contains('/') {
        true => pattern.matches_with(path, MATCHING),
        false => pattern.matches_with(path.rsplit('/').next().unwrap_or(path), MATCHING),
    }
}

/// Whether a file's name has the extension of a format that can be read.
fn is_known(path: &str) -> bool {
    sniff::extension(path).as_deref().and_then(sniff::by_extension).is_some()
}

/// Splits an address before its first component with a wildcard.
pub(super) fn split_pattern(address: &str) -> Result<(&str, Option<Pattern>), PatternError> {
    let Some(wildcard) = address.find(['*', '?', '[']) else { return Ok((address, None)) };
    let start = address[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
    let pattern = pattern(&address[start..])?;
    Ok((address[..start].trim_end_matches('/'), Some(pattern)))
}

/// A pattern that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("bad pattern `{text}`: {cause}")]
pub(super) struct PatternError {
    text: String,
    cause: glob::PatternError,
}

fn pattern(text: &str) -> Result<Pattern, PatternError> {
    let whole = if text.ends_with('/') { format!("{text}**") } else { text.to_owned() };
    let failed = |cause| PatternError { text: text.to_owned(), cause };
    Pattern::new(whole.trim_start_matches("./")).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_before_its_first_wildcard() {
        let (root, pattern) = split_pattern("/a/b*/**/c.pdf").unwrap();
        assert_eq!((root, pattern.unwrap().as_str()), ("/a", "b*/**/c.pdf"));
        assert_eq!(split_pattern("*.pdf").unwrap().0, "");
        assert_eq!(split_pattern("s3://bucket/x/*.pdf").unwrap().0, "s3://bucket/x");
        assert!(split_pattern("/a/b.pdf").unwrap().1.is_none());
    }

    #[test]
    fn only_a_file_that_nothing_but_its_type_leaves_out_lacks_a_type() {
        let filter = |include: &[&str], exclude: &[&str]| {
            let owned = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>();
            FileFilter::parse(&owned(include), &owned(exclude)).unwrap()
        };
        let plain = filter(&[], &[]);
        assert!(plain.lacks_type("a.log", None) && plain.lacks_type("deep/README", None));
        assert!(!plain.lacks_type("a.PDF", None), "it is read");
        assert!(!plain.lacks_type(".git/a.log", None) && !plain.lacks_type(".a.log", None), "hidden");
        let pattern = Pattern::new("**/*.log").unwrap();
        assert!(!plain.lacks_type("a.log", Some(&pattern)), "the address takes it");
        assert!(!filter(&["*.md"], &[]).lacks_type("a.log", None), "the user chose what is read");
        assert!(!filter(&[], &["*.log"]).lacks_type("a.log", None), "the user left it out");
        assert!(!filter(&[], &["old/"]).lacks_type("old/a.log", None));
        assert!(filter(&[], &["old/"]).lacks_type("new/a.log", None));
    }

    #[test]
    fn a_double_star_also_matches_no_folder() {
        let filter = FileFilter::parse(&["**/*.epub".to_owned()], &[]).unwrap();
        assert!(filter.takes("a.epub", None) && filter.takes("x/y/A.EPUB", None));
        assert!(!filter.takes("a.pdf", None) && !filter.takes(".x/a.epub", None));
    }
}
