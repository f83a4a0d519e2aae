//! `GET /v1/models`, and one of them.

use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::body::Json;
use crate::error::ApiError;
use crate::state::{App, SharedApp};

pub(super) async fn list(State(app): State<SharedApp>) -> Json {
    let data: Vec<Value> = app.names().iter().map(|name| entry(&app, name)).collect();
    Json(json!({ "object": "list", "data": data }))
}

pub(super) async fn retrieve(
    State(app): State<SharedApp>,
    Path(name): Path<String>,
) -> Result<Json, ApiError> {
    app.check_model(Some(&name))?;
    Ok(Json(entry(&app, &name)))
}

fn entry(app: &App, name: &str) -> Value {
    let hparams = app.model().description().hparams();
    json!({
        "id": name,
        "object": "model",
        "created": app.created(),
        "owned_by": "minfer",
        "meta": {
            "n_vocab": app.model().n_vocab(),
            "n_ctx": app.engine().n_ctx(),
            "n_ctx_train": hparams.n_ctx_train,
            "n_embd": hparams.n_embd,
            "size": app.model().weight_bytes(),
        },
    })
}
