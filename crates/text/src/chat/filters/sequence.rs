//! Filters over lists and dicts: `default`, `dictsort`, `join`, `random`.

use std::cmp::Ordering;

use minijinja::value::{Kwargs, Rest, Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::Parameters;
use crate::chat::bound::is_namespace;
use crate::chat::render::Clock;
use crate::chat::repr;

pub(super) fn add_to(env: &mut Environment<'_>) {
    env.add_filter("attr", attr);
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("dictsort", dictsort);
    env.add_filter("join", join);
    env.add_filter("random", random);
}

/// The attribute of an object. As in Jinja2, the entries of a dict are none.
fn attr(value: &Value, name: &str) -> Result<Value, Error> {
    let is_dict = value.kind() == ValueKind::Map && !is_namespace(value);
    if is_dict { Ok(Value::UNDEFINED) } else { value.get_attr(name) }
}

fn default(value: Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let parameters = Parameters::new(&args, &kwargs, &["default_value", "boolean"])?;
    let is_replaced = value.is_undefined() || (parameters.flag(1, "boolean")? && !value.is_true());
    if is_replaced {
        Ok(parameters.value(0, "default_value")?.unwrap_or_else(|| Value::from("")))
    } else {
        Ok(value)
    }
}

fn dictsort(state: &State<'_, '_>, dict: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let parameters = Parameters::new(&args, &kwargs, &["case_sensitive", "by", "reverse"])?;
    let is_case_sensitive = parameters.flag(0, "case_sensitive")?;
    let is_by_value = match parameters.text(1, "by")?.as_deref() {
        None | Some("key") => false,
        Some("value") => true,
        Some(_) => return Err(invalid("You can only sort by either \"key\" or \"value\"")),
    };
    if dict.kind() != ValueKind::Map {
        return Err(invalid("dictsort needs a dict"));
    }
    let mut pairs = Vec::new();
    for key in dict.try_iter()?.checked() {
        let key = key?;
        let item = dict.get_item(&key)?;
        let by = if is_by_value { &item } else { &key };
        pairs.push((sort_key(by, is_case_sensitive), key, item));
    }
    state.consume_fuel(pairs.len() as u64 * u64::from(pairs.len().max(2).ilog2()))?;
    sort(&mut pairs, parameters.flag(2, "reverse")?)?;
    Ok(pairs
        .into_iter()
        .map(|(_, key, item)| Value::from(Tuple::from([key, item])))
        .collect::<Vec<_>>()
        .into())
}

fn sort_key(value: &Value, is_case_sensitive: bool) -> Value {
    match value.as_str() {
        Some(text) if !is_case_sensitive => Value::from(text.to_lowercase()),
        _ => value.clone(),
    }
}

fn sort(pairs: &mut [(Value, Value, Value)], is_reverse: bool) -> Result<(), Error> {
    let kind = |v: &Value| if v.kind() == ValueKind::Bool { ValueKind::Number } else { v.kind() };
    let is_mixed = pairs.windows(2).any(|w| kind(&w[0].0) != kind(&w[1].0));
    if is_mixed {
        return Err(invalid("values of different types cannot be sorted"));
    }
    // Reversing the comparison, not the list, keeps equal keys in their order, as Python does.
    let compare = |a: &Value, b: &Value| -> Ordering { if is_reverse { b.cmp(a) } else { a.cmp(b) } };
    pairs.sort_by(|a, b| compare(&a.0, &b.0));
    Ok(())
}

fn join(state: &State<'_, '_>, items: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let parameters = Parameters::new(&args, &kwargs, &["d", "attribute"])?;
    let separator = parameters.text(0, "d")?.unwrap_or_default();
    let attribute = parameters.value(1, "attribute")?.filter(|v| !v.is_none());
    let mut out = String::new();
    for (i, item) in items.try_iter()?.checked().enumerate() {
        let mut item = item?;
        if let Some(path) = &attribute {
            item = follow(item, path)?;
        }
        if i > 0 {
            out.push_str(&separator);
        }
        let n_before = out.len();
        repr::write_str(&mut out, &item)?;
        state.consume_fuel(1 + (separator.len() + out.len() - n_before) as u64 / 64)?;
    }
    Ok(out)
}

/// `attribute='a.b.0'`, or a number.
fn follow(item: Value, path: &Value) -> Result<Value, Error> {
    let Some(text) = path.as_str() else { return item.get_item(path) };
    text.split('.').try_fold(item, |item, part| match part.parse::<usize>() {
        Ok(i) => item.get_item_by_index(i),
        Err(_) => item.get_attr(part),
    })
}

/// Some item; which one depends on the clock, so that a rendering with a fixed clock can be repeated.
fn random(state: &State<'_, '_>, items: &Value) -> Result<Value, Error> {
    let items: Vec<Value> = items.try_iter()?.checked().collect::<Result<_, _>>()?;
    let clock = state.lookup(Clock::VARIABLE);
    let nanoseconds =
        clock.as_ref().and_then(|v| v.downcast_object_ref::<Clock>()).map_or(0, |c| c.0.subsec_nanosecond());
    let n = items.len().max(1);
    Ok(items.get(usize::try_from(nanoseconds).unwrap_or(0) % n).cloned().unwrap_or_default())
}

fn invalid(detail: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}
