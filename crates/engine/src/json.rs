//! Numbers as JSON.

use serde_json::Value;

/// The shortest decimal that gives back the same `f32`: `1e-6`, not `9.999999974752427e-7`.
pub fn f32(x: f32) -> Value {
    f64(x.to_string().parse().unwrap_or(f64::from(x)))
}

/// JSON has no word for what is not finite: `"NaN"`, `"inf"`.
pub fn f64(x: f64) -> Value {
    if x.is_finite() { x.into() } else { x.to_string().into() }
}
