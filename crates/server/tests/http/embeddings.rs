//! `/v1/embeddings`, and Ollama's `/api/embed`.

use base64::Engine;
use serde_json::{Value, json};

use crate::support::*;

fn ask(server: &Running, more: Value) -> Reply {
    server.post("/v1/embeddings", &with(json!({ "model": "tiny", "input": "abc" }), more))
}

fn vector(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

#[test]
fn vectors_have_length_1_as_numbers_or_bytes_whole_or_short() {
    let server = start();
    let body = ask(&server, json!({})).json();
    assert_eq!((&body["object"], &body["data"][0]["index"]), (&json!("list"), &json!(0)));
    assert!(body["usage"]["prompt_tokens"].as_u64().unwrap() >= 3);
    let whole = vector(&body["data"][0]["embedding"]);
    assert!((length(&whole) - 1.0).abs() < 1e-5 && whole.iter().any(|x| *x != 0.0));
    let bytes = ask(&server, json!({ "encoding_format": "base64" })).json();
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(bytes["data"][0]["embedding"].as_str().unwrap());
    let floats: Vec<f32> =
        bytes.unwrap().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(floats, whole);
    let short = vector(&ask(&server, json!({ "dimensions": 8 })).json()["data"][0]["embedding"]);
    assert!(short.len() == 8 && (length(&short) - 1.0).abs() < 1e-5);
    assert!((short[0] / short[1] - whole[0] / whole[1]).abs() < 1e-3);
}

#[test]
fn several_texts_have_their_vectors_in_order() {
    let server = start();
    let one = |input: Value| vector(&ask(&server, json!({ "input": input })).json()["data"][0]["embedding"]);
    let texts: Vec<String> = (0..40).map(|i| format!("text {i}")).collect();
    let many = ask(&server, json!({ "input": texts })).json();
    for (i, text) in texts.iter().enumerate() {
        assert_eq!(vector(&many["data"][i]["embedding"]), one(json!(text)), "{text}");
    }
    let ids = model().encode("abc").unwrap();
    assert_eq!(one(json!(ids)), one(json!("abc")));
    let ollama = server.post("/api/embed", &json!({ "model": "tiny", "input": ["abc"] })).json();
    assert_eq!(vector(&ollama["embeddings"][0]), one(json!("abc")));
    server.wait_until_idle();
    assert_eq!(server.engine.stats().blocks.in_use, 0);
}

#[test]
fn what_makes_no_sense_is_named() {
    let server = start();
    for (more, param) in [
        (json!({ "input": "" }), "input"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": null }), "input"),
        (json!({ "encoding_format": "hex" }), "encoding_format"),
        (json!({ "dimensions": 0 }), "dimensions"),
        (json!({ "dimensions": 100_000 }), "dimensions"),
    ] {
        let reply = ask(&server, more.clone());
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{more}");
    }
    let long = ask(&server, json!({ "input": "x".repeat(2000) }));
    assert_eq!((long.status, &long.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
}
