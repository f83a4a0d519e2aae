//! Ollama's endpoints.

use serde_json::{Value, json};

use crate::support::*;

fn body() -> Value {
    json!({
        "model": "tiny", "stream": false, "options": { "temperature": 0, "num_predict": 12 },
        "messages": [{ "role": "user", "content": "Hello" }],
    })
}

fn ask(server: &Running, more: Value) -> Reply {
    server.post("/api/chat", &with(body(), more))
}

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
    reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_whole_answer_has_ollamas_fields() {
    let server = start();
    let answer = ask(&server, json!({})).json();
    let chat = server.chat(json!({})).json();
    assert_eq!(
        answer["message"],
        json!({ "role": "assistant", "content": chat["choices"][0]["message"]["content"] })
    );
    for (name, value) in [
        ("model", json!("tiny")),
        ("done", json!(true)),
        ("done_reason", json!("length")),
        ("eval_count", json!(12)),
        ("prompt_eval_count", chat["usage"]["prompt_tokens"].clone()),
    ] {
        assert_eq!(answer[name], value, "{name}");
    }
    let time = |name: &str| answer[name].as_u64().unwrap();
    assert!(time("prompt_eval_duration") > 0 && time("eval_duration") > 0);
    assert!(time("total_duration") >= time("prompt_eval_duration") + time("eval_duration"));
    assert!(answer["created_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn a_stream_is_lines_and_is_what_comes_unless_told_otherwise() {
    let server = start();
    let whole = ask(&server, json!({})).json();
    let lines = lines(&ask(&server, json!({ "stream": null })));
    let (last, before) = lines.split_last().unwrap();
    assert!(before.len() > 2 && before.iter().all(|line| line["done"] == false));
    let text: String = lines.iter().filter_map(|line| line["message"]["content"].as_str()).collect();
    assert_eq!(whole["message"]["content"], text);
    assert_eq!(
        (&last["done"], &last["done_reason"], &last["eval_count"]),
        (&json!(true), &json!("length"), &json!(12))
    );
}

#[test]
fn a_prompt_goes_through_the_template_unless_it_is_raw() {
    let server = start();
    let generate = |more| {
        let body = json!({ "model": "tiny", "prompt": "Hello", "stream": false, "options": { "temperature": 0, "num_predict": 12 } });
        server.post("/api/generate", &with(body, more))
    };
    let answer = generate(json!({})).json();
    assert_eq!(answer["response"], ask(&server, json!({})).json()["message"]["content"]);
    let n = |name: &str| answer[name].as_u64().unwrap();
    assert_eq!(answer["context"].as_array().unwrap().len() as u64, n("prompt_eval_count") + n("eval_count"));
    let streamed = lines(&generate(json!({ "stream": true })));
    let text: String = streamed.iter().filter_map(|line| line["response"].as_str()).collect();
    assert_eq!(answer["response"], text);
    let raw = generate(json!({ "raw": true })).json();
    assert_eq!(
        raw["response"],
        server.complete(json!({ "prompt": "Hello", "max_tokens": 12 })).json()["choices"][0]["text"]
    );
    // Asked nothing, it says that the model is there.
    assert_eq!(generate(json!({ "prompt": "" })).json()["done_reason"], "load");
    assert_eq!(ask(&server, json!({ "messages": [] })).json()["done_reason"], "load");
}

#[test]
fn the_model_is_described() {
    let server = start();
    let tags = server.get("/api/tags").json();
    assert_eq!(
        (&tags["models"][0]["name"], &tags["models"][0]["details"]["format"]),
        (&json!("tiny"), &json!("gguf"))
    );
    let shown = server.post("/api/show", &json!({ "model": "tiny" })).json();
    assert_eq!(shown["model_info"]["general.architecture"], "qwen2");
    assert_eq!(shown["model_info"]["tokenizer.ggml.tokens"], Value::Null);
    assert!(shown["template"].as_str().unwrap().contains("messages"));
    assert!(shown["capabilities"].as_array().unwrap().contains(&json!("completion")));
    let verbose = server.post("/api/show", &json!({ "model": "tiny:latest", "verbose": true })).json();
    assert!(verbose["model_info"]["tokenizer.ggml.tokens"].is_array());
    assert_eq!(server.get("/api/ps").json()["models"][0]["context_length"], 512);
    assert!(server.get("/api/version").json()["version"].is_string());
}

#[test]
fn errors_are_told_as_ollama_does() {
    let server = start();
    for (more, status) in [
        (json!({ "model": "nobody" }), 404),
        (json!({ "messages": [{ "role": "robot", "content": "x" }] }), 400),
        (json!({ "options": { "temperature": "hot" } }), 400),
        (json!({ "format": "xml" }), 400),
    ] {
        let reply = ask(&server, more.clone());
        assert_eq!(reply.status, status, "{more}");
        assert!(!reply.json()["error"].as_str().unwrap().is_empty());
    }
}
