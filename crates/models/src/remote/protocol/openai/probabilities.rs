//! Verdicts from the probabilities of tokens, as the protocol gives them.

use serde_json::Value;

/// How probable each choice is as the beginning of the reply, from the
/// alternatives for its first token that is not blank. A token may be the
/// beginning of a choice or go beyond it; a token that fits several choices is not counted.
pub(super) fn probabilities(tokens: &Value, choices: &[String]) -> Vec<f64> {
    let plain = |text: &str| text.trim().to_lowercase();
    let text_of = |token: &Value| token.get("token").and_then(Value::as_str).map(plain).unwrap_or_default();
    let first = tokens.as_array().and_then(|tokens| tokens.iter().find(|token| !text_of(token).is_empty()));
    let Some(alternatives) = first.and_then(|first| first.get("top_logprobs")).and_then(Value::as_array) else {
        return Vec::new();
    };
    let wanted: Vec<String> = choices.iter().map(|choice| plain(choice)).collect();
    let mut found = vec![0.0; choices.len()];
    for alternative in alternatives {
        let token = text_of(alternative);
        let Some(logprob) = alternative.get("logprob").and_then(Value::as_f64) else { continue };
        let fits =
            |choice: &String| !choice.is_empty() && (choice.starts_with(&token) || token.starts_with(choice.as_str()));
        let mut fitting = wanted.iter().enumerate().filter(|(_, choice)| fits(choice)).map(|(i, _)| i);
        if token.is_empty() {
            continue;
        }
        if let (Some(i), None) = (fitting.next(), fitting.next()) {
            found[i] += logprob.exp();
        }
    }
    let sum: f64 = found.iter().sum();
    if sum > 0.0 { found.into_iter().map(|probability| probability / sum).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_that_fits_several_choices_says_nothing() {
        let tokens = json!([{ "token": "A", "top_logprobs": [{ "token": "A", "logprob": -0.1 }] }]);
        let choices = ["Apple".to_owned(), "Avocado".to_owned()];
        assert!(probabilities(&tokens, &choices).is_empty());
        assert!(probabilities(&json!(null), &choices).is_empty());
    }
}
