//! `GET /props` and `/slots`: what runs here, and what is going on.

use axum::extract::State;
use minfer_engine::GenerateParams;
use serde_json::{Value, json};

use super::body::settings;
use crate::body::Json;
use crate::openai::FINGERPRINT;
use crate::state::SharedApp;

pub(super) async fn props(State(app): State<SharedApp>) -> Json {
    let model = app.model();
    let tokenizer = model.tokenizer();
    let token = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
    let metadata = model.file().metadata();
    let template = metadata.opt_str("tokenizer.chat_template").ok().flatten();
    let path = model.file().files().next().and_then(|file| file.path);
    Json(json!({
        "default_generation_settings": {
            "n_ctx": app.engine().n_ctx(),
            "params": settings(&app, &GenerateParams::default()),
        },
        "total_slots": app.engine().n_seq_max(),
        "model_alias": app.name(),
        "model_path": path.map(|path| path.display().to_string()),
        "modalities": { "vision": false, "audio": false },
        "chat_template": template.unwrap_or_default(),
        "bos_token": token(tokenizer.special_ids().bos),
        "eos_token": token(tokenizer.special_ids().eos),
        "build_info": FINGERPRINT,
        "is_sleeping": false,
    }))
}

/// Requests share no fixed places here: as many count as taken as there are requests.
pub(super) async fn slots(State(app): State<SharedApp>) -> Json {
    let n_running = app.engine().stats().n_running;
    let slot = |id: usize| {
        json!({
            "id": id,
            "n_ctx": app.engine().n_ctx(),
            "speculative": false,
            "is_processing": id < n_running,
        })
    };
    Json((0..app.engine().n_seq_max()).map(slot).collect::<Vec<Value>>().into())
}
