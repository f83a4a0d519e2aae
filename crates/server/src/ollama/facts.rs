//! What there is to know of the model: `tags`, `show`, `ps`, `version`.

use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::body::{Json, JsonBody};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::metadata::{file_type, meta_json};
use crate::state::{App, SharedApp};

pub(super) async fn version() -> Json {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

pub(super) async fn tags(State(app): State<SharedApp>) -> Json {
    let model = |name: &String| {
        let mut entry = entry(&app, name);
        entry["modified_at"] = started(&app).into();
        entry
    };
    let models: Vec<Value> = app.names().iter().map(model).collect();
    Json(json!({ "models": models }))
}

pub(super) async fn ps(State(app): State<SharedApp>) -> Json {
    let mut entry = entry(&app, app.name());
    // The model stays as long as the server does.
    entry["expires_at"] = "9999-12-31T23:59:59Z".into();
    entry["size_vram"] = 0.into();
    entry["context_length"] = app.engine().n_ctx().into();
    Json(json!({ "models": [entry] }))
}

pub(super) async fn show(State(app): State<SharedApp>, JsonBody(body): JsonBody) -> Result<Json, ApiError> {
    let mut fields = Fields::of_body(body)?;
    let older = fields.string("name")?;
    let Some(name) = fields.string("model")?.or(older) else { return Err(fields.wrong("model", "a string")) };
    let verbose = fields.bool("verbose")?.unwrap_or(false);
    app.check_model(Some(&name))?;
    let metadata = app.model().file().metadata();
    let template = metadata.opt_str("tokenizer.chat_template").ok().flatten().unwrap_or_default();
    let info: Map<String, Value> = metadata
        .iter()
        .filter(|(key, _)| *key != "tokenizer.chat_template")
        .map(|(key, value)| (key.to_owned(), meta_json(value, verbose)))
        .collect();
    Ok(Json(json!({
        "modelfile": format!("FROM {name}\n"),
        "parameters": "",
        "template": template,
        "details": details(&app),
        "model_info": info,
        "capabilities": capabilities(&app),
        "modified_at": started(&app),
    })))
}

fn entry(app: &App, name: &str) -> Value {
    json!({
        "name": name,
        "model": name,
        "size": app.model().weight_bytes(),
        "digest": "",
        "details": details(app),
    })
}

fn details(app: &App) -> Value {
    let metadata = app.model().file().metadata();
    let text = |key| metadata.opt_str(key).ok().flatten();
    let family = text("general.architecture").unwrap_or_default();
    let n_params: usize = app.model().file().tensors().map(minfer_gguf::TensorInfo::n_elems).sum();
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": text("general.size_label").map_or_else(|| short_count(n_params), str::to_owned),
        "quantization_level": file_type(app.model()),
    })
}

/// A count in a few letters: `135M`, `0.5B`.
fn short_count(n: usize) -> String {
    let n = n as f64;
    if n >= 1e9 {
        format!("{:.1}B", n / 1e9)
    } else if n >= 1e6 {
        format!("{:.0}M", n / 1e6)
    } else {
        format!("{:.0}K", n / 1e3)
    }
}

fn capabilities(app: &App) -> Vec<&'static str> {
    let mut all = vec!["completion"];
    let format = app.templates().reply_format(true);
    if format.tools.is_some() {
        all.push("tools");
    }
    if format.reasoning.is_some() {
        all.push("thinking");
    }
    all
}

fn started(app: &App) -> String {
    let seconds = i64::try_from(app.created()).unwrap_or(0);
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}
