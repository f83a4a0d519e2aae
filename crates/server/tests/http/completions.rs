//! `/v1/completions`.

use serde_json::{Value, json};

use crate::support::*;

fn text(body: &Value, i: usize) -> String {
    body["choices"][i]["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_completion_has_openais_fields() {
    let server = start();
    let body = server.complete(json!({ "logprobs": 2 })).json();
    assert_eq!((&body["object"], &body["model"]), (&json!("text_completion"), &json!("tiny")));
    assert!(body["id"].as_str().unwrap().starts_with("cmpl-"));
    let logprobs = &body["choices"][0]["logprobs"];
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[name].as_array().unwrap().len(), 8, "{name}");
    }
    assert_eq!(body["usage"]["completion_tokens"], 8);
    assert_eq!(server.complete(json!({ "max_tokens": null })).json()["usage"]["completion_tokens"], 16);
}

#[test]
fn a_stream_gives_the_same_text() {
    let server = start();
    for more in [json!({}), json!({ "echo": true }), json!({ "n": 2, "temperature": 1, "seed": 3 })] {
        let whole = server.complete(more.clone()).json();
        let chunks = server.complete(with(more, json!({ "stream": true }))).chunks();
        for (i, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
            let own = chunks.iter().map(|c| &c["choices"][0]).filter(|c| c["index"] == i);
            let (texts, reasons): (Vec<_>, Vec<_>) =
                own.map(|c| (c["text"].as_str().unwrap(), &c["finish_reason"])).unzip();
            assert_eq!(choice["text"], texts.concat());
            assert_eq!(reasons.iter().filter(|r| !r.is_null()).count(), 1);
        }
    }
}

#[test]
fn an_echo_begins_with_the_prompt_and_its_log_probabilities() {
    let server = start();
    let plain = server.complete(json!({ "logprobs": 0 })).json();
    let echo = server.complete(json!({ "logprobs": 0, "echo": true })).json();
    assert_eq!(text(&echo, 0), format!("abc{}", text(&plain, 0)));
    let (of_plain, of_echo) = (&plain["choices"][0]["logprobs"], &echo["choices"][0]["logprobs"]);
    let n = of_echo["tokens"].as_array().unwrap().len() - 8;
    assert_eq!(n as u64, echo["usage"]["prompt_tokens"].as_u64().unwrap());
    assert_eq!(of_echo["token_logprobs"][0], Value::Null);
    assert!(of_echo["token_logprobs"][1].as_f64().unwrap() < 0.0);
    assert_eq!(
        of_echo["token_logprobs"].as_array().unwrap()[n..],
        of_plain["token_logprobs"].as_array().unwrap()[..]
    );
    let offset = |of: &Value, i: usize| of["text_offset"][i].as_u64().unwrap();
    assert_eq!(offset(of_echo, n), 3);
    assert_eq!(offset(of_echo, n + 1), offset(of_plain, 1) + 3);
    // Nothing but the prompt.
    let only = server.complete(json!({ "echo": true, "max_tokens": 0, "logprobs": 1 })).json();
    assert_eq!((text(&only, 0), &only["choices"][0]["finish_reason"]), ("abc".into(), &json!("length")));
}

#[test]
fn several_prompts_have_answers_in_their_order() {
    let server = start();
    let (a, b) = (server.complete(json!({})).json(), server.complete(json!({ "prompt": "xyz" })).json());
    let both = server.complete(json!({ "prompt": ["abc", "xyz"] })).json();
    assert_eq!((text(&both, 0), text(&both, 1)), (text(&a, 0), text(&b, 0)));
    let sum = |name: &str| a["usage"][name].as_u64().unwrap() + b["usage"][name].as_u64().unwrap();
    assert_eq!(both["usage"]["prompt_tokens"], sum("prompt_tokens"));
    assert_eq!(both["usage"]["completion_tokens"], 16);
    let ids = model().encode("abc").unwrap();
    assert_eq!(text(&server.complete(json!({ "prompt": ids })).json(), 0), text(&a, 0));
    assert_eq!(text(&server.complete(json!({ "prompt": [ids] })).json(), 0), text(&a, 0));
}

#[test]
fn the_best_of_several_are_the_most_probable() {
    let server = start();
    let ask = |more: Value| {
        server.complete(with(json!({ "temperature": 1.5, "seed": 1, "logprobs": 0 }), more)).json()
    };
    let mean = |body: &Value, i: usize| {
        let list = body["choices"][i]["logprobs"]["token_logprobs"].as_array().unwrap();
        list.iter().map(|x| x.as_f64().unwrap()).sum::<f64>() / list.len() as f64
    };
    let all = ask(json!({ "n": 4 }));
    let best = (0..4).map(|i| mean(&all, i)).fold(f64::NEG_INFINITY, f64::max);
    let one = ask(json!({ "best_of": 4 }));
    assert_eq!(one["choices"].as_array().unwrap().len(), 1);
    assert!((mean(&one, 0) - best).abs() < 1e-9);
    assert_eq!(one["usage"]["completion_tokens"], 32);
}

#[test]
fn more_answers_than_can_ever_wait_are_refused_for_good() {
    let server = start_with(&minfer_engine::EngineParams { max_queue: 8, ..small() }, config());
    let ask = |n: usize| server.complete(json!({ "prompt": ["a", "b", "c"], "n": n, "max_tokens": 1 }));
    assert_eq!(ask(2).status, 200);
    let error = ask(3).json()["error"].clone();
    assert_eq!((&error["code"], &error["param"]), (&json!("too_many_answers"), &json!("n")), "{error}");
}
