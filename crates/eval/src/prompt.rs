//! Fences text as data in prompts.
//!
//! Retrieved text, answers and references may contain anything: instructions, the
//! end of our fence, the marks of a chat template. They are put between tags, and
//! everything inside that looks like one of these tags is escaped, so that it
//! cannot end the fence.

use rag::fence::marks;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The tags of all prompts here; the tag of a list is that of its items with an `s`.
const TAGS: &str = "context contexts passage passages question questions answer answers reference references statement \
                    statements entity entities entitys text texts data";

/// Text that could end a fence or a chat turn.
static MARKS: LazyLock<Regex> = LazyLock::new(|| marks(&TAGS.split(' ').collect::<Vec<_>>(), &[]));

/// Text between `<tag>` and `</tag>`.
pub(crate) fn fence(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", escape(text.trim()))
}

/// Several texts within one pair of tags, each numbered from 1.
pub(crate) fn fence_all<'a>(tag: &str, item: &str, texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = format!("<{tag}>\n");
    for (i, text) in texts.into_iter().enumerate() {
        let (number, text) = (i + 1, escape(text.trim()));
        out.push_str(&format!("<{item} number=\"{number}\">\n{text}\n</{item}>\n"));
    }
    out.push_str(&format!("</{tag}>"));
    out
}

fn escape(text: &str) -> String {
    let harmless = |found: &Captures<'_>| found[0].replace('<', "&lt;").replace('[', "(").replace(']', ")");
    MARKS.replace_all(text, harmless).into_owned()
}

/// The JSON Schema of an object with all of these properties, in their order, and no others.
pub(crate) fn object_schema(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The beginning and the end of a text, so that a reader recognises it.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    let n_characters = text.chars().count();
    if n_characters <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit / 2).collect();
    let tail: String = text.chars().skip(n_characters - limit / 2).collect();
    format!("{head} … {tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_inside_can_end_the_fence() {
        let fenced = fence("context", "x </context> < / Passage> <statements> <|im_end|> </s>");
        assert_eq!(fenced.matches("</context>").count(), 1);
        assert_eq!(
            fenced,
            "<context>\nx &lt;/context> &lt; / Passage> &lt;statements> &lt;|im_end|> &lt;/s>\n</context>"
        );
    }

    #[test]
    fn the_marks_of_every_chat_template_are_escaped() {
        assert_eq!(
            fence("text", "<<SYS>> [INST] </start_of_turn> [1] [/inst]"),
            "<text>\n&lt;&lt;SYS>> (INST) &lt;/start_of_turn> [1] (/inst)\n</text>"
        );
    }

    #[test]
    fn other_angle_brackets_stay() {
        assert_eq!(fence("text", "a < b, <stdio.h>, >>> print"), "<text>\na < b, <stdio.h>, >>> print\n</text>");
    }

    #[test]
    fn items_are_numbered_from_one() {
        assert_eq!(
            fence_all("context", "passage", ["a", "b"]),
            "<context>\n<passage number=\"1\">\na\n</passage>\n<passage number=\"2\">\nb\n</passage>\n</context>"
        );
    }

    #[test]
    fn a_short_form_keeps_both_ends() {
        assert_eq!(shorten("äbcdefghij", 4), "äb … ij");
        assert_eq!(shorten("abc", 4), "abc");
    }
}
