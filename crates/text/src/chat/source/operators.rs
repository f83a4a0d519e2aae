//! Rewrites the operators whose Python meaning the engine lacks into calls.
//!
//! - `a ~ b ~ c` → `__concat__(a, b, c)`: Python's `str` of each operand;
//! - `a % b` → `__mod__(a, b)`: formats if `a` is a string;
//! - `a + b + c` → `__add__(a, b, c)`, only in templates that mark text as safe: such text escapes what it is added to;
//! - unary `+a` → `a`.
//!
//! The rewriting needs to know only where operands begin and end, so it is a list of insertions and replacements at token
//! boundaries; everything else, line breaks included, stays as it is. Precedence, lowest first: words and comparisons
//! (which end an operand), `+ -`, `~`, `* / // %`, then all that is part of an operand (`**`, attributes, calls,
//! subscripts, filters, `is` tests).

use std::ops::Range;

use super::tokens::Token;

/// Names of the functions that the rewritten template calls.
pub(in crate::chat) const ADD: &str = "__add__";
pub(in crate::chat) const CONCAT: &str = "__concat__";
pub(in crate::chat) const MOD: &str = "__mod__";
/// Checks what a `set` tag stores, see [`super::super::bound`].
pub(in crate::chat) const BOUND: &str = "__bound__";
/// The same for `{% set x.name = … %}`.
pub(in crate::chat) const BOUND_ATTRIBUTE: &str = "__bound_attribute__";

/// A range of the template and what takes its place.
pub(super) type Edit = (Range<usize>, String);

/// Brackets nested deeper than this are left alone; the engine's parser refuses them.
const MAX_NESTING: usize = 200;

/// The edits of one tag. `start` is the first token that belongs to an expression.
pub(super) fn rewrite(tokens: &[Token<'_>], start: usize, with_add: bool) -> Vec<Edit> {
    let mut rewriter = Rewriter { tokens, with_add, edits: Vec::new() };
    rewriter.group(start.min(tokens.len()), 0);
    rewriter.edits
}

/// Wraps the value of a `{% set … = value %}` tag into a call of [`BOUND`].
pub(super) fn bound_assignment(tokens: &[Token<'_>]) -> Vec<Edit> {
    let mut depth = 0_i64;
    let assign = tokens.iter().position(|token| {
        depth += match token.text {
            "(" | "[" | "{" => 1,
            ")" | "]" | "}" => -1,
            _ => 0,
        };
        depth == 0 && token.text == "="
    });
    match (assign.and_then(|at| tokens.get(at + 1)), tokens.last()) {
        (Some(first), Some(last)) if last.text != "," => {
            let (start, end) = (first.range().start, last.range().end);
            let is_attribute = tokens.get(2).is_some_and(|token| token.text == ".");
            let function = if is_attribute { BOUND_ATTRIBUTE } else { BOUND };
            vec![(start..start, format!("{function}(")), (end..end, ")".to_owned())]
        }
        _ => Vec::new(),
    }
}

struct Rewriter<'t, 'a> {
    tokens: &'t [Token<'a>],
    with_add: bool,
    edits: Vec<Edit>,
}

/// Operands of one chain, as ranges of tokens, and the operator token between each two.
struct Chain {
    operands: Vec<Range<usize>>,
    operators: Vec<usize>,
}

impl Rewriter<'_, '_> {
    /// Rewrites from token `at` to the bracket that closes the group, and returns that bracket's index.
    fn group(&mut self, mut at: usize, depth: usize) -> usize {
        // The operators of the chain being read, in order; the chain's own edits come before those of its brackets.
        let mut chain = OpenChain::new(at);
        let n_edits = self.edits.len();
        let mut outer: Vec<Edit> = Vec::new();
        let mut is_operand_before = false;
        while at < self.tokens.len() {
            let text = self.tokens[at].text;
            match text {
                "(" | "[" | "{" => {
                    at =
                        if depth < MAX_NESTING { self.group(at + 1, depth + 1) } else { self.skip_group(at) };
                    is_operand_before = true;
                }
                ")" | "]" | "}" => break,
                "+" if !is_operand_before => self.edits.push((self.tokens[at].range(), " ".to_owned())),
                "+" | "-" | "~" | "*" | "/" | "//" | "%" if is_operand_before => {
                    chain.operators.push(at);
                    is_operand_before = false;
                }
                _ if self.ends_operand(at) => {
                    outer.extend(self.finish(chain, at));
                    chain = OpenChain::new(at + 1);
                    is_operand_before = false;
                }
                "-" | "*" | "**" | "|" | "." => is_operand_before = false,
                _ => is_operand_before = true,
            }
            at += 1;
        }
        let at = at.min(self.tokens.len());
        outer.extend(self.finish(chain, at));
        self.edits.splice(n_edits..n_edits, outer);
        at
    }

    fn skip_group(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..self.tokens.len() {
            match self.tokens[at].text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len()
    }

    /// Words and signs that bind less than arithmetic. Behind `is` (and `is not`), `.` and `|` a word is a name.
    fn ends_operand(&self, at: usize) -> bool {
        let before = |n: usize| at.checked_sub(n).map(|i| self.tokens[i].text);
        match self.tokens[at].text {
            "," | ":" | "=" | "==" | "!=" | "<" | ">" | "<=" | ">=" => true,
            "not" => before(1) != Some("is"),
            "and" | "or" | "in" | "if" | "else" => {
                let is_name = matches!(before(1), Some("is" | "." | "|"))
                    || (before(1) == Some("not") && before(2) == Some("is"));
                !is_name
            }
            "recursive" => at + 1 == self.tokens.len() && self.tokens[0].text == "for",
            _ => false,
        }
    }

    /// The edits of a finished chain that ends before token `end`.
    fn finish(&self, chain: OpenChain, end: usize) -> Vec<Edit> {
        let mut edits = Vec::new();
        // The end of the tag or a dangling operator: the engine reports it.
        let is_complete = chain.operators.last().is_none_or(|&last| last + 1 < end);
        if !chain.operators.is_empty() && is_complete {
            self.sum(&chain.split(chain.start..end, self.tokens, &["+", "-"]), &chain, &mut edits);
        }
        edits
    }

    fn sum(&self, sum: &Chain, all: &OpenChain, edits: &mut Vec<Edit>) {
        if self.with_add && !sum.operators.is_empty() {
            self.fold(sum, "+", ADD, edits);
        }
        for operand in &sum.operands {
            let concat = all.split(operand.clone(), self.tokens, &["~"]);
            if !concat.operators.is_empty() {
                self.fold(&concat, "~", CONCAT, edits);
            }
            for operand in &concat.operands {
                self.fold(&all.split(operand.clone(), self.tokens, &["*", "/", "//", "%"]), "%", MOD, edits);
            }
        }
    }

    /// Turns every `sign` of the chain into a call of `function`: one flat call if the sign is the only one and the
    /// function takes any number of operands, else one call around all that is to its left.
    fn fold(&self, chain: &Chain, sign: &str, function: &str, edits: &mut Vec<Edit>) {
        let is_sign = |&&operator: &&usize| self.tokens[operator].text == sign;
        let n_calls = chain.operators.iter().filter(is_sign).count();
        let is_flat = function != MOD && n_calls == chain.operators.len();
        let n_opening = if is_flat { n_calls.min(1) } else { n_calls };
        let Some(start) = chain.operands.first().map(|first| self.tokens[first.start].range().start) else {
            return;
        };
        edits.push((start..start, format!("{function}(").repeat(n_opening)));
        let mut n_closed = 0;
        for (operator, operand) in chain.operators.iter().zip(&chain.operands[1..]) {
            if self.tokens[*operator].text != sign {
                continue;
            }
            edits.push((self.tokens[*operator].range(), ",".to_owned()));
            n_closed += 1;
            if !is_flat || n_closed == n_calls {
                let end = self.tokens[operand.end - 1].range().end;
                edits.push((end..end, ")".to_owned()));
            }
        }
    }
}

/// A chain of operands whose end has not been met.
struct OpenChain {
    start: usize,
    operators: Vec<usize>,
}

impl OpenChain {
    fn new(start: usize) -> Self {
        Self { start, operators: Vec::new() }
    }

    /// Splits the tokens of `range` at the operators out of `signs`.
    fn split(&self, range: Range<usize>, tokens: &[Token<'_>], signs: &[&str]) -> Chain {
        let operators: Vec<usize> = self
            .operators
            .iter()
            .copied()
            .filter(|at| range.contains(at) && signs.contains(&tokens[*at].text))
            .collect();
        let starts = std::iter::once(range.start).chain(operators.iter().map(|at| at + 1));
        let ends = operators.iter().copied().chain(std::iter::once(range.end));
        Chain { operands: starts.zip(ends).map(|(start, end)| start..end).collect(), operators }
    }
}
