//! Anthropic's API: `/v1/messages` and `/v1/messages/count_tokens`.

mod body;
mod content;
mod request;
mod stream;
mod tools;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::answer::respond;
use crate::body::{Json, RawBody};
use crate::chat::{self, blocking};
use crate::error::ApiError;
use crate::frames::Framing;
use crate::routes::Routes;
use crate::state::SharedApp;

pub use body::message_body;
pub use request::MessagesCall;

/// The endpoints.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes.post("/v1/messages", create).post("/v1/messages/count_tokens", count_tokens)
}

async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Response, ApiError> {
    let call = body.read(MessagesCall::read).await?;
    app.check_model(call.model.as_deref())?;
    let id = app.new_id("msg_");
    let answers = chat::open(&app, call.request).await?;
    if call.stream {
        let render = stream::MessageStream::new(id, app.name());
        return Ok(respond(answers, render, Framing::Events));
    }
    let all = answers.whole().await?;
    let whole = all.into_iter().next().unwrap_or_default();
    Ok(Json(message_body(&id, app.name(), &whole)).into_response())
}

async fn count_tokens(State(app): State<SharedApp>, body: RawBody) -> Result<Json, ApiError> {
    let call = body.read(MessagesCall::read_to_count).await?;
    app.check_model(call.model.as_deref())?;
    let n = blocking(&app, move |app| {
        let text = app.templates().render(&call.request)?;
        app.check_length(text.len(), "messages")?;
        Ok(app.model().encode_chat(&text)?.len())
    });
    Ok(Json(json!({ "input_tokens": n.await? })))
}
