//! Answers that are held to a form. The model is random: without being held, none of these would come.

use serde_json::{Value, json};

use crate::support::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "yes": { "type": "boolean" }, "n": { "type": "integer" } },
        "required": ["yes", "n"],
        "additionalProperties": false,
    })
}

fn content(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn json_that_matches_a_schema_comes_of_every_form_that_asks_for_it() {
    let server = start();
    let schema = schema();
    for format in [
        json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "x", "schema": schema } } }),
        json!({ "response_format": { "type": "json_schema", "schema": schema } }),
        json!({ "json_schema": schema }),
    ] {
        let text = content(&server.chat(with(format, json!({ "max_tokens": 200 }))));
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert!(value["yes"].is_boolean() && value["n"].is_i64(), "{text}");
    }
}

#[test]
fn grammars_hold_chats_and_completions() {
    let server = start();
    let gbnf = "root ::= \"yes\" | \"no\"";
    let text = content(&server.chat(json!({ "grammar": gbnf })));
    assert!(["yes", "no"].contains(&text.as_str()), "{text}");
    let raw = server.complete(json!({ "grammar": gbnf })).json();
    assert!(["yes", "no"].contains(&raw["choices"][0]["text"].as_str().unwrap()), "{raw}");
    let regex = json!({ "type": "grammar", "syntax": "regex", "definition": "[0-9]{3}" });
    let text = content(&server.chat(json!({ "response_format": regex })));
    assert!(text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit()), "{text}");
}

#[test]
fn what_cannot_be_enforced_is_refused_with_its_place() {
    let server = start();
    let refused = server.chat(json!({ "json_schema": { "not": { "type": "string" } } }));
    let error = &refused.json()["error"];
    assert_eq!((refused.status, &error["param"]), (400, &json!("json_schema")));
    assert!(error["message"].as_str().unwrap().contains("not"), "{error}");
    let refused = server.chat(json!({ "grammar": "root ::= \"a" }));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("grammar")));
}
