//! `POST /tokenize`, `/detokenize`, `/apply-template`: what stands between a text and the model.

use axum::extract::State;
use minfer_text::tokenizer::{EncodeOptions, Tokenizer};
use serde_json::{Value, json};

use crate::body::{Json, RawBody};
use crate::chat::blocking;
use crate::error::ApiError;
use crate::fields::{Fields, whole};
use crate::openai::ChatCall;
use crate::state::SharedApp;

pub(super) async fn tokenize(State(app): State<SharedApp>, body: RawBody) -> Result<Json, ApiError> {
    let mut fields = body.read(Fields::of_body).await?;
    let content = fields.required_string("content")?;
    let options = EncodeOptions {
        add_special: fields.bool("add_special")?.unwrap_or(false),
        parse_special: fields.bool("parse_special")?.unwrap_or(true),
    };
    let with_pieces = fields.bool("with_pieces")?.unwrap_or(false);
    let tokens = blocking(&app, move |app| {
        let tokenizer = app.model().tokenizer();
        let ids = tokenizer
            .encode(&content, options)
            .map_err(|error| ApiError::bad("invalid_value", error.to_string()))?
            .ids;
        Ok(if with_pieces { ids.iter().map(|id| piece(tokenizer, *id)).collect() } else { Value::from(ids) })
    });
    Ok(Json(json!({ "tokens": tokens.await? })))
}

/// A token and its text, or its bytes if they are none.
fn piece(tokenizer: &Tokenizer, id: u32) -> Value {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "id": id, "piece": text }),
        Err(_) => json!({ "id": id, "piece": bytes }),
    }
}

pub(super) async fn detokenize(State(app): State<SharedApp>, body: RawBody) -> Result<Json, ApiError> {
    let decode = move |body| {
        let mut fields = Fields::of_body(body)?;
        let list = fields.list("tokens", usize::MAX)?.unwrap_or_default();
        let n_vocab = app.model().n_vocab();
        let id = |value: &Value| u32::try_from(whole(value)?).ok().filter(|id| (*id as usize) < n_vocab);
        let ids: Option<Vec<u32>> = list.iter().map(id).collect();
        let ids =
            ids.ok_or_else(|| fields.wrong("tokens", format_args!("a list of token ids below {n_vocab}")))?;
        let decoded = app.model().tokenizer().decode(&ids, true);
        decoded.map_err(|error| ApiError::bad("invalid_value", error.to_string()))
    };
    Ok(Json(json!({ "content": body.read(decode).await? })))
}

pub(super) async fn apply_template(State(app): State<SharedApp>, body: RawBody) -> Result<Json, ApiError> {
    let call = body.read(ChatCall::read).await?;
    let prompt = blocking(&app, move |app| app.templates().render(&call.request));
    Ok(Json(json!({ "prompt": prompt.await? })))
}
