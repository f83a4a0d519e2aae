//! Regular expressions: what is wrong with one, and how long its texts are at least.
//!
//! Where a schema leaves no choice, the parser goes on by itself, byte by byte. That is bounded by the shortest text that a
//! pattern matches, and so that is bounded here.

use regex_syntax::{Error, Parser};

/// The longest text that a pattern may ask for, in bytes.
const MAX_LEN: usize = 4096;

/// Why a regular expression is refused, and where: line and column.
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) place: (usize, usize),
}

/// Checks that it can be read.
pub(super) fn check(pattern: &str) -> Result<(), Refused> {
    parse(pattern).map(|_| ())
}

/// Checks that it can be read, and that it does not ask for endless text.
pub(super) fn check_bounded(pattern: &str) -> Result<(), Refused> {
    match parse(pattern)? {
        Some(len) if len > MAX_LEN => {
            let reason = format!("it matches nothing shorter than {len} bytes, the limit is {MAX_LEN}");
            Err(Refused { reason, place: (1, 1) })
        }
        _ => Ok(()),
    }
}

/// Length of the shortest match in bytes; `None` if nothing matches.
fn parse(pattern: &str) -> Result<Option<usize>, Refused> {
    let hir = Parser::new().parse(pattern).map_err(|error| match &error {
        Error::Parse(e) => refused(e.kind(), e.span()),
        Error::Translate(e) => refused(e.kind(), e.span()),
        other => Refused { reason: other.to_string(), place: (1, 1) },
    })?;
    Ok(hir.properties().minimum_len())
}

fn refused(kind: impl std::fmt::Display, span: &regex_syntax::ast::Span) -> Refused {
    Refused { reason: kind.to_string(), place: (span.start.line, span.start.column) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let Err(wrong) = check("ab\nc(d") else { panic!("read") };
        assert_eq!((wrong.reason.as_str(), wrong.place), ("unclosed group", (2, 2)));
        assert!(check("a(?=b)").is_err_and(|e| e.reason.contains("look-around")));
    }

    #[test]
    fn the_shortest_match_is_bounded() {
        for (pattern, is_fine) in
            [("a{4096}", true), ("a{4097}", false), ("(a{100}b){1000}", false), ("a{0,99999}", true)]
        {
            assert_eq!(check_bounded(pattern).is_ok(), is_fine, "{pattern}");
        }
    }
}
