//! `POST /api/chat`.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::stream::{LineStream, Shape, final_line};
use super::{messages, now, options};
use crate::answer::{Call, Whole, respond};
use crate::body::{Json, RawBody};
use crate::chat::{self, ChatRequest, ToolChoice};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::frames::Framing;
use crate::state::SharedApp;

/// A body that could be read.
#[derive(Clone, Debug)]
pub struct OllamaChat {
    /// The model that it names.
    pub model: String,
    /// What it asks for.
    pub request: ChatRequest,
    /// Whether the answer is to come as it is made.
    pub stream: bool,
}

impl OllamaChat {
    /// Reads a body.
    pub fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let fields = &mut fields;
        let model = fields.required_string("model")?;
        let request = ChatRequest {
            messages: messages::read(fields)?,
            tools: messages::tools(fields)?,
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            template_kwargs: options::think(fields)?,
            settings: options::read(fields)?,
            ..ChatRequest::default()
        };
        Ok(Self { model, request, stream: options::stream(fields)? })
    }
}

pub(super) async fn create(State(app): State<SharedApp>, body: RawBody) -> Result<Response, ApiError> {
    let call = body.read(OllamaChat::read).await?;
    app.check_model(Some(&call.model))?;
    if call.request.messages.is_empty() {
        return Ok(Json(loaded(&call.model)).into_response());
    }
    let answers = chat::open(&app, call.request).await?;
    if call.stream {
        return Ok(respond(answers, LineStream::new(call.model, Shape::Chat), Framing::Lines));
    }
    let whole = answers.whole().await?.into_iter().next().unwrap_or_default();
    Ok(Json(body_of(&call.model, &whole)).into_response())
}

/// What is said when nothing is asked: the model is there.
fn loaded(model: &str) -> Value {
    json!({
        "model": model,
        "created_at": now(),
        "message": { "role": "assistant", "content": "" },
        "done_reason": "load",
        "done": true,
    })
}

fn body_of(model: &str, whole: &Whole) -> Value {
    let mut message = json!({ "role": "assistant", "content": whole.content });
    if !whole.reasoning.is_empty() {
        message["thinking"] = whole.reasoning.as_str().into();
    }
    if !whole.calls.is_empty() {
        message["tool_calls"] =
            whole.calls.iter().enumerate().map(|(index, call)| call_json(index, call)).collect();
    }
    let mut line = json!({ "model": model, "created_at": now(), "message": message });
    final_line(&mut line, whole.finished.as_deref());
    line
}

/// A call, its arguments as a value. Arguments that were cut off are told as they came.
pub(super) fn call_json(index: usize, call: &Call) -> Value {
    let arguments =
        serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({ "_incomplete": call.arguments }));
    json!({ "id": call.id, "function": { "index": index, "name": call.name, "arguments": arguments } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_named() {
        for (more, param) in [
            (json!({ "model": null }), "model"),
            (json!({ "messages": "Hi" }), "messages"),
            (json!({ "messages": [{ "role": "robot" }] }), "messages[0].role"),
            (json!({ "messages": [{ "role": "user", "images": ["x"] }] }), "messages[0].images"),
            (json!({ "tools": [{}] }), "tools[0].function"),
            (json!({ "format": "xml" }), "format"),
            (json!({ "think": 3 }), "think"),
            (json!({ "stream": "no" }), "stream"),
            (json!({ "options": { "temperature": "hot" } }), "options.temperature"),
            (json!({ "options": { "num_predict": -3 } }), "options.num_predict"),
        ] {
            let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(OllamaChat::read(body).unwrap_err().param.as_deref(), Some(param), "{more}");
        }
    }
}
