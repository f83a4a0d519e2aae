//! What is answered at once: the model, graphs, values of the last run.

use axum::extract::State;
use axum::http::StatusCode;
use minfer_engine::memory::Plan;
use minfer_engine::{ContextParams, insight, settings};
use serde_json::{Value, json};

use super::ask::{self, StepAsk, ValuesAsk};
use super::lab::aside;
use crate::body::{Json, JsonBody};
use crate::error::ApiError;
use crate::state::SharedApp;

/// `GET /graph/model`.
pub(super) async fn model(State(app): State<SharedApp>) -> Result<Json, ApiError> {
    aside(move || {
        let model = app.model();
        let hparams = model.description().hparams();
        let params = app.insight();
        let params = ContextParams { n_ctx: app.engine().n_ctx(), ..params.clone() };
        let plan = Plan::new(model, &params)?;
        Ok(Json(json!({
            "name": app.name(),
            "architecture": model.description().architecture(),
            "n_layers": hparams.n_layers,
            "n_vocab": hparams.n_vocab,
            "n_ctx": plan.n_ctx,
            "settings": settings::keys()
                .map(|(key, value, help)| json!({ "key": key, "value": value, "help": help }))
                .collect::<Vec<_>>(),
            "parts": plan.parts().iter()
                .map(|(part, bytes)| json!({ "name": part.name(), "bytes": bytes }))
                .collect::<Vec<_>>(),
            "limits": limits(),
        })))
    })
    .await
}

fn limits() -> Value {
    json!({
        "prompt": ask::MAX_PROMPT,
        "tokens": ask::MAX_TOKENS,
        "compare_prompt": ask::MAX_COMPARE_PROMPT,
        "compare_tokens": ask::MAX_COMPARE_TOKENS,
    })
}

/// `POST /graph/stages`.
pub(super) async fn stages(State(app): State<SharedApp>, JsonBody(body): JsonBody) -> Result<Json, ApiError> {
    let StepAsk { size, set } = StepAsk::of(body)?;
    aside(move || {
        let params = set.apply(app.insight().clone());
        Ok(Json(insight::stages(app.model(), &params, size)?))
    })
    .await
}

/// `POST /graph/values`.
pub(super) async fn values(State(app): State<SharedApp>, JsonBody(body): JsonBody) -> Result<Json, ApiError> {
    let ValuesAsk { step, node } = ValuesAsk::of(body)?;
    let mut run = app.lab().last_run().lock_owned().await;
    aside(move || {
        let Some(run) = run.as_mut() else { return Err(missing("nothing has been run yet")) };
        match run.values(step, &node)? {
            Some(values) => Ok(Json(values.to_json())),
            None => Err(missing("that step has no node of this name with a value of floats")),
        }
    })
    .await
}

fn missing(message: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "no_such_value", message)
}
