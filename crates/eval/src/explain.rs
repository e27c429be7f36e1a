//! Explains a score in words, from [`crate::Scored::detail`]. The parts of a detail
//! are recognised by name and form, so metrics need no code of their own for it.

use serde_json::{Map, Value};

/// Describes a score's detail in lines. Lines that belong to the one above begin
/// with two spaces. Calls of judges are only counted; the detail holds them.
pub fn explain(detail: &Value) -> Vec<String> {
    match detail {
        Value::Null => Vec::new(),
        Value::Object(parts) => parts.iter().flat_map(|(name, part)| part_lines(name, part)).collect(),
        other => vec![plain(other)],
    }
}

fn part_lines(name: &str, part: &Value) -> Vec<String> {
    let words = name.replace('_', " ");
    match part {
        Value::Null => Vec::new(),
        Value::Array(calls) if name == "transcript" => match calls.len() {
            0 => Vec::new(),
            1 => vec!["the judge was called once".to_owned()],
            n => vec![format!("the judge was called {n} times")],
        },
        Value::Number(share) if name == "agreement" => {
            let share = share.as_f64().unwrap_or_default();
            vec![format!("the judges agree in {:.0} % of their verdicts", share * 100.0)]
        }
        Value::Array(items) if items.is_empty() => vec![format!("{words}: none")],
        Value::Array(items) if name == "relevant" => vec![relevant(items)],
        Value::Array(items) if items.iter().all(|item| item.get("rank").is_some() && item.get("covered").is_some()) => {
            items.iter().map(evidence).collect()
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            let rows = items.iter().filter_map(Value::as_object).enumerate();
            let rows = rows.map(|(i, item)| format!("  {}", row(i + 1, item)));
            std::iter::once(format!("{words}:")).chain(rows).collect()
        }
        // A list for each of several things, such as the passages that each sentence cites.
        Value::Array(items) if items.iter().all(Value::is_array) => {
            let lists: Vec<String> =
                items.iter().map(plain).map(|list| if list.is_empty() { "none".to_owned() } else { list }).collect();
            vec![format!("{words}: {}", lists.join("; "))]
        }
        Value::Array(items) => vec![format!("{words}: {}", items.iter().map(plain).collect::<Vec<_>>().join(", "))],
        Value::Object(fields) => vec![format!("{words}: {}", row(0, fields))],
        other => vec![format!("{words}: {}", plain(other))],
    }
}

/// Which passages hold evidence.
fn relevant(items: &[Value]) -> String {
    let ranks: Vec<String> =
        (1..).zip(items).filter(|(_, item)| **item == Value::Bool(true)).map(|(rank, _)| rank.to_string()).collect();
    match &ranks[..] {
        [] => "no passage holds evidence".to_owned(),
        [one] => format!("passage {one} holds evidence"),
        several => format!("passages {} hold evidence", several.join(", ")),
    }
}

/// Where a piece of golden evidence was found.
fn evidence(item: &Value) -> String {
    let number = |name: &str| item.get(name).and_then(Value::as_u64).unwrap_or_default();
    let document = item.get("document").and_then(Value::as_str).unwrap_or_default();
    // The place of evidence that a text does not hold is behind every text.
    if number("end") == u64::MAX {
        return format!("evidence in {document}: not in the text that the trial's parser reads");
    }
    let place = format!("evidence in {document}, bytes {} to {}", number("start"), number("end"));
    let covered = 100.0 * item.get("covered").and_then(Value::as_f64).unwrap_or_default();
    match item.get("rank").and_then(Value::as_u64) {
        Some(rank) => format!("{place}: {covered:.0} % of it retrieved, first by passage {rank}"),
        None if covered > 0.0 => format!("{place}: only {covered:.0} % of it retrieved, which is too little to count"),
        None => format!("{place}: not retrieved"),
    }
}

/// Describes an item: first the verdict, then the item, then the probability and
/// the reason.
fn row(number: usize, fields: &Map<String, Value>) -> String {
    let mut rest: Vec<(&str, &Value)> =
        fields.iter().map(|(name, value)| (name.as_str(), value)).filter(|(_, value)| !value.is_null()).collect();
    let mut take = |wanted: &str| {
        let at = rest.iter().position(|(name, _)| *name == wanted)?;
        Some(rest.remove(at).1)
    };
    if fields.get("number").and_then(Value::as_u64) == Some(number as u64) {
        take("number");
    }
    let mut text = String::new();
    if let Some(verdict) = fields.get("verdict") {
        let said = match verdict {
            Value::Bool(true) => "yes",
            Value::Bool(false) => "no",
            Value::Null => "no verdict that can be read",
            Value::String(word) => word,
            _ => "another verdict",
        };
        take("verdict");
        text = format!("{said}: ");
    }
    for name in ["text", "chosen"] {
        if let Some(value) = take(name) {
            text += &plain(value);
        }
    }
    let (probability, reason) = (take("probability").and_then(Value::as_f64), take("reason"));
    let votes = take("votes").and_then(Value::as_array).map_or(0, Vec::len);
    let mut more: Vec<String> =
        probability.map(|of_yes| format!("probability of yes {of_yes:.2}")).into_iter().collect();
    more.extend(rest.iter().map(|(name, value)| format!("{} {}", name.replace('_', " "), plain(value))));
    if votes > 0 {
        more.push(format!("{votes} judges"));
    }
    match (text.is_empty(), more.is_empty()) {
        (_, true) => {}
        (true, false) => text = more.join(", "),
        (false, false) => text += &format!(" ({})", more.join(", ")),
    }
    match reason {
        Some(reason) => format!("{text}, because: {}", plain(reason)),
        None => text,
    }
}

/// A value as plain text instead of JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Number(number) if number.is_f64() => {
            let digits = format!("{:.3}", number.as_f64().unwrap_or_default());
            if digits == "-0.000" { "0.000".to_owned() } else { digits }
        }
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn verdicts_are_words_with_their_probability_and_reason() {
        let detail = json!({
            "statements": [
                { "number": 1, "text": "It is free.", "verdict": true, "probability": 0.97, "reason": null },
                { "number": 2, "text": "It is\nold.", "verdict": false, "probability": null, "reason": "nothing says so" },
                { "number": 3, "text": "It is red.", "verdict": null, "probability": null, "reason": null, "votes": [1, 2, 3] },
            ],
            "agreement": 0.667,
            "transcript": [{}, {}],
        });
        let told = explain(&detail);
        let wanted = [
            "statements:",
            "  yes: It is free. (probability of yes 0.97)",
            "  no: It is old., because: nothing says so",
            "  no verdict that can be read: It is red. (3 judges)",
            "the judges agree in 67 % of their verdicts",
            "the judge was called 2 times",
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn evidence_is_told_by_where_it_was_found() {
        let item = |covered: f64, rank: Value| json!({ "document": "a.md", "start": 3, "end": 13, "covered": covered, "rank": rank });
        let detail = json!({
            "evidence": [item(1.0, json!(2)), item(0.1, Value::Null), item(0.0, Value::Null)],
            "relevant": [false, true, true],
        });
        let wanted = [
            "evidence in a.md, bytes 3 to 13: 100 % of it retrieved, first by passage 2",
            "evidence in a.md, bytes 3 to 13: only 10 % of it retrieved, which is too little to count",
            "evidence in a.md, bytes 3 to 13: not retrieved",
            "passages 2, 3 hold evidence",
        ];
        assert_eq!(explain(&detail), wanted);
    }

    #[test]
    fn every_other_part_is_told_by_its_name_and_without_the_marks_of_json() {
        let detail = json!({
            "level": { "chosen": "good", "probabilities": null, "reason": "short" }, "cosine": -0.0001, "found_by_words": ["Rome", "Oslo"],
            "others": [], "reference": 4, "degree": { "number": 3.5, "reason": null }, "by": null,
        });
        let wanted = [
            "level: good, because: short",
            "cosine: 0.000",
            "found by words: Rome, Oslo",
            "others: none",
            "reference: 4",
            "degree: number 3.500",
        ];
        assert_eq!(explain(&detail), wanted);
        assert!(explain(&Value::Null).is_empty());
    }

    #[test]
    fn lists_of_lists_are_told_apart() {
        assert_eq!(explain(&json!({ "citations": [[1], [2, 3], []] })), ["citations: 1; 2, 3; none"]);
    }
}
