//! What holds for every format of the list.

use super::super::format::Signature;
use super::super::*;
use super::{assert_pages_fit, assert_tables_fit, documents_in, has_library, name_of};

#[test]
fn every_extension_names_one_format_in_lower_case() {
    let mut known: Vec<&str> = Vec::new();
    for format in Format::ALL {
        let extensions = format.definition().extensions;
        assert!(!extensions.is_empty(), "{format:?} has no name");
        for extension in extensions {
            assert!(!known.contains(extension), "two formats are named .{extension}");
            assert!(!extension.starts_with('.') && *extension == extension.to_lowercase(), "{extension}");
            assert_eq!(sniff::by_extension(extension), Some(*format));
            known.push(extension);
        }
    }
}

#[test]
fn a_sample_is_told_by_its_name_and_where_it_has_a_sign_of_its_own_without_one() {
    for format in Format::ALL {
        let sample = (format.definition().sample)();
        assert_eq!(sniff::format(sample.path, &sample.bytes), Ok(*format));
        if !matches!(format.definition().signature, Signature::Name) {
            assert_eq!(sniff::format("folder/wrong.txt", &sample.bytes), Ok(*format));
            assert_eq!(sniff::format("folder/README", &sample.bytes), Ok(*format));
        }
    }
}

#[test]
fn a_sample_gives_the_same_text_with_pages_and_headings_in_order() {
    for format in Format::ALL.iter().copied().filter(|format| has_library(*format)) {
        let sample = (format.definition().sample)();
        let read = documents_in(sample.path, &sample.bytes);
        assert_eq!(read, documents_in(sample.path, &sample.bytes));
        assert!(!read.is_empty(), "{} gives no document", name_of(format));
        let shows = |document: &Document| !document.headings.is_empty() || !document.tables.is_empty();
        assert!(
            !format.keeps_headings() || read.iter().any(shows),
            "{} shows no heading and no table",
            name_of(format)
        );
        for document in &read {
            assert_pages_fit(document);
            assert_tables_fit(document);
        }
    }
}

#[test]
fn a_damaged_sample_is_refused_or_gives_pages_in_order() {
    for format in Format::ALL.iter().copied().filter(|format| has_library(*format)) {
        let sample = (format.definition().sample)();
        let whole = sample.bytes;
        for at in (0..whole.len().min(2000)).step_by(31) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xA5;
            for bytes in [&whole[..at], &damaged] {
                documents_in(sample.path, bytes).iter().for_each(assert_pages_fit);
            }
        }
    }
}
