//! Arguments that a template writes each for itself (Qwen3-Coder, GLM and others): a parameter that is text stands there as
//! it is, without quotes, and all others as JSON.
//!
//! The parameters come in the order of the schema, those that need not be there may be left out, and there are no others.
//! What a schema says about texts is held to where it lists them; other bounds on texts have no place in a format without
//! quotes, and are refused. Of the values that it lists, those that hold the closing text and those that are no text (nor
//! null) are left out; where none is left, the parameter is refused.

use std::collections::HashSet;

use minfer_engine::{Grammar, Part};
use minfer_text::reply::{ParameterShape, Tools};
use serde_json::{Map, Value, json};

use super::constraint::{Form, compile};
use super::request::Tool;
use crate::error::ApiError;

/// References and alternatives within one another.
const MAX_NESTING: usize = 8;

/// What the schema of an object may have to say here.
const OF_OBJECTS: [&str; 6] =
    ["type", "properties", "required", "additionalProperties", "$defs", "definitions"];

/// Words that say nothing about what is valid.
const OF_PEOPLE: [&str; 12] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$comment",
    "strict",
];

/// A word of a schema that cannot be held to here.
struct Unheld<'a>(&'a str);

impl Form<'_> {
    /// The parameters of a tool.
    pub(super) fn parameters(&self, shape: &ParameterShape, tool: &Tool) -> Result<Vec<Part>, ApiError> {
        let Some(Value::Object(schema)) = &tool.parameters else { return Ok(Vec::new()) };
        // What is refused elsewhere is refused here, in the same words.
        compile(self.model, &Grammar::JsonSchema(Value::Object(schema.clone())), "tools")?;
        let unheld = |place: &str, Unheld(word): Unheld<'_>| {
            let why = format_args!(
                "'{word}' {place} of '{}' cannot be enforced, as this model's template writes no JSON object",
                tool.name
            );
            ApiError::unsupported("tools", why)
        };
        check_object(schema).map_err(|word| unheld("in the parameters", word))?;
        let tools = Tools::from_json(&json!([tool.definition]));
        let mut parts = Vec::new();
        for (name, of_name) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let mut parameter = self.spelled(&[&*shape.before_key, name, &shape.after_key].concat());
            let value = if tools.is_text(&tool.name, name) {
                let texts = texts(of_name, schema)
                    .and_then(|texts| self.text(shape, &texts).ok_or_else(|| Unheld(lister(of_name))));
                texts.map_err(|word| unheld(&format!("in the parameter '{name}'"), word))?
            } else {
                let json = vec![Part::Json(with_definitions(of_name, schema))];
                [json, self.spelled(&[&*shape.before_close, &shape.close].concat())].concat()
            };
            parameter.extend(value);
            parameter.extend(self.spelled(&shape.after));
            if is_required(schema, name) {
                parts.extend(parameter);
            } else {
                parts.push(Part::Choice(vec![parameter, Vec::new()]));
            }
        }
        Ok(parts)
    }

    /// A text, and what closes it; None if there is none that can be written.
    fn text(&self, shape: &ParameterShape, texts: &Texts) -> Option<Vec<Part>> {
        let Texts::These(list) = texts else { return Some(self.until(&shape.close)) };
        // Those that have the closing text in them would end before they are over.
        let fits = list.iter().filter(|text| !text.contains(&shape.close));
        let ways: Vec<Vec<Part>> = fits.map(|text| self.spelled(text)).collect();
        if ways.is_empty() {
            return None;
        }
        let close = self.spelled(&[&*shape.before_close, &shape.close].concat());
        Some([vec![Part::Choice(ways)], close].concat())
    }
}

/// An object whose parameters can be written one after the other.
fn check_object(schema: &Map<String, Value>) -> Result<(), Unheld<'_>> {
    if let Some(word) = schema.keys().find(|word| !is_known(word, &OF_OBJECTS)) {
        return Err(Unheld(word));
    }
    let listed = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_there = |name: &str| schema.get("properties").is_some_and(|all| all.get(name).is_some());
    let mut missing = listed.filter_map(Value::as_str).filter(|name| !is_there(name));
    missing.next().map_or(Ok(()), |_| Err(Unheld("required")))
}

fn is_known(word: &str, known: &[&str]) -> bool {
    known.contains(&word) || OF_PEOPLE.contains(&word) || word.starts_with("x-")
}

fn is_required(schema: &Map<String, Value>, name: &str) -> bool {
    let mut listed = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    listed.any(|required| required == name)
}

/// The schema of a parameter with what it may refer to.
fn with_definitions(schema: &Value, root: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(schema) = &mut schema {
        for name in ["$defs", "definitions"] {
            if let Some(all) = root.get(name).filter(|_| !schema.contains_key(name)) {
                schema.insert(name.into(), all.clone());
            }
        }
    }
    schema
}

/// The texts that a schema allows.
#[derive(Debug, PartialEq, Eq)]
enum Texts {
    Any,
    These(Vec<String>),
}

impl Texts {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::These(mut list), Self::These(more)) => {
                list.extend(more);
                Self::These(list)
            }
            _ => Self::Any,
        }
    }
}

/// The word of a schema that says which texts there are.
fn lister(schema: &Value) -> &'static str {
    let words = ["$ref", "anyOf", "const", "enum", "oneOf", "allOf"];
    words.into_iter().find(|word| schema.get(word).is_some()).unwrap_or("type")
}

/// The texts that a parameter's schema allows, each once, and null where it does, which is written as a word.
fn texts<'a>(schema: &'a Value, root: &'a Map<String, Value>) -> Result<Texts, Unheld<'a>> {
    let mut texts = Walk { root, done: HashSet::new() }.texts(schema, MAX_NESTING)?;
    if let Texts::These(list) = &mut texts {
        let mut seen = HashSet::new();
        list.retain(|text| seen.insert(text.clone()));
    }
    Ok(texts)
}

/// A walk through a parameter's schema, whose cost is that of the schema's size.
struct Walk<'a> {
    root: &'a Map<String, Value>,
    /// What references led to and has been read to its end: a second time it would add nothing, but could cost 100 times as
    /// much on each level.
    done: HashSet<*const Value>,
}

impl<'a> Walk<'a> {
    fn texts(&mut self, schema: &'a Value, n_left: usize) -> Result<Texts, Unheld<'a>> {
        let none = Texts::These(Vec::new());
        let Value::Object(words) = schema else { return Ok(none) };
        if n_left == 0 {
            return Err(Unheld("$ref"));
        }
        let allow = |own: &[&str]| match words.keys().find(|word| !is_known(word, own)) {
            Some(word) => Err(Unheld(word)),
            None => Ok(()),
        };
        if let Some(reference) = words.get("$ref").and_then(Value::as_str) {
            allow(&["$ref"])?;
            let target = reference.strip_prefix("#/").and_then(|path| at(self.root, path));
            return self.target(target.ok_or(Unheld("$ref"))?, n_left - 1);
        }
        if let Some(ways) = words.get("anyOf").and_then(Value::as_array) {
            allow(&["anyOf"])?;
            let mut ways = ways.iter().map(|way| self.texts(way, n_left - 1));
            return ways.try_fold(none, |all, way| Ok(all.or(way?)));
        }
        if let Some(value) = words.get("const") {
            allow(&["const", "type"])?;
            return Ok(Texts::These(spelled(value).into_iter().collect()));
        }
        if let Some(values) = words.get("enum").and_then(Value::as_array) {
            allow(&["enum", "type"])?;
            return Ok(Texts::These(values.iter().filter_map(spelled).collect()));
        }
        let types: Vec<&str> = match words.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if types.contains(&"string") {
            allow(&["type"])?;
            return Ok(Texts::Any);
        }
        Ok(if types.contains(&"null") { Texts::These(vec!["null".into()]) } else { none })
    }

    /// What a reference leads to.
    fn target(&mut self, target: &'a Value, n_left: usize) -> Result<Texts, Unheld<'a>> {
        if self.done.contains(&std::ptr::from_ref(target)) {
            return Ok(Texts::These(Vec::new()));
        }
        let texts = self.texts(target, n_left)?;
        self.done.insert(target);
        Ok(texts)
    }
}

/// A value as it is written where text is expected.
fn spelled(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some("null".into()),
        _ => None,
    }
}

fn at<'a>(root: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: Value) -> Result<Texts, String> {
        let root =
            json!({ "$defs": { "colour": { "enum": ["red", "blue"] }, "loop": { "$ref": "#/$defs/loop" } } });
        let Value::Object(root) = root else { unreachable!() };
        texts(&schema, &root).map_err(|Unheld(word)| word.to_owned())
    }

    #[test]
    fn a_schema_of_texts_is_free_or_lists_them() {
        let these = |list: &[&str]| Ok(Texts::These(list.iter().map(|it| (*it).to_owned()).collect()));
        assert_eq!(of(json!({ "type": "string", "description": "d", "x-y": 1 })), Ok(Texts::Any));
        assert_eq!(of(json!({ "type": ["string", "null"] })), Ok(Texts::Any));
        assert_eq!(of(json!({ "type": "string", "enum": ["a", "b"] })), these(&["a", "b"]));
        assert_eq!(of(json!({ "const": "a" })), these(&["a"]));
        assert_eq!(of(json!({ "$ref": "#/$defs/colour" })), these(&["red", "blue"]));
        assert_eq!(of(json!({ "anyOf": [{ "enum": ["a"] }, { "type": "null" }] })), these(&["a", "null"]));
        assert_eq!(of(json!({ "anyOf": [{ "enum": ["a"] }, { "type": "string" }] })), Ok(Texts::Any));
    }

    #[test]
    fn what_cannot_be_held_to_is_named() {
        for (schema, word) in [
            (json!({ "type": "string", "pattern": "a" }), "pattern"),
            (json!({ "type": "string", "maxLength": 3 }), "maxLength"),
            (json!({ "enum": ["a"], "minLength": 3 }), "minLength"),
            (json!({ "oneOf": [{ "type": "string" }], "type": "string" }), "oneOf"),
            (json!({ "anyOf": [{ "type": "string", "format": "date" }] }), "format"),
            (json!({ "$ref": "#/$defs/loop" }), "$ref"),
            (json!({ "$ref": "#/nowhere" }), "$ref"),
        ] {
            assert_eq!(of(schema.clone()), Err(word.to_owned()), "{schema}");
        }
    }

    #[test]
    fn what_is_referred_to_often_is_read_once() {
        let often = |name: &str| {
            let reference = json!({ "$ref": format!("#/$defs/{name}") });
            json!({ "anyOf": vec![reference; 100] })
        };
        let last = json!({ "anyOf": vec![json!({ "enum": ["x", "y"] }); 100] });
        let root = json!({ "$defs": { "b": often("c"), "c": often("d"), "d": last } });
        let schema = often("b");
        let texts = texts(&schema, root.as_object().unwrap()).map_err(|Unheld(word)| word);
        assert_eq!(texts, Ok(Texts::These(vec!["x".into(), "y".into()])));
    }

    #[test]
    fn the_word_that_leaves_no_text_is_named() {
        assert_eq!(lister(&json!({ "type": "string", "const": 1 })), "const");
        assert_eq!(lister(&json!({ "type": "string", "enum": [1] })), "enum");
        assert_eq!(lister(&json!({ "allOf": [{ "type": "string" }] })), "allOf");
    }

    #[test]
    fn an_object_says_no_more_than_its_parameters() {
        let check = |schema: Value| {
            let Value::Object(schema) = schema else { unreachable!() };
            check_object(&schema).map_err(|Unheld(word)| word.to_owned())
        };
        let both = json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "title": "t" });
        assert_eq!(check(both), Ok(()));
        assert_eq!(check(json!({ "minProperties": 1 })), Err("minProperties".into()));
        assert_eq!(check(json!({ "properties": {}, "required": ["a"] })), Err("required".into()));
    }
}
