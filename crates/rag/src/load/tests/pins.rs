//! What each format gives for its sample is pinned in `pins/load.txt`; see
//! `pins_tests.rs`.

use super::super::*;
use super::{documents_in, has_library, name_of};
use crate::parse::ParserConfig;
use crate::pins_tests::check;
use serde_json::Value;
use store::testing::Pin;

const LAYOUT: &str = "pdf_by_layout";

/// How archives are packed is not what is tried.
fn without_content(document: &Document) -> Value {
    let mut document = serde_json::to_value(document).unwrap();
    document["content"] = Value::Null;
    document
}

#[test]
fn loaders_are_pinned() {
    let (mut pins, mut skipped) = (Vec::new(), Vec::new());
    for format in Format::ALL {
        let name = name_of(*format);
        if !has_library(*format) {
            skipped.extend((*format == Format::Pdf).then(|| LAYOUT.to_owned()));
            skipped.push(name);
            continue;
        }
        let sample = (format.definition().sample)();
        let documents = documents_in(sample.path, &sample.bytes);
        let mut given: Vec<Value> = documents.iter().map(without_content).collect();
        let given = if given.len() == 1 { given.remove(0) } else { Value::Array(given) };
        pins.push(Pin::new(&name, VERSION, &sample.source, &given).unwrap());
        if *format == Format::Pdf {
            let laid = parse_layout(sample.path, &sample.bytes, &ParseLimits::default()).unwrap();
            let version = ParserConfig::Layout(Default::default()).version();
            pins.push(Pin::new(LAYOUT, version, &sample.source, &without_content(&laid)).unwrap());
        }
    }
    let skipped: Vec<&str> = skipped.iter().map(String::as_str).collect();
    check("load", &pins, &skipped);
}
