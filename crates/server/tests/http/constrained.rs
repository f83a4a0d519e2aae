//! Answers that must look like something. The model has random weights, so it says whatever it may.

use minfer_engine::{Engine, LoadOptions, Model};
use serde_json::{Value, json};

use crate::support::*;

/// Hot, with room for the shortest answer and some more.
fn hot(seed: u64) -> Value {
    json!({ "temperature": 2.0, "seed": seed, "max_tokens": 200 })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 8 },
            "age": { "type": "integer", "minimum": 0, "maximum": 120 },
            "tags": { "type": "array", "items": { "enum": ["a", "b"] }, "maxItems": 2 },
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": false,
    })
}

fn is_person(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["name", "age", "tags"], "{text}");
    assert!(value["name"].as_str().unwrap().chars().count() <= 8, "{text}");
    assert!((0..=120).contains(&value["age"].as_i64().unwrap()), "{text}");
    let tags = value["tags"].as_array().unwrap();
    assert!(tags.len() <= 2 && tags.iter().all(|tag| tag == "a" || tag == "b"), "{text}");
}

/// The text of a chat's answer, which must have ended by itself.
fn said(reply: &Reply) -> String {
    let body = reply.json();
    assert_eq!(body["choices"][0]["finish_reason"], "stop", "{body}");
    body["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_schema_holds_wherever_it_stands() {
    let server = start();
    let inner = json!({ "name": "person", "strict": true, "schema": schema() });
    for (seed, format) in (1..).zip([
        json!({ "response_format": { "type": "json_schema", "json_schema": inner } }),
        json!({ "response_format": { "type": "json_schema", "schema": schema() } }),
        json!({ "response_format": { "type": "json_object", "schema": schema() } }),
        json!({ "json_schema": schema() }),
    ]) {
        is_person(&said(&server.chat(with(hot(seed), format.clone()))));
        let whole = server.complete(with(hot(seed), format.clone())).json();
        is_person(whole["choices"][0]["text"].as_str().unwrap());
        let chunks = server.chat(with(with(hot(seed), format), json!({ "stream": true }))).chunks();
        let text: String =
            chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
        is_person(&text);
    }
}

#[test]
fn an_object_is_an_object_and_text_is_text() {
    let server = start();
    let object = server.chat(with(hot(3), json!({ "response_format": { "type": "json_object" } })));
    assert!(serde_json::from_str::<Value>(&said(&object)).unwrap().is_object());
    let cases = json!({ "oneOf": [{ "const": 7, "title": "seven" }, { "const": "x" }] });
    let one = said(&server.chat(with(hot(4), json!({ "json_schema": cases }))));
    assert!(["7", "\"x\""].contains(&one.as_str()), "{one}");
    let plain = server.chat(json!({})).json();
    let text = server.chat(json!({ "response_format": { "type": "text" } })).json();
    assert_eq!(plain["choices"][0]["message"], text["choices"][0]["message"]);
}

#[test]
fn grammars_hold() {
    let server = start();
    let gbnf = json!({ "grammar": "root ::= \"yes\" | \"no\"" });
    assert!(["yes", "no"].contains(&said(&server.chat(with(hot(1), gbnf))).as_str()));
    let grammar = |syntax: &str, definition: &str| {
        let format = json!({ "type": "grammar", "syntax": syntax, "definition": definition });
        said(&server.chat(with(hot(2), json!({ "response_format": format }))))
    };
    assert!(grammar("regex", "[0-9]{3}").parse::<u32>().is_ok());
    assert!(["x", "y"].contains(&grammar("lark", "start: \"x\" | \"y\"").as_str()));
}

#[test]
fn each_of_several_answers_is_held_to_it_and_the_limit_closes_them() {
    let server = start();
    let more = json!({ "n": 3, "max_tokens": 40, "json_schema": { "type": "array", "items": { "type": "integer" } } });
    let body = server.chat(with(hot(5), more)).json();
    for choice in body["choices"].as_array().unwrap() {
        assert_eq!(choice["finish_reason"], "stop", "{choice}");
        let text = choice["message"]["content"].as_str().unwrap();
        assert!(serde_json::from_str::<Vec<f64>>(text).is_ok(), "{text}");
    }
    // Two tokens are no object with three keys.
    let cut = server.chat(with(hot(5), json!({ "max_tokens": 2, "json_schema": schema() }))).json();
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
}

#[test]
fn what_cannot_be_enforced_is_refused_with_field_and_keyword() {
    let server = start();
    let inner = json!({ "name": "x", "schema": { "properties": { "a": { "not": {} } } } });
    for (more, param, part) in [
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": inner } }),
            "response_format.json_schema.schema",
            "'not' at #/properties/a",
        ),
        (json!({ "json_schema": { "uniqueItems": true } }), "json_schema", "'uniqueItems' at #"),
        (
            json!({ "json_schema": { "items": { "type": "integer", "minimum": -1e300, "maximum": 1e300 } } }),
            "json_schema",
            "'minimum' at #/items: a bound is beyond",
        ),
        (
            json!({ "json_schema": { "type": "number", "minimum": 1e308 } }),
            "json_schema",
            "'minimum' at #: a bound is beyond",
        ),
        (
            json!({ "json_schema": { "oneOf": [{ "type": "string" }, { "minLength": 1 }] } }),
            "json_schema",
            "'oneOf' at #: its cases can be true at once",
        ),
        (json!({ "grammar": "root ::= x" }), "grammar", "line 1, column 10: there is no rule 'x'"),
    ] {
        for reply in [server.chat(more.clone()), server.complete(more.clone())] {
            let error = reply.json()["error"].clone();
            assert_eq!((reply.status, &error["param"]), (400, &json!(param)), "{error}");
            assert_eq!(error["code"], "invalid_grammar");
            assert!(error["message"].as_str().unwrap().contains(part), "{error}");
        }
    }
}

#[test]
fn a_real_model_fills_in_a_schema() {
    let Some(path) = real_model("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf") else { return };
    let model = Model::load(&path, &LoadOptions::default()).unwrap();
    let server = serve(Engine::new(&model, &small()).unwrap(), config());
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "age": { "type": "integer" },
            "likes": { "type": "array", "items": { "enum": ["chess", "tea", "rain"] }, "maxItems": 3 },
        },
        "required": ["name", "age", "likes"],
        "additionalProperties": false,
    });
    let asked = "Ada is 36 years old. She likes tea and chess. Write her down as JSON.";
    let more = json!({
        "messages": [{ "role": "user", "content": asked }], "max_tokens": 60,
        "response_format": { "type": "json_schema", "json_schema": { "name": "person", "strict": true, "schema": schema } },
    });
    let text = said(&server.chat(more.clone()));
    let person: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&person["name"], &person["age"]), (&json!("Ada"), &json!(36)), "{text}");
    let likes = person["likes"].as_array().unwrap();
    assert!(likes.contains(&json!("tea")) && likes.contains(&json!("chess")), "{text}");
    // The same, as it is made.
    let chunks = server.chat(with(more, json!({ "stream": true }))).chunks();
    let streamed: String =
        chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(streamed, text);
}
