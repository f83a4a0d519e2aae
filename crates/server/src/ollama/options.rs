//! What chats and completions have in common: `options`, `format`, `think`, `keep_alive`.

use serde_json::{Map, Value, json};

use crate::chat::{ResponseFormat, Settings};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::openai::settings;

/// Options about how a model is loaded, which happened before; and what changes no answer here.
const IGNORED: [&str; 18] = [
    "num_ctx",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "num_keep",
    "use_mmap",
    "use_mlock",
    "low_vram",
    "vocab_only",
    "numa",
    "f16_kv",
    "logits_all",
    "penalize_newline",
    "embedding_only",
    "mirostat_tau",
    "mirostat_eta",
    "tfs_z",
];

/// How hard a model may think.
const EFFORTS: [&str; 3] = ["low", "medium", "high"];

/// Reads `options` and `format`.
pub(super) fn read(fields: &mut Fields) -> Result<Settings, ApiError> {
    let format = format(fields)?;
    fields.ignore(&["keep_alive"]);
    let mut options = match fields.object("options")? {
        Some(options) => options,
        None => Fields::of(json!({}), "options")?,
    };
    options.ignore(&IGNORED);
    // As for Ollama, -1 is no limit, and -2 as much as the context holds.
    let n_predict = options.integer("num_predict", -2..=i64::MAX)?;
    let mut settings = settings::read(&mut options)?;
    settings.params.n_predict = n_predict.and_then(|n| usize::try_from(n).ok());
    settings.format = format;
    settings.n = 1;
    Ok(settings)
}

/// `"json"`, or a schema.
fn format(fields: &mut Fields) -> Result<ResponseFormat, ApiError> {
    match fields.take("format") {
        None => Ok(ResponseFormat::Text),
        Some(Value::String(word)) if word.is_empty() => Ok(ResponseFormat::Text),
        Some(Value::String(word)) if word == "json" => Ok(ResponseFormat::JsonObject),
        Some(schema @ Value::Object(_)) => Ok(ResponseFormat::JsonSchema { schema, param: "format".into() }),
        Some(_) => Err(fields.wrong("format", "'json' or a JSON Schema")),
    }
}

/// `think`: yes, no, or how hard; the arguments of the template that say so.
pub(super) fn think(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    let think = match fields.take("think") {
        None => return Ok(Map::new()),
        Some(Value::Bool(think)) => json!({ "enable_thinking": think }),
        Some(Value::String(effort)) if EFFORTS.contains(&effort.as_str()) => {
            json!({ "enable_thinking": true, "reasoning_effort": effort })
        }
        Some(_) => return Err(fields.wrong("think", "true, false, 'low', 'medium' or 'high'")),
    };
    Ok(if let Value::Object(map) = think { map } else { Map::new() })
}

/// Whether the answer is to come as it is made; here it is unless told otherwise.
pub(super) fn stream(fields: &mut Fields) -> Result<bool, ApiError> {
    Ok(fields.bool("stream")?.unwrap_or(true))
}
