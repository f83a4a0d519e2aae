//! A draft model: a smaller one that guesses, greedily, what the model will draw.
//!
//! It has a context of its own, with a sequence for each request it guesses for. What it holds of a text follows the text:
//! guesses that were wrong are forgotten before the next ones. When it cannot guess, for want of memory or because its own
//! context is full, nothing is guessed, and the answer is the same; a draft model that fails is an error.
//!
//! Its vocabulary must be the model's, but for padding: models of one family have the same tokens and tables that end at
//! different multiples of some number.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use minfer_graph::{Head, LoadNote};

use crate::context::{Context, Row, SeqId};
use crate::error::{EngineError, Fault};
use crate::model::Model;
use crate::step::Seat;

/// Most tokens by which one vocabulary may be longer than the other.
const MAX_PADDING: usize = 128;

pub(crate) struct Drafter {
    context: Context,
    /// Fewer tokens than this are not guessed.
    n_min: usize,
    /// Tokens that both models have.
    n_common: usize,
    /// By the sequence of the request in the model's own context.
    sequences: HashMap<SeqId, SeqId>,
    logits: Vec<f32>,
}

/// A request that is guessed for.
struct Wish {
    /// Its place among the seats.
    at: usize,
    seq: SeqId,
    n_guesses: usize,
    guesses: Vec<u32>,
}

impl Drafter {
    /// A drafter over a context of its own; its model must have the vocabulary of `model`.
    pub(crate) fn new(context: Context, model: &Model, n_min: usize) -> Result<Drafter, EngineError> {
        let (draft, own) = (context.model().tokenizer(), model.tokenizer());
        let (n_draft, n_own) = (draft.n_vocab(), own.n_vocab());
        let differs = |id: &u32| draft.token_bytes(*id) != own.token_bytes(*id);
        let n_common = n_own.min(n_draft);
        let first = (0..n_common as u32).find(differs);
        if n_draft.abs_diff(n_own) > MAX_PADDING || first.is_some() {
            return Err(EngineError::DraftVocabulary { n_draft, n_own, first });
        }
        Ok(Drafter { context, n_min, n_common, sequences: HashMap::new(), logits: Vec::new() })
    }

    pub(crate) fn take_load_notes(&self) -> Vec<LoadNote> {
        self.context.take_load_notes()
    }

    pub(crate) fn load_weights(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), EngineError> {
        self.context.load_weights(progress)
    }

    /// Guesses for every stream that wants it, reading at most `n_chunk` tokens of texts that the draft model has not seen.
    /// Gives the time it took; an error if the draft model fails in another way than for want of room.
    pub(crate) fn guess<L>(
        &mut self,
        model: &Context,
        seats: &mut [Seat<L>],
        n_chunk: usize,
    ) -> Result<Duration, EngineError> {
        let start = Instant::now();
        let mut wishes = self.wishes(model, seats);
        if wishes.is_empty() {
            return Ok(Duration::ZERO);
        }
        match self.run(seats, &mut wishes, n_chunk) {
            Ok(()) => {}
            Err(error) if error.fault() == Fault::OutOfMemory => {
                // What it holds of others' texts is the least to lose.
                self.forget_all();
                wishes.clear();
            }
            Err(error) => return Err(error),
        }
        for wish in wishes {
            seats[wish.at].task.speculator.set_guesses(wish.guesses);
        }
        Ok(start.elapsed())
    }

    /// Forgets the text of a request.
    pub(crate) fn forget(&mut self, seq: SeqId) {
        if let Some(own) = self.sequences.remove(&seq) {
            self.context.free_sequence(own);
        }
    }

    fn forget_all(&mut self) {
        for (_, own) in self.sequences.drain() {
            self.context.free_sequence(own);
        }
    }

    fn wishes<L>(&self, model: &Context, seats: &mut [Seat<L>]) -> Vec<Wish> {
        let mut wishes = Vec::new();
        for (at, seat) in seats.iter_mut().enumerate() {
            let task = &mut seat.task;
            let Some(seq) = task.seq().filter(|_| task.is_streaming(model)) else { continue };
            let n_room = self.context.n_ctx().saturating_sub(task.text().len());
            let n_wanted = task.speculator.n_wanted_of_draft();
            let n_guesses = n_wanted.max(self.n_min).min(n_room);
            if n_wanted > 0 && n_guesses >= self.n_min.max(1) && self.knows(task.text()) {
                wishes.push(Wish { at, seq, n_guesses, guesses: Vec::new() });
            }
        }
        wishes
    }

    /// Whether the draft model has every token of a text.
    fn knows(&self, text: &[u32]) -> bool {
        text.iter().all(|token| (*token as usize) < self.n_common)
    }

    fn run<L>(&mut self, seats: &[Seat<L>], wishes: &mut [Wish], n_chunk: usize) -> Result<(), EngineError> {
        // What is new in each text; the logits after its end give the first guess.
        let mut rows = Vec::new();
        let mut asking = Vec::new();
        let mut n_left = n_chunk;
        for (w, wish) in wishes.iter().enumerate() {
            let text = seats[wish.at].task.text();
            let own = self.follow(wish.seq, text)?;
            let unread = &text[self.context.tokens(own).len()..];
            let read = &unread[..unread.len().min(n_left.max(1))];
            n_left = n_left.saturating_sub(read.len());
            let is_whole = read.len() == unread.len();
            let wants = |i: usize| is_whole && i + 1 == read.len();
            rows.extend(read.iter().enumerate().map(|(i, &token)| Row {
                seq: own,
                token,
                wants_logits: wants(i),
            }));
            if is_whole {
                asking.push((w, own));
            }
        }
        loop {
            self.context.step_into(&rows, Head::Logits, &mut self.logits)?;
            rows.clear();
            let n_vocab = self.context.model().n_vocab();
            for ((w, _), logits) in asking.iter().zip(self.logits.chunks_exact(n_vocab)) {
                wishes[*w].guesses.push(best(&logits[..self.n_common]));
            }
            asking.retain(|(w, _)| wishes[*w].guesses.len() < wishes[*w].n_guesses);
            if asking.is_empty() {
                return Ok(());
            }
            let next = |(w, seq): &(usize, SeqId)| {
                let token = wishes[*w].guesses.last().copied().unwrap_or(0);
                Row { seq: *seq, token, wants_logits: true }
            };
            rows.extend(asking.iter().map(next));
        }
    }

    /// The draft model's sequence for a text: what it holds is a beginning of the text, and not all of it.
    fn follow(&mut self, seq: SeqId, text: &[u32]) -> Result<SeqId, EngineError> {
        if let Some(own) = self.sequences.get(&seq) {
            let held = self.context.tokens(*own);
            let n_common = held.iter().zip(text).take_while(|(a, b)| a == b).count();
            self.context.truncate(*own, n_common.min(text.len() - 1));
            return Ok(*own);
        }
        let own = self.context.new_sequence()?;
        self.sequences.insert(seq, own);
        self.context.begin(own, text, text.len() - 1)?;
        Ok(own)
    }
}

/// The best token, the lowest id among equals.
fn best(logits: &[f32]) -> u32 {
    let better = |a: &(usize, f32), b: (usize, f32)| if b.1 > a.1 { b } else { *a };
    logits.iter().copied().enumerate().fold((0, f32::NEG_INFINITY), |a, b| better(&a, b)).0 as u32
}
