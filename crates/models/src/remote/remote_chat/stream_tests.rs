//! Answers of every provider while they are written, from servers that send
//! what its documentation shows.

use super::{
    examples::{Examples, KEY, RefusalKind, compiled, request},
    wire::WireEvent,
};
use crate::{
    ChatModel, ChatRequest, ChatResponse, Error, OnPiece,
    remote::testing::{Bench, part_by_part},
};
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc;
use wiremock::ResponseTemplate;

type Outcome = (Result<ChatResponse, Error>, Vec<String>);

/// What a stream gave, and its pieces.
async fn listened(model: &dyn ChatModel, request: &ChatRequest) -> Outcome {
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let heard = pieces.clone();
    let on_piece: OnPiece = Arc::new(move |piece| heard.lock().expect("no panic").push(piece.to_owned()));
    let response = model.chat_streaming(request, &on_piece).await;
    let pieces = pieces.lock().expect("no panic").clone();
    (response, pieces)
}

async fn heard(examples: &Examples, response: ResponseTemplate) -> Outcome {
    let bench = Bench::new().await;
    bench.respond(response).await;
    listened(&*examples.model(&bench), &request()).await
}

async fn streamed(examples: &Examples, events: &[WireEvent]) -> Outcome {
    heard(examples, examples.stream.form.response(events)).await
}

#[tokio::test]
async fn a_streamed_answer_is_the_one_that_comes_whole() {
    for examples in compiled() {
        let (name, stream) = (&examples.name, &examples.stream);
        let bench = Bench::new().await;
        bench.respond(stream.form.response(&stream.events)).await;
        let (response, pieces) = listened(&*examples.model(&bench), &request()).await;
        let mut whole = examples.answered(&examples.answers[0].body).await.expect(name);
        let response = response.unwrap_or_else(|error| panic!("{name}: {error}"));
        whole.seconds = response.seconds;
        assert_eq!(response, whole, "{name}");
        assert_eq!(pieces.concat(), whole.text, "{name}");
        assert!(pieces.len() > 1, "{name}: {pieces:?}");
        assert_eq!(bench.last_address().await, (stream.path.clone(), stream.query.clone()), "{name}");
        let (body, headers) = bench.last_request().await;
        for (pointer, value) in &stream.has {
            assert_eq!(body.pointer(pointer), Some(value), "{name}: {pointer} in {body}");
        }
        for (header, value) in &examples.request.headers {
            assert_eq!(headers.get(header).and_then(|sent| sent.to_str().ok()), Some(value.as_str()), "{name}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_no_answer() {
    for examples in compiled() {
        let (name, stream) = (&examples.name, &examples.stream);
        for n_events in [0, stream.unfinished] {
            let (response, _) = streamed(&examples, &stream.events[..n_events]).await;
            let error = response.expect_err(name);
            assert!(matches!(error, Error::Connection { .. }) && error.is_transient(), "{name}: {error:?}");
        }
        let mut event = stream.events[0].clone();
        event.data = json!("{\"cut\": ");
        let (response, _) = streamed(&examples, &[event]).await;
        let error = response.expect_err(name);
        assert!(matches!(error, Error::Malformed { .. }) && error.is_transient(), "{name}: {error:?}");
    }
}

#[tokio::test]
async fn an_error_in_the_middle_has_its_type_and_can_be_tried_again() {
    for examples in compiled() {
        let stream = &examples.stream;
        for error in &stream.errors {
            let name = format!("{}: {}", examples.name, error.event.data);
            let mut events = stream.events[..stream.unfinished].to_vec();
            events.push(error.event.clone());
            let (response, pieces) = streamed(&examples, &events).await;
            let found = response.expect_err(&name);
            assert_eq!(RefusalKind::of(&found), error.is, "{name}: {found:?}");
            assert!(found.is_transient(), "{name}: {found:?}");
            assert!(!pieces.is_empty(), "{name}");
        }
    }
}

#[tokio::test]
async fn what_is_withheld_while_it_is_written_is_told_so() {
    for examples in compiled() {
        for events in &examples.stream.withheld {
            let (response, _) = streamed(&examples, events).await;
            assert!(matches!(response, Err(Error::ContentFiltered { .. })), "{}: {response:?}", examples.name);
        }
    }
}

#[tokio::test]
async fn a_refused_stream_has_the_type_of_the_refusal() {
    for examples in compiled() {
        for refusal in &examples.refusals {
            let name = format!("{}: {} {}", examples.name, refusal.status, refusal.body);
            let (response, pieces) = heard(&examples, refusal.response(&refusal.body)).await;
            let error = response.expect_err(&name);
            assert_eq!(RefusalKind::of(&error), refusal.is, "{name}: {error:?}");
            assert_eq!(error.retry_after(), refusal.retry_after.map(Duration::from_secs_f64), "{name}");
            assert!(pieces.is_empty(), "{name}");
        }
    }
}

#[tokio::test]
async fn silence_is_a_timeout() {
    for examples in compiled() {
        let name = &examples.name;
        let bench = Bench::new().await;
        bench.respond(ResponseTemplate::new(200).set_delay(Duration::from_secs(600))).await;
        let short = json!({ "timeout_seconds": 0.1 }).as_object().cloned().expect("settings");
        let model = examples.config(&bench, &short).build(&bench.context()).expect(name);
        let (response, _) = listened(&*model, &request()).await;
        let error = response.expect_err(name);
        assert!(matches!(error, Error::Timeout { after, .. } if after.as_secs_f64() == 0.1), "{name}: {error:?}");
        let nobody = json!({ "base_url": "http://127.0.0.1:9" }).as_object().cloned().expect("settings");
        let model = examples.config(&bench, &nobody).build(&bench.context()).expect(name);
        let (response, _) = listened(&*model, &request()).await;
        assert!(matches!(response, Err(Error::Connection { .. })), "{name}: {response:?}");
    }
}

/// The same events, in whose text the key is spread over two of them.
fn with_key(events: &[WireEvent]) -> Vec<WireEvent> {
    let (first, second) = KEY.split_at(7);
    let edited = |event: &WireEvent| {
        let text = event
            .data
            .to_string()
            .replace("ll \"", &format!("ll {first}\""))
            .replace("\"we", &format!("\"{second} we"));
        WireEvent { data: serde_json::from_str(&text).expect("JSON"), ..event.clone() }
    };
    events.iter().map(edited).collect()
}

#[tokio::test]
async fn a_key_that_is_sent_back_in_pieces_is_shown_in_none() {
    for examples in compiled() {
        let name = &examples.name;
        let (response, pieces) = streamed(&examples, &with_key(&examples.stream.events)).await;
        let text = response.expect(name).text;
        assert!(text.contains("ll [redacted] we") && !text.contains(KEY), "{name}: {text}");
        assert_eq!(pieces.concat(), text, "{name}");
    }
}

fn said(pieces: &mpsc::UnboundedSender<String>) -> OnPiece {
    let pieces = pieces.clone();
    Arc::new(move |piece| pieces.send(piece.to_owned()).expect("the test listens"))
}

#[tokio::test]
async fn pieces_come_while_the_rest_is_not_written_yet() {
    for examples in compiled() {
        let (name, stream) = (examples.name.clone(), &examples.stream);
        let (server_url, server) = part_by_part().await;
        let here = json!({ "base_url": format!("{server_url}{}", examples.base_path) });
        let here = here.as_object().cloned().expect("settings");
        let bench = Bench::new().await;
        let model = examples.config(&bench, &here).build(&bench.context()).expect(&name);
        let (told, mut pieces) = mpsc::unbounded_channel();
        let on_piece = said(&told);
        let call = tokio::spawn(async move { model.chat_streaming(&request(), &on_piece).await });
        let (first, rest) = stream.events.split_at(stream.unfinished);
        for event in first {
            server.send(stream.form.event(event)).expect("it listens");
        }
        let mut text = pieces.recv().await.expect("a piece");
        assert!(!call.is_finished(), "{name}");
        for event in rest {
            server.send(stream.form.event(event)).expect("it listens");
        }
        let response = call.await.expect("no panic").expect(&name);
        while let Ok(piece) = pieces.try_recv() {
            text += &piece;
        }
        assert_eq!((text.as_str(), &text), (response.text.as_str(), &examples.answers[0].text), "{name}");
    }
}

#[cfg(feature = "providers")]
#[tokio::test]
async fn a_sign_of_life_is_no_progress() {
    let examples = compiled().find(|examples| examples.name == "anthropic").expect("Anthropic");
    let (server_url, server) = part_by_part().await;
    let settings = json!({ "base_url": format!("{server_url}/v1"), "timeout_seconds": 300.0 });
    let bench = Bench::new().await;
    let settings: Map<String, Value> = settings.as_object().cloned().expect("settings");
    let model = examples.config(&bench, &settings).build(&bench.context()).expect("a model");
    let form = examples.stream.form;
    for event in &examples.stream.events[..examples.stream.unfinished] {
        server.send(form.event(event)).expect("it listens");
    }
    let ping = examples.stream.events.iter().find(|event| event.name == "ping").expect("a ping").clone();
    let (told, mut pieces) = mpsc::unbounded_channel();
    let on_piece = said(&told);
    drop(told);
    let call = tokio::spawn(async move { model.chat_streaming(&request(), &on_piece).await });
    let expected = &examples.answers[0].text;
    let mut text = String::new();
    while text.len() < expected.len() {
        text += &pieces.recv().await.expect("a piece");
    }
    // From here on time passes only while nothing else is to do, so a busy machine delays no ping.
    tokio::time::pause();
    let keep_alive = tokio::spawn(async move {
        while server.send(form.event(&ping)).is_ok() {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    });
    let response = call.await.expect("no panic");
    keep_alive.abort();
    while let Ok(piece) = pieces.try_recv() {
        text += &piece;
    }
    assert!(matches!(response, Err(Error::Timeout { .. })), "{response:?}");
    assert_eq!(&text, expected);
}
