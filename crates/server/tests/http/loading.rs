//! A server whose model is not there yet.

use minfer_server::Server;
use serde_json::{Value, json};

use crate::support::*;

#[test]
fn whoever_comes_before_the_model_is_told_when_to_come_again() {
    let listening = Server::listen(config()).unwrap();
    let addr = listening.addr();
    let get = |path: &str| send(addr, "GET", path, &[], b"");
    let health = get("/health");
    let told = json!({ "error": { "code": 503, "message": "Loading model", "type": "unavailable_error" } });
    assert_eq!((health.status, health.json()), (503, told.clone()));
    let pointer = |pointer: &str, word: &str| (pointer.to_owned(), Value::from(word));
    for (method, path, (at, word)) in [
        ("GET", "/ready", pointer("/error/code", "model_loading")),
        ("GET", "/metrics", pointer("/error/type", "server_error")),
        ("GET", "/v1/models", pointer("/error/code", "model_loading")),
        ("GET", "/props", pointer("/error/type", "unavailable_error")),
        ("GET", "/slots", pointer("/error/type", "unavailable_error")),
        ("POST", "/completion", pointer("/error/type", "unavailable_error")),
        ("POST", "/v1/chat/completions", pointer("/error/message", "Loading model")),
        ("POST", "/v1/messages", pointer("/error/type", "overloaded_error")),
        ("POST", "/api/chat", pointer("/error", "Loading model")),
    ] {
        let reply = send(addr, method, path, &[], b"{");
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")), "{path}");
        assert_eq!(reply.json().pointer(&at), Some(&word), "{path}: {}", reply.text());
        assert_eq!(reply.header("refresh"), None, "{path}");
    }
    let browser = send(addr, "GET", "/", &[("accept", "text/html,*/*;q=0.8")], b"");
    assert_eq!((browser.status, browser.header("refresh")), (503, Some("1")));
    // Strangers are refused all the same.
    let stranger = send(addr, "GET", "/health", &[("origin", "https://elsewhere.example")], b"");
    assert_eq!(stranger.status, 403);

    let engine = engine(&small());
    let server = Running { server: listening.open(hosted(engine.clone())), engine };
    assert_eq!((get("/health").status, get("/ready").status, get("/").status), (200, 200, 200));
    assert_eq!(server.chat(json!({})).status, 200);
    // What was answered before the model was there is counted, too.
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("minfer:responses_total{status=\"503\"} 11"), "{metrics}");
}
