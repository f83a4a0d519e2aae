//! Methods of Python's `list` and `tuple`.

use minijinja::{Error, ErrorKind, Value};

use super::{Call, missing, unknown_method};

pub(super) const NAMES: &[&str] = &["copy", "count", "index"];

pub(super) fn call(call: &Call<'_, '_, '_>, list: &Value, method: &str) -> Result<Value, Error> {
    match method {
        "copy" => Ok(list.clone()),
        "count" => {
            let wanted = call.positional().first().ok_or_else(|| missing("value"))?;
            let mut n = 0;
            for item in list.try_iter()?.checked() {
                call.state.consume_fuel(1)?;
                n += i64::from(item? == *wanted);
            }
            Ok(Value::from(n))
        }
        "index" => {
            let wanted = call.positional().first().ok_or_else(|| missing("value"))?;
            for (i, item) in list.try_iter()?.checked().enumerate() {
                call.state.consume_fuel(1)?;
                if item? == *wanted {
                    return Ok(Value::from(i));
                }
            }
            Err(Error::new(ErrorKind::InvalidOperation, format!("{wanted} is not in list")))
        }
        _ => Err(unknown_method()),
    }
}
