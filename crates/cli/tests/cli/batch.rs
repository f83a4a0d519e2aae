//! `minfer batch`: every request is answered once, whatever happens in between.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, lines: &[Value]) -> PathBuf {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path("in.jsonl"), text).unwrap();
        self.path("in.jsonl")
    }

    fn command(&self, more: &[&str]) -> assert_cmd::Command {
        let (input, output) = (self.path("in.jsonl"), self.path("out.jsonl"));
        let paths = ["batch", input.to_str().unwrap(), output.to_str().unwrap(), "-m", TINY];
        minfer(paths.iter().chain(more))
    }

    fn answers(&self) -> Vec<Value> {
        read(&self.path("out.jsonl"))
    }
}

fn read(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn request(custom_id: &str, url: &str, body: &Value) -> Value {
    json!({ "custom_id": custom_id, "method": "POST", "url": url, "body": body })
}

fn chat(custom_id: &str, text: &str, n: usize, seed: usize) -> Value {
    let messages = json!([{ "role": "user", "content": text }]);
    let body = json!({ "model": "tiny", "messages": messages, "max_tokens": n, "seed": seed });
    request(custom_id, "/v1/chat/completions", &body)
}

fn by_id(answers: &[Value]) -> HashMap<String, Value> {
    let all: HashMap<_, _> =
        answers.iter().map(|a| (a["custom_id"].as_str().unwrap().to_owned(), a.clone())).collect();
    assert_eq!(all.len(), answers.len(), "a request was answered twice");
    all
}

#[test]
fn chats_and_completions_are_answered_in_openais_shape() {
    let folder = Folder::new();
    let body = json!({ "prompt": "abc", "max_tokens": 4, "temperature": 0, "logprobs": 2 });
    folder.write(&[chat("c", "Hello", 6, 1), request("p", "/v1/completions", &body)]);
    folder.command(&[]).assert().success();
    let answers = by_id(&folder.answers());
    let chat = &answers["c"];
    assert_eq!((&chat["response"]["status_code"], &chat["error"]), (&json!(200), &Value::Null));
    let body = &chat["response"]["body"];
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("tiny")));
    assert_eq!(body["choices"][0]["message"]["role"], "assistant");
    let usage = &body["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"));
    let body = &answers["p"]["response"]["body"];
    assert_eq!(body["object"], "text_completion");
    let logprobs = &body["choices"][0]["logprobs"];
    assert_eq!(
        logprobs["tokens"].as_array().unwrap().len(),
        logprobs["token_logprobs"].as_array().unwrap().len()
    );
    // The same as `minfer generate` says.
    let args = ["generate", TINY, "-p", "abc", "-n", "4", "--temp", "0", "--json"];
    assert_eq!(body["choices"][0]["text"], json(&minfer(args).assert().success())["text"]);
}

#[test]
fn log_probabilities_are_those_of_the_text_a_stop_string_leaves() {
    let complete = |stop: &Value| {
        let folder = Folder::new();
        let body =
            json!({ "prompt": "abc", "max_tokens": 12, "temperature": 0, "logprobs": 0, "stop": stop });
        folder.write(&[request("p", "/v1/completions", &body)]);
        folder.command(&[]).assert().success();
        let body = folder.answers()[0]["response"]["body"].clone();
        assert_eq!(body["id"], "cmpl-batch_req_00000001");
        body
    };
    let offsets = |body: &Value| -> Vec<usize> {
        serde_json::from_value(body["choices"][0]["logprobs"]["text_offset"].clone()).unwrap()
    };
    let text = |body: &Value| body["choices"][0]["text"].as_str().unwrap().to_owned();
    let whole = complete(&Value::Null);
    let (text_of, starts) = (text(&whole), offsets(&whole));
    // The stop string is the last token that begins with a character of its own.
    let last = *starts.iter().filter(|start| **start < text_of.chars().count()).max().unwrap();
    let stop: String = text_of.chars().skip(last).collect();
    let cut = complete(&json!(stop));
    assert_eq!(cut["choices"][0]["finish_reason"], "stop");
    let (n_chars, left) = (text(&cut).chars().count(), offsets(&cut));
    assert!(n_chars > 0 && left.iter().all(|start| *start < n_chars), "{left:?} of {n_chars}");
    assert_eq!(left, starts[..left.len()]);
    assert!(left.len() < starts.len());
}

#[test]
fn what_cannot_be_served_gets_its_error_and_the_rest_its_answers() {
    let folder = Folder::new();
    let long = "x".repeat(5000);
    let input = folder.write(&[
        chat("good", "Hi", 2, 1),
        chat("long", &long, 2, 1),
        chat("good", "again", 2, 1),
        request("unknown", "/v1/completions", &json!({ "prompt": "x", "temprature": 1 })),
        request("url", "/v1/embeddings", &json!({})),
        request("hot", "/v1/completions", &json!({ "prompt": "x", "temperature": "hot" })),
    ]);
    let text = fs::read_to_string(&input).unwrap();
    fs::write(&input, format!("nonsense\n\n{text}")).unwrap();
    let done = folder.command(&["-c", "256"]).assert().success();
    assert!(stderr(&done).contains("7 requests answered, 6 of them with an error"), "{}", stderr(&done));
    let found: HashMap<String, Value> =
        folder.answers().into_iter().map(|a| (a["id"].as_str().unwrap().to_owned(), a)).collect();
    let code = |line: usize| {
        let answer = &found[&format!("batch_req_{line:08}")];
        let error = &answer["response"]["body"]["error"];
        (
            answer["response"]["status_code"].as_u64().unwrap(),
            error["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(code(1), (400, "invalid_json".into()));
    assert_eq!(code(3), (200, String::new()));
    assert_eq!(code(4), (400, "context_length_exceeded".into()));
    assert_eq!(code(5), (400, "invalid_value".into()));
    assert_eq!(code(6), (400, "unsupported_parameter".into()));
    assert_eq!(code(7), (400, "invalid_value".into()));
    assert_eq!(code(8), (400, "invalid_value".into()));
    // All have their line: nothing is left to do.
    let before = fs::read(folder.path("out.jsonl")).unwrap();
    folder.command(&["-c", "256"]).assert().success();
    assert_eq!(fs::read(folder.path("out.jsonl")).unwrap(), before);
}

#[test]
fn killed_at_any_time_it_loses_nothing_and_answers_nothing_twice() {
    let folder = Folder::new();
    let requests: Vec<Value> =
        (0..40).map(|i| chat(&format!("r{i}"), &"word ".repeat(i % 7 + 1), 100, i)).collect();
    folder.write(&requests);
    let output = folder.path("out.jsonl");
    let mut reported = Vec::new();
    for n_lines in [1, 6, 15] {
        let (input, out) = (folder.path("in.jsonl"), output.to_str().unwrap().to_owned());
        let args = ["batch", input.to_str().unwrap(), &out, "-m", TINY, "-np", "3"];
        let mut command = std::process::Command::new(binary());
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Running::start(&mut command);
        loop {
            let text = fs::read(&output).unwrap_or_default();
            if text.iter().filter(|b| **b == b'\n').count() >= n_lines || child.try_wait().unwrap().is_some()
            {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let text = fs::read(&output).unwrap();
        assert!(text.starts_with(&reported), "what was reported has changed");
        let end = text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        reported = text[..end].to_vec();
        // As if it had died in the middle of a line.
        fs::write(&output, [&reported[..], b"{\"id\":\"batch_req_0000"].concat()).unwrap();
    }
    folder.command(&["-np", "3"]).assert().success();
    let text = fs::read(&output).unwrap();
    assert!(text.starts_with(&reported));
    let answers = by_id(&folder.answers());
    assert_eq!(answers.len(), requests.len());
    // And they are what one run alone gives.
    fs::remove_file(&output).unwrap();
    folder.command(&["-np", "1"]).assert().success();
    let alone = by_id(&folder.answers());
    for (id, answer) in &answers {
        let text = |answer: &Value| answer["response"]["body"]["choices"][0]["message"]["content"].clone();
        assert_eq!(text(answer), text(&alone[id]), "{id}");
    }
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = Folder::new();
    folder.write(&[chat("a", "Hi", 2, 1)]);
    let other = r#"{"id":"batch_req_00000001","custom_id":"b","response":{},"error":null}"#;
    let torn_input = r#"{"custom_id":"a","method":"POST""#;
    let texts =
        ["Dear diary,\n", "Dear diary", torn_input, &format!("{other}\n"), &format!("{other}\n{{x"), "[1]\n"];
    for text in &texts {
        fs::write(folder.path("out.jsonl"), text).unwrap();
        let refused = folder.command(&[]).assert().code(3);
        let told = "out.jsonl: line 1 is no answer to one of these requests";
        assert!(stderr(&refused).contains(told), "{}", stderr(&refused));
        assert_eq!(fs::read_to_string(folder.path("out.jsonl")).unwrap(), *text);
    }
    folder.command(&["-np", "0"]).assert().code(2);
    fs::remove_file(folder.path("in.jsonl")).unwrap();
    folder.command(&[]).assert().code(3);
}

#[test]
fn an_answer_to_a_request_that_has_changed_is_not_taken_for_one() {
    let folder = Folder::new();
    let requests = [chat("a", "Hi", 2, 1), chat("b", "Ho", 2, 1), chat("c", "Hu", 2, 1)];
    folder.write(&requests);
    folder.command(&["-np", "1"]).assert().success();
    let done = fs::read_to_string(folder.path("out.jsonl")).unwrap();
    let refused = |more: &[&str], told: &str| {
        let refused = folder.command(more).assert().code(3);
        assert!(stderr(&refused).contains(told), "{}", stderr(&refused));
        assert_eq!(fs::read_to_string(folder.path("out.jsonl")).unwrap(), done);
    };
    // Another model, or settings that answers depend on.
    refused(&["-c", "64"], "out.jsonl: line 1 was answered by another model, or with another context size");
    refused(&["-ctk", "f32", "-ctv", "f32"], "line 1 was answered by another model");
    folder.command(&["-np", "2", "-t", "1", "--prompt-lookup", "3"]).assert().success();
    // Another request by the same name.
    folder.write(&[requests[0].clone(), chat("b", "Hey", 2, 1), requests[2].clone()]);
    let at = done.lines().position(|line| line.contains(r#""custom_id":"b""#)).unwrap();
    let told = format!("line {} answers line 2 of the requests as it was before it was changed", at + 1);
    refused(&[], &told);
    // Without its line it is answered anew, and the others are not.
    let mut lines: Vec<&str> = done.lines().collect();
    lines.remove(at);
    fs::write(folder.path("out.jsonl"), lines.join("\n") + "\n").unwrap();
    let done = folder.command(&[]).assert().success();
    assert!(stderr(&done).contains("1 requests answered"), "{}", stderr(&done));
    assert_eq!(by_id(&folder.answers()).len(), 3);
}

#[test]
fn a_run_of_which_nothing_was_served_fails() {
    let folder = Folder::new();
    let wrong = request("a", "/v1/completions", &json!({ "prompt": "x", "temperature": "hot" }));
    folder.write(&[wrong.clone(), request("b", "/v1/embeddings", &json!({}))]);
    let done = folder.command(&[]).assert().code(4);
    assert!(stderr(&done).contains("none of 2 requests could be served"), "{}", stderr(&done));
    assert_eq!(folder.answers().len(), 2);
    folder.command(&[]).assert().success();
    fs::remove_file(folder.path("out.jsonl")).unwrap();
    folder.write(&[wrong, chat("b", "Hi", 2, 1)]);
    folder.command(&[]).assert().success();
}

#[test]
fn bytes_that_are_no_text_spoil_their_line_only() {
    let folder = Folder::new();
    folder.write(&[chat("a", "Hi", 2, 1), chat("b", "Ho", 2, 1), chat("c", "Hu", 2, 1)]);
    let mut bytes = fs::read(folder.path("in.jsonl")).unwrap();
    let at = bytes.windows(2).position(|two| two == b"Ho").unwrap();
    bytes[at] = 0xff;
    let with_mark = [b"\xef\xbb\xbf", &bytes[..]].concat();
    fs::write(folder.path("in.jsonl"), with_mark).unwrap();
    folder.command(&[]).assert().success();
    let answers = folder.answers();
    let code = |i: usize| {
        let id = format!("batch_req_{i:08}");
        answers.iter().find(|a| a["id"] == id).unwrap()["response"]["status_code"].clone()
    };
    assert_eq!([code(1), code(2), code(3)], [json!(200), json!(400), json!(200)]);
}

#[cfg(unix)]
#[test]
fn an_output_that_cannot_grow_is_an_error_and_nothing_is_lost() {
    let folder = Folder::new();
    folder.write(&(0..12).map(|i| chat(&format!("r{i}"), "Hi", 20, i)).collect::<Vec<_>>());
    let (input, output) = (folder.path("in.jsonl"), folder.path("out.jsonl"));
    // Blocks of 512 or 1024 bytes, by the shell: room for a few answers.
    let limited = format!(
        "ulimit -f 4; exec {} batch {} {} -m {TINY} -np 2",
        binary(),
        input.display(),
        output.display()
    );
    let stopped = std::process::Command::new("sh").args(["-c", &limited]).output().unwrap();
    let told = String::from_utf8_lossy(&stopped.stderr);
    assert_eq!(stopped.status.code(), Some(5), "{told}");
    assert!(told.contains("cannot write") && told.contains("out.jsonl"), "{told}");
    let text = fs::read(&output).unwrap();
    let end = text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    assert!(end > 0 && text.len() <= 4096);
    folder.command(&[]).assert().success();
    assert!(fs::read(&output).unwrap().starts_with(&text[..end]));
    assert_eq!(by_id(&folder.answers()).len(), 12);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_output() {
    let folder = Folder::new();
    folder.write(&[chat("a", "Hi", 2, 1)]);
    let pipe = folder.path("out.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = folder.command(&[]).timeout(std::time::Duration::from_secs(60)).assert().code(5);
    assert!(stderr(&refused).contains("it is no file"), "{}", stderr(&refused));
}
