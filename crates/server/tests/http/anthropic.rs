//! `/v1/messages`.

use serde_json::{Value, json};

use crate::support::*;

fn body() -> Value {
    json!({
        "model": "tiny", "max_tokens": 12, "temperature": 0,
        "messages": [{ "role": "user", "content": "Hello" }],
    })
}

fn ask(server: &Running, more: Value) -> Reply {
    server.post("/v1/messages", &with(body(), more))
}

/// The events of a stream, each with its name.
fn events(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
    let text = reply.text();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let events: Vec<Value> = reply.events().iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(names, events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>());
    events
}

#[test]
fn a_whole_message_has_anthropics_fields() {
    let server = start();
    let reply = ask(&server, json!({}));
    assert_eq!(reply.status, 200);
    let message = reply.json();
    assert!(message["id"].as_str().unwrap().starts_with("msg_"));
    for (name, value) in [
        ("type", json!("message")),
        ("role", json!("assistant")),
        ("model", json!("tiny")),
        ("stop_reason", json!("max_tokens")),
        ("stop_sequence", Value::Null),
    ] {
        assert_eq!(message[name], value, "{name}");
    }
    assert_eq!(message["usage"]["output_tokens"], 12);
    let chat = server.chat(json!({})).json();
    assert_eq!(
        message["content"],
        json!([{ "type": "text", "text": chat["choices"][0]["message"]["content"] }])
    );
    let count = |usage: &Value| {
        usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap()
    };
    assert_eq!(count(&message["usage"]), chat["usage"]["prompt_tokens"]);
}

#[test]
fn a_stream_begins_and_ends_what_it_tells() {
    let server = start();
    let whole = ask(&server, json!({})).json();
    let events = events(&ask(&server, json!({ "stream": true })));
    let mut kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let message = &events[0]["message"];
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &Value::Null));
    let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(whole["content"][0]["text"], text);
    let delta = &events[events.len() - 2];
    assert_eq!(delta["delta"], json!({ "stop_reason": "max_tokens", "stop_sequence": null }));
    assert_eq!(delta["usage"]["output_tokens"], 12);
}

#[test]
fn the_stop_sequence_is_named_and_not_part_of_the_text() {
    let server = start();
    let whole = ask(&server, json!({})).json();
    let text = whole["content"][0]["text"].as_str().unwrap();
    let at = text.char_indices().nth(4).unwrap().0;
    let word: String = text[at..].chars().take(2).collect();
    let stopped = ask(&server, json!({ "stop_sequences": ["never there", word] })).json();
    assert_eq!((&stopped["stop_reason"], &stopped["stop_sequence"]), (&json!("stop_sequence"), &json!(word)));
    assert_eq!(stopped["content"][0]["text"], text[..text.find(&word).unwrap()]);
    let last = events(&ask(&server, json!({ "stop_sequences": [word], "stream": true })));
    assert_eq!(last[last.len() - 2]["delta"]["stop_sequence"], word);
}

#[test]
fn an_answer_may_be_begun_for_the_model() {
    let server = start();
    let text = |reply: Reply| reply.json()["content"][0]["text"].as_str().unwrap().to_owned();
    let whole = text(ask(&server, json!({})));
    let at = whole.char_indices().nth(3).unwrap().0;
    let messages =
        json!([{ "role": "user", "content": "Hello" }, { "role": "assistant", "content": whole[..at] }]);
    let rest = text(ask(&server, json!({ "messages": messages, "max_tokens": 40 })));
    let longer = text(ask(&server, json!({ "max_tokens": 40 })));
    let same = rest.len().min(longer.len() - at).min(6);
    assert_eq!(rest.as_bytes()[..same], longer.as_bytes()[at..at + same]);
}

#[test]
fn tokens_are_counted_as_they_are_read() {
    let server = start();
    let count = |more| server.post("/v1/messages/count_tokens", &with(body(), more));
    let chat = server.chat(json!({})).json();
    assert_eq!(
        count(json!({ "max_tokens": null })).json(),
        json!({ "input_tokens": chat["usage"]["prompt_tokens"] })
    );
    let more = count(json!({ "system": "Be brief." })).json();
    assert!(more["input_tokens"].as_u64() > chat["usage"]["prompt_tokens"].as_u64());
    assert_eq!(count(json!({ "messages": [] })).status, 400);
}

#[test]
fn errors_are_told_as_anthropic_does() {
    let server = start();
    for (more, status, kind) in [
        (json!({ "max_tokens": null }), 400, "invalid_request_error"),
        (json!({ "messages": [] }), 400, "invalid_request_error"),
        (json!({ "model": "nobody" }), 404, "not_found_error"),
        (
            json!({ "messages": [{ "role": "user", "content": "x".repeat(100_000) }] }),
            400,
            "invalid_request_error",
        ),
    ] {
        let reply = ask(&server, more.clone());
        let error = reply.json();
        assert_eq!((reply.status, &error["type"]), (status, &json!("error")), "{more}");
        assert_eq!(error["error"]["type"], kind);
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    }
    let reply = send(server.addr(), "POST", "/v1/messages", &[], b"{");
    assert_eq!((reply.status, &reply.json()["type"]), (400, &json!("error")));
    assert_eq!(server.get("/v1/messages").json()["type"], "error");
}

#[test]
fn a_key_is_taken_from_anthropics_header() {
    let server = start_with(&small(), minfer_server::ServerConfig { api_keys: vec!["k".into()], ..config() });
    let ask = |key: &str| {
        send(server.addr(), "POST", "/v1/messages", &[("x-api-key", key)], body().to_string().as_bytes())
    };
    assert_eq!(ask("k").status, 200);
    let refused = ask("wrong");
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (401, &json!("authentication_error")));
}
