//! What an answer must look like: `response_format`, and llama.cpp's `grammar` and `json_schema`.

use serde_json::Value;

use crate::chat::ResponseFormat;
use crate::error::ApiError;
use crate::fields::Fields;

const TYPES: [&str; 4] = ["text", "json_object", "json_schema", "grammar"];
const SYNTAXES: [&str; 3] = ["gbnf", "lark", "regex"];

pub(super) fn read(fields: &mut Fields) -> Result<ResponseFormat, ApiError> {
    let grammar = fields.string("grammar")?.filter(|text| !text.is_empty());
    let schema = fields.take("json_schema");
    let format = match fields.object("response_format")? {
        Some(format) => response_format(format)?,
        None => ResponseFormat::Text,
    };
    match (format, grammar, schema) {
        (format, None, None) => Ok(format),
        (ResponseFormat::Text, Some(grammar), None) => Ok(ResponseFormat::Gbnf(grammar)),
        (ResponseFormat::Text, None, Some(schema)) => checked_schema(schema, fields.path_of("json_schema")),
        _ => {
            Err(fields
                .wrong("response_format", "left out where grammar or json_schema is given, one of them"))
        }
    }
}

/// Reads the object that says it.
pub(super) fn response_format(mut format: Fields) -> Result<ResponseFormat, ApiError> {
    let kind = format.one_of("type", &TYPES)?;
    match kind.map(|index| TYPES[index]) {
        None => Err(format.wrong("type", crate::fields::one_of(&TYPES))),
        Some("json_object") => match format.take("schema") {
            Some(schema) => checked_schema(schema, format.path_of("schema")),
            None => Ok(ResponseFormat::JsonObject),
        },
        Some("json_schema") => json_schema(format),
        Some("grammar") => grammar(format),
        Some(_) => Ok(ResponseFormat::Text),
    }
}

/// The schema within `json_schema`, as OpenAI has it, or beside the type.
fn json_schema(mut format: Fields) -> Result<ResponseFormat, ApiError> {
    if let Some(schema) = format.take("schema") {
        return checked_schema(schema, format.path_of("schema"));
    }
    let missing = |format: &Fields| format.wrong("json_schema", "an object with a schema");
    let Some(mut inner) = format.object("json_schema")? else { return Err(missing(&format)) };
    match inner.take("schema") {
        Some(schema) => checked_schema(schema, inner.path_of("schema")),
        None => Err(missing(&format)),
    }
}

fn checked_schema(schema: Value, param: String) -> Result<ResponseFormat, ApiError> {
    match schema {
        Value::Object(_) | Value::Bool(_) => Ok(ResponseFormat::JsonSchema { schema, param }),
        _ => Err(ApiError::field(param, "a JSON Schema")),
    }
}

fn grammar(mut format: Fields) -> Result<ResponseFormat, ApiError> {
    let syntax = format.one_of("syntax", &SYNTAXES)?.map_or("gbnf", |index| SYNTAXES[index]);
    let definition = format.required_string("definition")?;
    Ok(match syntax {
        "lark" => ResponseFormat::Lark(definition),
        "regex" => ResponseFormat::Regex(definition),
        _ => ResponseFormat::Gbnf(definition),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn format(body: Value) -> Result<ResponseFormat, ApiError> {
        read(&mut Fields::of_body(body).unwrap())
    }

    #[test]
    fn a_schema_may_stand_in_four_places() {
        let schema = json!({ "type": "object" });
        for (body, place) in [
            (
                json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "x", "schema": schema } } }),
                "response_format.json_schema.schema",
            ),
            (
                json!({ "response_format": { "type": "json_schema", "schema": schema } }),
                "response_format.schema",
            ),
            (
                json!({ "response_format": { "type": "json_object", "schema": schema } }),
                "response_format.schema",
            ),
            (json!({ "json_schema": schema }), "json_schema"),
        ] {
            let want = ResponseFormat::JsonSchema { schema: schema.clone(), param: place.into() };
            assert_eq!(format(body), Ok(want));
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (body, param) in [
            (json!({ "response_format": { "type": "xml" } }), "response_format.type"),
            (json!({ "response_format": {} }), "response_format.type"),
            (json!({ "response_format": "json" }), "response_format"),
            (json!({ "response_format": { "type": "json_schema" } }), "response_format.json_schema"),
            (json!({ "json_schema": 3 }), "json_schema"),
            (json!({ "json_schema": {}, "grammar": "root ::= x" }), "response_format"),
        ] {
            assert_eq!(format(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }

    #[test]
    fn grammars_come_in_three_syntaxes() {
        let of = |syntax: &str| {
            let grammar = json!({ "type": "grammar", "syntax": syntax, "definition": "d" });
            format(json!({ "response_format": grammar })).unwrap()
        };
        assert_eq!(of("lark"), ResponseFormat::Lark("d".into()));
        assert_eq!(of("regex"), ResponseFormat::Regex("d".into()));
        assert_eq!(format(json!({ "grammar": "d" })), Ok(ResponseFormat::Gbnf("d".into())));
    }
}
