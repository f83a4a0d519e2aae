//! Calls that must be made, and arguments that must be right. The model has random weights, so it says whatever it may.

use std::sync::Arc;

use minfer_engine::{Engine, LoadOptions, Model};
use minfer_gguf::Value as Meta;
use minfer_server::chat::{Templates, chat_jobs};
use serde_json::{Value, json};

use crate::support::*;

/// Calls in the way of Hermes and Qwen.
const CALLS: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n\
                     {\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n\
                     </tool_call>{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";

/// Calls in the way of Qwen3-Coder.
const TAGGED: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n\
                      <function={{ c.function.name }}>\n{% for key, value in c.function.arguments.items() %}\
                      <parameter={{ key }}>\n{{ value if value is string else value | tojson }}\n</parameter>\n\
                      {% endfor %}</function>\n</tool_call>{% endfor %}\n{% endfor %}\
                      {% if add_generation_prompt %}assistant: {% endif %}";

/// Hermes' calls, and thoughts that the prompt opens.
const THINKS: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n\
                      {\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n\
                      </tool_call>{% endfor %}\n{% if '</think>' in m.content %}{% endif %}{% endfor %}\
                      {% if add_generation_prompt %}assistant: <think>\n{% endif %}";

fn load(template: &str) -> Arc<Model> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/tiny.gguf");
    let overrides = vec![("tokenizer.chat_template".to_owned(), Meta::String(template.to_owned()))];
    Model::load(path.as_ref(), &LoadOptions { overrides, ..LoadOptions::default() }).unwrap()
}

fn start_template(template: &str) -> Running {
    let engine = Engine::new(&load(template), &small()).unwrap();
    serve(engine, config())
}

fn tool(name: &str, strict: bool) -> Value {
    let parameters = json!({
        "type": "object",
        "properties": { "n": { "type": "integer", "minimum": 1, "maximum": 9 }, "unit": { "enum": ["C", "F"] } },
        "required": ["n", "unit"],
        "additionalProperties": false,
    });
    json!({ "type": "function", "function": { "name": name, "strict": strict, "parameters": parameters } })
}

fn ask(seed: u64, more: Value) -> Value {
    let tools = [tool("heat", false), tool("cool", false)];
    with(json!({ "temperature": 2.0, "seed": seed, "max_tokens": 200, "tools": tools }), more)
}

/// The names of the calls of an answer, whose arguments are right.
fn called(choice: &Value) -> Vec<String> {
    let calls = choice["message"]["tool_calls"].as_array().unwrap_or_else(|| panic!("{choice}"));
    let name = |call: &Value| {
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        assert!((1..=9).contains(&arguments["n"].as_i64().unwrap()), "{call}");
        assert!(arguments["unit"] == "C" || arguments["unit"] == "F", "{call}");
        call["function"]["name"].as_str().unwrap().to_owned()
    };
    calls.iter().map(name).collect()
}

#[test]
fn a_call_that_is_demanded_is_made_and_right() {
    let server = start_template(CALLS);
    for seed in 1..5 {
        let body = server.chat(ask(seed, json!({ "tool_choice": "required" }))).json();
        let choice = &body["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{body}");
        assert!(called(choice).iter().all(|name| name == "heat" || name == "cool"));
        let named = json!({ "type": "function", "function": { "name": "cool" } });
        let body = server.chat(ask(seed, json!({ "tool_choice": named }))).json();
        assert_eq!(called(&body["choices"][0]), ["cool"]);
        let one = json!({ "tool_choice": "required", "parallel_tool_calls": false });
        assert_eq!(called(&server.chat(ask(seed, one)).json()["choices"][0]).len(), 1);
    }
}

#[test]
fn a_call_that_streams_comes_in_parts() {
    let server = start_template(CALLS);
    let more = json!({ "tool_choice": "required", "parallel_tool_calls": false, "stream": true });
    let chunks = server.chat(ask(2, more)).chunks();
    let calls: Vec<&Value> =
        chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"].get(0)).collect();
    assert!(calls[0]["id"].is_string() && calls[1..].iter().all(|call| call.get("id").is_none()));
    let arguments: String = calls.iter().filter_map(|c| c["function"]["arguments"].as_str()).collect();
    assert!(serde_json::from_str::<Value>(&arguments).unwrap()["n"].is_number(), "{arguments}");
}

#[test]
fn strict_tools_leave_the_model_free_to_say_something_else() {
    let server = start_template(CALLS);
    let body = server.chat(ask(1, json!({ "tools": [tool("heat", true)], "max_tokens": 30 }))).json();
    assert!(body["choices"][0]["message"]["content"].is_string(), "{body}");
}

#[test]
fn a_format_beside_tools_gives_one_or_the_other() {
    let server = start_template(CALLS);
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": { "const": { "done": true } } } });
    for seed in 1..6 {
        let tools = json!({ "tools": [tool("heat", true)], "response_format": format });
        let body = server.chat(ask(seed, tools)).json();
        let choice = &body["choices"][0];
        match choice["finish_reason"].as_str().unwrap() {
            "tool_calls" => assert!(called(choice).iter().all(|name| name == "heat")),
            _ => {
                let text = choice["message"]["content"].as_str().unwrap();
                assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({ "done": true }));
            }
        }
    }
}

#[test]
fn thoughts_come_first_and_are_free() {
    let server = start_template(THINKS);
    // Random weights rarely end a thought; where they do, what follows is what was asked for.
    let close = json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "x", "schema": { "const": [1] } } } });
    let body = server.chat(ask(1, with(close, json!({ "tools": null })))).json();
    let message = &body["choices"][0]["message"];
    assert!(!message["reasoning_content"].as_str().unwrap().is_empty(), "{body}");
    assert!(message["content"] == "" || message["content"] == "[1]", "{body}");
}

#[test]
fn a_call_with_a_tag_for_each_parameter_is_demanded_all_the_same() {
    let server = start_template(TAGGED);
    for seed in 1..5 {
        for choice in [json!("required"), json!({ "type": "function", "function": { "name": "cool" } })] {
            let body = server.chat(ask(seed, json!({ "tool_choice": choice }))).json();
            assert_eq!(body["choices"][0]["finish_reason"], "tool_calls", "{body}");
            let names = called(&body["choices"][0]);
            assert!(!names.is_empty() && (choice == "required" || names == ["cool"]), "{body}");
        }
    }
}

/// Whether a whole reply is what a request demands.
fn is_allowed(model: &Model, body: &Value, reply: &str) -> bool {
    let call = minfer_server::openai::ChatCall::read(body.clone()).unwrap();
    let jobs = chat_jobs(model, &Templates::of(model), &call.request).unwrap();
    let mut constraint = jobs.into_iter().next().unwrap().request.constraint.unwrap();
    let goes_on = model.encode(reply).unwrap().into_iter().all(|token| {
        constraint.mask(usize::MAX).unwrap().unwrap().allows(token) && constraint.accept(token).unwrap()
    });
    let eog = model.tokenizer().eog_ids()[0];
    goes_on && (constraint.is_complete() || constraint.mask(usize::MAX).unwrap().unwrap().allows(eog))
}

#[test]
fn texts_without_quotes_are_free_up_to_their_tag_and_all_else_is_json() {
    let model = load(TAGGED);
    let of_text = |of_text: Value| {
        let parameters = json!({
            "type": "object",
            "properties": {
                "text": of_text,
                "list": { "type": "array", "items": { "const": "x" } },
                "unit": { "$ref": "#/$defs/unit" },
            },
            "required": ["text", "list"],
            "$defs": { "unit": { "enum": ["C", "F"] } },
        });
        let tool = json!({ "type": "function", "function": { "name": "note", "parameters": parameters } });
        with(chat_body(), json!({ "tools": [tool], "tool_choice": "required", "parallel_tool_calls": false }))
    };
    let parameter = |name: &str, value: &str| format!("<parameter={name}>\n{value}\n</parameter>\n");
    let call =
        |parameters: String| format!("<tool_call>\n<function=note>\n{parameters}</function>\n</tool_call>");
    let body = of_text(json!({ "type": "string" }));
    for text in ["", "plain", "two\n\nlines", "\"quotes\" {braces} <parameter=unit> </param>"] {
        let both = parameter("text", text) + &parameter("list", "[\"x\", \"x\"]");
        assert!(is_allowed(&model, &body, &call(both.clone())), "{text}");
        assert!(is_allowed(&model, &body, &call(both + &parameter("unit", "F"))), "{text}");
    }
    let text = || parameter("text", "t");
    for wrong in [
        text(),
        parameter("list", "[]") + &text(),
        text() + &parameter("list", "[\"y\"]"),
        text() + &parameter("list", "x"),
        text() + &parameter("list", "[]") + &parameter("unit", "K"),
        text() + &parameter("list", "[]") + &parameter("more", "1"),
    ] {
        assert!(!is_allowed(&model, &body, &call(wrong.clone())), "{wrong}");
    }
    let listed = of_text(json!({ "type": "string", "enum": ["a b", "c"] }));
    let with_text = |text: &str| call(parameter("text", text) + &parameter("list", "[]"));
    assert!(is_allowed(&model, &listed, &with_text("a b")) && !is_allowed(&model, &listed, &with_text("d")));
    // What else a schema may say of a text cannot be held to without quotes.
    let refused = start_template(TAGGED).chat(of_text(json!({ "type": "string", "pattern": "^a" })));
    let error = refused.json()["error"].clone();
    assert_eq!((refused.status, &error["param"]), (400, &json!("tools")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("'pattern' in the parameter 'text' of 'note'"));
}

#[test]
fn what_cannot_be_enforced_is_refused() {
    let server = start_template(CALLS);
    let mut bad = tool("heat", false);
    bad["function"]["parameters"]["not"] = json!({});
    let reply = server.chat(ask(1, json!({ "tools": [bad], "tool_choice": "required" })));
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status, &error["param"]), (400, &json!("tools")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("'not' at #"));
    // Without a demand, nothing is enforced.
    assert_eq!(server.chat(ask(1, json!({ "tools": [bad], "max_tokens": 4 }))).status, 200);
    // The template of this model knows no calls.
    let reply = start().chat(ask(1, json!({ "tool_choice": "required" })));
    assert_eq!((reply.status, reply.json()["error"]["param"].as_str()), (400, Some("tool_choice")));
}
