//! What a line asks for: a chat or a completion, as the server reads them.

use minfer_engine::Model;
use minfer_server::answer::{Job, Whole};
use minfer_server::chat::{Templates, chat_jobs};
use minfer_server::openai::{ChatCall, CompletionCall, Parts, chat_body, completion_body};
use minfer_server::{ApiError, unix_now};
use serde_json::Value;

/// A request that could be read.
#[derive(Debug)]
pub(super) enum Asked {
    Chat(Box<ChatCall>),
    Completion(Box<CompletionCall>),
}

/// What there is to do for it.
pub(super) struct Prepared {
    /// The tokens of each prompt of a completion.
    prompts: Vec<Vec<u32>>,
    pub(super) jobs: Vec<Job>,
}

impl Asked {
    /// Unlike the server, it refuses what it does not know: nobody is there who could notice.
    pub(super) fn read(is_chat: bool, body: Value) -> Result<Self, ApiError> {
        let other = if is_chat { "prompt" } else { "messages" };
        if body.get(other).is_some_and(|value| !value.is_null()) {
            return Err(ApiError::field(other, "left out of a request of this kind"));
        }
        let asked = match is_chat {
            true => Self::Chat(Box::new(ChatCall::read(body)?)),
            false => Self::Completion(Box::new(CompletionCall::read(body)?)),
        };
        let (is_stream, unknown) = match &asked {
            Self::Chat(call) => (call.stream, &call.unknown),
            Self::Completion(call) => (call.stream, &call.unknown),
        };
        if is_stream {
            return Err(ApiError::unsupported("stream", "this is not supported in a batch"));
        }
        match unknown.first() {
            Some(name) => Err(ApiError::unsupported(name.clone(), "nothing is known by that name")),
            None => Ok(asked),
        }
    }

    /// The model's name in the answer: as the request has it.
    fn model<'a>(&'a self, ours: &'a str) -> &'a str {
        let named = match self {
            Self::Chat(call) => &call.model,
            Self::Completion(call) => &call.model,
        };
        named.as_deref().unwrap_or(ours)
    }

    pub(super) fn prepare(&self, model: &Model, templates: &Templates) -> Result<Prepared, ApiError> {
        match self {
            Self::Chat(call) => {
                Ok(Prepared { prompts: Vec::new(), jobs: chat_jobs(model, templates, &call.request)? })
            }
            Self::Completion(call) => {
                let prompts = call.encode(model)?;
                Ok(Prepared { jobs: call.jobs(model, &prompts)?, prompts })
            }
        }
    }

    /// The body of the response.
    pub(super) fn body(
        &self,
        answer_id: &str,
        our_name: &str,
        model: &Model,
        prepared: &Prepared,
        all: Vec<Whole>,
    ) -> Value {
        let (created, model_name) = (unix_now(), self.model(our_name));
        match self {
            Self::Chat(_) => {
                chat_body(&format!("chatcmpl-{answer_id}"), created, model_name, model.tokenizer(), &all)
            }
            Self::Completion(call) => {
                let (id, prompts) = (format!("cmpl-{answer_id}"), &prepared.prompts[..]);
                let parts = Parts { id: &id, created, model_name, model, call, prompts };
                completion_body(&parts, all)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused_and_never_ignored() {
        for (more, param) in [
            (json!({ "stream": true }), "stream"),
            (json!({ "functions": [{}] }), "functions"),
            (json!({ "prompt": "x" }), "prompt"),
            (json!({ "top_logprobs": 2 }), "top_logprobs"),
            (json!({ "temprature": 1 }), "temprature"),
            (json!({ "temperature": "hot" }), "temperature"),
        ] {
            let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(Asked::read(true, body).unwrap_err().param.as_deref(), Some(param), "{more}");
        }
        let both = json!({ "prompt": "x", "messages": [] });
        assert_eq!(Asked::read(false, both).unwrap_err().param.as_deref(), Some("messages"));
    }
}
