//! `minfer render`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TINY, minfer, shared, stderr, stdout};

const MESSAGES: &str = r#"[{"role": "user", "content": "Hi"}]"#;
const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}\
    {% if tools %} tools={{ tools | length }}{% endif %}\
    {% if mood is defined %} mood={{ mood }}{% endif %}\
    {% if add_generation_prompt %}<assistant>{% endif %}";

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_models_own_template_is_used() {
    let assert = minfer(["render", TINY, "-"]).write_stdin(MESSAGES).assert().success();
    assert_eq!(stdout(&assert), "<|im_start|>user\nHi<|im_end|>\n");
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "messages.json", MESSAGES);
    assert_eq!(stdout(&minfer(["render", "-m", TINY, &file]).assert().success()), stdout(&assert));
}

#[test]
fn a_template_file_needs_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let template = write(folder.path(), "t.jinja", TEMPLATE);
    let render = |args: &[&str]| {
        let all = ["render", "--template-file", &template].into_iter().chain(args.iter().copied());
        stdout(&minfer(all).write_stdin(MESSAGES).assert().success())
    };
    assert_eq!(render(&["-"]), "<user>Hi<assistant>");
    assert_eq!(render(&["-", "--no-generation-prompt"]), "<user>Hi");
    assert_eq!(render(&["-", "--arg", "bos_token=<s>"]), "<s><user>Hi<assistant>");
    assert_eq!(render(&["-", "--arg", "mood=true"]), "<user>Hi mood=True<assistant>");
    assert_eq!(render(&["-", "--arg", "mood=fine"]), "<user>Hi mood=fine<assistant>");
    assert_eq!(render(&[TINY, "-"]), "<|endoftext|><user>Hi<assistant>");
}

#[test]
fn a_whole_request_is_read_and_flags_beat_it() {
    let folder = tempfile::tempdir().unwrap();
    let template = write(folder.path(), "t.jinja", TEMPLATE);
    let tools = write(folder.path(), "tools.json", "[1, 2, 3]");
    let request = json!({
        "model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [1],
        "chat_template_kwargs": {"mood": "low"}, "add_generation_prompt": false,
    });
    let render = |args: &[&str]| {
        let all = ["render", "--template-file", &template, "-"].into_iter().chain(args.iter().copied());
        stdout(&minfer(all).write_stdin(request.to_string()).assert().success())
    };
    assert_eq!(render(&[]), "<user>Hi tools=1 mood=low");
    assert_eq!(render(&["--arg", "mood=high", "--tools", &tools]), "<user>Hi tools=3 mood=high");
}

#[test]
fn the_templates_own_refusal_is_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let source = "{% if messages[0].role != 'system' %}{{ raise_exception('system\nfirst') }}{% endif %}";
    let template = write(folder.path(), "t.jinja", source);
    let assert = minfer(["render", "--template-file", &template, "-"]).write_stdin(MESSAGES).assert().code(4);
    let message = stderr(&assert);
    assert!(message.starts_with("error: system\\nfirst\nhint: "), "{message}");
    assert_eq!(stdout(&assert), "");
}

#[test]
fn the_binary_renders_the_fixtures() {
    let Some(folder) = shared("fixtures/chat") else { return };
    let fixture: Value = serde_json::from_slice(&fs::read(folder.join("smollm2.json")).unwrap()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let template = write(scratch.path(), "t.jinja", fixture["template"].as_str().unwrap());
    let mut n_rendered = 0;
    for case in fixture["cases"].as_array().unwrap() {
        let Some(expected) = case["expected"].as_str() else { continue };
        let mut args = vec!["render".to_owned(), "--template-file".into(), template.clone(), "-".into()];
        for (key, value) in fixture["tokens"].as_object().into_iter().flatten() {
            args.extend(["--arg".to_owned(), format!("{key}={value}")]);
        }
        let request = json!({
            "messages": case["messages"], "tools": case["tools"], "documents": case["documents"],
            "add_generation_prompt": case["add_generation_prompt"] == json!(true), "chat_template_kwargs": case["kwargs"],
        });
        let assert = minfer(args).write_stdin(request.to_string()).assert().success();
        assert_eq!(stdout(&assert), expected, "{}", case["name"]);
        n_rendered += 1;
    }
    assert!(n_rendered > 10, "only {n_rendered} conversations");
}

#[test]
fn tokens_given_as_arguments_count_when_the_template_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{% for m in messages %}{{ bos_token + m.content + eos_token }}{% endfor %}";
    let template = write(folder.path(), "t.jinja", text);
    let messages = write(folder.path(), "m.json", MESSAGES);
    let arguments = ["--arg", "bos_token=<s>", "--arg", "eos_token=</s>"];
    let all = [&["render", &messages, "--template-file", &template], &arguments[..]].concat();
    assert_eq!(stdout(&minfer(all).assert().success()), "<s>Hi</s>");
}
