//! What printf-style formatting and `str.format` may make, paid for before it is made.
//!
//! A pattern of a few bytes can ask for any amount: by a width, by a precision, or by naming a long argument over and
//! over. The engine pays for widths alone, in its own filter alone, and panics at a precision of 2^16.

use minijinja::formatting::FormatStyle;
use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::repr;

/// The largest width and precision.
const MAX_WIDTH: usize = 1024;

/// Replaces the engine's filter by one that pays.
pub(super) fn add_to(env: &mut Environment<'_>) {
    env.add_filter("format", format_filter);
}

fn format_filter(
    state: &mut State<'_, '_>,
    pattern: &Value,
    arguments: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    if let Some(text) = pattern.as_str() {
        let values: Vec<Value> = arguments.iter().cloned().map(ValueOrKwargs::into_value).collect();
        pay(state, FormatStyle::Printf, text, &values)?;
    }
    minijinja::filters::format(state, pattern, arguments)
}

/// Pays for what `pattern` can make of `arguments` at most; errors if a width or a precision is too large.
pub(super) fn pay(
    state: &State<'_, '_>,
    style: FormatStyle,
    pattern: &str,
    arguments: &[Value],
) -> Result<(), Error> {
    let fields = match style {
        FormatStyle::Printf => printf_fields(pattern),
        FormatStyle::StrFormat => braced_fields(pattern),
    };
    let numbers = fields.iter().flat_map(|field| numbers(field));
    let mut n_bytes = pattern.len() as u64;
    for number in numbers {
        if number > MAX_WIDTH {
            let detail = format!("width or precision {number} is more than {MAX_WIDTH}");
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        n_bytes += number as u64;
    }
    // Any field may be made of any argument.
    let argument_bytes = arguments.iter().map(text_bytes).sum::<Result<u64, Error>>()?;
    state.consume_fuel(n_bytes.saturating_add(argument_bytes.saturating_mul(fields.len() as u64)) / 64)
}

fn text_bytes(value: &Value) -> Result<u64, Error> {
    match value.as_str() {
        Some(text) => Ok(text.len() as u64),
        None => repr::to_str(value).map(|text| text.len() as u64),
    }
}

/// Flags, width and precision of each conversion: `05.1` of `%(name)05.1f`.
fn printf_fields(pattern: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    let mut rest = pattern;
    while let Some((_, field)) = rest.split_once('%') {
        let keyed = field.strip_prefix('(').and_then(|key| key.split_once(')'));
        let field = keyed.map_or(field, |(_, behind)| behind);
        let is_option = |c: char| c.is_ascii_digit() || "#0- +.*".contains(c);
        let n_options = field.find(|c| !is_option(c)).unwrap_or(field.len());
        fields.push(&field[..n_options]);
        // Behind the conversion, which is itself a `%` in `%%`.
        rest = field[n_options..].strip_prefix('%').unwrap_or(&field[n_options..]);
    }
    fields
}

/// What is behind the colon of each field in braces: `>05.1f` of `{name:>05.1f}`.
fn braced_fields(pattern: &str) -> Vec<&str> {
    let fields = pattern.split('{').skip(1).map(|field| field.split('}').next().unwrap_or(""));
    fields.map(|field| field.split_once(':').map_or("", |(_, behind)| behind)).collect()
}

/// The numbers in `field`; one that is too large for its type is as large as can be.
fn numbers(field: &str) -> impl Iterator<Item = usize> {
    let digits = field.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    digits.map(|digits| digits.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_field_are_found() {
        assert_eq!(printf_fields("a %5d%% 99999 %(k9)-07.3f %s%"), ["5", "", "-07.3", "", ""]);
        assert_eq!(braced_fields("a {} {0:5} {x[1]:>07.3f} 9999} {"), ["", "5", ">07.3f", ""]);
        assert_eq!(numbers("-07.3").collect::<Vec<_>>(), [7, 3]);
        assert_eq!(numbers("99999999999999999999999").next(), Some(usize::MAX));
    }
}
