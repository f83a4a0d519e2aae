//! Texts as vectors, in no dialect.

use std::collections::VecDeque;
use std::sync::Arc;

use minfer_engine::{FinishReason, Request, l2_normalize};

use crate::error::ApiError;
use crate::notes::Notes;
use crate::state::App;

/// Texts of one request that are with the engine at once; they must not fill its queue.
const N_AT_ONCE: usize = 16;

/// The vector of each text, of length 1.
pub(crate) async fn embed(app: &Arc<App>, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, ApiError> {
    if app.is_draining() {
        return Err(ApiError::stopping());
    }
    let notes = Notes::current();
    let pooling = app.model().pooling()?.unwrap_or_default();
    let (mut running, mut vectors) = (VecDeque::new(), Vec::with_capacity(texts.len()));
    let mut texts = texts.into_iter();
    loop {
        while running.len() < N_AT_ONCE
            && let Some(text) = texts.next()
        {
            let deadline = app.deadline(None);
            notes.prompt(text.len());
            running
                .push_back(app.engine().submit(Request { deadline, ..Request::embedding(text, pooling) })?);
        }
        let Some(next) = running.pop_front() else { return Ok(vectors) };
        let done = next.answer().await?;
        // Of a text that was not read to its end there is no vector.
        let is_cut = matches!(done.reason, FinishReason::Deadline | FinishReason::Interrupted);
        let embedded = done.embedding.filter(|_| !is_cut);
        let mut vector = embedded.ok_or_else(|| ApiError::busy("there was no time to read the text"))?;
        l2_normalize(&mut vector);
        vectors.push(vector);
    }
}

/// Keeps the first dimensions, and makes the length 1 again.
pub(crate) fn shorten(vector: &mut Vec<f32>, dimensions: Option<usize>) {
    if let Some(n) = dimensions.filter(|n| *n < vector.len()) {
        vector.truncate(n);
        l2_normalize(vector);
    }
}
