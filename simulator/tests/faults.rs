//! Each fault as a client sees it.
#![expect(clippy::expect_used, reason = "a test that cannot go on should say so")]

use reqwest::{Client, Response};
use serde_json::{Value, json};
use simulator::{RunningSimulator, SimulatorSettings, start};
use std::{error::Error as _, io, time::Duration};

fn client() -> Client {
    store::http_client().build().expect("a client")
}

async fn provider(fault: &str) -> RunningSimulator {
    let settings: SimulatorSettings = serde_json::from_value(json!({ "faults": { fault: 1.0 } })).expect("settings");
    start(settings).await.expect("a provider")
}

async fn ask(client: &Client, provider: &RunningSimulator, stream: bool) -> reqwest::Result<Response> {
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "why?" }], "stream": stream });
    client.post(format!("{}/v1/chat/completions", provider.url)).json(&body).send().await
}

/// Whether the system said that the other side reset the connection.
fn is_reset(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[tokio::test]
async fn refusals_and_failures_have_their_status_and_no_hint_when_to_come_back() {
    for (fault, status) in [("rate_limited", 429), ("overloaded", 503), ("server_error", 500)] {
        let provider = provider(fault).await;
        for stream in [false, true] {
            let answer = ask(&client(), &provider, stream).await.expect("an answer");
            assert_eq!(answer.status(), status);
            assert!(answer.headers().get("retry-after").is_none());
            let error: Value = answer.json().await.expect("JSON");
            assert!(error["error"]["message"].is_string());
        }
        let stats = provider.stats();
        assert_eq!((stats.requests, stats.answered, stats.rejected.total(), stats.in_flight), (2, 0, 0, 0));
        assert_eq!(serde_json::to_value(stats.faults).expect("JSON")[fault], 2);
    }
}

#[tokio::test]
async fn a_hang_lasts_until_the_client_gives_up_and_then_frees_its_place() {
    let provider = provider("hang").await;
    let hangs = async {
        while provider.stats().faults.hang == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let client = client();
    // The client gives up when the provider hangs.
    tokio::select! {
        answer = ask(&client, &provider, false) => panic!("an answer: {answer:?}"),
        () = hangs => {}
    }
    // The end of the connection takes its way through the system.
    while provider.stats().in_flight > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stats = provider.stats();
    assert_eq!((stats.in_flight, stats.faults.hang, stats.abandoned), (0, 1, 0));
}

#[tokio::test]
async fn a_reset_connection_is_an_error_of_the_connection() {
    let provider = provider("reset").await;
    for stream in [false, true] {
        let error = ask(&client(), &provider, stream).await.expect_err("no answer");
        assert!(is_reset(&error), "{error:?}");
    }
    assert_eq!((provider.stats().faults.reset, provider.stats().in_flight), (2, 0));
}

#[tokio::test]
async fn a_truncated_answer_begins_well_and_breaks_off() {
    let provider = provider("truncated").await;
    for stream in [false, true] {
        let answer = ask(&client(), &provider, stream).await.expect("it begins");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.content_length().is_some(), !stream);
        let error = answer.bytes().await.expect_err("it breaks off");
        assert!(error.is_body() || error.is_decode(), "{error:?}");
    }
    assert_eq!((provider.stats().faults.truncated, provider.stats().answered), (2, 0));
}

#[tokio::test]
async fn a_malformed_answer_is_complete_and_no_json() {
    let provider = provider("malformed").await;
    let answer = ask(&client(), &provider, false).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.expect("all of it");
    assert!(serde_json::from_str::<Value>(&text).is_err());
    let stream = ask(&client(), &provider, true).await.expect("an answer").text().await.expect("all of it");
    let broken = stream.split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: "));
    assert_eq!(broken.filter(|event| *event != "[DONE]" && serde_json::from_str::<Value>(event).is_err()).count(), 1);
    assert_eq!((provider.stats().faults.malformed, provider.stats().answered), (2, 0));
}
