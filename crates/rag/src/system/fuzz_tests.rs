//! Templates and paths from nearly right text: no panic, and what is read is written back to the same.

use super::{
    SystemQuestion,
    path::ReplyPath,
    template::{JsonTemplate, TextTemplate, escaped},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[test]
fn paths_are_read_or_refused_and_mean_what_they_write() {
    let reply = json!({ "a": [{ "b": "x", "['": null }], "$": { "": 1 }, "0": [[2]] });
    let seeds: [&[u8]; 5] = [b"answer", b"choices[0].message.content", b"$.a[0]['b']", br#"["a\"b"]['\\']"#, b"0.0[0]"];
    fuzz::run("system_path", &seeds, &[b"[", b"]", b"'", b"\"", b"\\", b".", b"$", b"0", b"*"], |bytes| {
        let Ok(path) = ReplyPath::parse(&String::from_utf8_lossy(bytes)) else { return };
        let again = ReplyPath::parse(&path.to_string());
        assert_eq!(again.as_ref(), Ok(&path));
        let found = path.find(&reply);
        assert_eq!(found, again.ok().and_then(|path| path.find(&reply)));
        path.describe_mismatch(&reply, ("answer", "[systems.app]"), "a text", Value::is_string);
    });
}

#[test]
fn templates_are_read_or_refused_and_pass_questions_through() {
    let seeds: [&[u8]; 4] = [b"{question}", b"k={top_k} {{x}} {messages}", b"{id}{seed}", b"}} {{"];
    let parameters = BTreeMap::from([("top_k".to_owned(), json!([1]))]);
    fuzz::run("system_template", &seeds, &[b"{", b"}", b"{{", b"}}", b"{question}", b"{seed}"], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let question = SystemQuestion { id: "q", text: &text, history: &[], seed: 1, parameters: &parameters };
        if let Ok(template) = JsonTemplate::parse(&json!({ "a": [&text] }), "body") {
            template.render(&question);
        }
        let template = TextTemplate::parse(&format!("{}{{question}}", escaped(&text))).expect("braces are escaped");
        assert_eq!(template.render(&question), format!("{text}{text}"));
        assert_eq!(JsonTemplate::parse(&json!("{question}"), "body").expect("a template").render(&question), *text);
    });
}
