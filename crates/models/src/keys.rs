//! Metadata under an architecture's prefix.

use minfer_gguf::{Array, Gguf, Metadata, MetadataError, Value};

use crate::error::ModelError;
use crate::{Architecture, Refused};

/// Reads `PREFIX.key` for one architecture.
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'static str,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(file: &'a Gguf, architecture: &Architecture) -> Self {
        Keys { metadata: file.metadata(), architecture: architecture.name }
    }

    /// The full key.
    pub(crate) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub(crate) fn opt_usize(&self, key: &str) -> Result<Option<usize>, ModelError> {
        Ok(self.metadata.opt_u32(&self.full(key))?.map(|n| n as usize))
    }

    pub(crate) fn usize(&self, key: &str) -> Result<usize, ModelError> {
        self.opt_usize(key)?.ok_or_else(|| self.missing(key))
    }

    /// A count that some files give once for each layer; all layers must agree.
    pub(crate) fn opt_per_layer(&self, key: &str, n_layers: usize) -> Result<Option<usize>, ModelError> {
        let full = self.full(key);
        let Some(Value::Array(array)) = self.metadata.get(&full) else { return self.opt_usize(key) };
        let values: Option<Vec<i128>> = match array {
            Array::U32(v) => Some(v.iter().map(|x| i128::from(*x)).collect()),
            Array::I32(v) => Some(v.iter().map(|x| i128::from(*x)).collect()),
            _ => None,
        };
        let same = values.filter(|v| v.len() == n_layers && v.windows(2).all(|w| w[0] == w[1]));
        match same.and_then(|v| v.first().and_then(|x| usize::try_from(*x).ok())) {
            Some(value) => Ok(Some(value)),
            None => Err(self.bad(key, "it must be one number, or the same number once for each layer")),
        }
    }

    pub(crate) fn opt_f32(&self, key: &str) -> Result<Option<f32>, ModelError> {
        Ok(self.metadata.opt_f32(&self.full(key))?)
    }

    pub(crate) fn f32(&self, key: &str) -> Result<f32, ModelError> {
        self.opt_f32(key)?.ok_or_else(|| self.missing(key))
    }

    pub(crate) fn opt_str(&self, key: &str) -> Result<Option<&'a str>, ModelError> {
        Ok(self.metadata.opt_str(&self.full(key))?)
    }

    /// Refuses a key whose value would change the computation.
    pub(crate) fn refuse(&self, refused: &Refused) -> Result<(), ModelError> {
        let key = self.full(refused.key);
        let Some(value) = self.metadata.get(&key) else { return Ok(()) };
        let number = match value {
            Value::F32(x) => Some(f64::from(*x)),
            Value::F64(x) => Some(*x),
            Value::Bool(b) => Some(f64::from(u8::from(*b))),
            other => other.as_i128().map(|n| n as f64),
        };
        if number == Some(refused.neutral) {
            return Ok(());
        }
        Err(ModelError::UnsupportedFeature {
            key,
            value: number.map_or_else(|| value.kind(), |n| n.to_string()),
            feature: refused.feature,
            architecture: self.architecture,
        })
    }

    /// A complaint about the value of a key.
    pub(crate) fn bad(&self, key: &str, reason: &'static str) -> ModelError {
        let full = self.full(key);
        let value = match self.metadata.get(&full) {
            None => "missing".into(),
            Some(Value::F32(x)) => x.to_string(),
            Some(Value::String(s)) => format!("'{s}'"),
            Some(v) => v.as_i128().map_or_else(|| v.kind(), |n| n.to_string()),
        };
        ModelError::BadValue { key: full, value, reason }
    }

    fn missing(&self, key: &str) -> ModelError {
        MetadataError::Missing { key: self.full(key) }.into()
    }
}
