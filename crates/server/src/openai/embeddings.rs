//! `POST /v1/embeddings`.

use std::sync::Arc;

use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::prompt::Prompt;
use crate::body::{Json, RawBody};
use crate::chat::blocking;
use crate::embed::{embed, shorten};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::state::{App, SharedApp};

/// Most texts in one request, as for OpenAI.
const MAX_INPUTS: usize = 2048;

/// How vectors are written.
const FORMATS: [&str; 2] = ["float", "base64"];

/// The endpoint.
pub(super) async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Json, ApiError> {
    let read = |body| {
        let mut fields = Fields::of_body(body)?;
        let inputs = Prompt::read(&mut fields, "input", MAX_INPUTS);
        Ok((fields, inputs))
    };
    let (mut fields, inputs) = body.read(read).await?;
    app.check_model(fields.string("model")?.as_deref())?;
    let inputs = inputs?;
    let is_base64 = fields.one_of("encoding_format", &FORMATS)? == Some(1);
    let n_embd = app.model().description().hparams().n_embd;
    let dimensions = fields.count("dimensions", 1..=n_embd)?;
    let texts = encode(&app, inputs).await?;
    let n_tokens: usize = texts.iter().map(Vec::len).sum();
    let vectors = embed(&app, texts).await?;
    let entry = |(index, mut vector): (usize, Vec<f32>)| {
        shorten(&mut vector, dimensions);
        json!({ "object": "embedding", "index": index, "embedding": written(&vector, is_base64) })
    };
    let data: Vec<Value> = vectors.into_iter().enumerate().map(entry).collect();
    Ok(Json(json!({
        "object": "list",
        "data": data,
        "model": app.name(),
        "usage": { "prompt_tokens": n_tokens, "total_tokens": n_tokens },
    })))
}

/// The tokens of each text.
async fn encode(app: &Arc<App>, inputs: Vec<Prompt>) -> Result<Vec<Vec<u32>>, ApiError> {
    for input in &inputs {
        app.check_length(input.n_bytes(), "input")?;
        if input.is_empty() {
            return Err(ApiError::field("input", "not empty"));
        }
    }
    let encode = move |app: &App| inputs.iter().map(|input| input.encode(app.model())).collect();
    blocking(app, encode).await
}

/// Numbers, or their bytes, lowest first, in base64.
fn written(vector: &[f32], is_base64: bool) -> Value {
    if !is_base64 {
        return vector.into();
    }
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    STANDARD.encode(bytes).into()
}
