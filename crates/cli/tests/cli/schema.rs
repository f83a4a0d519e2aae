//! The part of JSON Schema that the schemas of this project use.

use serde_json::Value;

/// What is wrong with `value`, each fault with its place.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, value, "$", &mut faults);
    faults
}

fn check(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    if let Some(types) = schema.get("type") {
        let types: Vec<&str> = match types {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        if !types.iter().any(|name| is(name, value)) {
            return faults.push(format!("{at} is no {}", types.join(" or ")));
        }
    }
    if schema.get("const").is_some_and(|only| only != value) {
        faults.push(format!("{at} is {value}, not {}", schema["const"]));
    }
    if let Some(all) = schema.get("enum").and_then(Value::as_array)
        && !all.contains(value)
    {
        faults.push(format!("{at} is {value}, which is none of {}", schema["enum"]));
    }
    if let (Some(items), Some(elements)) = (schema.get("items"), value.as_array()) {
        for (i, element) in elements.iter().enumerate() {
            check(items, element, &format!("{at}[{i}]"), faults);
        }
    }
    if let Some(object) = value.as_object() {
        members(schema, object, at, faults);
    }
}

fn members(schema: &Value, object: &serde_json::Map<String, Value>, at: &str, faults: &mut Vec<String>) {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if name.as_str().is_some_and(|name| !object.contains_key(name)) {
            faults.push(format!("{at} has no '{}'", name.as_str().unwrap_or_default()));
        }
    }
    let known = schema.get("properties").and_then(Value::as_object);
    for (name, member) in object {
        match known.and_then(|known| known.get(name)) {
            Some(schema) => check(schema, member, &format!("{at}.{name}"), faults),
            None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                faults.push(format!("{at} has '{name}', which the schema does not know"));
            }
            None => {}
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => false,
    }
}
