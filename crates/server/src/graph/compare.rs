//! `POST /graph/ab`: two settings compared, node by node.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use axum::extract::State;
use axum::response::Response;
use minfer_engine::ab::{self, AbReport};
use minfer_engine::settings::Settings;
use minfer_engine::{Context, ContextParams, EngineError};
use serde_json::{Map, Value, json};

use super::ask::{self, CompareAsk};
use super::events::{self, Teller};
use super::lab::{Turn, aside, on_thread};
use super::live::text;
use crate::body::JsonBody;
use crate::error::ApiError;
use crate::state::SharedApp;

pub(super) async fn run(
    State(app): State<SharedApp>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let asked = CompareAsk::of(body)?;
    let turn = app.lab().begin()?;
    let (encoder, prompt) = (app.clone(), asked.prompt.clone());
    let tokens = aside(move || ask::encoded(&encoder, &prompt, ask::MAX_COMPARE_PROMPT)).await?;
    let (teller, response) = events::response();
    on_thread(move || {
        let done = compare(&app, &asked, &tokens, &teller, &turn);
        // Whoever has read the end of this may ask for the next at once.
        drop(turn);
        match done {
            Ok(report) => {
                let told = report.to_json(&asked.a, &asked.b);
                teller.tell("report", json!({ "report": told, "texts": chosen_texts(&app, &report) }));
            }
            // Whoever stopped it knows.
            Err(EngineError::Stopped) if teller.is_gone() => {}
            Err(error) => teller.fail(&ApiError::from(&error)),
        }
    })?;
    Ok(response)
}

fn compare(
    app: &SharedApp,
    asked: &CompareAsk,
    tokens: &[u32],
    teller: &Teller,
    turn: &Turn,
) -> Result<AbReport, EngineError> {
    let n_ctx = tokens.len() + asked.n_generate;
    let mut a = side(app, &asked.a, n_ctx)?;
    let mut b = side(app, &asked.b, n_ctx)?;
    ab::compare(&mut a, &mut b, tokens, asked.n_generate, &mut |done, total| {
        teller.mention("progress", json!({ "done": done, "total": total }));
        match teller.is_gone() || turn.is_over() || app.is_cancelling() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
}

/// One side; its context is as long as it has to be.
fn side(app: &SharedApp, settings: &Settings, n_ctx: usize) -> Result<Context, EngineError> {
    let params = ContextParams { n_ctx, n_seq_max: 1, n_kv: None, ..app.insight().clone() };
    Context::new(app.model(), &settings.apply(params), &mut |_, _| {})
}

/// The texts of the tokens that either side chose, by id.
fn chosen_texts(app: &SharedApp, report: &AbReport) -> Map<String, Value> {
    let ids: BTreeSet<u32> = report.choices.iter().flat_map(|choice| [choice.a, choice.b]).collect();
    ids.into_iter().map(|id| (id.to_string(), text(app, id).into())).collect()
}
