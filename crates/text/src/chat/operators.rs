//! The functions that rewritten operators call; see [`super::source::operators`].

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Rest, Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::bound;
use super::filters::escape_text;
use super::formatting;
use super::methods::string::python_text;
use super::repr;
use super::source::operators::{ADD, BOUND, BOUND_ATTRIBUTE, CONCAT, MOD};

/// Their names.
pub(super) const NAMES: &[&str] = &[ADD, BOUND, BOUND_ATTRIBUTE, CONCAT, MOD];

/// Adds the functions.
pub(super) fn add_to(env: &mut Environment<'_>) {
    env.add_function(ADD, add);
    env.add_function(BOUND, bound::assigned);
    env.add_function(BOUND_ATTRIBUTE, bound::assigned_to_attribute);
    env.add_function(CONCAT, concat);
    env.add_function(MOD, modulo);
}

fn concat(state: &State<'_, '_>, operands: Rest<Value>) -> Result<String, Error> {
    let mut out = String::new();
    for operand in operands.iter() {
        repr::write_str(&mut out, operand)?;
    }
    state.consume_fuel(out.len() as u64 / 64)?;
    Ok(out)
}

fn add(state: &State<'_, '_>, operands: Rest<Value>) -> Result<Value, Error> {
    let mut operands = operands.0.into_iter();
    let first = operands.next().unwrap_or_default();
    operands.try_fold(first, |sum, operand| add_two(state, &sum, &operand))
}

fn add_two(state: &State<'_, '_>, a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        state.consume_fuel((x.len() + y.len()) as u64 / 64)?;
        return Ok(match (a.is_safe(), b.is_safe()) {
            (true, true) => Value::from_safe_string(x.to_owned() + y),
            (true, false) => Value::from_safe_string(x.to_owned() + &escape_text(y)),
            (false, true) => Value::from_safe_string(escape_text(x) + y),
            (false, false) => Value::from(x.to_owned() + y),
        });
    }
    let is_list = |v: &Value| matches!(v.kind(), ValueKind::Seq | ValueKind::Iterable);
    if is_list(a) && is_list(b) && a.is_tuple() == b.is_tuple() {
        let items: Vec<Value> =
            a.try_iter()?.checked().chain(b.try_iter()?.checked()).collect::<Result<_, _>>()?;
        state.consume_fuel(items.len() as u64)?;
        return Ok(if a.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) });
    }
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(x)), Some(Number::Int(y))) => {
            x.checked_add(y).map(Value::from).ok_or_else(|| unsupported("+", a, b))
        }
        (Some(x), Some(y)) => Ok(Value::from(x.as_f64() + y.as_f64())),
        _ => Err(unsupported("+", a, b)),
    }
}

/// `a % b`: printf-style formatting of a string, otherwise Python's remainder, which has the sign of `b`.
fn modulo(state: &State<'_, '_>, a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(pattern) = a.as_str() {
        return printf(state, pattern, b).map(Value::from);
    }
    match (Number::of(a), Number::of(b)) {
        (Some(_), Some(y)) if y.as_f64() == 0.0 => {
            Err(Error::new(ErrorKind::InvalidOperation, "integer modulo by zero"))
        }
        (Some(Number::Int(x)), Some(Number::Int(y))) => {
            let remainder = x.checked_rem(y).unwrap_or(0);
            Ok(Value::from(if remainder != 0 && (remainder < 0) != (y < 0) {
                remainder + y
            } else {
                remainder
            }))
        }
        (Some(x), Some(y)) => {
            let (x, y) = (x.as_f64(), y.as_f64());
            let remainder = x % y;
            Ok(Value::from(if remainder != 0.0 && (remainder < 0.0) != (y < 0.0) {
                remainder + y
            } else {
                remainder
            }))
        }
        _ => Err(unsupported("%", a, b)),
    }
}

/// `pattern % arguments`, where a tuple is several arguments.
fn printf(state: &State<'_, '_>, pattern: &str, arguments: &Value) -> Result<String, Error> {
    let mut arguments: Vec<Value> = match arguments.is_tuple() {
        true => arguments.try_iter()?.checked().map(|item| python_text(&item?)).collect::<Result<_, _>>()?,
        false => vec![python_text(arguments)?],
    };
    formatting::pay(state, FormatStyle::Printf, pattern, &arguments)?;
    let pattern = without_repr_conversions(pattern, &mut arguments)?;
    format(FormatStyle::Printf, &pattern, &arguments)
}

/// The engine has no `%r`: makes it `%s`, and the argument its `repr`.
fn without_repr_conversions(pattern: &str, arguments: &mut [Value]) -> Result<String, Error> {
    let mut out = String::with_capacity(pattern.len());
    let mut next_argument = 0;
    let mut rest = pattern;
    while let Some(start) = rest.find('%') {
        let is_option = |c: char| c.is_ascii_digit() || "#0- +.*".contains(c);
        let options = &rest[start + 1..];
        let n_options = options.find(|c| !is_option(c)).unwrap_or(options.len());
        let end = start + 1 + n_options;
        out.push_str(&rest[..end]);
        next_argument += options[..n_options].matches('*').count();
        let conversion = rest[end..].chars().next();
        if conversion == Some('r') {
            if let Some(argument) = arguments.get_mut(next_argument) {
                *argument = Value::from(repr::to_repr(argument)?);
            }
            out.push('s');
        } else {
            out.extend(conversion);
        }
        next_argument += usize::from(conversion != Some('%'));
        rest = &rest[end + conversion.map_or(0, char::len_utf8)..];
    }
    Ok(out + rest)
}

#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn of(value: &Value) -> Option<Self> {
        match value.kind() {
            ValueKind::Bool => Some(Self::Int(i128::from(value.is_true()))),
            ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Self::Int),
            _ => repr::as_float(value).map(Self::Float),
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Int(x) => x as f64,
            Self::Float(x) => x,
        }
    }
}

fn unsupported(sign: &str, a: &Value, b: &Value) -> Error {
    let detail = format!("unsupported operand types for {sign}: {} and {}", a.kind(), b.kind());
    Error::new(ErrorKind::InvalidOperation, detail)
}
