//! Answers whose parts are told apart: the template of the model says how.

use minfer_engine::{Engine, LoadOptions, Model};
use minfer_gguf::Value as Meta;
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

#[test]
fn tokens_of_thoughts_are_counted_and_have_no_place_in_a_message() {
    let server = thinking();
    let n_chat = |reply: &Value| reply["usage"]["completion_tokens_details"]["reasoning_tokens"].clone();
    assert_eq!(n_chat(&server.chat(json!({})).json()), 12);
    let quiet = json!({ "chat_template_kwargs": { "enable_thinking": false } });
    assert_eq!(n_chat(&server.chat(quiet).json()), 0);
    // Four tokens are no thoughts: two line breaks and two letters.
    let said = json!({ "grammar": "root ::= \"ab</think>\\n\\ncd\"", "max_tokens": 50 });
    let whole = server.chat(said.clone()).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("ab"), &json!("cd")));
    let n_thoughts = whole["usage"]["completion_tokens"].as_u64().unwrap() - 4;
    assert_eq!(n_chat(&whole), n_thoughts);
    let usage = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let chunks = server.chat(with(said, usage)).chunks();
    assert_eq!(n_chat(&chunks[chunks.len() - 1]), n_thoughts);
    let asked = json!({
        "input": "Hello", "temperature": 0, "include": ["message.output_text.logprobs"],
        "grammar": "root ::= \"ab</think>\\n\\ncd\"",
    });
    let response = server.post("/v1/responses", &asked).json();
    assert_eq!(response["usage"]["output_tokens_details"]["reasoning_tokens"], n_thoughts, "{response}");
    let tokens = response["output"][1]["content"][0]["logprobs"].as_array().unwrap();
    let texts: Vec<_> = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!(texts, ["c", "d"]);
}
