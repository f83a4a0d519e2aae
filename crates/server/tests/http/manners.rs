//! Keys, limits, leaving.

use std::io::Write;
use std::net::TcpStream;

use minfer_engine::EngineParams;
use minfer_server::ServerConfig;
use serde_json::json;

use crate::support::*;

#[test]
fn models_are_listed_and_others_are_not_here() {
    let server = start();
    let list = server.get("/v1/models").json();
    assert_eq!(
        (&list["object"], &list["data"][0]["id"], &list["data"][1]["id"]),
        (&json!("list"), &json!("tiny"), &json!("other"))
    );
    assert_eq!(server.get("/v1/models/other").json()["id"], "other");
    let missing = server.get("/v1/models/gpt-99");
    assert_eq!((missing.status, &missing.json()["error"]["code"]), (404, &json!("model_not_found")));
    let unknown = server.chat(json!({ "model": "gpt-99" }));
    assert_eq!((unknown.status, &unknown.json()["error"]["param"]), (404, &json!("model")));
    assert_eq!(server.chat(json!({ "model": "other:latest", "max_tokens": 1 })).status, 200);
}

#[test]
fn without_a_key_only_health_answers() {
    let keys = vec!["right".to_owned(), "also".to_owned()];
    let server = start_with(&small(), ServerConfig { api_keys: keys, ..config() });
    assert_eq!((server.get("/health").status, server.get("/ready").status), (200, 200));
    let status = |headers: &[(&str, &str)]| send(server.addr(), "GET", "/v1/models", headers, b"").status;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("authorization", "Bearer wrong")]), 401);
    assert_eq!(status(&[("authorization", "Bearer right")]), 200);
    assert_eq!(status(&[("x-api-key", "also")]), 200);
    let refused = server.chat(json!({})).json();
    assert_eq!(refused["error"]["code"], "invalid_api_key");
    assert_eq!(server.get("/metrics").status, 401);
}

#[test]
fn errors_have_the_shape_of_their_path() {
    let server = start();
    let openai = server.get("/v1/nowhere");
    assert_eq!((openai.status, &openai.json()["error"]["code"]), (404, &json!("unknown_path")));
    let ollama = server.get("/api/nowhere").json();
    assert!(ollama["error"].is_string(), "{ollama}");
    let anthropic = server.get("/v1/messages/nowhere").json();
    assert_eq!(
        (&anthropic["type"], &anthropic["error"]["type"]),
        (&json!("error"), &json!("not_found_error"))
    );
    let wrong = server.get("/v1/chat/completions");
    assert_eq!((wrong.status, &wrong.json()["error"]["type"]), (405, &json!("invalid_request_error")));
}

#[test]
fn other_pages_and_other_names_are_refused() {
    let server = start();
    let ask = |name: &str, value: &str| send(server.addr(), "GET", "/v1/models", &[(name, value)], b"");
    let code = |reply: &Reply| reply.json()["error"]["code"].as_str().map(str::to_owned);
    let page = ask("origin", "https://elsewhere.example");
    assert_eq!((page.status, code(&page).as_deref()), (403, Some("origin_not_allowed")));
    assert_eq!(ask("origin", "http://localhost").status, 200);
    let whose = |address: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        let head = format!("GET {address} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        read_reply(&mut stream)
    };
    for (address, hosts) in [
        ("/health", &["elsewhere.example"][..]),
        ("/health", &["elsewhere.example", "localhost"]),
        ("/health", &["localhost", "elsewhere.example"]),
        ("http://elsewhere.example/health", &["localhost"]),
        ("http://localhost/health", &["elsewhere.example"]),
        ("/health", &[""]),
    ] {
        let refused = whose(address, hosts);
        assert_eq!(refused.status, 403, "{address} {hosts:?}");
        assert!(refused.text().contains("localhost and its addresses"), "{}", refused.text());
    }
    assert_eq!(whose("http://localhost/health", &["localhost"]).status, 200);
    assert_eq!(whose("/health", &["localhost", "127.0.0.1"]).status, 400);
}

#[test]
fn what_no_endpoint_can_read_is_an_error_of_the_usual_shape() {
    let server = start();
    let gzip =
        send(server.addr(), "POST", "/v1/chat/completions", &[("content-encoding", "gzip")], b"\x1f\x8b");
    assert_eq!((gzip.status, &gzip.json()["error"]["code"]), (415, &json!("unsupported_encoding")));
    let error = server.get("/v1/models/%ff%fe");
    let code = &error.json()["error"]["code"];
    assert_eq!((error.status, code), (400, &json!("invalid_request")), "{}", error.text());
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let server = start_with(&small(), ServerConfig { max_body: 1000, ..config() });
    let reply = server.chat(json!({ "messages": [{ "role": "user", "content": "x".repeat(2000) }] }));
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (413, &json!("body_too_large")));
    let long = start().chat(json!({ "messages": [{ "role": "user", "content": "x".repeat(2000) }] }));
    assert_eq!((long.status, &long.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
}

#[test]
fn pages_of_listed_origins_may_call() {
    let origins = vec!["http://a.example".to_owned()];
    let server = start_with(&small(), ServerConfig { cors_origins: origins, ..config() });
    let ask = |origin: &str| send(server.addr(), "GET", "/v1/models", &[("origin", origin)], b"");
    assert_eq!(ask("http://a.example").header("access-control-allow-origin"), Some("http://a.example"));
    assert_eq!(ask("http://b.example").header("access-control-allow-origin"), None);
    assert_eq!(ask("http://b.example").status, 403);
    let preflight = [("origin", "http://a.example"), ("access-control-request-method", "POST")];
    assert_eq!(send(server.addr(), "OPTIONS", "/v1/chat/completions", &preflight, b"").status, 200);
}

#[test]
fn an_id_comes_back_and_bad_ones_are_replaced() {
    let server = start();
    let id = |given: &str| {
        let reply = send(server.addr(), "GET", "/health", &[("x-request-id", given)], b"");
        reply.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(id("mine-1"), "mine-1");
    assert!(id("two words").starts_with("req_"));
}

#[test]
fn whoever_leaves_frees_his_blocks() {
    let server = start();
    for _ in 0..3 {
        let streams: Vec<_> = (0..4).map(|_| begin_stream(&server)).collect();
        drop(streams);
        server.wait_until_idle();
        assert_eq!(server.engine.stats().blocks.in_use, 0);
    }
    // One who waits for a whole answer, too.
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    let body = with(chat_body(), json!({ "max_tokens": 400, "ignore_eos": true }));
    let before = server.engine.stats().n_finished;
    stream.write_all(&request("POST", "/v1/chat/completions", &[], body.to_string().as_bytes())).unwrap();
    server.wait_until("it runs", |stats| stats.n_running == 1 || stats.n_finished > before);
    drop(stream);
    server.wait_until_idle();
    assert_eq!(server.engine.stats().blocks.in_use, 0);
}

#[test]
fn a_full_queue_says_so_and_control_goes_on() {
    let mut params = EngineParams { max_queue: 1, ..small() };
    params.context.n_seq_max = 1;
    let server = start_with(&params, config());
    let slow = json!({ "messages": [{ "role": "user", "content": "a" }], "max_tokens": 450, "ignore_eos": true, "stream": true });
    let open = || {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(&request("POST", "/v1/chat/completions", &[], slow.to_string().as_bytes())).unwrap();
        stream
    };
    let mut streams = Vec::new();
    let refused = loop {
        streams.push(open());
        let reply = server.chat(json!({ "max_tokens": 450, "ignore_eos": true }));
        if reply.status == 429 {
            break reply;
        }
        assert!(streams.len() < 200, "the queue never was full");
    };
    assert_eq!(
        (refused.header("retry-after"), &refused.json()["error"]["code"]),
        (Some("1"), &json!("queue_full"))
    );
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_deadline_gives_what_there_is() {
    let server = start();
    let reply = server.chat(json!({ "max_tokens": 450, "ignore_eos": true, "deadline_ms": 1 })).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
    assert!(reply["usage"]["completion_tokens"].as_u64().unwrap() < 450);
}

#[test]
fn metrics_have_llama_cpps_names_and_histograms() {
    let server = start();
    server.chat(json!({}));
    let reply = server.get("/metrics");
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = reply.text();
    for line in [
        "llamacpp:tokens_predicted_total 12",
        "llamacpp:requests_processing 0",
        "minfer:kv_blocks_held 0",
        "minfer:time_to_first_token_seconds_count 1",
        "minfer:inter_token_seconds_count 11",
        "minfer:queue_seconds_count 1",
        "minfer:stall_seconds_count 11",
        "minfer:batch_size_sum 11",
        "minfer:responses_total{status=\"200\"} 1",
    ] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line} in {text}");
    }
}
