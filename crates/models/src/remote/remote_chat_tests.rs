//! Every provider behind an endpoint is put to the same tests, with requests,
//! answers and refusals as its documentation shows them.

use super::examples::{Examples, KEY, RefusalKind, all, compiled, request};
use crate::{
    ChatConfig, ChatRequest, Client, Error, Usage,
    remote::testing::{Bench, context},
};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};
use store::Journal;
use wiremock::ResponseTemplate;

/// The same, with this text after every text in it.
fn with_echo(body: &Value, echo: &str) -> Value {
    match body {
        Value::String(text) => json!(format!("{text} {echo}")),
        Value::Array(parts) => parts.iter().map(|part| with_echo(part, echo)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), with_echo(field, echo))).collect(),
        other => other.clone(),
    }
}

#[test]
fn each_provider_is_shown_by_examples_of_what_must_be_told_apart() {
    let all = all();
    assert!(all.len() >= 8, "{}", all.len());
    for Examples { name, source, refusals, .. } in all {
        assert!(!source.is_empty(), "{name}: where are they from?");
        for kind in [RefusalKind::RateLimited, RefusalKind::Authentication, RefusalKind::ContextTooLong] {
            assert!(refusals.iter().any(|refusal| refusal.is == kind), "{name}: no {kind:?}");
        }
        assert!(refusals.iter().any(|refusal| refusal.retry_after.is_some()), "{name}: no wish to come back later");
    }
}

#[tokio::test]
async fn each_request_is_the_one_that_is_documented() {
    for examples in compiled() {
        let name = &examples.name;
        let bench = Bench::new().await;
        bench.answer(200, examples.answers[0].body.clone()).await;
        let model = examples.model(&bench);
        model.chat(&request()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(bench.last_address().await, (examples.request.path.clone(), None), "{name}");
        let (body, headers) = bench.last_request().await;
        assert_eq!(body, examples.request.body, "{name}");
        for (header, value) in &examples.request.headers {
            let sent: Vec<_> = headers.get_all(header).iter().collect();
            assert_eq!(sent, [value.as_str()], "{name}: {header}");
        }
        let with_key = headers.values().filter(|value| value.to_str().is_ok_and(|value| value.contains(KEY))).count();
        assert_eq!(with_key, 1, "{name}: the key stands in one header");

        let choice = ChatRequest { choices: vec!["Yes".to_owned(), "No".to_owned()], ..request() };
        let response = model.chat(&choice).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (body, _) = bench.last_request().await;
        assert_eq!(body.get("logprobs").is_some(), examples.tells_probabilities, "{name}");
        assert_eq!(model.tells_probabilities(), examples.tells_probabilities, "{name}: known before it is asked");
        assert!(response.choices.is_empty(), "{name}: this answer tells none");
    }
}

#[tokio::test]
async fn other_settings_change_the_request_as_documented_or_are_refused() {
    for examples in compiled() {
        let bench = Bench::new().await;
        bench.answer(200, examples.answers[0].body.clone()).await;
        for (i, variation) in examples.variations.iter().enumerate() {
            let name = format!("{}: variation {i}", examples.name);
            let model = examples.config(&bench, &variation.settings).build(&bench.context()).expect(&name);
            model.chat(&request()).await.expect(&name);
            assert_eq!(bench.last_address().await.1, variation.query, "{name}");
            let (body, _) = bench.last_request().await;
            for (pointer, value) in &variation.has {
                assert_eq!(body.pointer(pointer), Some(value), "{name}: {pointer} in {body}");
            }
            for pointer in &variation.lacks {
                assert_eq!(body.pointer(pointer), None, "{name}: {pointer}");
            }
        }
        for settings in &examples.refused_settings {
            let error = examples.config(&bench, settings).build(&bench.context()).err();
            assert!(matches!(error, Some(Error::Config(_))), "{}: {settings:?}: {error:?}", examples.name);
        }
    }
}

#[tokio::test]
async fn each_answer_is_understood() {
    for examples in compiled() {
        for (i, answer) in examples.answers.iter().enumerate() {
            let name = format!("{}: answer {i}", examples.name);
            let response = examples.answered(&answer.body).await.expect(&name);
            assert_eq!((response.text.as_str(), response.finish), (answer.text.as_str(), answer.finish), "{name}");
            let expected = Usage {
                prompt_tokens: answer.prompt,
                cached_tokens: answer.cached,
                completion_tokens: answer.completion,
                ..Usage::default()
            };
            assert_eq!(response.usage, expected, "{name}");
            assert!(response.seconds > 0.0, "{name}");
        }
        for body in &examples.withheld {
            let error = examples.answered(body).await.expect_err("withheld");
            assert!(matches!(error, Error::ContentFiltered { .. }), "{}: {body}: {error:?}", examples.name);
        }
        for body in &examples.malformed {
            let error = examples.answered(body).await.expect_err("malformed");
            assert!(matches!(error, Error::Malformed { .. }), "{}: {body}: {error:?}", examples.name);
        }
    }
}

#[tokio::test]
async fn each_refusal_has_its_type() {
    for examples in compiled() {
        for refusal in &examples.refusals {
            let name = format!("{}: {} {}", examples.name, refusal.status, refusal.body);
            let (error, model) = examples.refused(refusal, &refusal.body).await;
            assert_eq!(RefusalKind::of(&error), refusal.is, "{name}: {error:?}");
            assert_eq!(error.retry_after(), refusal.retry_after.map(Duration::from_secs_f64), "{name}");
            if let Error::ContextTooLong { tokens, limit, .. } = error {
                assert_eq!((tokens, limit), (refusal.tokens, refusal.limit), "{name}");
            }
            let heard = model.rate_hints().and_then(|hints| hints.requests.remaining);
            assert_eq!(heard, refusal.remaining_requests, "{name}");
        }
    }
}

#[tokio::test]
async fn limits_told_in_an_answer_are_heard_where_its_headers_can_be_seen() {
    for examples in compiled() {
        let bench = Bench::new().await;
        let answer = ResponseTemplate::new(200).set_body_json(&examples.answers[0].body);
        bench.respond(answer.insert_header("x-ratelimit-limit-requests", "500")).await;
        let model = examples.model(&bench);
        model.chat(&request()).await.expect("an answer");
        let limit = model.rate_hints().and_then(|hints| hints.requests.per_minute);
        assert_eq!(limit, examples.hears_every_answer.then_some(500.0), "{}", examples.name);
    }
}

#[tokio::test]
async fn a_key_that_comes_back_is_in_no_error_and_in_no_answer() {
    for examples in compiled() {
        let name = &examples.name;
        for refusal in &examples.refusals {
            let (error, _) = examples.refused(refusal, &with_echo(&refusal.body, KEY)).await;
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(KEY), "{name}: {shown}");
        }
        for body in examples.answers.iter().map(|answer| &answer.body).chain(&examples.withheld) {
            let shown = format!("{:?}", examples.answered(&with_echo(body, KEY)).await);
            assert!(!shown.contains(KEY), "{name}: {shown}");
        }
        // Where an answer's only text is the model's, it comes through, cut.
        let answer = &examples.answers[0];
        let text = serde_json::to_string(&answer.body).expect("JSON").replace("All well", &format!("All {KEY} well"));
        let text = text.replace("all well", &format!("all {KEY} well"));
        let said = examples.answered(&serde_json::from_str(&text).expect("JSON")).await.expect(name).text;
        assert!(said.contains("[redacted]") && !said.contains(KEY), "{name}: {said}");
    }
}

#[tokio::test]
async fn an_equal_call_is_answered_from_the_journal() {
    // What it says is no JSON.
    let request = ChatRequest { schema: None, ..request() };
    for examples in compiled() {
        let name = &examples.name;
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Arc::new(Journal::open(folder.path().join("journal.sqlite")).expect("a journal"));
        let bench = Bench::new().await;
        bench.answer(200, examples.answers[0].body.clone()).await;
        let model = examples.model(&bench);
        assert!(model.identity().is_remote(), "{name}");
        assert_eq!(&model.identity().provider, name);
        let first = Client::new(Some(journal.clone())).chat(model).chat(&request).await.expect(name);
        // Another client and another model, as in the next run.
        let next = Client::new(Some(journal));
        let second = next.chat(examples.model(&bench)).chat(&request).await.expect(name);
        assert_eq!((first, bench.n_requests().await), (second, 1), "{name}");
        assert_eq!(next.meter().of(&examples.settings["model"].to_string().replace('"', "")).from_journal, 1, "{name}");
    }
}

#[tokio::test]
async fn two_keys_for_one_model_do_not_share_a_limit() {
    for examples in compiled() {
        let name = &examples.name;
        let bench = Bench::new().await;
        let with_key = |variable: &str| {
            let settings = json!({ "api_key_env": variable }).as_object().cloned().expect("settings");
            examples.config(&bench, &settings).build(&bench.context()).expect(name)
        };
        assert_eq!(with_key("TEAM").account(), "TEAM", "{name}");
        let client = Client::new(None);
        client.chat(with_key("KEY"));
        client.chat(with_key("KEY"));
        assert_eq!(client.limits().len(), 1, "{name}");
        client.chat(with_key("TEAM"));
        assert_eq!(client.limits().len(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_model_that_refuses_a_schema_is_asked_in_words_and_not_again_with() {
    let refusals = [
        ("openai", "'response_format' of type 'json_schema' is not supported with this model."),
        ("anthropic", "This model does not support the `output_config` parameter."),
        ("gemini", "Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field."),
    ];
    for (provider, message) in refusals {
        let Some(examples) = compiled().find(|examples| examples.name == provider) else { continue };
        let bench = Bench::new().await;
        bench.answer_once(400, json!({ "error": { "message": message, "type": "invalid_request_error" } })).await;
        bench.answer(200, examples.answers[0].body.clone()).await;
        let model = examples.model(&bench);
        for n_requests in [2, 3] {
            model.chat(&request()).await.unwrap_or_else(|error| panic!("{provider}: {error}"));
            assert_eq!(bench.n_requests().await, n_requests, "{provider}");
            let body = bench.last_request().await.0.to_string();
            assert!(body.contains("Reply with nothing but one JSON value"), "{provider}: {body}");
            for held in ["response_format", "output_config", "responseJsonSchema"] {
                assert!(!body.contains(held), "{provider}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn what_does_not_answer_as_it_should_is_told_apart() {
    for examples in compiled() {
        let name = &examples.name;
        let failed = |response: ResponseTemplate, change: Value| {
            let change = change.as_object().cloned().unwrap_or_default();
            let examples = &examples;
            async move {
                let bench = Bench::new().await;
                bench.respond(response).await;
                let model = examples.config(&bench, &change).build(&bench.context()).expect("a model");
                (model.chat(&request()).await.expect_err("no answer"), bench.n_requests().await)
            }
        };
        let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(600));
        let (error, _) = failed(slow, json!({ "timeout_seconds": 0.1 })).await;
        assert!(matches!(error, Error::Timeout { .. }), "{name}: {error:?}");
        let nobody = json!({ "base_url": "http://127.0.0.1:9" });
        let (error, _) = failed(ResponseTemplate::new(200), nobody).await;
        assert!(matches!(error, Error::Connection { .. }), "{name}: {error:?}");
        for response in [
            ResponseTemplate::new(200).set_body_string("<html>"),
            ResponseTemplate::new(200).set_body_raw("{\"cut\": ", "application/json"),
        ] {
            let (error, _) = failed(response, json!({})).await;
            assert!(matches!(error, Error::Malformed { .. }) && error.is_transient(), "{name}: {error:?}");
        }
        let in_disguise =
            ResponseTemplate::new(200).set_body_json(json!({ "error": { "message": "slow down", "code": 429 } }));
        let (error, _) = failed(in_disguise, json!({})).await;
        assert!(matches!(error, Error::RateLimited { .. }), "{name}: {error:?}");
        let elsewhere = ResponseTemplate::new(307).insert_header("location", "/elsewhere");
        let (error, n_requests) = failed(elsewhere, json!({})).await;
        let is_told = matches!(&error, Error::Redirected { status: 307, location, .. } if location == "/elsewhere");
        assert!(is_told, "{name}: {error:?}");
        assert_eq!(n_requests, 1, "{name}: nobody named the other place");
    }
}

#[tokio::test]
async fn a_provider_is_ready_when_it_answers_and_takes_the_key() {
    for examples in compiled() {
        let name = &examples.name;
        let bench = Bench::new().await;
        bench.respond(ResponseTemplate::new(404)).await;
        examples.config(&bench, &Map::new()).ready(&bench.context()).await.expect(name);
        let (path, _) = bench.last_address().await;
        assert!(path.starts_with(&examples.base_path), "{name}: {path}");
        for refusal in examples.refusals.iter().filter(|refusal| refusal.is == RefusalKind::Authentication) {
            let bench = Bench::new().await;
            bench.respond(refusal.response(&refusal.body)).await;
            let ready = examples.config(&bench, &Map::new()).ready(&bench.context()).await;
            assert!(matches!(ready, Err(Error::Authentication { .. })), "{name}: {ready:?}");
        }
        let nobody = json!({ "base_url": "http://127.0.0.1:9" }).as_object().cloned().expect("settings");
        let ready = examples.config(&bench, &nobody).ready(&bench.context()).await;
        assert!(matches!(ready, Err(Error::Connection { .. })), "{name}: {ready:?}");
    }
}

#[tokio::test]
async fn without_its_key_a_provider_is_not_asked() {
    for examples in compiled() {
        let name = &examples.name;
        let written = serde_json::to_value(examples.config(&Bench::new().await, &Map::new())).expect("settings");
        assert_eq!(written[name]["api_key_env"], "KEY", "{name}");
        let unset = json!({ "api_key_env": "UNSET" }).as_object().cloned().expect("settings");
        let bench = Bench::new().await;
        let error = examples.config(&bench, &unset).ready(&bench.context()).await.expect_err("no key");
        assert!(matches!(&error, Error::MissingKey { variable, .. } if variable == "UNSET"), "{name}: {error:?}");
        let none = json!({ "api_key_env": "" }).as_object().cloned().expect("settings");
        bench.answer(200, examples.answers[0].body.clone()).await;
        let model = examples.config(&bench, &none).build(&bench.context()).expect(name);
        model.chat(&request()).await.expect(name);
        let (_, headers) = bench.last_request().await;
        assert!(!format!("{headers:?}").contains(KEY) && headers.get("authorization").is_none(), "{name}: {headers:?}");
    }
}

#[test]
fn each_default_address_is_safe_and_each_default_key_is_read_by_its_name() {
    for config in ChatConfig::defaults() {
        let written = serde_json::to_value(&config).expect("settings");
        let (name, settings) = written.as_object().and_then(|written| written.iter().next()).expect("one");
        let Some(base_url) = settings.get("base_url").and_then(Value::as_str) else { continue };
        let is_safe = base_url.starts_with("https://") || base_url.starts_with("http://127.0.0.1:");
        assert!(base_url.is_empty() || is_safe, "{name}: {base_url}");
        let again: ChatConfig = serde_json::from_value(written.clone()).expect("they can be read again");
        assert_eq!(again, config);
        if let Some(variable) = settings.get("api_key_env").and_then(Value::as_str) {
            let settings = json!({ "model": "m", "base_url": "https://h/v1" });
            let config: ChatConfig = serde_json::from_value(json!({ name: settings })).expect("settings");
            match config.build(&context()).err() {
                Some(Error::MissingKey { variable: asked, .. }) => assert_eq!(asked, variable, "{name}"),
                Some(Error::Config(text)) if cfg!(not(feature = "providers")) => {
                    assert!(text.contains("built"), "{text}")
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

#[test]
fn settings_that_were_kept_keep_their_identity() {
    let config: ChatConfig = serde_json::from_value(json!({
        "openai": { "model": "m", "base_url": "http://h/v1", "omit": ["seed"], "extra": { "a": 1 } }
    }))
    .expect("settings");
    let identity = config.identity(&context()).expect("an identity");
    let kept = json!({
        "provider": "openai", "model": "m", "revision": "http://h/v1",
        "parameters": { "kind": "chat", "version": 1, "omit": ["seed"], "extra": { "a": 1 } },
    });
    // Keys are made of JSON with sorted names.
    assert_eq!(
        serde_json::to_value(identity.of_calls()).expect("JSON"),
        kept,
        "answers that were paid are found by this"
    );
}

#[cfg(not(feature = "providers"))]
#[tokio::test]
async fn a_provider_that_is_not_compiled_in_says_what_to_build() {
    let bench = Bench::new().await;
    for examples in all().into_iter().filter(|examples| examples.feature.is_some()) {
        let config = examples.config(&bench, &Map::new());
        let context = bench.context();
        let errors =
            [config.identity(&context).err(), config.build(&context).err(), config.ready(&context).await.err()];
        for error in errors {
            assert!(error.is_some_and(|error| error.to_string().contains("--features providers")), "{}", examples.name);
        }
    }
}
