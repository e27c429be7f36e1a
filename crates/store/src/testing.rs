//! For the tests of all crates: the outputs of components for a fixed input are
//! pinned in a file. So no output changes without a new `VERSION`, and no
//! artifact of an old version is taken for one of a new version. Not for users.

use crate::KeyBuilder;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write, path::Path};

/// Numbers are compared to this precision: the last bits of a sum or of a
/// logarithm may differ between processors and C libraries.
const DECIMALS: f64 = 1e4;
/// How many digits of a digest are written.
const DIGITS: usize = 16;
const HEAD: &str = "# Made by tests; the test `…_are_pinned` of the crate says how to write it anew.\n\
                    # component, VERSION, digest of the input, digest of the output\n";

/// The output of a component for a fixed input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The component.
    pub component: String,
    /// Its `VERSION`.
    pub version: u32,
    /// The digest of its settings and its input.
    pub input: String,
    /// The digest of its output.
    pub output: String,
}

impl Pin {
    /// The pin of a component.
    ///
    /// # Errors
    /// If the input or the output cannot be written as JSON.
    pub fn new(
        component: &str,
        version: u32,
        input: &impl Serialize,
        output: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        let digest = |value: Value| {
            let hex = KeyBuilder::new("pin").field("value", &rounded(value)).finish().hex();
            hex.chars().take(DIGITS).collect::<String>()
        };
        Ok(Self {
            component: component.to_owned(),
            version,
            input: digest(serde_json::to_value(input)?),
            output: digest(serde_json::to_value(output)?),
        })
    }
}

fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            // Adding 0 turns -0 into 0.
            number.as_f64().map_or(Value::Null, |number| ((number * DECIMALS).round() / DECIMALS + 0.0).into())
        }
        Value::Array(items) => items.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        other => other,
    }
}

/// Why pins do not hold.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of the file is no pin.
    #[error("{path}:{line}: this is no pin: {text}")]
    Line {
        /// The file.
        path: String,
        /// The number of the line.
        line: usize,
        /// The line.
        text: String,
    },
    /// Outputs are not those that are pinned.
    #[error("{path}:\n{}", .reasons.join("\n"))]
    Mismatch {
        /// The file.
        path: String,
        /// What changed and what to do.
        reasons: Vec<String>,
    },
}

/// Compares the outputs of all components of a registry with the pins in a
/// file; with `rewrite`, writes the file anew instead. Components that could
/// not be tried here are `skipped`: their pins stay as they are.
///
/// An output that changed for the same input and the same `VERSION` is refused
/// either way.
///
/// # Errors
/// What changed and what to do, all of it at once.
pub fn check_pins(file: &Path, pins: &[Pin], skipped: &[&str], rewrite: bool) -> Result<(), PinError> {
    let path = || file.display().to_string();
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(|source| PinError::File { path: path(), source })?,
    };
    let mut known = BTreeMap::new();
    for (text, line) in text.lines().zip(1..).filter(|(text, _)| !text.starts_with('#')) {
        let pin = parse(text).ok_or_else(|| PinError::Line { path: path(), line, text: text.to_owned() })?;
        known.insert(pin.component.clone(), pin);
    }
    let (mut changed, mut open) = (Vec::new(), Vec::new());
    for pin in pins {
        let Pin { component, version, .. } = pin;
        match known.get(component) {
            None => open.push(format!("`{component}` has no pin")),
            Some(old) if old == pin => {}
            Some(old) if version < &old.version => {
                changed.push(format!("`{component}`: VERSION is {version}, but {} was pinned", old.version));
            }
            Some(old) if *version == old.version && pin.input == old.input => changed.push(format!(
                "`{component}`: its output changed, and its VERSION is still {version}: artifacts of before would be \
                 taken for new ones. Raise VERSION in its file (also where the code it shares with others changed)"
            )),
            Some(old) if pin.input != old.input => {
                open.push(format!("`{component}`: its input is not the pinned one"));
            }
            Some(old) => open.push(format!("`{component}`: VERSION {version} is not pinned; {} is", old.version)),
        }
    }
    let tried = |component: &str| pins.iter().any(|pin| pin.component == component) || skipped.contains(&component);
    open.extend(
        known.keys().filter(|name| !tried(name)).map(|name| format!("`{name}` is pinned, but no longer exists")),
    );
    if rewrite && changed.is_empty() {
        let kept = known.into_values().filter(|pin| skipped.contains(&pin.component.as_str()));
        return write(file, kept.chain(pins.iter().cloned()));
    }
    if !open.is_empty() {
        open.push("to write the pins anew: `make pins`".to_owned());
    }
    changed.extend(open);
    if changed.is_empty() { Ok(()) } else { Err(PinError::Mismatch { path: path(), reasons: changed }) }
}

fn parse(line: &str) -> Option<Pin> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let (component, version) = (words.next()?, words.next()?.parse().ok()?);
    let (input, output) = (words.next()?, words.next()?);
    words.next().is_none().then_some(Pin { component, version, input, output })
}

fn write(file: &Path, pins: impl Iterator<Item = Pin>) -> Result<(), PinError> {
    let mut text = HEAD.to_owned();
    let pins: BTreeMap<String, Pin> = pins.map(|pin| (pin.component.clone(), pin)).collect();
    for Pin { component, version, input, output } in pins.values() {
        let _ = writeln!(text, "{component} {version} {input} {output}");
    }
    let folder = file.parent().unwrap_or(file);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(file, text));
    written.map_err(|source| PinError::File { path: file.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(version: u32, input: &str, output: f64) -> Pin {
        Pin::new("sentence", version, &input, &output).unwrap()
    }

    #[test]
    fn an_output_changes_only_with_a_new_version() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pins/chunk.txt");
        let check = |pins: &[Pin], rewrite| check_pins(&file, pins, &[], rewrite);
        let refused = |pins: &[Pin], rewrite| check(pins, rewrite).unwrap_err().to_string();
        assert!(refused(&[pin(1, "a", 0.5)], false).contains("`sentence` has no pin"));
        check(&[pin(1, "a", 0.5)], true).unwrap();
        check(&[pin(1, "a", 0.5)], false).unwrap();
        check(&[pin(1, "a", 0.500001)], false).unwrap();
        let before = std::fs::read_to_string(&file).unwrap();
        for rewrite in [false, true] {
            let reason = refused(&[pin(1, "a", 0.6)], rewrite);
            assert!(reason.contains("Raise VERSION") && reason.contains("`sentence`"), "{reason}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
        assert!(refused(&[pin(2, "a", 0.6)], false).contains("VERSION 2 is not pinned"));
        check(&[pin(2, "a", 0.6)], true).unwrap();
        check(&[pin(2, "a", 0.6)], false).unwrap();
        assert!(refused(&[pin(1, "a", 0.5)], true).contains("VERSION is 1, but 2 was pinned"));
        // With another input, the output says nothing.
        assert!(refused(&[pin(2, "b", 0.9)], false).contains("its input is not the pinned one"));
        check(&[pin(2, "b", 0.9)], true).unwrap();
    }

    #[test]
    fn a_component_that_cannot_be_tried_keeps_its_pin_and_one_that_is_gone_loses_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("load.txt");
        let other = Pin::new("pdf", 1, &"a", &"b").unwrap();
        check_pins(&file, &[pin(1, "a", 0.5), other.clone()], &[], true).unwrap();
        check_pins(&file, &[pin(1, "a", 0.5)], &["pdf"], false).unwrap();
        check_pins(&file, &[pin(1, "a", 0.5)], &["pdf"], true).unwrap();
        check_pins(&file, &[pin(1, "a", 0.5), other], &[], false).unwrap();
        let reason = check_pins(&file, &[pin(1, "a", 0.5)], &[], false).unwrap_err().to_string();
        assert!(reason.contains("`pdf` is pinned, but no longer exists"), "{reason}");
        check_pins(&file, &[pin(1, "a", 0.5)], &[], true).unwrap();
        check_pins(&file, &[pin(1, "a", 0.5)], &[], false).unwrap();
        std::fs::write(&file, "sentence one\n").unwrap();
        assert!(check_pins(&file, &[], &[], false).unwrap_err().to_string().contains(":1: this is no pin"));
    }
}
