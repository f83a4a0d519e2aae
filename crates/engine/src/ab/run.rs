//! The same tokens through a context, every value of every node watched.

use minfer_graph::Observer;

use super::cache::{self, Store};
use super::observe::Columns;
use crate::context::{Context, Row, SeqId};
use crate::error::EngineError;

/// An observer that is told which tokens a step has.
pub(super) trait Watcher: Observer {
    /// Where to say it.
    fn columns(&mut self) -> &mut Columns;

    /// What the nodes of the step have stored, in the order of execution; once.
    fn take_stores(&mut self) -> Vec<Store>;

    /// What the cache holds of a token, by a store of the step.
    fn cached(&mut self, store: &Store, token: u32, elements: &[f32]);

    /// Nothing more comes of the step.
    fn step_is_over(&mut self) {}
}

/// Reads the prompt, then generates the most probable tokens; gives all tokens run, and what is chosen after the prompt
/// and after each of them.
pub(super) fn greedy(
    context: &mut Context,
    prompt: &[u32],
    n_generate: usize,
    watcher: &mut dyn Watcher,
    ran: &mut dyn FnMut(usize) -> Result<(), EngineError>,
) -> Result<(Vec<u32>, Vec<u32>), EngineError> {
    let mut tokens = prompt.to_vec();
    let chosen = steps(context, prompt, watcher, ran, &mut |chosen| {
        if chosen.len() > n_generate {
            return None;
        }
        let next = chosen.last().copied();
        tokens.extend(next);
        next
    })?;
    Ok((tokens, chosen))
}

/// The same with the tokens given: the prompt in chunks, the rest one by one.
pub(super) fn forced(
    context: &mut Context,
    tokens: &[u32],
    n_prompt: usize,
    watcher: &mut dyn Watcher,
    ran: &mut dyn FnMut(usize) -> Result<(), EngineError>,
) -> Result<Vec<u32>, EngineError> {
    let (prompt, rest) = tokens.split_at(n_prompt);
    let mut rest = rest.iter().copied();
    steps(context, prompt, watcher, ran, &mut |_| rest.next())
}

/// `next` sees all choices so far and says which token follows.
fn steps(
    context: &mut Context,
    prompt: &[u32],
    watcher: &mut dyn Watcher,
    ran: &mut dyn FnMut(usize) -> Result<(), EngineError>,
    next: &mut dyn FnMut(&[u32]) -> Option<u32>,
) -> Result<Vec<u32>, EngineError> {
    if prompt.is_empty() {
        return Err(EngineError::EmptyPrompt);
    }
    let seq = context.new_sequence()?;
    let mut chosen = Vec::new();
    let n_chunks = prompt.len().div_ceil(context.n_ubatch());
    for (i, chunk) in prompt.chunks(context.n_ubatch()).enumerate() {
        chosen.extend(step(context, seq, chunk, i + 1 == n_chunks, watcher)?);
        ran(chunk.len())?;
    }
    while let Some(token) = next(&chosen) {
        chosen.extend(step(context, seq, &[token], true, watcher)?);
        ran(1)?;
    }
    context.free_sequence(seq);
    Ok(chosen)
}

/// Appends tokens; gives the most probable next one, if it is wanted.
fn step(
    context: &mut Context,
    seq: SeqId,
    tokens: &[u32],
    wanted: bool,
    watcher: &mut dyn Watcher,
) -> Result<Option<u32>, EngineError> {
    let first = context.tokens(seq).len();
    let last = first + tokens.len() - 1;
    let row = |(i, &token): (usize, &u32)| Row { seq, token, wants_logits: wanted && first + i == last };
    let rows: Vec<_> = tokens.iter().enumerate().map(row).collect();
    watcher.columns().set(first, rows.len(), if wanted { std::slice::from_ref(&last) } else { &[] });
    let logits = context.step_observed(&rows, watcher)?;
    let chosen = wanted.then(|| best(logits));
    cache::show(context, seq, first..last + 1, watcher)?;
    Ok(chosen)
}

/// The first of the largest.
fn best(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    best as u32
}
