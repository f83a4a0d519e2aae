//! Two things at once: a tokenizer is built before anything else of a program runs, so cores are idle.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// Computes both, `first` on a thread of its own; after `second`, if the system refuses a thread.
pub(super) fn both<A: Send, B>(first: &(impl Fn() -> A + Sync), second: impl FnOnce() -> B) -> (A, B) {
    scope(|scope| {
        let beside = Builder::new().name("minfer-tokenizer".into()).spawn_scoped(scope, first);
        let second = second();
        match beside.map(|thread| thread.join()) {
            Ok(Ok(first)) => (first, second),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => (first(), second),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::both;

    #[test]
    fn both_are_computed() {
        let words = ["a".to_owned(), "b".to_owned()];
        assert_eq!(both(&|| words.concat(), || words.len()), ("ab".to_owned(), 2));
    }

    #[test]
    #[should_panic(expected = "the first")]
    fn a_panic_is_handed_on() {
        both(&|| panic!("the first"), || ());
    }
}
