//! What of JSON Schema is enforced, and what is refused.
//!
//! The parser ignores keywords that it does not know. Here each keyword that a schema reaches must be one that is enforced,
//! or an annotation that says nothing about what is valid; anything else is refused with its place, so that no schema is
//! enforced by half.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::error::{GrammarError, GrammarKind};
use super::regex;

/// Deeper values are refused: they are walked by recursion elsewhere.
const MAX_DEPTH: usize = 100;
/// Values in a schema, everything counted.
const MAX_VALUES: usize = 50_000;
/// Bytes of all its strings and keys.
const MAX_BYTES: usize = 1 << 20;

/// Between two parts of JSON text: nothing, a space, or a line break with some indentation. A model that indents does it by
/// this; one that has begun to repeat itself cannot use it.
const WHITESPACE: &str = r"(?: |\n[ \t]{0,32})";

const IDLE: &str = "uniqueItems";

const FORMATS: [&str; 11] =
    ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", "unknown"];

/// Where a keyword's value has schemas in it.
enum Role {
    /// Nowhere: it is enforced as it is.
    Plain,
    /// Nowhere; its numbers are enforced.
    Values,
    /// Nowhere: it says nothing about what is valid.
    Annotation,
    /// It is one.
    Schema,
    /// It is a list of them.
    List,
    /// It is a list of them, or one.
    SchemaOrList,
    /// Its values are.
    Map,
    /// It names one.
    Reference,
    /// It lists types.
    Type,
    /// It names a format.
    Format,
    /// It is a regular expression.
    Pattern,
}

fn role(keyword: &str) -> Option<Role> {
    Some(match keyword {
        "required" | "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
        | "maxProperties" | "multipleOf" => Role::Plain,
        "const" | "enum" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => Role::Values,
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => Role::List,
        "items" => Role::SchemaOrList,
        "additionalItems" | "additionalProperties" => Role::Schema,
        "properties" | "patternProperties" => Role::Map,
        "$ref" => Role::Reference,
        "type" => Role::Type,
        "format" => Role::Format,
        "pattern" => Role::Pattern,
        "$schema" | "$id" | "id" | "$comment" | "$anchor" | "$defs" | "definitions" | "title"
        | "description" | "default" | "examples" | "example" | "deprecated" | "readOnly" | "writeOnly"
        | "contentMediaType" | "contentEncoding" | "discriminator" | "nullable" | "strict" => {
            Role::Annotation
        }
        // Annotations of tools: forms, editors, generators.
        _ if keyword.starts_with("x-") => Role::Annotation,
        _ => return None,
    })
}

/// Checks a schema; gives it in the form that the parser takes.
pub(super) fn prepare(schema: &Value) -> Result<Value, GrammarError> {
    measure(schema)?;
    let (seen, open) = (HashSet::new(), vec![("#".into(), schema)]);
    let mut walk = Walk { root: schema, seen, open, idle: Vec::new(), listed: Vec::new() };
    walk.run()?;
    let Walk { idle, listed, .. } = walk;
    let mut schema = if *schema == true { json!({}) } else { schema.clone() };
    for place in idle {
        object_at(&mut schema, &place).and_then(|map| map.remove(IDLE));
    }
    for place in listed {
        let Some(map) = object_at(&mut schema, &place) else { continue };
        let cases = map.remove("oneOf");
        map.extend(cases.map(|cases| ("anyOf".to_owned(), cases)));
    }
    if let Some(map) = schema.as_object_mut() {
        // Settings of the parser are not the schema's to make.
        map.insert("x-guidance".into(), json!({ "whitespace_pattern": WHITESPACE }));
    }
    Ok(schema)
}

fn object_at<'a>(schema: &'a mut Value, place: &str) -> Option<&'a mut Map<String, Value>> {
    schema.pointer_mut(place.trim_start_matches('#')).and_then(Value::as_object_mut)
}

/// Whether every case is a scalar constant and no two are the same, so that no two can be true at once. The parser sees that of
/// objects only.
fn are_distinct_constants(cases: &[Value]) -> bool {
    let constant = |case: &Value| Some(case.get("const")?.to_string());
    let constants: Option<HashSet<String>> = cases.iter().map(constant).collect();
    // 1 and 1.0 are one number in two spellings, and so may be what is in arrays and objects.
    let is_exact = |case: &Value| match &case["const"] {
        Value::Number(number) => !number.is_f64(),
        value => !value.is_array() && !value.is_object(),
    };
    constants.is_some_and(|all| all.len() == cases.len()) && cases.iter().all(is_exact)
}

/// Bounds the size of a schema, without recursion.
fn measure(schema: &Value) -> Result<(), GrammarError> {
    let too_large = |what, found, limit| {
        Err(GrammarError::TooLarge { kind: GrammarKind::JsonSchema, what, found, limit })
    };
    let (mut open, mut n_values, mut n_bytes) = (vec![(schema, 0)], 0, 0);
    while let Some((value, depth)) = open.pop() {
        n_values += 1;
        match value {
            Value::String(text) => n_bytes += text.len(),
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => {
                n_bytes += map.keys().map(String::len).sum::<usize>();
                open.extend(map.values().map(|value| (value, depth + 1)));
            }
            _ => {}
        }
        if depth > MAX_DEPTH {
            return too_large("its depth", depth, MAX_DEPTH);
        }
        if n_values > MAX_VALUES {
            return too_large("the number of its values", n_values, MAX_VALUES);
        }
        if n_bytes > MAX_BYTES {
            return too_large("its text in bytes", n_bytes, MAX_BYTES);
        }
    }
    Ok(())
}

/// Visits every schema that the root reaches.
struct Walk<'a> {
    root: &'a Value,
    seen: HashSet<&'a str>,
    open: Vec<(String, &'a Value)>,
    /// Schemas that say `uniqueItems: false`, which means nothing, and is refused by the parser.
    idle: Vec<String>,
    /// Schemas whose `oneOf` lists constants, which is as good as `anyOf`.
    listed: Vec<String>,
}

impl<'a> Walk<'a> {
    fn run(&mut self) -> Result<(), GrammarError> {
        while let Some((path, schema)) = self.open.pop() {
            match schema {
                Value::Bool(_) => {}
                Value::Object(map) => {
                    if let Some(Value::Array(cases)) = map.get("oneOf")
                        && !map.contains_key("anyOf")
                        && are_distinct_constants(cases)
                    {
                        self.listed.push(path.clone());
                    }
                    for (keyword, value) in map {
                        // Of numbers, formats say how a program keeps them (int32, double).
                        if keyword != "format" || may_be_string(map.get("type")) {
                            self.visit(&path, keyword, value)?;
                        }
                    }
                }
                _ => {
                    let reason = format!("at {path} there should be an object, true or false");
                    return Err(GrammarError::Schema { reason });
                }
            }
        }
        Ok(())
    }

    fn visit(&mut self, path: &str, keyword: &'a str, value: &'a Value) -> Result<(), GrammarError> {
        let wrong = |reason: &str| {
            Err(GrammarError::Keyword { keyword: keyword.into(), path: path.into(), reason: reason.into() })
        };
        let here = format!("{path}/{}", escaped(keyword));
        match (role(keyword), value) {
            (Some(Role::Plain | Role::Annotation), _) => {}
            (Some(Role::Values), value) => {
                if let Some(number) = beyond_double(value) {
                    return wrong(&format!("{number} has more digits than can be enforced"));
                }
            }
            (Some(Role::Schema | Role::SchemaOrList), Value::Object(_) | Value::Bool(_)) => {
                self.open.push((here, value));
            }
            (Some(Role::List | Role::SchemaOrList), Value::Array(items)) => {
                let paths = (0..).map(|i| format!("{here}/{i}"));
                self.open.extend(paths.zip(items));
            }
            (Some(Role::Pattern), Value::String(pattern)) => return check_pattern(pattern, keyword, path),
            (Some(Role::Map), Value::Object(map)) => {
                if keyword == "patternProperties" {
                    map.keys().try_for_each(|pattern| check_pattern(pattern, keyword, path))?;
                }
                let path = |key: &String| format!("{here}/{}", escaped(key));
                self.open.extend(map.iter().map(|(key, value)| (path(key), value)));
            }
            (Some(Role::Reference), Value::String(name)) => return self.follow(path, name),
            (Some(Role::Type), Value::String(_) | Value::Array(_)) => {}
            (Some(Role::Format), Value::String(name)) if FORMATS.contains(&name.as_str()) => {}
            (Some(Role::Format), Value::String(name)) => {
                return wrong(&format!(
                    "the format '{name}' is not supported; use 'pattern', or leave it out"
                ));
            }
            (Some(_), _) => return wrong("its value has the wrong type"),
            (None, Value::Bool(false)) if keyword == IDLE => self.idle.push(path.into()),
            (None, _) => return wrong("this keyword is not supported"),
        }
        Ok(())
    }

    fn follow(&mut self, path: &str, name: &'a str) -> Result<(), GrammarError> {
        let wrong = |reason: &str| {
            let (keyword, path, reason) = ("$ref".into(), path.into(), format!("'{name}' {reason}"));
            Err(GrammarError::Keyword { keyword, path, reason })
        };
        let Some(pointer) = name.strip_prefix('#').filter(|p| p.is_empty() || p.starts_with('/')) else {
            return wrong("is not a pointer into the schema itself, such as '#/$defs/name'");
        };
        if pointer.contains(['~', '%']) {
            return wrong("has an escape, which is not supported");
        }
        let pointer = pointer.trim_end_matches('/');
        let Some(schema) = self.root.pointer(pointer) else { return wrong("does not exist") };
        if self.seen.insert(name) {
            self.open.push((format!("#{pointer}"), schema));
        }
        Ok(())
    }
}

/// A whole number in a value that no double is: the parser has no others.
fn beyond_double(value: &Value) -> Option<&Value> {
    const LAST: u64 = 1 << 53;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Number(n) => {
                let size = n.as_u64().or_else(|| n.as_i64().map(i64::unsigned_abs));
                if size.is_some_and(|size| size > LAST) {
                    return Some(value);
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Object(map) => open.extend(map.values()),
            _ => {}
        }
    }
    None
}

fn check_pattern(pattern: &str, keyword: &str, path: &str) -> Result<(), GrammarError> {
    regex::check_bounded(pattern).map_err(|refused| GrammarError::Keyword {
        keyword: keyword.into(),
        path: path.into(),
        reason: format!("{pattern:?}: {}", refused.reason),
    })
}

fn may_be_string(types: Option<&Value>) -> bool {
    match types {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|one| one == "string"),
        Some(one) => one == "string",
    }
}

/// A key as a part of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// What the parser had to say about a schema that passed the check.
pub(super) fn refused(schema: &Value, message: &str) -> GrammarError {
    let reason = message.lines().next().unwrap_or_default().trim().to_owned();
    let about = |keyword: &str, reason: &str| GrammarError::Keyword {
        keyword: keyword.into(),
        path: place_of(schema, keyword).unwrap_or_else(|| "#".into()),
        reason: reason.into(),
    };
    if reason.contains("oneOf constraints are not supported") {
        let reason = "its cases can be true at once; use 'anyOf', or give each a constant of its own";
        return about("oneOf", reason);
    }
    if reason.contains("ircular reference") {
        return about("$ref", &reason);
    }
    if reason.contains("nvalid type") {
        return about("type", &reason);
    }
    if reason.contains("patternProperty") {
        return about("patternProperties", &reason);
    }
    if reason.contains("'multipleOf'") {
        return about("multipleOf", &reason);
    }
    // Sums of bounds that are too large for the parser's own arithmetic end in a panic, which is caught.
    if reason.contains("range") || reason.contains("panic") {
        let bound = BOUNDS.into_iter().find(|bound| place_of(schema, bound).is_some());
        return match bound {
            Some(bound) => about(bound, &format!("a bound is beyond what can be computed with ({reason})")),
            None => GrammarError::Schema { reason },
        };
    }
    if reason.contains("regex") {
        return about("pattern", &reason);
    }
    GrammarError::Schema { reason }
}

/// Keywords with numbers.
const BOUNDS: [&str; 11] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

/// The first place that has a keyword.
fn place_of(schema: &Value, keyword: &str) -> Option<String> {
    let mut open = std::collections::VecDeque::from([("#".to_owned(), schema)]);
    while let Some((path, value)) = open.pop_front() {
        match value {
            Value::Object(map) if map.contains_key(keyword) => return Some(path),
            Value::Object(map) => {
                open.extend(map.iter().map(|(key, value)| (format!("{path}/{}", escaped(key)), value)));
            }
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(i, item)| (format!("{path}/{i}"), item)));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(schema: Value) -> String {
        prepare(&schema).unwrap_err().to_string()
    }

    #[test]
    fn cases_that_are_constants_exclude_one_another() {
        let prepared =
            |cases: Value| prepare(&json!({ "items": { "oneOf": cases } })).unwrap()["items"].clone();
        let listed = json!([{ "const": 1, "title": "one" }, { "const": "1" }, { "const": null }]);
        assert_eq!(prepared(listed.clone()), json!({ "anyOf": listed }));
        for cases in [
            json!([{ "const": 1 }, { "const": 1 }]),
            json!([{ "const": 1 }, { "const": 1.0 }]),
            json!([{ "const": [1] }, { "const": [1.0] }]),
            json!([{ "const": { "a": 1 } }, { "const": { "a": 1.0 } }]),
            json!([{}]),
        ] {
            assert_eq!(prepared(cases.clone()), json!({ "oneOf": cases }));
        }
    }

    #[test]
    fn what_cannot_be_enforced_is_named_with_its_place() {
        let cases = [
            (json!({ "not": {} }), "'not' at #: this keyword is not supported"),
            (
                json!({ "properties": { "a/b": { "minLenght": 1 } } }),
                "'minLenght' at #/properties/a~1b: this",
            ),
            (json!({ "items": { "uniqueItems": true } }), "'uniqueItems' at #/items: this"),
            (json!({ "anyOf": [true, { "if": true }] }), "'if' at #/anyOf/1: this"),
            (json!({ "format": "color" }), "'format' at #: the format 'color' is not"),
            (json!({ "$ref": "other.json" }), "'$ref' at #: 'other.json' is not a pointer"),
            (json!({ "$ref": "#/$defs/x" }), "'$ref' at #: '#/$defs/x' does not exist"),
            (json!({ "properties": [] }), "'properties' at #: its value has the wrong type"),
            (json!({ "items": 5 }), "'items' at #: its value has the wrong type"),
            (json!({ "pattern": "a(?=b)" }), "'pattern' at #: \"a(?=b)\": look-around"),
            (json!({ "patternProperties": { "[": true } }), "'patternProperties' at #: \"[\": unclosed"),
            (
                json!({ "enum": [{ "a": [9_007_199_254_740_993_i64] }] }),
                "'enum' at #: 9007199254740993 has more",
            ),
            (json!({ "minimum": -9_007_199_254_740_993_i64 }), "'minimum' at #: -9007199254740993 has more"),
            (json!({ "anyOf": [5] }), "at #/anyOf/0 there should be an object"),
        ];
        for (schema, want) in cases {
            let text = error(schema);
            assert!(text.contains(want), "{text} has not {want}");
        }
    }

    #[test]
    fn what_the_parser_says_is_kept() {
        let bounded = json!({ "items": { "minLength": 3 } });
        let said = refused(&bounded, "panic: overflow\nat a place").to_string();
        assert!(
            said.contains("'minLength' at #/items: a bound is beyond") && said.contains("(panic: overflow)"),
            "{said}"
        );
        let said = refused(&json!({}), "panic: overflow").to_string();
        assert!(said.contains("panic: overflow") && !said.contains("bound"), "{said}");
    }

    #[test]
    fn only_what_is_reached_must_be_enforceable() {
        let defs = json!({ "used": { "type": "string" }, "unused": { "not": {} } });
        assert!(prepare(&json!({ "$ref": "#/$defs/used", "$defs": defs })).is_ok());
        assert!(
            error(json!({ "$ref": "#/$defs/unused", "$defs": defs })).contains("'not' at #/$defs/unused")
        );
        // References in a circle are visited once.
        assert!(prepare(&json!({ "properties": { "next": { "$ref": "#" } } })).is_ok());
    }

    #[test]
    fn annotations_stay_and_settings_of_the_parser_are_not_the_schemas() {
        let constant = json!({ "uniqueItems": false });
        let given = json!({
            "title": "t",
            "x-order": 1,
            "x-guidance": { "lenient": true },
            "properties": { "a": { "uniqueItems": false, "const": constant } },
        });
        let prepared = prepare(&given).unwrap();
        assert_eq!(prepared["x-guidance"], json!({ "whitespace_pattern": WHITESPACE }));
        assert_eq!(prepared["properties"]["a"], json!({ "const": constant }));
        assert_eq!((prepared["title"].as_str(), prepared["x-order"].as_u64()), (Some("t"), Some(1)));
    }

    #[test]
    fn a_format_matters_to_strings_only() {
        assert!(prepare(&json!({ "type": ["integer", "null"], "format": "int32" })).is_ok());
        assert!(error(json!({ "type": ["string", "null"], "format": "int32" })).contains("'format' at #"));
    }

    #[test]
    fn size_and_depth_are_bounded() {
        let deep = (0..MAX_DEPTH + 1).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert!(error(deep).contains("its depth is 101, the limit is 100"));
        assert!(error(json!({ "enum": vec![1; MAX_VALUES] })).contains("the number of its values"));
        assert!(error(json!({ "const": "x".repeat(MAX_BYTES + 1) })).contains("its text in bytes"));
    }
}
