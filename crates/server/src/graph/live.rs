//! `POST /graph/live`: a prompt run step by step.

use axum::extract::State;
use axum::response::Response;
use minfer_engine::EngineError;
use minfer_engine::insight::LiveRun;
use serde_json::{Value, json};

use super::ask::{self, LiveAsk};
use super::events::{self, Teller};
use super::lab::{LastRun, Turn, aside, on_thread};
use crate::body::JsonBody;
use crate::error::ApiError;
use crate::state::SharedApp;

pub(super) async fn run(
    State(app): State<SharedApp>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let asked = LiveAsk::of(body)?;
    let turn = app.lab().begin()?;
    let (encoder, prompt) = (app.clone(), asked.prompt.clone());
    let tokens = aside(move || ask::encoded(&encoder, &prompt, ask::MAX_PROMPT)).await?;
    let (teller, response) = events::response();
    on_thread(move || {
        let run = app.lab().last_run();
        let done = Run { app: &app, teller: &teller, turn: &turn, run: &run }.all(tokens, &asked);
        // Whoever has read the end of this may ask for the next at once.
        drop(turn);
        if let Err(error) = done {
            teller.fail(&ApiError::from(&error));
        }
    })?;
    Ok(response)
}

struct Run<'a> {
    app: &'a SharedApp,
    teller: &'a Teller,
    turn: &'a Turn,
    run: &'a LastRun,
}

impl Run<'_> {
    fn all(&self, tokens: Vec<u32>, asked: &LiveAsk) -> Result<(), EngineError> {
        let shown = texts(self.app, &tokens);
        // The last run's memory goes before the next one's is taken.
        self.run.blocking_lock().take();
        let params = asked.set.apply(self.app.insight().clone());
        let mut progress = |done: usize, total: usize| {
            self.teller.mention("loading", json!({ "done": done, "total": total }));
        };
        let run = LiveRun::new(self.app.model(), &params, tokens, &asked.settings, &mut progress)?;
        *self.run.blocking_lock() = Some(run);
        self.teller.tell("start", json!({ "tokens": shown }));
        let reason = self.steps()?;
        self.teller.tell("end", json!({ "reason": reason }));
        Ok(())
    }

    /// Step after step; between two of them others may look. Gives why it ended.
    fn steps(&self) -> Result<&'static str, EngineError> {
        let mut reason = "done";
        loop {
            if self.teller.is_gone() || self.app.is_cancelling() {
                return Ok("stopped");
            }
            if self.turn.is_over() {
                return Ok("it took too long");
            }
            let mut run = self.run.blocking_lock();
            let Some(run) = run.as_mut() else { return Ok("stopped") };
            let goes_on = run.step(&mut |event| {
                let told = event.to_json();
                if let Some(stopped) = told["stopped"].as_str() {
                    reason =
                        if stopped == "length" { "as many tokens as were asked for" } else { "end of text" };
                }
                self.teller.tell(event.name(), told);
            })?;
            if !goes_on {
                return Ok(reason);
            }
        }
    }
}

/// Ids and texts of tokens.
fn texts(app: &SharedApp, tokens: &[u32]) -> Vec<Value> {
    tokens.iter().map(|id| json!({ "id": id, "text": text(app, *id) })).collect()
}

/// The bytes of a token as text.
pub(super) fn text(app: &SharedApp, id: u32) -> String {
    let bytes = app.model().tokenizer().token_bytes(id).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
