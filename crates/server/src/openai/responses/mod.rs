//! `POST /v1/responses`. Nothing is kept: the client sends the whole conversation each time.

mod items;
mod object;
mod request;
mod stream;

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::answer::respond;
use crate::body::{Json, RawBody};
use crate::chat;
use crate::error::ApiError;
use crate::frames::Framing;
use crate::state::SharedApp;

use items::Items;
use object::Object;
use request::ResponsesCall;
use stream::ResponseStream;

/// The endpoint.
pub(super) async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Response, ApiError> {
    let of_app = app.clone();
    let read = move |body| Ok((Object::of_request(&of_app, &body), ResponsesCall::read(body)?));
    let (object, call) = body.read(read).await?;
    app.check_model(call.model.as_deref())?;
    let mut answers = chat::open(&app, call.request).await?;
    let mut items = Items::new(&app);
    if call.stream {
        return Ok(respond(answers, ResponseStream::new(object, items), Framing::Events));
    }
    let mut finished = None;
    while let Some((_, event)) = answers.next().await {
        items.add(event?, &mut finished, &mut |_, _| {});
    }
    Ok(Json(object.finished(&items, finished.as_deref())).into_response())
}
