//! `POST /api/embed`.

use std::time::Instant;

use axum::extract::State;
use serde_json::json;

use crate::body::{Json, RawBody};
use crate::embed::{embed, shorten};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::state::{App, SharedApp};

/// Most texts in one request.
const MAX_INPUTS: usize = 2048;

/// The endpoint.
pub(super) async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Json, ApiError> {
    let start = Instant::now();
    let mut fields = body.read(Fields::of_body).await?;
    app.check_model(Some(&fields.required_string("model")?))?;
    let texts = fields.strings("input", MAX_INPUTS)?;
    let texts = texts.ok_or_else(|| fields.wrong("input", "a text or a list of texts"))?;
    let truncate = fields.bool("truncate")?.unwrap_or(true);
    let dimensions = fields.count("dimensions", 1..=app.model().description().hparams().n_embd)?;
    for text in &texts {
        app.check_length(text.len(), "input")?;
    }
    let encode = move |app: &App| -> Result<Vec<Vec<u32>>, ApiError> {
        let n_ctx = app.engine().n_ctx();
        let encode = |text: &String| {
            let mut tokens = app.model().encode(text)?;
            if truncate {
                tokens.truncate(n_ctx);
            }
            Ok(tokens)
        };
        texts.iter().map(encode).collect()
    };
    let texts = crate::chat::blocking(&app, encode).await?;
    let n_tokens: usize = texts.iter().map(Vec::len).sum();
    let mut vectors = embed(&app, texts).await?;
    vectors.iter_mut().for_each(|vector| shorten(vector, dimensions));
    let total = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(Json(json!({
        "model": app.name(),
        "embeddings": vectors,
        "total_duration": total,
        "load_duration": 0,
        "prompt_eval_count": n_tokens,
    })))
}
