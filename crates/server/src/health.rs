//! `GET /health`: is the model there? `GET /ready`: does it take requests? Before it is there, `crate::routes` answers.

use axum::extract::State;
use serde_json::json;

use crate::body::Json;
use crate::error::ApiError;
use crate::routes::Routes;
use crate::state::SharedApp;

/// The endpoints, which need no key.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes.public("/health", health).public("/v1/health", health).public("/ready", ready)
}

async fn health() -> Json {
    Json(json!({ "status": "ok" }))
}

async fn ready(State(app): State<SharedApp>) -> Result<Json, ApiError> {
    if app.is_draining() {
        return Err(ApiError::stopping());
    }
    let stats = app.engine().stats();
    if stats.n_waiting >= app.engine().max_queue() {
        return Err(ApiError::busy("the queue is full"));
    }
    Ok(Json(json!({ "status": "ok", "running": stats.n_running, "waiting": stats.n_waiting })))
}
