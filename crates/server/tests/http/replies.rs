//! Answers whose parts are told apart: the template of the model says how.

use minfer_engine::{Engine, LoadOptions, Model};
use minfer_gguf::Value as Meta;
use minfer_server::Server;
use serde_json::{Value, json};

use crate::support::*;

/// A template that opens the reasoning for the model: with random weights it never ends.
const THINKS: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% if '</think>' in m.content %}{% endif %}\
                      {% endfor %}{% if add_generation_prompt %}assistant: \
                      {% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}{% endif %}";

fn thinking() -> Running {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/tiny.gguf");
    let overrides = vec![("tokenizer.chat_template".to_owned(), Meta::String(THINKS.to_owned()))];
    let model = Model::load(path.as_ref(), &LoadOptions { overrides, ..LoadOptions::default() }).unwrap();
    let engine = Engine::new(&model, &small()).unwrap();
    serve(engine, config())
}

#[test]
fn thoughts_are_not_content_in_any_dialect() {
    let server = thinking();
    let message = &server.chat(json!({})).json()["choices"][0]["message"];
    let thoughts = message["reasoning_content"].as_str().unwrap();
    assert!(!thoughts.is_empty() && message["content"] == "");
    let chunks = server.chat(json!({ "stream": true })).chunks();
    let streamed: String =
        chunks.iter().filter_map(|c| c["choices"][0]["delta"]["reasoning_content"].as_str()).collect();
    assert_eq!(streamed, thoughts);

    let ask = json!({
        "model": "tiny", "max_tokens": 2000, "temperature": 0, "messages": [{ "role": "user", "content": "Hello" }],
        "thinking": { "type": "enabled", "budget_tokens": 1024 },
    });
    let message = server.post("/v1/messages", &with(ask.clone(), json!({ "max_tokens": 1025 }))).json();
    assert_eq!(message["content"][0]["type"], "thinking");
    assert!(message["content"][0]["thinking"].as_str().unwrap().starts_with(thoughts.trim_end()));
    let quiet = server.post("/v1/messages", &with(ask, json!({ "thinking": null, "max_tokens": 8 }))).json();
    assert_eq!(quiet["content"][0]["type"], "text");

    let ask = json!({
        "model": "tiny", "stream": false, "options": { "temperature": 0, "num_predict": 12 },
        "messages": [{ "role": "user", "content": "Hello" }],
    });
    let answer = server.post("/api/chat", &ask).json();
    assert_eq!(answer["message"], json!({ "role": "assistant", "content": "", "thinking": thoughts }));
    let quiet = server.post("/api/chat", &with(ask, json!({ "think": false }))).json();
    assert_eq!((&quiet["message"]["thinking"], quiet["message"]["content"] == ""), (&Value::Null, false));
    assert!(
        server.post("/api/show", &json!({ "model": "tiny" })).json()["capabilities"]
            .as_array()
            .unwrap()
            .contains(&json!("thinking"))
    );
}
