//! llama.cpp's own API: completions of raw prompts, tokens, the template, and how the server stands.

mod body;
mod completion;
mod infill;
mod state;
mod stream;
mod tokens;

use crate::routes::Routes;

pub use completion::RawCompletion;

/// The endpoints.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .post("/completion", completion::create)
        .post("/completions", completion::create)
        .post("/infill", infill::create)
        .post("/tokenize", tokens::tokenize)
        .post("/detokenize", tokens::detokenize)
        .post("/apply-template", tokens::apply_template)
        .get("/props", state::props)
        .get("/slots", state::slots)
}
