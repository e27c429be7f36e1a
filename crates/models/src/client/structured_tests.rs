//! Replies to requests with a schema: what is taken, what is asked again, and
//! what that costs.

use super::{
    streaming_tests::{Speaker, Step, client, journal, n_kept, pieces, request, text},
    *,
};
use crate::{AnswerPiece, ChatRequest, Message};
use serde_json::json;

const GOOD: &str = r#"{"verdict": "yes"}"#;
const FENCED: &str = "Gladly:\n```json\n{\"verdict\": \"yes\"}\n```";
const BAD: &str = r#"{"verdict": "maybe"}"#;

fn asked(provider: &str, replies: &[&'static str]) -> Arc<Speaker> {
    Speaker::of(provider, replies.iter().map(|reply| vec![Step::Say(reply)]).collect())
}

fn verdict() -> ChatRequest {
    let schema = json!({
        "type": "object", "properties": { "verdict": { "enum": ["yes", "no"] } }, "required": ["verdict"]
    });
    ChatRequest { schema: Some(schema), ..request("Is it so?") }
}

fn n_asked(speaker: &Speaker) -> usize {
    speaker.requests.lock().expect("no panic").len()
}

#[tokio::test]
async fn what_can_be_read_is_taken_without_another_call() {
    for provider in ["openai", "llama.cpp"] {
        for reply in [GOOD, FENCED] {
            let speaker = asked(provider, &[reply]);
            let response = client(None).chat(speaker.clone()).chat(&verdict()).await.expect("an answer");
            assert_eq!((response.text.as_str(), n_asked(&speaker)), (GOOD, 1));
        }
    }
}

#[tokio::test]
async fn a_remote_model_is_asked_once_more_and_both_replies_are_paid_and_kept() {
    let (_folder, journal) = journal();
    let speaker = asked("openai", &[BAD, FENCED]);
    let first = client(Some(journal.clone()));
    let response = first.chat(speaker.clone()).chat(&verdict()).await.expect("the second reply");
    assert_eq!((response.text.as_str(), response.seconds), (GOOD, 2.0));
    assert_eq!((response.usage.prompt_tokens, response.usage.completion_tokens), (6, 4), "of both calls");
    assert_eq!((first.meter().of("speaker").calls, n_kept(&journal)), (2, 2));
    let again = speaker.requests.lock().expect("no panic")[1].messages.clone();
    assert_eq!(again[..2], [Message::user("Is it so?"), Message::assistant(BAD)]);
    assert!(again[2].content.contains(r#"at /verdict: "maybe" is none of ["yes","no"]"#), "{again:?}");
    // The next process finds both, and comes to the same end.
    let second = client(Some(journal));
    assert_eq!(second.chat(speaker.clone()).chat(&verdict()).await.expect("from the journal"), response);
    assert_eq!((second.meter().of("speaker").calls, n_asked(&speaker)), (0, 2));
}

#[tokio::test]
async fn a_second_reply_that_does_not_fit_is_an_error_that_is_not_retried() {
    let (_folder, journal) = journal();
    let speaker = asked("openai", &["I would rather not.", BAD]);
    let client = client(Some(journal.clone()));
    let error = client.chat(speaker.clone()).chat(&verdict()).await.expect_err("no verdict");
    let Error::SchemaMismatch { reason, reply, .. } = &error else { panic!("{error:?}") };
    assert_eq!((reason.as_str(), reply.as_str()), (r#"at /verdict: "maybe" is none of ["yes","no"]"#, BAD));
    assert!(!error.is_transient() && error.class() == ErrorClass::Permanent);
    assert_eq!((n_asked(&speaker), n_kept(&journal)), (2, 2), "each was paid and kept");
}

#[tokio::test]
async fn a_model_of_this_process_is_not_asked_again() {
    let speaker = asked("llama.cpp", &[r#"{"verd"#]);
    let error = client(None).chat(speaker.clone()).chat(&verdict()).await.expect_err("it was cut");
    assert!(matches!(&error, Error::SchemaMismatch { reason, .. } if reason == "its JSON breaks off"), "{error:?}");
    assert_eq!(n_asked(&speaker), 1);
}

#[tokio::test]
async fn an_empty_reply_is_not_sent_back() {
    let speaker = asked("openai", &["", GOOD]);
    client(None).chat(speaker.clone()).chat(&verdict()).await.expect("the second reply");
    let again = speaker.requests.lock().expect("no panic")[1].messages.clone();
    assert_eq!((again.len(), again[1].role), (2, crate::Role::User));
}

#[tokio::test]
async fn a_streamed_reply_ends_with_the_text_that_is_taken() {
    let cases = [
        (vec![GOOD], vec![text(GOOD)]),
        (vec![FENCED], vec![text(FENCED), AnswerPiece::Restart, text(GOOD)]),
        (vec![BAD, GOOD], vec![text(BAD), AnswerPiece::Restart, text(GOOD)]),
    ];
    for (replies, expected) in cases {
        let mut answering = client(None).chat(asked("openai", &replies)).stream(&verdict());
        assert_eq!(pieces(&mut answering).await, expected);
        assert_eq!(answering.finish().await.expect("an answer").text, GOOD);
    }
}
