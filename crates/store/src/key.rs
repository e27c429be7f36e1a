//! Stable content keys: equal content has equal keys, on every machine and in
//! every version. `std::hash` promises neither, so the rule is our own:
//! BLAKE3 over named, length-prefixed fields; structured values as canonical
//! JSON (object keys sorted by their bytes, no spaces, shortest float form).

use serde::Serialize;
use serde_json::Value;
use std::{fmt, io, path::Path};

/// Raise this when the rule below changes: every key changes with it.
const RULE: &str = "reverie-key-1";
/// The bytes that keys of parts have in common with the key of the whole.
const WHOLE: usize = 24;

/// The identity of some content: 32 bytes, shown as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of plain bytes, such as a file's content.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The key of a file's content, read by all cores; the same as
    /// [`Key::of_bytes`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Ok(Self(*blake3::Hasher::new().update_mmap_rayon(path)?.finalize().as_bytes()))
    }

    /// The same for an open file. If the file is cut off meanwhile,
    /// [`Key::of_file`], which maps it, ends the process; this does not.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_reader(reader: impl io::Read) -> io::Result<Self> {
        Ok(Self(*blake3::Hasher::new().update_reader(reader)?.finalize().as_bytes()))
    }

    /// All 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// The 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 32 bytes; none if there are more or fewer.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The key of a part of the work that this key stands for: the first 24 bytes
    /// are those of the whole's key, and the last 8 are `part`. The caller decides
    /// what it means: in `lab` it is a bit mask of the questions of a range.
    #[must_use]
    pub fn part(mut self, part: u64) -> Self {
        self.0[WHOLE..].copy_from_slice(&part.to_be_bytes());
        self
    }

    /// The `part` by which [`Key::part`] made this key from `whole`; none if it is not a part of it.
    pub fn part_of(&self, whole: &Self) -> Option<u64> {
        let (own, part) = self.0.split_at(WHOLE);
        let part = part.try_into().ok().map(u64::from_be_bytes);
        part.filter(|_| own == &whole.0[..WHOLE])
    }

    /// The first 12 hexadecimal digits, for people.
    pub fn short(&self) -> String {
        self.hex().chars().take(12).collect()
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.short())
    }
}

impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(deserializer)?;
        Self::from_hex(&hex).ok_or_else(|| serde::de::Error::custom("expected 64 hexadecimal digits"))
    }
}

/// Builds a key from named fields. The order of the calls matters.
#[derive(Debug)]
pub struct KeyBuilder(blake3::Hasher);

impl KeyBuilder {
    /// Starts a key of one kind: keys of different kinds differ.
    pub fn new(kind: &str) -> Self {
        let mut builder = Self(blake3::Hasher::new());
        builder.write(RULE.as_bytes());
        builder.write(kind.as_bytes());
        builder
    }

    /// Adds a field holding any serialisable value, in canonical JSON.
    ///
    /// A value that JSON cannot hold (a map with keys that are not strings)
    /// is written as its error, so that it still differs from other values.
    #[must_use]
    pub fn field(mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Self {
        self.write(name.as_bytes());
        let mut text = Vec::new();
        write_canonical(value, &mut text);
        self.write(&text);
        self
    }

    /// Adds a field holding a list, which gives the key that [`Self::field`] gives for it. The items are looked at one after
    /// the other, because there may be a million.
    #[must_use]
    pub fn list(mut self, name: &str, items: impl IntoIterator<Item = impl Serialize>) -> Self {
        self.write(name.as_bytes());
        let mut text = vec![b'['];
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                text.push(b',');
            }
            write_canonical(&item, &mut text);
        }
        text.push(b']');
        self.write(&text);
        self
    }

    /// Adds a field holding a list of names, each with a key; the same as [`Self::list`] of these pairs, in less time.
    #[must_use]
    pub fn named_keys<'a>(mut self, name: &str, items: impl IntoIterator<Item = (&'a str, &'a Key)>) -> Self {
        self.write(name.as_bytes());
        let mut text = vec![b'['];
        for (i, (name, key)) in items.into_iter().enumerate() {
            text.extend_from_slice(if i > 0 { b",[" } else { b"[" });
            write_name(name, &mut text);
            text.extend_from_slice(b",\"");
            text.extend_from_slice(blake3::Hash::from_bytes(key.0).to_hex().as_bytes());
            text.extend_from_slice(b"\"]");
        }
        text.push(b']');
        self.write(&text);
        self
    }

    /// Adds another key, such as that of a task's input.
    #[must_use]
    pub fn key(mut self, name: &str, key: &Key) -> Self {
        self.write(name.as_bytes());
        self.write(&key.0);
        self
    }

    /// The finished key.
    pub fn finish(self) -> Key {
        Key(*self.0.finalize().as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}

/// Writes a value in canonical JSON, or why JSON cannot hold it.
fn write_canonical(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    match serde_json::to_value(value) {
        Ok(value) => canonical(&value, out),
        Err(error) => out.extend_from_slice(format!("unserialisable: {error}").as_bytes()),
    }
}

fn canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            out.push(b'{');
            for (i, (name, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_plain(name, out);
                out.push(b':');
                canonical(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (i, value) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                canonical(value, out);
            }
            out.push(b']');
        }
        plain => write_plain(plain, out),
    }
}

/// Writes a text as [`write_plain`] does, faster if nothing in it has to be escaped, as in most paths.
fn write_name(name: &str, out: &mut Vec<u8>) {
    if name.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        return write_plain(name, out);
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
}

/// Writes a value without parts, such as a text or a number.
fn write_plain(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    // Texts and numbers are always JSON, and writing into memory does not fail.
    let _ = serde_json::to_writer(out, value);
}

/// Passes bytes on to a writer, and makes their key: that of [`Key::of_bytes`]. It is fast if it is given many bytes at once.
#[derive(Debug)]
pub struct KeyWriter<W> {
    to: W,
    hasher: blake3::Hasher,
}

impl<W> KeyWriter<W> {
    /// A writer that has passed on nothing.
    pub fn new(to: W) -> Self {
        Self { to, hasher: blake3::Hasher::new() }
    }

    /// The writer, and the key of all bytes.
    pub fn finish(self) -> (W, Key) {
        (self.to, Key(*self.hasher.finalize().as_bytes()))
    }
}

impl<W: io::Write> io::Write for KeyWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_gives_the_key_of_a_field_with_its_items() {
        let items = [json!({"b": 1, "a": "\u{e4}\n\"x\""}), json!([1.5, null]), json!("text")];
        for items in [&items[..], &items[..1], &[]] {
            let field = KeyBuilder::new("t").field("items", &items).finish();
            assert_eq!(KeyBuilder::new("t").list("items", items).finish(), field);
        }
    }

    #[test]
    fn named_keys_give_the_key_of_a_list_of_pairs() {
        let names = ["a", "\u{e4}\n\"x\"\\", "", "\u{7f}/\u{e4} b", "a\\b", "\t", "\""]
            .map(|name| (name, Key::of_bytes(name.as_bytes())));
        for names in [&names[..], &names[..1], &[]] {
            let list = KeyBuilder::new("t").list("names", names).finish();
            let named = names.iter().map(|(name, key)| (*name, key));
            assert_eq!(KeyBuilder::new("t").named_keys("names", named).finish(), list);
        }
    }

    #[test]
    fn object_order_does_not_change_a_key() {
        let a = KeyBuilder::new("t").field("x", &json!({"a": 1, "b": [2.5, null]})).finish();
        let b = KeyBuilder::new("t").field("x", &json!({"b": [2.5, null], "a": 1})).finish();
        assert_eq!(a, b);
    }

    #[test]
    fn kind_name_value_and_boundaries_each_change_a_key() {
        let base = KeyBuilder::new("t").field("ab", "c").finish();
        assert_ne!(base, KeyBuilder::new("u").field("ab", "c").finish());
        assert_ne!(base, KeyBuilder::new("t").field("a", "bc").finish());
        assert_ne!(base, KeyBuilder::new("t").field("ab", "d").finish());
    }

    #[test]
    fn the_key_of_a_part_says_which_part_it_is_of_what() {
        let (whole, other) = (Key::of_bytes(b"whole"), Key::of_bytes(b"other"));
        assert_eq!(whole.part(5).part_of(&whole), Some(5));
        assert_eq!(whole.part(5).part_of(&whole.part(9)), Some(5));
        assert_eq!(whole.part(5).part_of(&other), None);
        assert_ne!(whole.part(5), whole.part(6));
    }

    #[test]
    fn the_rule_is_stable() {
        let key = KeyBuilder::new("test").field("config", &json!({"size": 256, "ratio": 0.5})).finish();
        assert_eq!(Key::from_hex(&key.hex()), Some(key));
        assert_eq!(key.short(), GOLDEN, "a changed rule orphans every stored artifact: raise RULE");
    }

    const GOLDEN: &str = "0b69b69f2f06";

    #[test]
    fn the_key_of_what_was_written_is_that_of_the_bytes() {
        let mut writer = KeyWriter::new(Vec::new());
        [&b"some"[..], b"", b" bytes"].iter().for_each(|part| std::io::Write::write_all(&mut writer, part).unwrap());
        let (bytes, key) = writer.finish();
        assert_eq!((bytes.as_slice(), key), (&b"some bytes"[..], Key::of_bytes(b"some bytes")));
    }
}
