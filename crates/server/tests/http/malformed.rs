//! Requests that make no sense: each is told so, in OpenAI's shape, and the server goes on.

use serde_json::{Value, json};

use crate::support::*;

/// What no message to a client may have in it.
const OURS: [&str; 10] =
    ["::", "struct", "enum", "variant", "Option<", "Vec<", "u32", "i64", "f32", "panicked"];

const CHAT: &str = "/v1/chat/completions";
const COMPLETION: &str = "/v1/completions";
const RESPONSES: &str = "/v1/responses";

/// A field and values that it cannot have.
type Bad = (&'static str, Vec<Value>);

/// A path, a body that can be answered, and values that its fields cannot have.
fn endpoints() -> [(&'static str, Value, Vec<Bad>); 3] {
    let numbers =
        |more: &[Value]| [&[json!("1"), json!([]), json!({}), json!(true), json!(1e300)], more].concat();
    let settings = vec![
        ("temperature", numbers(&[json!(-1), json!(2.5)])),
        ("top_p", numbers(&[json!(-0.1), json!(1.5)])),
        ("frequency_penalty", numbers(&[json!(-3)])),
        ("presence_penalty", numbers(&[json!(3)])),
        ("top_k", numbers(&[json!(-2), json!(1.5)])),
        ("min_p", numbers(&[json!(-1)])),
        ("repeat_penalty", vec![json!(0), json!(-1), json!("x")]),
        ("seed", vec![json!("x"), json!(1.5), json!([1])]),
        ("stop", vec![json!(1), json!([1]), json!([""]), json!({})]),
        (
            "logit_bias",
            vec![
                json!(1),
                json!({ "x": 1 }),
                json!({ "1": "x" }),
                json!({ "1": 1000 }),
                json!({ "99999": 1 }),
            ],
        ),
        ("stream", vec![json!("true"), json!(1), json!([])]),
        ("n", vec![json!(0), json!(-1), json!(1.5), json!("2"), json!(100_000)]),
        ("model", vec![json!(1), json!("gpt-99"), json!([])]),
        (
            "response_format",
            vec![
                json!("json"),
                json!([]),
                json!({ "type": "xml" }),
                json!({}),
                json!({ "type": "json_schema" }),
            ],
        ),
        ("deadline_ms", vec![json!(0), json!(-1), json!("soon")]),
        ("priority", vec![json!("high"), json!(1e12)]),
    ];
    let text = |role: &str, content: Value| json!([{ "role": role, "content": content }]);
    let chat = vec![
        (
            "messages",
            vec![
                json!(null),
                json!([]),
                json!("Hi"),
                json!({}),
                json!([1]),
                json!([[]]),
                json!([{}]),
                text("king", json!("x")),
                text("user", json!(1)),
                text("user", json!({})),
                text("user", json!([1])),
                text("user", json!([{}])),
                text("user", json!([{ "type": "image_url", "image_url": { "url": "x" } }])),
                text("user", json!([{ "type": "text" }])),
                text("user", Value::Null),
                json!([{ "role": "assistant", "tool_calls": [{}] }]),
                json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": "{" } }] }]),
                json!([{ "role": 1, "content": "x" }]),
            ],
        ),
        ("max_tokens", numbers(&[json!(0), json!(-1), json!(1.5)])),
        ("max_completion_tokens", numbers(&[json!(-5)])),
        ("logprobs", vec![json!(1), json!("yes")]),
        ("top_logprobs", vec![json!(-1), json!(21), json!(3), json!("x")]),
        (
            "tools",
            vec![
                json!({}),
                json!([1]),
                json!([{}]),
                json!([{ "type": "x" }]),
                json!([{ "type": "function" }]),
                json!([{ "type": "function", "function": { "name": "" } }]),
                json!([{ "type": "function", "function": { "name": "a b" } }]),
                json!([{ "type": "function", "function": { "name": "a", "parameters": 3 } }]),
                Value::Array(
                    (0..100_000)
                        .map(|i| json!({ "type": "function", "function": { "name": format!("t{i}") } }))
                        .collect(),
                ),
            ],
        ),
        (
            "tool_choice",
            vec![
                json!("maybe"),
                json!("required"),
                json!(1),
                json!({ "type": "function", "function": { "name": "x" } }),
            ],
        ),
        ("functions", vec![json!([])]),
        ("reasoning_effort", vec![json!("huge"), json!(1)]),
        ("chat_template_kwargs", vec![json!([]), json!("x")]),
        ("stream_options", vec![json!({ "include_usage": true }), json!([])]),
        ("modalities", vec![json!(["audio"])]),
    ];
    let completion = vec![
        (
            "prompt",
            vec![
                json!(null),
                json!([]),
                json!(1),
                json!({}),
                json!([1, "a"]),
                json!([-1]),
                json!([999_999]),
                json!([[]]),
                json!([null]),
            ],
        ),
        ("max_tokens", numbers(&[json!(-1), json!(1.5)])),
        ("logprobs", vec![json!(true), json!(-1), json!(100)]),
        ("echo", vec![json!("yes"), json!(1)]),
        ("best_of", vec![json!(0), json!(-1), json!(1000)]),
        ("suffix", vec![json!("x")]),
    ];
    let responses = vec![
        (
            "input",
            vec![
                json!(null),
                json!([]),
                json!(1),
                json!([1]),
                json!([{ "type": "x" }]),
                json!([{ "role": "king", "content": "x" }]),
            ],
        ),
        ("max_output_tokens", numbers(&[json!(0), json!(-1)])),
        ("previous_response_id", vec![json!("resp_1")]),
        ("tools", vec![json!([{ "type": "web_search" }]), json!([{ "type": "function" }])]),
        ("text", vec![json!("x"), json!({ "format": { "type": "x" } })]),
        ("reasoning", vec![json!("x"), json!({ "effort": "x" })]),
    ];
    let all = |own: Vec<Bad>| [settings.clone(), own].concat();
    [
        (CHAT, chat_body(), all(chat)),
        (COMPLETION, json!({ "prompt": "abc", "max_tokens": 4 }), all(completion)),
        (RESPONSES, json!({ "input": "Hi", "max_output_tokens": 4 }), responses),
    ]
}

fn check(reply: &Reply, what: &str) {
    assert!((400..500).contains(&reply.status), "{what}: {} {}", reply.status, reply.text());
    let error = &reply.json()["error"];
    let message = error["message"].as_str().unwrap_or_else(|| panic!("{what}: {}", reply.text()));
    assert!(error["type"].is_string() && error["code"].is_string(), "{what}: {error}");
    assert!(error.as_object().unwrap().contains_key("param"), "{what}: {error}");
    assert!(message.len() < 600, "{what}: {} bytes of message", message.len());
    for ours in OURS {
        assert!(!message.contains(ours), "{what}: {message}");
    }
}

#[test]
fn a_value_that_a_field_cannot_have_is_refused_with_its_name() {
    let server = start();
    let mut n = 0;
    for (path, body, fields) in endpoints() {
        assert_eq!(server.post(path, &body).status, 200, "{path}");
        for (name, values) in fields {
            for value in values {
                let reply = server.post(path, &with(body.clone(), json!({ name: value.clone() })));
                let what: String = format!("{path} {name} = {value}").chars().take(200).collect();
                check(&reply, &what);
                let param = reply.json()["error"]["param"].as_str().unwrap_or_default().to_owned();
                assert!(param.starts_with(name), "{what}: param is {param}");
                n += 1;
            }
        }
    }
    assert!(n >= 200, "{n}");
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn what_is_no_json_object_is_refused() {
    let server = start();
    let text = chat_body().to_string();
    let mut bodies: Vec<Vec<u8>> =
        (0..text.len()).step_by(7).map(|end| text.as_bytes()[..end].to_vec()).collect();
    for at in (1..text.len()).step_by(11) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = 0xff;
        bodies.push(bytes);
    }
    bodies.extend(
        ["null", "[]", "3", "\"x\"", "nan", "{\"a\":1}}", "{'a':1}", "{\"messages\": 1e999}"]
            .map(|it| it.into()),
    );
    bodies.push([b"[".repeat(100_000), b"]".repeat(100_000)].concat());
    bodies.push([b"{\"messages\":".repeat(1000), b"1".to_vec(), b"}".repeat(1000)].concat());
    bodies.push(b"{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}".to_vec());
    for path in [CHAT, COMPLETION, RESPONSES] {
        for body in &bodies {
            let reply = send(server.addr(), "POST", path, &[], body);
            check(&reply, &String::from_utf8_lossy(&body[..body.len().min(60)]));
        }
    }
}
