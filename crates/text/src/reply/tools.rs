//! What the request says about its tools: names, and the kinds of their parameters.

use std::collections::HashSet;

use serde_json::Value;

/// The tools of a request, as far as reading calls needs them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tools(Vec<Tool>);

#[derive(Clone, Debug, PartialEq)]
struct Tool {
    name: String,
    parameters: Value,
}

/// How the text of a parameter is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As text, whatever it says.
    Text,
    /// As JSON where it is, as text where not.
    Json,
    /// As null where it says so, else as text.
    TextOrNull,
}

impl Tools {
    /// Reads the tools of a request: `{"type": "function", "function": {"name", "parameters"}}`, or the inner object alone
    /// with its schema as `parameters` or `input_schema`. What has no name is left out.
    pub fn from_json(tools: &Value) -> Self {
        Tools(tools.as_array().into_iter().flatten().filter_map(tool).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a tool of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|tool| tool.name == name)
    }

    /// Whether a parameter that is written for itself is read as text, whatever it says (but null, where that may be).
    pub fn is_text(&self, name: &str, parameter: &str) -> bool {
        self.kind(name, parameter) != Kind::Json
    }

    pub(super) fn kind(&self, name: &str, parameter: &str) -> Kind {
        let Some(tool) = self.0.iter().find(|tool| tool.name == name) else { return Kind::Json };
        let schema = tool.parameters.get("properties").and_then(|p| p.get(parameter));
        match schema.map(|schema| Types::of(schema, &tool.parameters)).unwrap_or_default() {
            Types { text: true, null: true, .. } => Kind::TextOrNull,
            Types { text: true, .. } => Kind::Text,
            _ => Kind::Json,
        }
    }
}

fn tool(json: &Value) -> Option<Tool> {
    let function = json.get("function").unwrap_or(json);
    let parameters = function.get("parameters").or_else(|| function.get("input_schema"));
    Some(Tool {
        name: function.get("name")?.as_str()?.to_owned(),
        parameters: parameters.cloned().unwrap_or_default(),
    })
}

/// The types that matter among those a schema allows.
#[derive(Clone, Copy, Debug, Default)]
struct Types {
    text: bool,
    null: bool,
}

impl Types {
    /// Of a schema and all that it refers to, each read once.
    fn of(schema: &Value, root: &Value) -> Self {
        let (mut types, mut open) = (Self::default(), vec![schema]);
        let mut seen = HashSet::new();
        while let Some(schema) = open.pop().filter(|_| !(types.text && types.null)) {
            types.add(schema);
            for key in ["anyOf", "oneOf", "allOf"] {
                open.extend(schema.get(key).and_then(Value::as_array).into_iter().flatten());
            }
            let reference = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
            let target = reference.and_then(|pointer| root.pointer(pointer));
            open.extend(target.filter(|target| seen.insert(std::ptr::from_ref(*target))));
        }
        types
    }

    /// What a schema itself says.
    fn add(&mut self, schema: &Value) {
        match schema.get("type") {
            Some(Value::String(name)) => self.add_name(name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).for_each(|n| self.add_name(n))
            }
            _ => self.add_values(schema),
        }
    }

    fn add_name(&mut self, name: &str) {
        self.text |= name == "string";
        self.null |= name == "null";
    }

    /// Without a type, the values that are allowed tell.
    fn add_values(&mut self, schema: &Value) {
        let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        for value in listed.chain(schema.get("const")) {
            self.text |= value.is_string();
            self.null |= value.is_null();
        }
    }
}

/// The JSON of a parameter's whole text.
pub(super) fn value_json(kind: Kind, text: &str) -> String {
    let trimmed = text.trim();
    let word = match trimmed {
        "null" | "None" => Some("null"),
        "true" | "True" => Some("true"),
        "false" | "False" => Some("false"),
        _ => None,
    };
    match (kind, word) {
        (Kind::Json, Some(word)) => word.to_owned(),
        (Kind::TextOrNull, Some("null")) => "null".to_owned(),
        (Kind::Json, None) if serde_json::from_str::<Value>(trimmed).is_ok() => trimmed.to_owned(),
        _ => Value::from(text).to_string(),
    }
}

/// The inside of a JSON string that says `text`. Any cut of a text gives the same, put together.
pub(super) fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(schema: Value) -> Kind {
        let parameters = json!({"properties": {"p": schema}, "$defs": {"s": {"type": "string"}}});
        Tools::from_json(&json!([{"type": "function", "function": {"name": "f", "parameters": parameters}}]))
            .kind("f", "p")
    }

    #[test]
    fn a_schema_tells_text_from_json() {
        assert_eq!(kind(json!({"type": "string"})), Kind::Text);
        assert_eq!(kind(json!({"enum": ["a", "b"]})), Kind::Text);
        assert_eq!(kind(json!({"$ref": "#/$defs/s"})), Kind::Text);
        assert_eq!(kind(json!({"type": ["string", "null"]})), Kind::TextOrNull);
        assert_eq!(kind(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})), Kind::TextOrNull);
        assert_eq!(kind(json!({"type": "integer"})), Kind::Json);
        assert_eq!(kind(json!({})), Kind::Json);
        assert_eq!(kind(json!({"$ref": "#"})), Kind::Json);
    }

    #[test]
    fn what_is_referred_to_often_is_read_once() {
        let often = |name: &str| {
            let reference = json!({"$ref": format!("#/$defs/{name}")});
            json!({"anyOf": vec![reference; 100]})
        };
        let defs = json!({
            "b": often("c"), "c": often("d"), "d": often("e"), "e": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"},
        });
        let properties = json!({"p": often("b"), "q": often("loop")});
        let tools = Tools::from_json(
            &json!([{"name": "f", "parameters": {"properties": properties, "$defs": defs}}]),
        );
        assert_eq!((tools.kind("f", "p"), tools.kind("f", "q")), (Kind::Text, Kind::Json));
    }

    #[test]
    fn text_becomes_a_value_of_its_kind() {
        let given = [
            (Kind::Text, "1", "\"1\""),
            (Kind::Json, " 1.0 ", "1.0"),
            (Kind::Json, "True", "true"),
            (Kind::Json, "[1, {\"a\": null}]", "[1, {\"a\": null}]"),
            (Kind::Json, "not json", "\"not json\""),
            (Kind::TextOrNull, "None", "null"),
            (Kind::TextOrNull, "true", "\"true\""),
        ];
        for (kind, text, json) in given {
            assert_eq!(value_json(kind, text), json, "{kind:?} {text}");
        }
    }
}
