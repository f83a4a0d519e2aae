//! llama.cpp's own endpoints.

use serde_json::{Value, json};

use crate::support::*;

fn complete(server: &Running, more: Value) -> Reply {
    server.post("/completion", &with(json!({ "prompt": "abc", "n_predict": 8, "temperature": 0 }), more))
}

fn chunks(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
    reply.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

#[test]
fn a_completion_has_llama_cpps_fields() {
    let server = start();
    let answer = complete(&server, json!({ "return_tokens": true, "n_probs": 2 })).json();
    let other = server.complete(json!({})).json();
    assert_eq!(answer["content"], other["choices"][0]["text"]);
    for (name, value) in [
        ("index", json!(0)),
        ("stop", json!(true)),
        ("stop_type", json!("limit")),
        ("stopping_word", json!("")),
        ("tokens_predicted", json!(8)),
        ("tokens_evaluated", other["usage"]["prompt_tokens"].clone()),
        ("truncated", json!(false)),
        ("model", json!("tiny")),
        ("prompt", json!("abc")),
    ] {
        assert_eq!(answer[name], value, "{name}");
    }
    let settings = &answer["generation_settings"];
    assert_eq!((&settings["n_predict"], &settings["temperature"]), (&json!(8), &json!(0.0)));
    assert_eq!(answer["timings"]["predicted_n"], 8);
    let tokens = answer["tokens"].as_array().unwrap();
    let probabilities = answer["completion_probabilities"].as_array().unwrap();
    assert_eq!((tokens.len(), probabilities.len()), (8, 8));
    for (token, probability) in tokens.iter().zip(probabilities) {
        assert_eq!((&probability["id"], &probability["top_logprobs"][0]["id"]), (token, token));
        assert_eq!(probability["top_logprobs"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_stream_ends_with_the_figures() {
    let server = start();
    let whole = complete(&server, json!({})).json();
    let chunks = chunks(&complete(&server, json!({ "stream": true })));
    let (last, before) = chunks.split_last().unwrap();
    assert!(before.iter().all(|chunk| chunk["stop"] == false));
    let text: String = chunks.iter().filter_map(|chunk| chunk["content"].as_str()).collect();
    assert_eq!(whole["content"], text);
    assert_eq!(
        (&last["stop"], &last["stop_type"], &last["tokens_predicted"]),
        (&json!(true), &json!("limit"), &json!(8))
    );
}

#[test]
fn several_prompts_have_several_answers() {
    let server = start();
    let one = complete(&server, json!({ "prompt": "xyz" })).json();
    let both = complete(&server, json!({ "prompt": ["abc", "xyz"] })).json();
    assert_eq!((&both[1]["content"], &both[1]["index"]), (&one["content"], &json!(1)));
    let tokens =
        server.post("/tokenize", &json!({ "content": "xyz", "add_special": true })).json()["tokens"].clone();
    assert_eq!(complete(&server, json!({ "prompt": tokens })).json()["content"], one["content"]);
}

#[test]
fn a_stop_string_is_named() {
    let server = start();
    let text = complete(&server, json!({})).json()["content"].as_str().unwrap().to_owned();
    let word: String = text.chars().skip(3).take(2).collect();
    let stopped = complete(&server, json!({ "stop": [word] })).json();
    assert_eq!((&stopped["stop_type"], &stopped["stopping_word"]), (&json!("word"), &json!(word)));
    assert_eq!(stopped["content"], text[..text.find(&word).unwrap()]);
}

#[test]
fn texts_become_tokens_and_texts_again() {
    let server = start();
    let text = "Hellö <|im_end|>";
    let tokens = server.post("/tokenize", &json!({ "content": text })).json()["tokens"].clone();
    let back = server.post("/detokenize", &json!({ "tokens": tokens })).json();
    assert_eq!(back["content"], text);
    let pieces = server.post("/tokenize", &json!({ "content": "ö", "with_pieces": true })).json();
    let bytes: Vec<u64> =
        pieces["tokens"].as_array().unwrap().iter().map(|t| t["piece"][0].as_u64().unwrap()).collect();
    assert_eq!(bytes, [0xc3, 0xb6]);
    let plain = server.post("/tokenize", &json!({ "content": "<|im_end|>", "parse_special": false })).json();
    assert!(plain["tokens"].as_array().unwrap().len() > 1);
    for (path, body) in [
        ("/tokenize", json!({})),
        ("/detokenize", json!({ "tokens": [999_999] })),
        ("/detokenize", json!({ "tokens": "x" })),
    ] {
        let reply = server.post(path, &body);
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(400)), "{path} {body}");
    }
}

#[test]
fn the_template_is_applied() {
    let server = start();
    let prompt =
        server.post("/apply-template", &json!({ "messages": [{ "role": "user", "content": "Hi" }] })).json();
    assert!(prompt["prompt"].as_str().unwrap().contains("Hi"));
}

#[test]
fn text_is_inserted_only_where_the_model_can() {
    let server = start();
    let reply = server.post("/infill", &json!({ "input_prefix": "a", "input_suffix": "b" }));
    let has_tokens = server.post("/tokenize", &json!({ "content": "<|fim_prefix|>" })).json()["tokens"]
        .as_array()
        .unwrap()
        .len()
        == 1;
    assert_eq!(reply.status, if has_tokens { 200 } else { 501 });
    assert!(has_tokens || reply.json()["error"]["message"].as_str().unwrap().contains("insert"));
}

#[test]
fn properties_and_slots_are_told() {
    let server = start();
    let props = server.get("/props").json();
    assert_eq!(
        (&props["total_slots"], &props["default_generation_settings"]["n_ctx"]),
        (&json!(4), &json!(512))
    );
    assert!(props["chat_template"].as_str().unwrap().contains("messages"));
    let slots = server.get("/slots").json();
    assert_eq!(slots.as_array().unwrap().len(), 4);
    assert!(slots.as_array().unwrap().iter().all(|slot| slot["is_processing"] == false));
    assert_eq!(server.get("/health").json()["status"], "ok");
}
