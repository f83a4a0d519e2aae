//! The hook for grammars: which tokens may come next.

use crate::sampler::TokenMask;

/// A constraint failed; the request ends with this error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the constraint cannot go on: {reason}")]
pub struct ConstraintError {
    /// What is wrong, in words.
    pub reason: String,
}

/// Decides which tokens may come next in one answer. Its state follows the answer: [`accept`](Self::accept) is called with
/// every token of it, in order, and with nothing that was only guessed.
pub trait TokenConstraint: Send {
    /// The tokens that may come next; `None` for all. Tokens that end the answer are in it when the answer may end here.
    /// `n_left` tokens may still come before the answer is cut off, the next one included; `usize::MAX` without a limit.
    ///
    /// An engine may call it on another thread than [`accept`](Self::accept), ahead of a draw that then never comes. That
    /// thread serves every engine of the process, so it must not wait for one.
    fn mask(&mut self, n_left: usize) -> Result<Option<TokenMask<'_>>, ConstraintError>;

    /// Takes the token that was chosen. `false` refuses it after all, as one that would leave too little room for a valid
    /// end: nothing has changed but the mask, which does not have it any more, and another is drawn.
    fn accept(&mut self, token: u32) -> Result<bool, ConstraintError>;

    /// Whether the answer is complete, so that it ends here.
    fn is_complete(&self) -> bool {
        false
    }

    /// Whether the limit has made the answer another: a token was refused so that the answer could end in time, or it ends
    /// here, where it could go on, since nothing is left.
    fn is_shortened(&self) -> bool {
        false
    }
}
