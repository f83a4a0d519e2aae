//! `/v1/responses`.

use serde_json::{Value, json};

use crate::support::*;

fn ask(server: &Running, more: Value) -> Reply {
    let body = json!({ "model": "tiny", "input": "Hello", "max_output_tokens": 12, "temperature": 0 });
    server.post("/v1/responses", &with(body, more))
}

#[test]
fn a_response_says_what_a_chat_says() {
    let server = start();
    let body = ask(&server, json!({ "instructions": "Be brief." })).json();
    assert_eq!((&body["object"], &body["status"]), (&json!("response"), &json!("incomplete")));
    assert_eq!(body["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!((&body["instructions"], &body["max_output_tokens"]), (&json!("Be brief."), &json!(12)));
    let item = &body["output"][0];
    assert_eq!((&item["type"], &item["role"]), (&json!("message"), &json!("assistant")));
    let messages =
        json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Hello" }]);
    let chat = server.chat(json!({ "messages": messages })).json();
    assert_eq!(item["content"][0]["text"], chat["choices"][0]["message"]["content"]);
    assert_eq!(body["usage"]["output_tokens"], 12);
    assert_eq!(body["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
}

#[test]
fn a_stream_has_its_events_in_order_and_numbered() {
    let server = start();
    let whole = ask(&server, json!({})).json();
    let reply = ask(&server, json!({ "stream": true }));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
    let text = reply.text();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let events: Vec<Value> =
        reply.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    for (i, (event, name)) in events.iter().zip(&names).enumerate() {
        assert_eq!((&event["type"], &event["sequence_number"]), (&json!(name), &json!(i)));
    }
    let deltas = names.iter().filter(|name| **name == "response.output_text.delta").count();
    assert!(deltas > 0);
    let mut want = vec![
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ];
    want.extend(std::iter::repeat_n("response.output_text.delta", deltas));
    want.extend([
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]);
    assert_eq!(names, want);
    let streamed: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(whole["output"][0]["content"][0]["text"], streamed);
    let last = &events[events.len() - 1]["response"];
    assert_eq!(last["output"][0]["content"], whole["output"][0]["content"]);
    assert_eq!(last["output"][0]["id"], events[2]["item"]["id"]);
}

#[test]
fn log_probabilities_are_those_of_chats() {
    let server = start();
    let asked = json!({ "include": ["message.output_text.logprobs"], "top_logprobs": 2 });
    let whole = ask(&server, asked.clone()).json();
    let part = &whole["output"][0]["content"][0];
    let chat = server.chat(json!({ "logprobs": true, "top_logprobs": 2 })).json();
    assert_eq!(part["logprobs"], chat["choices"][0]["logprobs"]["content"]);
    assert_eq!(part["logprobs"].as_array().unwrap().len(), 12);
    assert_eq!(whole["top_logprobs"], 2);
    let events = ask(&server, with(asked, json!({ "stream": true }))).events();
    let events: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let streamed: Vec<Value> = of("response.output_text.delta")
        .flat_map(|event| event["logprobs"].as_array().unwrap().clone())
        .collect();
    let done = of("response.output_text.done").next().unwrap();
    assert_eq!((&json!(streamed), &done["logprobs"]), (&part["logprobs"], &part["logprobs"]));
    // Nobody gets them who has not asked.
    assert_eq!(ask(&server, json!({})).json()["output"][0]["content"][0]["logprobs"], json!([]));
}
