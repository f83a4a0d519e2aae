//! Methods of Python's `dict`.

use minijinja::value::Tuple;
use minijinja::{Error, Value};

use super::{Call, missing, unknown_method};

pub(super) const NAMES: &[&str] = &["copy", "get", "items", "keys", "values"];

pub(super) fn call(call: &Call<'_, '_, '_>, dict: &Value, method: &str) -> Result<Value, Error> {
    match method {
        "get" => get(call, dict),
        "copy" => Ok(dict.clone()),
        "keys" => {
            pairs(dict)?.map(|pair| pair.map(|(key, _)| key)).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        "values" => pairs(dict)?
            .map(|pair| pair.map(|(_, item)| item))
            .collect::<Result<Vec<_>, _>>()
            .map(Value::from),
        "items" => items(dict),
        _ => Err(unknown_method()),
    }
}

/// The `(key, value)` tuples of a dict, as a list.
pub(in crate::chat) fn items(dict: &Value) -> Result<Value, Error> {
    let tuples: Result<Vec<Value>, Error> =
        pairs(dict)?.map(|pair| pair.map(|(key, item)| Value::from(Tuple::from([key, item])))).collect();
    Ok(Value::from(tuples?))
}

fn get(call: &Call<'_, '_, '_>, dict: &Value) -> Result<Value, Error> {
    call.at_most(2)?;
    let key = call.positional().first().ok_or_else(|| missing("key"))?;
    let found = dict.as_object().and_then(|object| object.get_value(key));
    let default = || call.positional().get(1).cloned().unwrap_or_else(|| Value::from(()));
    Ok(found.unwrap_or_else(default))
}

fn pairs(dict: &Value) -> Result<impl Iterator<Item = Result<(Value, Value), Error>>, Error> {
    let dict = dict.clone();
    Ok(dict.try_iter()?.checked().map(move |key| {
        let key = key?;
        let item = dict.get_item(&key)?;
        Ok((key, item))
    }))
}
