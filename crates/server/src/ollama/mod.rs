//! Ollama's API: chats and completions, and what its clients ask about the model.

mod chat;
mod embed;
mod facts;
mod generate;
mod messages;
mod options;
mod stream;

use crate::routes::Routes;

pub use chat::OllamaChat;
pub use generate::OllamaGenerate;

/// The endpoints.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/chat", chat::create)
        .post("/api/generate", generate::create)
        .post("/api/embed", embed::create)
        .get("/api/tags", facts::tags)
        .post("/api/show", facts::show)
        .get("/api/ps", facts::ps)
        .get("/api/version", facts::version)
}

/// The time now, as Ollama writes it.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
