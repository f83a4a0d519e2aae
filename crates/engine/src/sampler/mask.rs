//! Which tokens a grammar allows next.

/// A set of allowed tokens, lent for one draw: bit `id % 32` of word `id / 32`, lowest bit first (the layout of
/// llguidance's masks). Tokens beyond the last word are forbidden.
///
/// A mask comes before everything else in the chain. A logit that it forbids isn't looked at.
#[derive(Clone, Copy, Debug)]
pub struct TokenMask<'a> {
    words: &'a [u32],
}

impl<'a> TokenMask<'a> {
    /// Tokens that one word speaks for.
    pub const WORD_TOKENS: usize = 32;

    /// A mask over the given words.
    pub fn new(words: &'a [u32]) -> Self {
        TokenMask { words }
    }

    /// Whether `id` may be drawn.
    pub fn allows(&self, id: u32) -> bool {
        self.word(id as usize / Self::WORD_TOKENS) >> (id % 32) & 1 == 1
    }

    pub(super) fn word(&self, index: usize) -> u32 {
        self.words.get(index).copied().unwrap_or(0)
    }
}
