//! What the graph page asks: the graph of a step at every stage and its memory, a prompt run step by step, values of nodes,
//! two settings compared.
//!
//! | endpoint | |
//! | --- | --- |
//! | `GET /graph/model` | the model, its settings, what a context takes, the limits below |
//! | `POST /graph/stages` | `{tokens, sequences, out_rows, set}`: the graph as each pass leaves it, and its memory |
//! | `POST /graph/live` | `{prompt, set, max_tokens, temperature, seed, top}`: a run, as server-sent events |
//! | `POST /graph/values` | `{step, node}`: figures, histogram and heat map of a value of the last run |
//! | `POST /graph/ab` | `{prompt, a, b, max_tokens}`: a comparison, as server-sent events |
//!
//! A run and a comparison have contexts of their own, beside the engine's, and one of them goes on at a time; who asks for
//! another gets 409. Prompts, tokens and time are bounded; a client that goes away ends its run.

mod ask;
mod compare;
mod events;
mod lab;
mod live;
mod look;

pub(crate) use lab::Lab;

use crate::routes::Routes;

/// The endpoints.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/graph/model", look::model)
        .post("/graph/stages", look::stages)
        .post("/graph/values", look::values)
        .post("/graph/live", live::run)
        .post("/graph/ab", compare::run)
}
