//! Who may do what with a service: what somebody without a key, a web page, a
//! bundle of somebody else, and a flood get.

use crate::{
    attacks::eventually,
    serve::{QUESTION, Service, chat, promoted},
    swapped_bundles::evil,
    workspace::Workspace,
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// The status of a request with these headers.
pub async fn status(service: &Service, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = service.client.request(method, format!("{}{path}", service.url)).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap().status().as_u16()
}

pub async fn get(service: &Service, path: &str, headers: &[(&str, &str)]) -> u16 {
    status(service, "GET", path, headers, "").await
}

fn key(workspace: &Workspace, name: &str, scope: &str) -> String {
    let made = workspace.run(&["keys", "new", name, "--scope", scope]).succeeds();
    format!("Bearer {}", made.out.trim())
}

#[test]
fn a_line_of_a_file_of_keys_that_cannot_be_read_is_never_shown() {
    let workspace = Workspace::new();
    workspace.write("keys.toml", "[[key]]\nname = \"ci\"\nkey = rv-pasted-by-mistake\n");
    for arguments in [&["keys", "new", "root"][..], &["keys", "list"]] {
        let outcome = workspace.run(arguments).ends_with(2);
        assert!(outcome.err.contains("keys.toml: line 3 cannot be read"), "{}", outcome.err);
        assert!(!outcome.out.contains("pasted") && !outcome.err.contains("pasted"), "{}", outcome.err);
    }
}

const OPERATING: [&str; 2] = ["/metrics", "/admin/status"];

#[tokio::test]
async fn without_keys_nobody_is_an_administrator_unless_this_machine_may_be() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let (second, swap) = (workspace.file("second").display().to_string(), "/admin/swap");
    workspace.run(&["promote", "--output", "second"]).succeeds();
    let body = json!({ "bundle": second }).to_string();
    let json = [("content-type", "application/json")];
    for arguments in [&["bundle"][..], &["bundle", "--open-to-all"]] {
        let service = Service::bare(&workspace, arguments);
        assert_eq!(get(&service, "/rag/retrieve?query=owls", &[]).await, 200);
        for path in OPERATING {
            assert_eq!(get(&service, path, &[]).await, 403, "{arguments:?} {path}");
            assert_eq!(get(&service, path, &[("authorization", "Bearer x")]).await, 403, "{arguments:?} {path}");
        }
        assert_eq!(status(&service, "POST", swap, &json, &body).await, 403, "{arguments:?}");
    }
    let refused = ["serve", "bundle", "--admin-without-key", "--public-url", "http://manuals.example"];
    workspace.run(&refused).refused_with(&["--public-url", "proxy", "--scope admin"]);
    key(&workspace, "root", "admin");
    let refused = ["serve", "bundle", "--admin-without-key", "--keys", "keys.toml"];
    workspace.run(&refused).refused_with(&["--keys", "proxy"]);
    let service = Service::bare(&workspace, &["bundle", "--admin-without-key"]);
    for path in OPERATING {
        assert_eq!(get(&service, path, &[]).await, 200, "{path}");
        // What a proxy on this machine passes on is not from this machine.
        for forwarded in [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded",
            "forwarded",
            "via",
            "x-real-ip",
            "x-client-ip",
            "true-client-ip",
            "cf-connecting-ip",
        ] {
            assert_eq!(get(&service, path, &[(forwarded, "203.0.113.7")]).await, 403, "{path} {forwarded}");
        }
        assert_eq!(get(&service, path, &[("host", "manuals.example")]).await, 403, "{path} by its public name");
    }
    assert_eq!(status(&service, "POST", swap, &json, &body).await, 200);
}

#[tokio::test]
async fn everybody_may_ask_and_only_a_key_operates_where_the_service_is_open_and_has_keys() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let (ask, admin) = (key(&workspace, "alice", "ask"), key(&workspace, "root", "admin"));
    let service = Service::bare(&workspace, &["bundle", "--keys", "keys.toml", "--open-to-all"]);
    let path = "/rag/retrieve?query=owls";
    for (headers, expected) in [
        (&[][..], 200),
        (&[("host", "any.example")], 200),
        (&[("authorization", ask.as_str())], 200),
        (&[("authorization", "Bearer rv-wrong")], 401),
        (&[("authorization", admin.as_str())], 403),
    ] {
        assert_eq!(get(&service, path, headers).await, expected, "{headers:?}");
    }
    for path in OPERATING {
        assert_eq!(get(&service, path, &[]).await, 401, "{path}");
        assert_eq!(get(&service, path, &[("authorization", ask.as_str())]).await, 403, "{path}");
    }
    assert_eq!(get(&service, "/admin/status", &[("authorization", admin.as_str())]).await, 200);
}

#[tokio::test]
async fn the_scratch_folder_is_for_its_owner_alone_and_goes_with_the_service() {
    use std::os::unix::fs::PermissionsExt;
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let temporary = workspace.file("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut service = Service::start_with(&workspace, &["bundle"], &[("TMPDIR", temporary.to_str().unwrap())]);
    let folders = || std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap()).collect::<Vec<_>>();
    let [folder] = &folders()[..] else { panic!("one folder: {:?}", folders()) };
    assert!(folder.file_name().to_str().unwrap().starts_with("reverie-serve-"));
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    service.terminate();
    assert!(service.process.wait().unwrap().success());
    assert!(folders().is_empty());
}

#[tokio::test]
async fn a_web_page_of_another_origin_can_neither_ask_nor_change_anything() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle", "--allow-origin", "https://intranet.example"]);
    let asked = async || server.received_requests().await.unwrap().len();
    let before = asked().await;
    let own = service.url.clone();
    let evil = [
        &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")][..],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")],
        &[("origin", "http://127.0.0.1:1")],
        &[("origin", "https://intranet.example.evil.example")],
    ];
    let form = ("content-type", "application/x-www-form-urlencoded");
    for headers in evil {
        for path in ["/rag/answer?query=owls", "/rag/retrieve?query=owls", "/v1/models", "/metrics", "/admin/status"] {
            assert_eq!(get(&service, path, headers).await, 403, "GET {path} {headers:?}");
        }
        for path in ["/admin/candidate/promote", "/mcp", "/v1/chat/completions", "/rag/feedback", "/admin/swap"] {
            let headers =
                [headers, &[("content-type", "application/json"), ("accept", "application/json, text/event-stream")]]
                    .concat();
            assert_eq!(status(&service, "POST", path, &headers, "{}").await, 403, "POST {path} {headers:?}");
        }
        // Links from other pages to pages, and what a balancer asks, cost nothing.
        for path in ["/health/live", "/", "/docs"] {
            assert_eq!(get(&service, path, headers).await, 200, "{path} {headers:?}");
        }
    }
    for path in ["/admin/candidate/promote", "/v1/chat/completions", "/mcp"] {
        for kind in [form, ("content-type", "text/plain"), ("content-type", "multipart/form-data; boundary=x")] {
            assert_eq!(status(&service, "POST", path, &[kind], "").await, 415, "{path} {kind:?}");
        }
    }
    assert_eq!(asked().await, before, "no model was asked");
    for headers in [
        &[("origin", "https://intranet.example"), ("sec-fetch-site", "cross-site")][..],
        &[("origin", own.as_str()), ("sec-fetch-site", "same-origin")],
        &[("sec-fetch-site", "none")],
        &[],
    ] {
        assert_eq!(get(&service, "/rag/answer?query=owls", headers).await, 200, "{headers:?}");
    }
    // Its body is empty, and it may be: curl sends no kind then.
    assert_eq!(status(&service, "POST", "/admin/candidate/promote", &[], "").await, 404, "there is no candidate");
}

#[tokio::test]
async fn all_origins_are_allowed_with_keys_alone_and_what_is_no_origin_is_refused_at_start() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let serve = |origin: &str| workspace.run(&["serve", "bundle", "--listen", "127.0.0.1:0", "--allow-origin", origin]);
    serve("*").refused_with(&["--keys"]);
    serve("intranet.example").refused_with(&["no origin", "https://"]);
    serve("https://a.example/path").refused_with(&["no origin"]);
    let ask = key(&workspace, "alice", "ask");
    let service = Service::bare(&workspace, &["bundle", "--keys", "keys.toml", "--allow-origin", "*"]);
    let headers = [("origin", "https://any.example"), ("authorization", ask.as_str())];
    assert_eq!(get(&service, "/rag/retrieve?query=owls", &headers).await, 200);
    assert_eq!(get(&service, "/rag/retrieve?query=owls", &headers[..1]).await, 401);
}

#[tokio::test]
async fn a_failure_is_hidden_only_if_another_pipeline_answered() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let (second, _other) = promoted(Duration::ZERO).await;
    let said = || std::fs::read_to_string(workspace.file("serve.err")).unwrap_or_default();
    server.reset().await;
    let refusal = wiremock::ResponseTemplate::new(500);
    wiremock::Mock::given(wiremock::matchers::any()).respond_with(refusal).mount(&server).await;
    {
        let service = Service::logging(&workspace, &["bundle"]);
        assert_eq!(get(&service, "/rag/answer?query=owls", &[]).await, 502);
        eventually("it is noted", async || said().contains("\"failed\":\"upstream\"")).await;
    }
    assert!(!said().contains("\"hidden\""), "{}", said());
    let fallback = second.file("bundle").display().to_string();
    let service = Service::logging(&workspace, &["bundle", "--fallback", &fallback]);
    assert_eq!(get(&service, "/rag/answer?query=owls", &[]).await, 200);
    eventually("what the client does not learn is noted", async || said().contains("\"hidden\":\"upstream\"")).await;
    assert_eq!(said().matches("\"failed\"").count(), 1, "{}", said());
}

#[tokio::test]
async fn a_link_from_another_page_opens_a_source_and_nothing_else() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let found: Value = service.json("/rag/retrieve?query=owls").await;
    let source = format!("/rag/sources/{}", found["passages"][0]["id"].as_str().unwrap());
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    assert_eq!(get(&service, &source, &link).await, 200);
    assert_eq!(get(&service, "/rag/answer?query=owls", &link).await, 403, "a model would be paid");
    let picture = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
    assert_eq!(get(&service, &source, &picture).await, 403);
}

#[tokio::test]
async fn a_key_is_revoked_and_added_without_a_restart() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let (alice, root) = (key(&workspace, "alice", "ask"), key(&workspace, "root", "admin"));
    let service = Service::bare(&workspace, &["bundle", "--keys", "keys.toml"]);
    let asks = async |key: &str| get(&service, "/v1/models", &[("authorization", key)]).await;
    assert_eq!(asks(&alice).await, 200);
    let bob = key(&workspace, "bob", "ask");
    eventually("the new key is taken", async || asks(&bob).await == 200).await;
    assert_eq!(asks(&alice).await, 200);
    // What cannot be read changes nothing.
    let good = std::fs::read_to_string(workspace.file("keys.toml")).unwrap();
    workspace.write("keys.toml", "[[key]\n");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(asks(&bob).await, 200);
    let entries: Vec<&str> = good.split("[[key]]").filter(|entry| !entry.contains("\"alice\"")).collect();
    workspace.write("keys.toml", entries.join("[[key]]"));
    eventually("the old key is revoked", async || asks(&alice).await == 401).await;
    assert_eq!((asks(&bob).await, asks(&root).await), (200, 403));
}

#[tokio::test]
async fn long_conversations_are_refused_and_delay_nobody() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    workspace
        .write("experiment.toml", text.replace("[space]\n", "[space]\nquery = [{ condense = { model = \"gpt\" } }]\n"));
    workspace.run(&["run", "--quiet"]).succeeds();
    workspace.run(&["promote", "--output", "condensing"]).succeeds();
    let service = Service::start(&workspace, &["condensing"]);
    let empty = json!({ "role": "user" });
    let talk = |count: usize, each: &Value| {
        let mut messages = vec![each.clone(); count];
        messages.push(json!({ "role": "user", "content": QUESTION }));
        json!({ "model": "animals", "messages": messages })
    };
    let asked = async |body: &Value| service.post("/v1/chat/completions", body).await.status().as_u16();
    let before = server.received_requests().await.unwrap().len();
    for (count, each, expected) in [
        (999, &empty, 200),
        (1000, &empty, 400),
        (130_000, &empty, 400),
        (1, &json!({ "role": "user", "content": "x".repeat(256 << 10) }), 200),
        (1, &json!({ "role": "user", "content": "x".repeat((256 << 10) + 1) }), 400),
        (900, &json!({ "role": "assistant", "content": "x".repeat(1000) }), 400),
        (1, &json!({ "role": "user", "content": "x".repeat(64 << 20) }), 413),
    ] {
        // A body of many megabytes is refused before it was sent whole: the client may see a closed connection.
        let large = expected == 413;
        let request = service.client.post(format!("{}/v1/chat/completions", service.url)).json(&talk(count, each));
        match request.send().await {
            Ok(response) => assert_eq!(response.status().as_u16(), expected, "{count} messages"),
            Err(error) => assert!(large, "{error}"),
        }
    }
    assert!(server.received_requests().await.unwrap().len() >= before + 4, "those that fit were asked");
    // Many at once, with as many messages as are taken, delay nobody else.
    let worst = talk(999, &json!({ "role": "assistant", "content": "x y ".repeat(64) }));
    let flood = futures::future::join_all((0..16).map(|_| asked(&worst)));
    let (all, alive) = tokio::join!(flood, async {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let begun = Instant::now();
            assert_eq!(get(&service, "/health/live", &[]).await, 200);
            slowest = slowest.max(begun.elapsed());
        }
        slowest
    });
    assert_eq!(all, [200; 16]);
    println!("the slowest of 20 looks at /health/live beside 16 long conversations: {alive:?}");
    // A guard of minutes: before, one such request took as long.
    assert!(alive < Duration::from_secs(60), "{alive:?}");
}

#[tokio::test]
async fn two_host_headers_are_refused() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let service = Service::start(&workspace, &["bundle"]);
    let mut stream = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).unwrap();
    stream
        .write_all(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 400"), "{told}");
    let mut stream = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).unwrap();
    stream
        .write_all(b"GET http://127.0.0.1/v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .unwrap();
    told.clear();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 400"), "{told}");
}

#[tokio::test]
async fn failures_of_every_route_are_counted_and_told_to_the_operator_and_not_to_clients() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    let service = Service::logging(&workspace, &["bundle"]);
    let metric = async |name: &str| {
        let text = service.get("/metrics").await.text().await.unwrap();
        let values = text
            .lines()
            .filter(|line| line.starts_with(name))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum::<f64>()
    };
    assert_eq!(metric("reverie_failures").await, 0.0);
    server.reset().await;
    let refusal = wiremock::ResponseTemplate::new(500).set_body_string("secret words of the provider");
    wiremock::Mock::given(wiremock::matchers::any()).respond_with(refusal).mount(&server).await;
    assert_eq!(get(&service, "/rag/answer?query=owls", &[]).await, 502);
    assert_eq!(metric("reverie_failures").await, 1.0, "once");
    let said = async || std::fs::read_to_string(workspace.file("serve.err")).unwrap();
    let is_logged = async || said().await.contains("\"failed\":\"upstream\"");
    crate::attacks::eventually("the failure in the log", is_logged).await;
    // A line has the id that the client has, and no words for the client have the reason.
    let response = service.client.get(format!("{}/rag/answer?query=owls", service.url)).send().await.unwrap();
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    assert!(!response.text().await.unwrap().contains("secret words"));
    eventually("the line has the id", async || {
        said().await.lines().any(|line| line.contains(&id) && line.contains("\"detail\""))
    })
    .await;
    // Who has no key is noted, and a flood of them in one line a second.
    for _ in 0..50 {
        assert_eq!(get(&service, "/admin/status", &[("x-forwarded-for", "203.0.113.7")]).await, 403);
    }
    eventually("refusals are noted", async || said().await.contains("\"refused\":\"forbidden\"")).await;
    assert!(said().await.matches("\"refused\"").count() < 50);
    // The file of feedback cannot be written: it is a folder that takes no more.
    let (full, _server) = promoted(Duration::ZERO).await;
    let keeping = Service::logging(&full, &["bundle", "--feedback", "/dev/full"]);
    let opinion = json!({ "request_id": "r", "verdict": "up" });
    let failed = keeping.post("/rag/feedback", &opinion).await;
    assert_eq!(failed.status().as_u16(), 500);
    let told = failed.text().await.unwrap();
    assert!(!told.contains("No space"), "{told}");
    let text = keeping.get("/metrics").await.text().await.unwrap();
    assert!(text.contains("reverie_failures_total{kind=\"other\"} 1"), "{text}");
    eventually("the audit has the reason", async || {
        std::fs::read_to_string(full.file("serve.err")).unwrap().contains("No space left")
    })
    .await;
}

#[tokio::test]
async fn a_full_file_of_feedback_takes_no_more_until_it_is_moved_away() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let (path, old) = (workspace.file("feedback.jsonl"), workspace.file("feedback.1.jsonl"));
    std::fs::File::create(&path).unwrap().set_len(256 << 20).unwrap();
    let service = Service::logging(&workspace, &["bundle", "--feedback", "feedback.jsonl"]);
    let opinion = json!({ "request_id": "r", "verdict": "up" });
    let refused = service.post("/rag/feedback", &opinion).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"3600".parse().unwrap()));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 256 << 20);
    let counted = async || service.get("/metrics").await.text().await.unwrap().contains("reverie_feedback_total{kind");
    assert!(!counted().await, "what was not kept is not counted");
    std::fs::rename(&path, &old).unwrap();
    assert_eq!(service.post("/rag/feedback", &opinion).await.status().as_u16(), 204);
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"request_id\":\"r\""));
    assert!(counted().await);
}

#[tokio::test]
async fn a_search_that_fails_is_counted_and_noted_though_mcp_tells_it_in_a_success() {
    let (workspace, server) = promoted(Duration::ZERO).await;
    evil(&workspace, "asking", |text| text.replace("[space]\n", "[space]\nreranker = [\"listwise\"]\n"));
    let service = Service::logging(&workspace, &["asking"]);
    server.reset().await;
    let refusal = wiremock::ResponseTemplate::new(500).set_body_string("secret words of the provider");
    wiremock::Mock::given(wiremock::matchers::any()).respond_with(refusal).mount(&server).await;
    assert_eq!(get(&service, "/rag/retrieve?query=owls", &[]).await, 502);
    let tool = json!({ "name": "search", "arguments": { "query": "owls" } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool });
    let call = service.client.post(format!("{}/mcp", service.url)).json(&body);
    let response = call.header("accept", "application/json, text/event-stream").send().await.unwrap();
    let (code, id) = (response.status().as_u16(), response.headers()["x-request-id"].to_str().unwrap().to_owned());
    let told = response.text().await.unwrap();
    assert!(code == 200 && told.contains("\"isError\":true") && !told.contains("secret words"), "{code} {told}");
    let text = service.get("/metrics").await.text().await.unwrap();
    assert!(text.contains("reverie_failures_total{kind=\"upstream\"} 2"), "{text}");
    eventually("the line has the id", async || {
        let said = std::fs::read_to_string(workspace.file("serve.err")).unwrap();
        said.lines().any(|line| line.contains(&id) && line.contains("\"failed\":\"upstream\""))
    })
    .await;
}

#[tokio::test]
async fn a_service_that_is_to_end_is_a_lame_duck_first() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let mut service = Service::start(&workspace, &["bundle", "--lame-duck", "600"]);
    assert_eq!(get(&service, "/health/ready", &[]).await, 200);
    service.terminate();
    eventually("it says that it is not ready", async || get(&service, "/health/ready", &[]).await == 503).await;
    // On new connections, as balancers open them.
    for _ in 0..20 {
        let fresh = reqwest::Client::new();
        let response =
            fresh.post(format!("{}/v1/chat/completions", service.url)).json(&chat(QUESTION)).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["connection"], "close", "the next one goes elsewhere");
    }
    // Ctrl-C does not wait for balancers.
    std::process::Command::new("kill").args(["-INT", &service.process.id().to_string()]).status().unwrap();
    assert_eq!(tokio::task::spawn_blocking(move || service.process.wait().unwrap().code()).await.unwrap(), Some(0));
}

#[tokio::test]
async fn few_descriptors_are_shared_out_and_idle_connections_take_none_from_models() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    let command = workspace.command(&["serve", "--listen", "127.0.0.1:0", "--json", "bundle"]);
    let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap().to_owned()).collect();
    let mut shell = workspace.command(&[]);
    let binary = shell.get_program().to_owned();
    shell = std::process::Command::new("sh");
    shell.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.arg("-c").arg("ulimit -n 1024; exec \"$@\"").arg("sh").arg(binary).args(words);
    store::choose_cryptography();
    let mut process = shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = serde_json::from_str::<Value>(&line).unwrap()["url"].as_str().unwrap().to_owned();
    let service = Service { process, url, client: reqwest::Client::new() };
    let address = service.url.strip_prefix("http://").unwrap().to_owned();
    // More than the limit; most wait in the system's queue.
    let idle: Vec<TcpStream> = (0..2000).map_while(|_| TcpStream::connect(&address).ok()).collect();
    println!("{} idle connections", idle.len());
    // They end when nothing comes, and then others are answered, by a model too.
    eventually("there is room again", async || {
        let asked = service.client.post(format!("{}/v1/chat/completions", service.url)).json(&chat(QUESTION));
        let asked = asked.timeout(Duration::from_secs(5)).send().await;
        asked.is_ok_and(|response| response.status().as_u16() == 200)
    })
    .await;
    drop(idle);
}
