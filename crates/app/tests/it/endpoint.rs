//! A chat model behind OpenAI's protocol: it answers with the beginning of
//! the prompt's end, so that equal prompts have equal answers.

use serde_json::{Value, json};
use std::time::Duration;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::path_regex};

struct Echo(Duration);

impl Respond for Echo {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let prompt = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let words: Vec<&str> = prompt.split_whitespace().rev().take(12).collect();
        let answer = format!("{} [1]", words.into_iter().rev().collect::<Vec<_>>().join(" "));
        ResponseTemplate::new(200).set_delay(self.0).set_body_json(json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": answer }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62 },
        }))
    }
}

/// A server whose every answer takes `delay`.
pub async fn start(delay: Duration) -> MockServer {
    start_with(Echo(delay)).await
}

/// A server that answers chat requests in this way.
pub async fn start_with(respond: impl Respond + 'static) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(path_regex("/chat/completions$")).respond_with(respond).mount(&server).await;
    Mock::given(path_regex("/models$"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({ "object": "list", "data": [] })))
        .mount(&server)
        .await;
    server
}

/// The bodies of all chat requests so far.
pub async fn asked(server: &MockServer) -> Vec<String> {
    let requests = server.received_requests().await.unwrap();
    let chat = requests.iter().filter(|request| request.url.path().ends_with("/chat/completions"));
    chat.map(|request| String::from_utf8(request.body.clone()).unwrap()).collect()
}

/// The sections that name the server's model as `gpt`.
pub fn model(server: &MockServer) -> String {
    format!("[models.gpt]\nchat.openai = {{ model = \"m\", base_url = \"{}/v1\", concurrency = 1 }}\n", server.uri())
}
