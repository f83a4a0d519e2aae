//! Regions of the cache in one binding or several: their declarations, and access by piece and word.

use std::fmt::Write as _;

/// Pieces that one region has at most.
pub(crate) const MAX_PIECES: usize = 8;

/// What kernels bind beside the pieces of two regions, at most.
pub(crate) const OTHER_BINDINGS: usize = 7;

/// Declares `names` from binding `first` on, `n` pieces of each, one behind the other; for each name `NAME_word` reads and
/// `set_NAME_word` writes. It belongs behind a kernel's own bindings.
pub(in crate::kernels) fn regions(first: usize, names: &[&str], n: usize) -> String {
    let mut source = String::from("\n");
    for (i, name) in names.iter().enumerate() {
        for piece in 0..n {
            let binding = first + i * n + piece;
            let written = writeln!(
                source,
                "@group(0) @binding({binding}) var<storage, read_write> {name}{piece}_: array<u32>;"
            );
            debug_assert!(written.is_ok());
        }
        source += &access(&format!("fn {name}_word(piece: u32, i: u32) -> u32"), n, &|piece| {
            format!("return {name}{piece}_[i];")
        });
        source += &access(&format!("fn set_{name}_word(piece: u32, i: u32, word: u32)"), n, &|piece| {
            format!("{name}{piece}_[i] = word;")
        });
    }
    source
}

/// A function that does for each piece what `body` says.
fn access(head: &str, n: usize, body: &dyn Fn(usize) -> String) -> String {
    if n == 1 {
        return format!("{head} {{ {} }}\n", body(0));
    }
    let cases: String =
        (0..n - 1).map(|piece| format!("    case {piece}u: {{ {} }}\n", body(piece))).collect();
    format!("{head} {{\n  switch piece {{\n{cases}    default: {{ {} }}\n  }}\n}}\n", body(n - 1))
}
