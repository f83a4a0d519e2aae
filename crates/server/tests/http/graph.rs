//! What the graph page asks.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::*;

fn events(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
    reply.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn the_model_says_what_it_is_and_what_may_be_asked() {
    let server = start();
    let body = server.get("/graph/model").json();
    assert_eq!((&body["name"], &body["architecture"]), (&json!("tiny"), &json!("qwen2")));
    assert_eq!((&body["n_layers"], &body["n_vocab"], &body["n_ctx"]), (&json!(1), &json!(264), &json!(512)));
    let keys: Vec<_> = body["settings"].as_array().unwrap().iter().map(|s| s["key"].clone()).collect();
    assert!(keys.contains(&json!("fuse")) && !keys.contains(&json!("stage")), "{keys:?}");
    assert!(body["parts"].as_array().unwrap().iter().any(|part| part["name"] == "KV cache"));
}

#[test]
fn a_step_comes_at_every_stage_with_its_memory() {
    let server = start();
    let body = server.post("/graph/stages", &json!({ "tokens": 5, "out_rows": 1 })).json();
    let stages = body["stages"].as_array().unwrap();
    let names: Vec<_> = stages.iter().map(|s| s["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["built", "assigned", "fused", "planned"]);
    let n_nodes = |stage: &Value| stage["nodes"].as_array().unwrap().len();
    assert!(stages.iter().all(|stage| n_nodes(stage) == n_nodes(&stages[0])));
    let has = |stage: &Value, op: &str| stage["nodes"].as_array().unwrap().iter().any(|n| n["op"] == op);
    assert!(!has(&stages[1], "SwiGLU") && has(&stages[2], "SwiGLU"));
    assert_eq!(body["memory"]["n_nodes"], n_nodes(&stages[3]));
    assert!(body["memory"]["lives"].as_array().unwrap().len() > 5);
    let decode = server.post("/graph/stages", &json!({ "tokens": 1, "set": "fuse=off" })).json();
    assert_eq!(decode["stages"][0]["params"]["type"], "decode");
    assert_eq!(decode["stages"][0]["params"]["fuse_qkv"], false);
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let server = start();
    for (path, body, param) in [
        ("/graph/stages", json!({ "tokens": 1, "sequences": 2 }), "tokens"),
        ("/graph/stages", json!({ "set": "isa" }), "set"),
        ("/graph/live", json!({ "prompt": "a", "set": "model=x.gguf" }), "set"),
        ("/graph/live", json!({ "prompt": "a ".repeat(2000) }), "prompt"),
        ("/graph/ab", json!({ "prompt": "a", "b": "tokens=3" }), "b"),
    ] {
        let reply = server.post(path, &body);
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!(param)), "{path} {body}");
    }
    assert_eq!(server.post("/graph/values", &json!({ "step": 0, "node": "logits" })).status, 404);
}

#[test]
fn a_run_is_told_step_by_step_and_can_be_looked_at() {
    let server = start();
    let ask = json!({ "prompt": "Hello, world", "max_tokens": 4 });
    let told = events(&server.post("/graph/live", &ask));
    let n_prompt = of_kind(&told, "start")[0]["tokens"].as_array().unwrap().len();
    let (steps, done) = (of_kind(&told, "step"), of_kind(&told, "done"));
    assert_eq!((steps[0]["kind"].as_str(), &steps[0]["n_tokens"]), (Some("prefill"), &json!(n_prompt)));
    assert_eq!(steps.len(), done.len());
    assert!(done.iter().all(|event| event["top"][0]["id"] == event["choice"]["id"]), "greedy takes the best");
    assert_eq!(told.last().unwrap()["type"], "end");
    let nodes = of_kind(&told, "nodes");
    let logits = nodes[0]["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "logits").unwrap();
    let looked = server.post("/graph/values", &json!({ "step": 0, "node": "logits" })).json();
    assert_eq!(looked["stats"], logits["stats"], "looking back shows what was");
    assert_eq!(looked["heat"]["cells"].as_array().unwrap().len(), 264);
    let missing = server.post("/graph/values", &json!({ "step": 0, "node": "nowhere" }));
    assert_eq!((missing.status, missing.json()["error"]["code"].as_str()), (404, Some("no_such_value")));
}

#[test]
fn a_client_that_goes_away_ends_its_run() {
    let server = start();
    let ask = json!({ "prompt": "Hello", "max_tokens": 200 }).to_string();
    let mut client = TcpStream::connect(server.addr()).unwrap();
    client.write_all(&request("POST", "/graph/live", &[], ask.as_bytes())).unwrap();
    drop(client);
    let (start, short) = (Instant::now(), json!({ "prompt": "Hello", "max_tokens": 1 }));
    loop {
        let reply = server.post("/graph/live", &short);
        if reply.status == 200 {
            assert_eq!(events(&reply).last().unwrap()["type"], "end");
            break;
        }
        assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (409, Some("run_in_progress")));
        assert!(start.elapsed() < Duration::from_secs(60), "the run goes on for nobody");
        std::thread::yield_now();
    }
}

#[test]
fn two_settings_are_compared() {
    let server = start();
    let compare = |b: &str| {
        let told = events(&server.post("/graph/ab", &json!({ "prompt": "Hello", "b": b, "max_tokens": 2 })));
        of_kind(&told, "report")[0].clone()
    };
    let same = compare("fuse=off");
    assert_eq!(same["report"]["identical"], true, "{same}");
    let chosen = same["report"]["choices"][0]["a"].to_string();
    assert!(same["texts"][&chosen].is_string());
    let other = compare("kv=f32");
    assert_eq!(other["report"]["identical"], false);
    let first = &other["report"]["first"]["a"]["name"];
    let nodes = other["report"]["nodes"].as_array().unwrap();
    let verdict = nodes.iter().find(|n| n["a"] == *first).unwrap();
    assert!(verdict["n_differing"].as_u64().unwrap() > 0);
    let before = nodes.iter().take_while(|n| n["a"] != *first);
    assert!(before.filter(|n| n["n_differing"].as_u64().unwrap() > 0).count() == 0, "{nodes:?}");
}
