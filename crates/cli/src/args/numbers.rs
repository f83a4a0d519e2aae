//! What is wrong with a number on the command line, in the words of people and not of the parser of numbers.

use std::error::Error;
use std::num::{ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue};

/// The same error; one about a number says what is wrong with it.
pub(super) fn in_plain_words(error: clap::Error) -> clap::Error {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (value, arg) = (context(ContextKind::InvalidValue), context(ContextKind::InvalidArg));
    let Some(((value, arg), source)) = value.zip(arg).zip(error.source()) else { return error };
    match fault(value, source) {
        Some(fault) => clap::Error::raw(
            error.kind(),
            format!("invalid value '{value}' for '{arg}': {fault}\n\nFor more information, try '--help'.\n"),
        ),
        None => error,
    }
}

fn fault(value: &str, source: &(dyn Error + 'static)) -> Option<String> {
    if source.is::<ParseFloatError>() {
        return Some("it is not a number".into());
    }
    if source.is::<ParseIntError>() {
        return Some(match value.parse::<f64>() {
            Ok(number) if number.fract() != 0.0 || !number.is_finite() => "it is not a whole number".into(),
            Ok(number) if number < 0.0 => "it may not be negative".into(),
            Ok(_) if value.bytes().all(|byte| byte.is_ascii_digit()) => "it is too large".into(),
            _ => "it is not a whole number".into(),
        });
    }
    // A range that is open at its end.
    let said = source.to_string();
    let range = said.strip_suffix(&format!("..{}", u64::MAX))?.rsplit(' ').next()?;
    Some(format!("it must be at least {range}"))
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn a_number_that_cannot_be_read_says_why() {
        for (flags, want) in [
            (["-n", "x"], "invalid value 'x' for '--predict <N>': it is not a whole number\n"),
            (["-n", "1.5"], "it is not a whole number\n"),
            (["-n", "1e3"], "it is not a whole number\n"),
            (["-n", ""], "it is not a whole number\n"),
            (["-c", "-1"], "invalid value '-1' for '--ctx-size <N>': it may not be negative\n"),
            (["-c", "99999999999999999999999"], "it is too large\n"),
            (["-t", "99999999999999999999999"], "it is too large\n"),
            (["-t", "0"], "0 is not in 1..=512\n"),
            (["--temp", "warm"], "invalid value 'warm' for '--temp <X>': it is not a number\n"),
            (["-l", "5"], "expected a token id, a sign and a number"),
        ] {
            let argv = ["minfer", "run", "m"].iter().chain(&flags).map(Into::into);
            let said = parse(argv).unwrap_err().to_string();
            assert!(said.contains(want) && said.ends_with("try '--help'.\n"), "{flags:?}: {said}");
            assert!(said.starts_with("error: "), "{said}");
        }
        let said = parse(["minfer", "graph", "m", "-n", "0"].iter().map(Into::into)).unwrap_err().to_string();
        assert!(said.contains("for '--tokens <N>': it must be at least 1\n"), "{said}");
    }
}
