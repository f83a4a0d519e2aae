//! Calls as real templates write them, read back.

use std::collections::BTreeMap;

use minfer_text::chat::{ChatTemplate, DateTime, RenderInput};
use minfer_text::reply::{ReplyFormat, ReplyOptions, Tools};
use serde_json::Value;

use crate::common::{context, files, fixtures, load};
use crate::support::{Reply, read_pieces};

fn parse(entry: &Value) -> ChatTemplate {
    ChatTemplate::parse(entry["template"].as_str().unwrap(), context(&entry["tokens"])).unwrap()
}

/// How a case is changed for templates that want something else: arguments as text, ids that hold the name.
const VARIANTS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

/// The messages up to the first with calls, or all of them; and where that one is.
fn messages(case: &Value, (is_text, has_name): (bool, bool)) -> Option<(Vec<Value>, usize)> {
    let mut messages = case["messages"].as_array()?.clone();
    let at = messages.iter().position(|m| m["tool_calls"].is_array())?;
    for (index, call) in messages[at]["tool_calls"].as_array_mut()?.iter_mut().enumerate() {
        let (name, arguments) = self::call(call);
        call["function"]["arguments"] = if is_text { arguments.to_string().into() } else { arguments };
        if has_name {
            call["id"] = format!("functions.{name}:{index}").into();
        }
    }
    Some((messages, at))
}

/// What the assistant says when it calls, and what follows.
fn written(template: &ChatTemplate, case: &Value, variant: (bool, bool), now: DateTime) -> Option<String> {
    let (messages, at) = messages(case, variant)?;
    let render = |n: usize, add_generation_prompt: bool| {
        let input = RenderInput {
            tools: Some(case["tools"].clone()).filter(|t| !t.is_null()),
            add_generation_prompt,
            now: Some(now),
            ..RenderInput::new(Value::from(messages[..n].to_vec()))
        };
        template.render(&input).ok()
    };
    // Templates differ in whether a conversation may end with a call.
    let text = render(at + 1, false).or_else(|| render(messages.len(), false))?;
    let prompt = render(at, true).unwrap_or_default();
    let question = messages[at - 1]["content"].as_str()?;
    Some(match text.strip_prefix(&prompt) {
        Some(reply) if !prompt.is_empty() => reply.to_owned(),
        _ => text.rsplit_once(question)?.1.to_owned(),
    })
}

fn calls(case: &Value) -> Vec<(String, Value)> {
    let message = case["messages"].as_array().into_iter().flatten().find(|m| m["tool_calls"].is_array());
    message.into_iter().flat_map(|m| m["tool_calls"].as_array().unwrap()).map(call).collect()
}

/// The tools of a case; one without any still has what it calls.
fn tools(case: &Value) -> Tools {
    let called =
        || calls(case).into_iter().map(|(name, _)| serde_json::json!({"name": name})).collect::<Vec<_>>();
    if case["tools"].is_null() {
        Tools::from_json(&called().into())
    } else {
        Tools::from_json(&case["tools"])
    }
}

fn call(call: &Value) -> (String, Value) {
    let function = &call["function"];
    let arguments = match &function["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        object => object.clone(),
    };
    (function["name"].as_str().unwrap().to_owned(), arguments)
}

fn read(format: ReplyFormat, case: &Value, text: &str) -> Reply {
    let options = || ReplyOptions { tools: tools(case), in_reasoning: false };
    let whole = read_pieces(format, options(), [text]);
    assert_eq!(read_pieces(format, options(), text.split("")), whole);
    whole
}

/// Whether there is a shape of calls; a call made by it is read back, and nothing else is.
fn check_shape(name: &str, template: &ChatTemplate, format: ReplyFormat) -> bool {
    let Some(shape) = format.call_shape(template) else { return false };
    let arguments = serde_json::json!({"a": [1, "}"], "b": null});
    let text = shape.call("some_tool", &arguments);
    let tools = Tools::from_json(&serde_json::json!([{"name": "some_tool"}]));
    let reply = read_pieces(format, ReplyOptions { tools, in_reasoning: false }, [text.as_str()]);
    let expected = [("some_tool".to_owned(), arguments)];
    assert_eq!((reply.called(), reply.content.as_str()), (expected.to_vec(), ""), "{name}: {text}");
    true
}

/// Templates by the row that reads them, and what went wrong.
#[derive(Default)]
struct Tally {
    rows: BTreeMap<&'static str, Vec<String>>,
    n_read: usize,
    n_unknown: usize,
    /// Templates whose calls a grammar can demand.
    n_shapes: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn add<'a>(
        &mut self,
        name: &str,
        template: &ChatTemplate,
        cases: impl Iterator<Item = (&'a str, &'a Value)>,
        now: DateTime,
    ) {
        let format = ReplyFormat::detect(template);
        self.rows.entry(format.tools.map_or("none", |row| row.name)).or_default().push(name.to_owned());
        self.n_shapes += usize::from(check_shape(name, template, format));
        for (case_name, case) in cases {
            let replies: Vec<String> =
                VARIANTS.iter().filter_map(|variant| written(template, case, *variant, now)).collect();
            let calls = calls(case);
            // Some templates leave calls out.
            let is_written = |text: &String| calls.iter().all(|(name, _)| text.contains(name.as_str()));
            if !replies.iter().any(is_written) {
                continue;
            }
            if format.tools.is_none() {
                self.n_unknown += 1;
                continue;
            }
            self.n_read += 1;
            if !replies.iter().any(|text| read(format, case, text).called() == calls) {
                self.wrong.push(format!("{name} / {case_name}: want {calls:?}\n  of {:?}", replies[0]));
            }
        }
    }

    fn finish(&self, least: &[(&str, usize)]) {
        for (row, names) in &self.rows {
            eprintln!("{row}: {} templates, such as {}", names.len(), names[0]);
        }
        eprintln!("{} replies read back, {} in formats that are not known", self.n_read, self.n_unknown);
        eprintln!("{} templates write a call as one shape", self.n_shapes);
        assert!(
            self.wrong.is_empty(),
            "{} replies read wrongly:\n{}",
            self.wrong.len(),
            self.wrong.join("\n")
        );
        for (row, n) in least {
            let found = self.rows.get(row).map_or(0, Vec::len);
            assert!(found >= *n, "{row}: {found} templates of at least {n}");
        }
    }
}

#[test]
fn calls_of_the_corpus_are_read_back() {
    let Some(folder) = fixtures() else { return };
    let doc = load(&folder.join("corpus.json"));
    let now = doc["now"].as_str().unwrap().parse().unwrap();
    let cases = doc["cases"].as_object().unwrap();
    let mut tally = Tally::default();
    for entry in doc["templates"].as_array().unwrap() {
        let cases = cases.iter().map(|(name, case)| (name.as_str(), case));
        tally.add(entry["model"].as_str().unwrap(), &parse(entry), cases, now);
    }
    let most =
        [("hermes", 40), ("qwen3-coder", 20), ("mistral", 7), ("deepseek", 1), ("glm", 5), ("olmo3", 2)];
    tally.finish(&most);
    // The arguments of all but a few can be demanded, as one object or one by one.
    assert!(tally.n_shapes >= 115, "{}", tally.n_shapes);
}

#[test]
fn calls_of_the_named_templates_are_read_back() {
    let Some(folder) = fixtures() else { return };
    let mut tally = Tally::default();
    for path in files(&folder) {
        let doc = load(&path);
        if doc["template"].is_null() {
            continue;
        }
        let now = doc["now"].as_str().unwrap().parse().unwrap();
        let cases =
            doc["cases"].as_array().unwrap().iter().map(|case| (case["name"].as_str().unwrap(), case));
        tally.add(path.file_stem().unwrap().to_str().unwrap(), &parse(&doc), cases, now);
    }
    tally.finish(&[("hermes", 8), ("qwen3-coder", 2), ("llama3", 2), ("mistral", 3), ("deepseek", 2)]);
}
