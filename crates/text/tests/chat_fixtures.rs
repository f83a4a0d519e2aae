//! Every case of `fixtures/chat` against the recorded results of the reference.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::path::Path;

use minfer_text::chat::{ChatTemplate, DateTime, RenderInput, TemplateContext, TemplateError};
use serde_json::Value;

use common::{context, files, fixtures, load};

/// Cases whose result differs from the reference: file, case, why. A case that starts to agree fails the test.
const KNOWN: &[(&str, &str, &str)] = &[(
    "snippets",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, z=3) }}",
    "the engine's macros take no further arguments; refused at load, and no template of the corpus uses it",
)];

fn given(case: &Value, key: &str) -> Option<Value> {
    case.get(key).filter(|v| !v.is_null()).cloned()
}

fn input(case: &Value, now: DateTime) -> RenderInput {
    RenderInput {
        tools: given(case, "tools"),
        documents: given(case, "documents"),
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap_or(false),
        kwargs: case["kwargs"].as_object().cloned().unwrap_or_default(),
        now: Some(now),
        ..RenderInput::new(case["messages"].clone())
    }
}

/// What is wrong with `result`, if anything, given the recorded outcome.
fn mismatch(result: &Result<String, TemplateError>, recorded: &Value) -> Option<String> {
    let got = match result {
        Ok(text) => format!("{text:?}"),
        Err(error) => format!("{error:?}"),
    };
    let agrees = match (recorded["expected"].as_str(), recorded["kind"].as_str()) {
        (Some(expected), _) => result.as_ref().is_ok_and(|text| text == expected),
        (None, Some("raise")) => {
            let message = recorded["error"].as_str().unwrap();
            matches!(result, Err(TemplateError::Raised { message: m }) if m == message)
        }
        // Where Python is merely stricter, a rendering is fine.
        (None, Some("python")) => !matches!(result, Err(TemplateError::Raised { .. })),
        other => panic!("a fixture of unknown kind: {other:?}"),
    };
    (!agrees).then(|| match recorded["expected"].as_str() {
        Some(expected) => format!("\n  want {expected:?}\n  got  {got}"),
        None => format!("\n  want {} {}\n  got  {got}", recorded["kind"], recorded["error"]),
    })
}

/// Collects results and compares them with [`KNOWN`].
#[derive(Default)]
struct Tally {
    file: String,
    n_cases: usize,
    mismatches: Vec<String>,
}

impl Tally {
    fn new(file: &str) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    fn add(&mut self, case: &str, result: &Result<String, TemplateError>, recorded: &Value) {
        self.n_cases += 1;
        let known = KNOWN.iter().find(|(file, name, _)| *file == self.file && *name == case);
        match (mismatch(result, recorded), known) {
            (Some(difference), None) => self.mismatches.push(format!("{} / {case}: {difference}", self.file)),
            (None, Some(_)) => {
                self.mismatches.push(format!("{} / {case}: agrees now; take it out of KNOWN", self.file))
            }
            _ => {}
        }
    }
}

fn finish(tallies: &[Tally]) {
    let n_cases: usize = tallies.iter().map(|t| t.n_cases).sum();
    let mismatches: Vec<&String> = tallies.iter().flat_map(|t| &t.mismatches).collect();
    for tally in tallies {
        eprintln!("{}: {} cases, {} mismatches", tally.file, tally.n_cases, tally.mismatches.len());
    }
    eprintln!("{n_cases} cases");
    assert!(n_cases > 0, "no cases at all");
    let list: Vec<&str> = mismatches.iter().map(|m| m.as_str()).collect();
    assert!(list.is_empty(), "{} mismatches of {n_cases} cases:\n{}", list.len(), list.join("\n"));
}

fn now(doc: &Value) -> DateTime {
    doc["now"].as_str().unwrap().parse().unwrap()
}

#[test]
fn named_templates_render_as_the_reference_does() {
    let Some(folder) = fixtures() else { return };
    let mut tallies = Vec::new();
    for path in files(&folder) {
        let doc = load(&path);
        let Some(source) = doc["template"].as_str() else { continue };
        let mut tally = Tally::new(path.file_stem().unwrap().to_str().unwrap());
        match ChatTemplate::parse(source, context(&doc["tokens"])) {
            Ok(template) => {
                for case in doc["cases"].as_array().unwrap() {
                    tally.add(
                        case["name"].as_str().unwrap(),
                        &template.render(&input(case, now(&doc))),
                        case,
                    );
                }
            }
            Err(error) => tally.mismatches.push(format!("{}: refused: {error}", tally.file)),
        }
        tallies.push(tally);
    }
    finish(&tallies);
}

#[test]
fn corpus_renders_as_the_reference_does() {
    let Some(folder) = fixtures() else { return };
    let doc = load(&folder.join("corpus.json"));
    let mut tallies = Vec::new();
    for entry in doc["templates"].as_array().unwrap() {
        let mut tally = Tally::new(entry["model"].as_str().unwrap());
        match ChatTemplate::parse(entry["template"].as_str().unwrap(), context(&entry["tokens"])) {
            Ok(template) => {
                for (name, recorded) in entry["results"].as_object().unwrap() {
                    tally.add(name, &template.render(&input(&doc["cases"][name], now(&doc))), recorded);
                }
            }
            Err(error) => tally.mismatches.push(format!("{}: refused: {error}", tally.file)),
        }
        tallies.push(tally);
    }
    finish(&tallies);
}

/// A few cases that every clone has.
#[test]
fn committed_cases_render_as_the_reference_does() {
    let doc = load(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/chat.json")));
    let mut tallies = vec![snippets(&doc)];
    for entry in doc["templates"].as_array().unwrap() {
        let mut tally = Tally::new(entry["model"].as_str().unwrap());
        let template =
            ChatTemplate::parse(entry["template"].as_str().unwrap(), context(&entry["tokens"])).unwrap();
        for case in entry["cases"].as_array().unwrap() {
            tally.add(case["name"].as_str().unwrap(), &template.render(&input(case, now(&doc))), case);
        }
        tallies.push(tally);
    }
    finish(&tallies);
}

#[test]
fn snippets_render_as_the_reference_does() {
    let Some(folder) = fixtures() else { return };
    finish(&[snippets(&load(&folder.join("snippets.json")))]);
}

fn snippets(doc: &Value) -> Tally {
    let mut tally = Tally::new("snippets");
    for case in doc["cases"].as_array().unwrap() {
        let kwargs = doc["contexts"][case["group"].as_str().unwrap()].as_object().unwrap();
        let source = case["template"].as_str().unwrap();
        let messages = kwargs.get("messages").cloned().unwrap_or(Value::Null);
        let input = RenderInput { now: Some(now(doc)), kwargs: kwargs.clone(), ..RenderInput::new(messages) };
        let result = ChatTemplate::parse(source, TemplateContext::default()).and_then(|t| t.render(&input));
        tally.add(source, &result, case);
    }
    tally
}

#[test]
fn templates_are_found_in_metadata() {
    use minfer_gguf::{Array, Metadata, Value as Meta};
    let mut metadata = Metadata::new();
    let message = serde_json::json!([{"role": "user", "content": "x"}]);
    assert!(matches!(ChatTemplate::from_metadata(&metadata, false), Err(TemplateError::Missing)));
    metadata.set("tokenizer.chat_template", Meta::String("{{ bos_token }}plain{{ pad_token }}".to_owned()));
    metadata.set("tokenizer.chat_template.tool_use", Meta::String("tools{{ eos_token }}".to_owned()));
    metadata.set("tokenizer.chat_templates", Meta::Array(Array::String(vec!["tool_use"].into())));
    metadata.set("tokenizer.ggml.tokens", Meta::Array(Array::String(vec!["<s>", "</s>"].into())));
    metadata.set("tokenizer.ggml.bos_token_id", Meta::U32(0));
    metadata.set("tokenizer.ggml.eos_token_id", Meta::U32(1));
    metadata.set("tokenizer.ggml.padding_token_id", Meta::U32(9));
    let render = |has_tools| {
        ChatTemplate::from_metadata(&metadata, has_tools)
            .unwrap()
            .render(&RenderInput::new(message.clone()))
            .unwrap()
    };
    assert_eq!((render(false), render(true)), ("<s>plain".to_owned(), "tools</s>".to_owned()));
    assert_eq!(ChatTemplate::names(&metadata), ["tool_use"]);
    metadata.set("tokenizer.chat_template", Meta::U32(1));
    assert!(matches!(ChatTemplate::from_metadata(&metadata, false), Err(TemplateError::Metadata(_))));
}
