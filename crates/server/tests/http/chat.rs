//! `/v1/chat/completions`.

use serde_json::{Value, json};

use crate::support::*;

#[test]
fn a_whole_answer_has_openais_fields() {
    let server = start();
    let reply = server.chat(json!({}));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert!(reply.header("x-request-id").unwrap().starts_with("req_"));
    let body = reply.json();
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("tiny")));
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(body["created"].as_u64().unwrap() > 1_700_000_000);
    let choice = &body["choices"][0];
    assert_eq!((&choice["index"], &choice["message"]["role"]), (&json!(0), &json!("assistant")));
    assert_eq!((&choice["logprobs"], &choice["finish_reason"]), (&Value::Null, &json!("length")));
    let usage = &body["usage"];
    assert_eq!(usage["completion_tokens"], 12);
    let total = usage["prompt_tokens"].as_u64().unwrap() + 12;
    assert_eq!(usage["total_tokens"], total);
    assert!(body["timings"]["predicted_n"] == 12);
}

#[test]
fn a_stream_has_the_role_first_then_text_then_the_reason_then_the_counts() {
    let server = start();
    let whole = server.chat(json!({})).json();
    let chunks = server.chat(json!({ "stream": true, "stream_options": { "include_usage": true } })).chunks();
    let (first, last) = (&chunks[0], &chunks[chunks.len() - 1]);
    assert_eq!(first["choices"][0]["delta"], json!({ "role": "assistant", "content": "", "refusal": null }));
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &with_cached(&whole["usage"], last)));
    let reasons: Vec<_> =
        chunks[..chunks.len() - 1].iter().map(|c| &c["choices"][0]["finish_reason"]).collect();
    let (reason, before) = reasons.split_last().unwrap();
    assert!(before.iter().all(|reason| reason.is_null()));
    assert_eq!(**reason, "length");
    let text: String = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    for chunk in &chunks {
        assert_eq!((&chunk["object"], &chunk["id"]), (&json!("chat.completion.chunk"), &first["id"]));
    }
    assert!(chunks[..chunks.len() - 1].iter().all(|chunk| chunk["usage"].is_null()));
    // Not asked for, there are none.
    let plain = server.chat(json!({ "stream": true })).chunks();
    assert!(plain.iter().all(|chunk| chunk.get("usage").is_none() && chunk["choices"] != json!([])));
}

/// The second request finds its prompt in the cache.
fn with_cached(usage: &Value, other: &Value) -> Value {
    with(usage.clone(), json!({ "prompt_tokens_details": other["usage"]["prompt_tokens_details"] }))
}

#[test]
fn several_answers_have_their_own_draws_and_the_first_is_that_of_one_alone() {
    let server = start();
    let ask = |n: usize, stream: bool| {
        server.chat(json!({ "n": n, "seed": 5, "temperature": 1.5, "stream": stream }))
    };
    let one = ask(1, false).json();
    let three = ask(3, false).json();
    let text = |body: &Value, i: usize| body["choices"][i]["message"]["content"].as_str().unwrap().to_owned();
    assert_eq!(text(&one, 0), text(&three, 0));
    assert_ne!(text(&three, 0), text(&three, 1));
    assert_eq!(three["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"]);
    let mut streamed = [String::new(), String::new(), String::new()];
    for chunk in ask(3, true).chunks() {
        let choice = &chunk["choices"][0];
        let index = choice["index"].as_u64().unwrap() as usize;
        streamed[index].push_str(choice["delta"]["content"].as_str().unwrap_or_default());
    }
    for (i, streamed) in streamed.iter().enumerate() {
        assert_eq!(*streamed, text(&three, i));
    }
}

#[test]
fn log_probabilities_are_the_same_streamed_or_whole() {
    let server = start();
    let whole = server.chat(json!({ "logprobs": true, "top_logprobs": 2 })).json();
    let content = whole["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len(), 12);
    for entry in content {
        assert_eq!(entry["top_logprobs"].as_array().unwrap().len(), 2);
        assert!(entry["logprob"].as_f64().unwrap() <= 0.0 && entry["bytes"].is_array());
        // Greedy: the token is the most probable.
        assert_eq!(entry["token"], entry["top_logprobs"][0]["token"]);
    }
    let chunks = server.chat(json!({ "logprobs": true, "top_logprobs": 2, "stream": true })).chunks();
    let lists = chunks.iter().filter_map(|c| c["choices"][0]["logprobs"]["content"].as_array());
    assert_eq!(&lists.flatten().cloned().collect::<Vec<_>>(), content);
}

#[test]
fn a_stop_string_ends_the_answer_and_is_no_part_of_it() {
    let server = start();
    let whole = server.chat(json!({ "max_tokens": 40 })).json();
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let middle: String = text.chars().skip(text.chars().count() / 2).take(3).collect();
    let cut = server.chat(json!({ "max_tokens": 40, "stop": [middle.clone()] })).json();
    let choice = &cut["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["message"]["content"], text[..text.find(&middle).unwrap()]);
}

#[test]
fn the_same_request_gives_the_same_tokens_as_the_library() {
    let server = start();
    let model = model();
    for sampler in [json!({ "temperature": 0 }), json!({ "temperature": 1.2, "seed": 11 })] {
        let body = with(json!({ "max_tokens": 20 }), sampler.clone());
        let over_http = server.chat(body.clone()).json();
        let template = model.chat_template(false).unwrap();
        let input = minfer_text::chat::RenderInput::new(chat_body()["messages"].clone());
        let prompt = model.encode_chat(&template.render(&input).unwrap()).unwrap();
        let mut params =
            minfer_engine::GenerateParams { n_predict: Some(20), ..minfer_engine::GenerateParams::default() };
        params.sampler.temperature = sampler["temperature"].as_f64().unwrap() as f32;
        params.sampler.seed = sampler["seed"].as_u64();
        let own =
            engine(&small()).submit(minfer_engine::Request::new(prompt, params)).unwrap().wait().unwrap();
        assert_eq!(over_http["choices"][0]["message"]["content"], own.text, "{sampler}");
    }
}
