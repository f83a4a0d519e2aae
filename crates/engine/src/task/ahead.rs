//! The mask of the next token, computed on a thread of its own while the model computes that token's logits.
//!
//! Between two draws nothing changes in a constraint, so it is lent to the thread, which has it compute its mask and gives it
//! back; the draw finds the mask there. One thread serves all engines of the process. When the mask is computed decides nothing: tokens are the same.
//!
//! Trap: where the model's threads have every core, this one takes a core from one of them, and all wait for that one. Masks
//! are then computed where they are needed.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::thread;

use crate::answer::{ConstraintEnd, FinishReason};
use crate::constraint::{ConstraintError, TokenConstraint};

type Constraint = Box<dyn TokenConstraint>;

/// Whether a core is free while `n_threads` compute.
pub(super) fn has_core_beside(n_threads: usize) -> bool {
    static N_CORES: OnceLock<usize> = OnceLock::new();
    *N_CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get)) > n_threads
}

/// A constraint that may be away, computing its mask.
pub(super) struct Ahead(Place);

enum Place {
    Here(Constraint),
    Away(Receiver<Constraint>),
    /// It failed where it was.
    Lost,
}

impl Ahead {
    pub(super) fn new(constraint: Constraint) -> Self {
        Ahead(Place::Here(constraint))
    }

    /// The constraint; waits until its mask is there.
    pub(super) fn here(&mut self) -> Result<&mut dyn TokenConstraint, ConstraintError> {
        if let Place::Away(receiver) = &self.0 {
            self.0 = receiver.recv().map_or(Place::Lost, Place::Here);
        }
        match &mut self.0 {
            Place::Here(constraint) => Ok(constraint.as_mut()),
            Place::Away(_) | Place::Lost => {
                Err(ConstraintError { reason: "computing which tokens may come failed".to_owned() })
            }
        }
    }

    /// Has the mask of the next token computed; `n_left` is what the next draw will say.
    pub(super) fn begin(&mut self, n_left: usize) {
        self.0 = match std::mem::replace(&mut self.0, Place::Lost) {
            Place::Here(constraint) => lend(constraint, n_left),
            place => place,
        };
    }

    /// Whether the answer is complete, as of the last token that was taken.
    pub(super) fn is_complete(&self) -> bool {
        matches!(&self.0, Place::Here(constraint) if constraint.is_complete())
    }

    /// What the constraint says of an answer that ended like this.
    pub(super) fn end(&self, reason: FinishReason) -> ConstraintEnd {
        let is_shortened = matches!(&self.0, Place::Here(constraint) if constraint.is_shortened());
        match reason {
            FinishReason::EndOfGeneration | FinishReason::Complete if is_shortened => {
                ConstraintEnd::Shortened
            }
            FinishReason::EndOfGeneration | FinishReason::Complete => ConstraintEnd::Whole,
            FinishReason::StopString
            | FinishReason::Length
            | FinishReason::ContextFull
            | FinishReason::Deadline
            | FinishReason::Interrupted => ConstraintEnd::Cut,
        }
    }
}

struct Work {
    constraint: Constraint,
    n_left: usize,
    done: Sender<Constraint>,
}

fn lend(constraint: Constraint, n_left: usize) -> Place {
    let Some(helper) = helper() else { return Place::Here(constraint) };
    let (done, receiver) = channel();
    match helper.send(Work { constraint, n_left, done }) {
        Ok(()) => Place::Away(receiver),
        Err(SendError(work)) => Place::Here(work.constraint),
    }
}

/// Where work goes; `None` if there is no thread to be had, and masks are computed where they are needed.
fn helper() -> Option<&'static Sender<Work>> {
    static HELPER: OnceLock<Option<Sender<Work>>> = OnceLock::new();
    let start = || {
        let (sender, work) = channel();
        let thread = thread::Builder::new().name("minfer-masks".into());
        thread.spawn(move || work.into_iter().for_each(compute)).ok().map(|_| sender)
    };
    HELPER.get_or_init(start).as_ref()
}

fn compute(work: Work) {
    let Work { mut constraint, n_left, done } = work;
    // What fails here fails again where the mask is asked for.
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(constraint.mask(n_left).map(drop))));
    if outcome.is_ok() {
        // A request that has ended meanwhile wants nothing back.
        let _ = done.send(constraint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::TokenMask;

    /// Allows one token, and panics when asked with nothing left.
    #[derive(Default)]
    struct One {
        words: Vec<u32>,
        threads: Vec<thread::ThreadId>,
    }

    impl TokenConstraint for One {
        fn mask(&mut self, n_left: usize) -> Result<Option<TokenMask<'_>>, ConstraintError> {
            assert!(n_left > 0, "nothing is left");
            if self.words.is_empty() {
                self.words = vec![1 << n_left];
                self.threads.push(thread::current().id());
            }
            Ok(Some(TokenMask::new(&self.words)))
        }

        fn accept(&mut self, _: u32) -> Result<bool, ConstraintError> {
            self.words.clear();
            Ok(true)
        }

        fn is_complete(&self) -> bool {
            self.threads.contains(&thread::current().id())
        }
    }

    #[test]
    fn a_mask_is_computed_elsewhere_and_only_once() {
        let mut ahead = Ahead::new(Box::new(One::default()));
        for n_left in [5, 4, 3] {
            ahead.begin(n_left);
            ahead.begin(n_left);
            let constraint = ahead.here().unwrap();
            assert!(constraint.mask(n_left).unwrap().unwrap().allows(n_left as u32));
            constraint.accept(0).unwrap();
        }
        assert!(!ahead.is_complete(), "it was computed on this thread");
        // Without having begun it is computed where it is asked for.
        ahead.here().unwrap().mask(2).unwrap();
        assert!(ahead.is_complete());
    }

    #[test]
    fn a_panic_elsewhere_ends_one_answer() {
        let mut broken = Ahead::new(Box::new(One::default()));
        broken.begin(0);
        assert!(broken.here().is_err() && broken.here().is_err() && !broken.is_complete());
        broken.begin(1);
        let mut other = Ahead::new(Box::new(One::default()));
        other.begin(1);
        assert!(other.here().is_ok());
    }
}
