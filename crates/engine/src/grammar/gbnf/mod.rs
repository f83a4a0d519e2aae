//! GBNF, llama.cpp's grammars, rewritten as Lark.
//!
//! A GBNF grammar derives characters; the parser reads terminals by the longest match and derives those. So what is regular
//! is put together (`regular`), cut into terminals that can be read by the longest match without changing what the grammar
//! derives (`terminals`, `overlap`), and written down (`emit`). A grammar that is regular as a whole is one terminal.

mod class;
mod emit;
mod overlap;
mod parse;
#[cfg(test)]
mod properties;
mod regular;
mod terminals;
#[cfg(test)]
mod tests;

pub(super) use emit::regex_of_text;

use super::error::{GrammarError, GrammarKind};

/// A GBNF grammar as Lark; its rule `root` becomes `start`.
///
/// ```
/// let lark = minfer_engine::gbnf_to_lark(r#"root ::= "yes" | "no" "!"*"#)?;
/// assert_eq!(lark, "start: T0\nT0: /(?:yes|no(?:\\x{21})*)/\n");
/// # Ok::<(), minfer_engine::GrammarError>(())
/// ```
pub fn to_lark(text: &str) -> Result<String, GrammarError> {
    let rules = parse::parse(text)?;
    let unusable = |reason: &str| GrammarError::Unusable { kind: GrammarKind::Gbnf, reason: reason.into() };
    let grammar = regular::arrange(&rules).ok_or_else(|| unusable("the rule 'root' derives no text"))?;
    let root = &grammar.bodies[grammar.root];
    if root.is_regular() {
        return Ok(emit::regular(root));
    }
    Ok(emit::rules(&terminals::cut(&grammar), grammar.root))
}
