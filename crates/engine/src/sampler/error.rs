//! What can be wrong with logits, history or a saved state.

/// Why no token was drawn, or a state not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// The logits are those of another vocabulary.
    #[error("{found} logits for a vocabulary of {expected}")]
    Length {
        /// Size of the vocabulary that the sampler was made for.
        expected: usize,
        /// Number of logits.
        found: usize,
    },
    /// NaN or positive infinity, in the logits or made by bias and penalties.
    #[error("the logit of token {id} is {value}")]
    BadLogit {
        /// The first such token.
        id: u32,
        /// Its logit.
        value: f32,
    },
    /// Every token has a logit of negative infinity or is forbidden by the mask.
    #[error("no token can be drawn: all are masked or have a logit of negative infinity")]
    NoCandidate,
    /// A token that the vocabulary doesn't have.
    #[error("token {id} in a vocabulary of {n_vocab}")]
    Token {
        /// The token id.
        id: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// A saved generator state that no generator can have been in.
    #[error("damaged sampler state: the generator can't have been in state {0:#034x}")]
    Generator(u128),
}
