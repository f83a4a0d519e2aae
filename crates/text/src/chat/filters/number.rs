//! `int`, `float`, `filesizeformat`.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use super::Parameters;
use crate::chat::repr;

pub(super) fn add_to(env: &mut Environment<'_>) {
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("filesizeformat", file_size);
}

/// Python's `int()`, then `int(float())`, then the default.
fn int(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let parameters = Parameters::new(&args, &kwargs, &["default", "base"])?;
    let default = parameters.value(0, "default")?.unwrap_or_else(|| Value::from(0));
    let base = parameters.size(1, "base")?.unwrap_or(10);
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.clone(),
        ValueKind::Number => repr::as_float(value).and_then(truncate).unwrap_or(default),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            parse_int(text, base).or_else(|| parse_float(text).and_then(truncate)).unwrap_or(default)
        }
        _ => default,
    })
}

fn truncate(x: f64) -> Option<Value> {
    const LIMIT: f64 = 1e38;
    (x.abs() < LIMIT).then(|| Value::from(x.trunc() as i128))
}

fn parse_int(text: &str, base: usize) -> Option<Value> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixed = [(16, "0x"), (8, "0o"), (2, "0b")].into_iter().find_map(|(prefix_base, prefix)| {
        let head = digits.get(..2)?;
        ((base == prefix_base || base == 0) && head.eq_ignore_ascii_case(prefix))
            .then(|| (prefix_base, &digits[2..]))
    });
    let (base, digits) = prefixed.unwrap_or((if base == 0 { 10 } else { base }, digits));
    if !(2..=36).contains(&base) || digits.starts_with(['+', '-']) {
        return None;
    }
    let digits = without_underscores(digits)?;
    i128::from_str_radix(&format!("{sign}{digits}"), base as u32).ok().map(Value::from)
}

/// Python allows single underscores between digits.
fn without_underscores(digits: &str) -> Option<String> {
    let is_wrong = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    (!is_wrong).then(|| digits.replace('_', ""))
}

fn parse_float(text: &str) -> Option<f64> {
    without_underscores(text.trim())?.parse().ok()
}

fn float(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let parameters = Parameters::new(&args, &kwargs, &["default"])?;
    let default = parameters.value(0, "default")?.unwrap_or_else(|| Value::from(0.0));
    Ok(to_float(value).map_or(default, Value::from))
}

fn to_float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::String => parse_float(value.as_str().unwrap_or_default()),
        _ => None,
    }
}

fn file_size(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    const UNITS: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    let is_binary = Parameters::new(&args, &kwargs, &["binary"])?.flag(0, "binary")?;
    let bytes = to_float(value).unwrap_or(0.0);
    if !bytes.is_finite() {
        return Err(Error::new(ErrorKind::InvalidOperation, "a file size must be finite"));
    }
    let base: f64 = if is_binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok("1 Byte".to_owned());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", bytes.trunc()));
    }
    let exponent = (1..8).find(|&i| bytes < base.powi(i + 1)).unwrap_or(8);
    let unit = UNITS[exponent as usize - 1];
    let unit = if is_binary { format!("{}iB", unit.to_uppercase()) } else { format!("{unit}B") };
    Ok(format!("{:.1} {unit}", bytes / base.powi(exponent)))
}
