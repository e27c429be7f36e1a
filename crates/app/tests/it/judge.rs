//! A judge behind OpenAI's protocol: it holds a statement for supported if its
//! words stand in the context, as a whole. It offers no token probabilities,
//! and keeps to the schemas it is given.

use serde_json::{Value, json};
use wiremock::{Request, Respond, ResponseTemplate};

/// What `Words` reads and writes for each call.
const USAGE: (u64, u64) = (400, 40);

/// Decides by words.
pub struct Words;

impl Respond for Words {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let prompt = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let properties = &body["response_format"]["json_schema"]["schema"]["properties"];
        let content = if properties.get("statements").is_some() {
            json!({ "statements": sentences(&fenced(prompt, "text")) }).to_string()
        } else if properties.get("verdicts").is_some() {
            let context = fenced(prompt, "context").to_lowercase();
            let verdict = |(i, item): (usize, &str)| {
                let held = context.contains(item.trim().trim_end_matches('.').to_lowercase().as_str());
                json!({ "number": i + 1, "reason": "its words", "verdict": if held { "Yes" } else { "No" } })
            };
            let listed = fenced(prompt, "statements");
            let lines = listed.lines().filter(|line| !line.starts_with('<'));
            json!({ "verdicts": lines.enumerate().map(verdict).collect::<Vec<_>>() }).to_string()
        } else {
            "Yes".to_owned()
        };
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": USAGE.0, "completion_tokens": USAGE.1 },
        }))
    }
}

fn fenced(prompt: &str, tag: &str) -> String {
    let rest = prompt.split(&format!("<{tag}>\n")).nth(1).unwrap_or_default();
    rest.split(&format!("\n</{tag}>")).next().unwrap_or_default().to_owned()
}

fn sentences(text: &str) -> Vec<String> {
    let stated = |sentence: &&str| !sentence.is_empty() && !sentence.contains("don't know");
    text.split_inclusive(". ").map(str::trim).filter(stated).map(str::to_owned).collect()
}
