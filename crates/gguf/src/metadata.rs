//! Key-value metadata: an ordered map from key to typed value, with getters that name the key in every error.

use std::collections::HashMap;

use crate::Strings;

/// The type of a metadata value, with its id in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the variants are the types their names say")]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// The type with this id in a file.
    pub fn from_id(id: u32) -> Option<ValueType> {
        use ValueType::*;
        const BY_ID: [ValueType; 13] = [U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64];
        BY_ID.get(usize::try_from(id).ok()?).copied()
    }
}

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the types their names say")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

/// A homogeneous array, stored by element type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the types their names say")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    String(Strings),
    Array(Vec<Array>),
}

/// A key is missing or holds something else than was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MetadataError {
    /// The key is not in the file.
    #[error("metadata key '{key}' is missing")]
    Missing {
        /// The key that was asked for.
        key: String,
    },
    /// The value has another type than the caller needs.
    #[error("metadata key '{key}' should be {expected}, but it is {found}")]
    WrongType {
        /// The key that was asked for.
        key: String,
        /// What was asked for, in words.
        expected: &'static str,
        /// What is there, in words.
        found: String,
    },
    /// The value is an integer that does not fit.
    #[error("metadata key '{key}' is {value}, which is outside {expected}")]
    OutOfRange {
        /// The key that was asked for.
        key: String,
        /// The value in the file.
        value: String,
        /// The range that was asked for, in words.
        expected: &'static str,
    },
}

/// All metadata of a model, in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl Metadata {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key`, replacing an earlier value in its place; returns the earlier value.
    pub fn set(&mut self, key: impl Into<String>, value: Value) -> Option<Value> {
        let key = key.into();
        if let Some(&i) = self.index.get(&key) {
            return Some(std::mem::replace(&mut self.entries[i].1, value));
        }
        self.index.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        None
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&i| &self.entries[i].1)
    }

    /// All entries in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A required string.
    pub fn str(&self, key: &str) -> Result<&str, MetadataError> {
        required(key, self.opt_str(key)?)
    }

    /// An optional string; another type under that key is an error.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>, MetadataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(v) => Err(wrong(key, "a string", v)),
        }
    }

    /// A required non-negative integer of any integer type that fits `u32`.
    pub fn u32(&self, key: &str) -> Result<u32, MetadataError> {
        required(key, self.opt_u32(key)?)
    }

    /// An optional non-negative integer of any integer type that fits `u32`.
    pub fn opt_u32(&self, key: &str) -> Result<Option<u32>, MetadataError> {
        let Some(v) = self.get(key) else { return Ok(None) };
        let Some(n) = v.as_i128() else { return Err(wrong(key, "an integer", v)) };
        u32::try_from(n).map(Some).map_err(|_| MetadataError::OutOfRange {
            key: key.into(),
            value: n.to_string(),
            expected: "0..=4294967295",
        })
    }

    /// A required floating-point number (`f32` or `f64`), as `f32`.
    pub fn f32(&self, key: &str) -> Result<f32, MetadataError> {
        required(key, self.opt_f32(key)?)
    }

    /// An optional floating-point number (`f32` or `f64`), as `f32`.
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>, MetadataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::F32(x)) => Ok(Some(*x)),
            Some(Value::F64(x)) => Ok(Some(*x as f32)),
            Some(v) => Err(wrong(key, "a floating-point number", v)),
        }
    }

    /// An optional truth value.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, MetadataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(v) => Err(wrong(key, "a truth value", v)),
        }
    }

    /// An optional array of strings.
    pub fn opt_strings(&self, key: &str) -> Result<Option<&Strings>, MetadataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::String(s))) => Ok(Some(s)),
            Some(v) => Err(wrong(key, "an array of strings", v)),
        }
    }

    /// An optional array of `f32`.
    pub fn opt_f32s(&self, key: &str) -> Result<Option<&[f32]>, MetadataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::F32(s))) => Ok(Some(s)),
            Some(v) => Err(wrong(key, "an array of f32", v)),
        }
    }

    /// An optional array of `i32` or `u32` that fit `i32`.
    pub fn opt_i32s(&self, key: &str) -> Result<Option<Vec<i32>>, MetadataError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::I32(s))) => Ok(Some(s.clone())),
            Some(v @ Value::Array(Array::U32(s))) => {
                let narrow = s.iter().map(|&x| i32::try_from(x)).collect::<Result<Vec<_>, _>>();
                narrow.map(Some).map_err(|_| wrong(key, "an array of integers below 2^31", v))
            }
            Some(v) => Err(wrong(key, "an array of 32-bit integers", v)),
        }
    }
}

fn required<T>(key: &str, value: Option<T>) -> Result<T, MetadataError> {
    value.ok_or_else(|| MetadataError::Missing { key: key.into() })
}

fn wrong(key: &str, expected: &'static str, found: &Value) -> MetadataError {
    MetadataError::WrongType { key: key.into(), expected, found: found.kind() }
}

impl Value {
    /// The value's type and, for arrays, element type and length, in words: `u32`, `array of 3 string`.
    pub fn kind(&self) -> String {
        match self {
            Value::Array(a) => format!("array of {} {}", a.len(), type_name(a.element_type())),
            v => type_name(v.value_type()).to_string(),
        }
    }

    /// The value's type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F32(_) => ValueType::F32,
            Value::F64(_) => ValueType::F64,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
        }
    }

    /// The value as a whole number, if it has an integer type.
    pub fn as_i128(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(x) => x.into(),
            Value::I8(x) => x.into(),
            Value::U16(x) => x.into(),
            Value::I16(x) => x.into(),
            Value::U32(x) => x.into(),
            Value::I32(x) => x.into(),
            Value::U64(x) => x.into(),
            Value::I64(x) => x.into(),
            _ => return None,
        })
    }
}

impl Array {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::F64(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::String(v) => v.len(),
            Array::Array(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F32(_) => ValueType::F32,
            Array::F64(_) => ValueType::F64,
            Array::Bool(_) => ValueType::Bool,
            Array::String(_) => ValueType::String,
            Array::Array(_) => ValueType::Array,
        }
    }
}

fn type_name(t: ValueType) -> &'static str {
    match t {
        ValueType::U8 => "u8",
        ValueType::I8 => "i8",
        ValueType::U16 => "u16",
        ValueType::I16 => "i16",
        ValueType::U32 => "u32",
        ValueType::I32 => "i32",
        ValueType::F32 => "f32",
        ValueType::Bool => "bool",
        ValueType::String => "string",
        ValueType::Array => "array",
        ValueType::U64 => "u64",
        ValueType::I64 => "i64",
        ValueType::F64 => "f64",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Metadata {
        let mut m = Metadata::new();
        m.set("name", Value::String("x".into()));
        m.set("small", Value::I8(7));
        m.set("wide", Value::U64(1 << 32));
        m.set("negative", Value::I32(-1));
        m.set("half", Value::F64(0.5));
        m.set("ids", Value::Array(Array::U32(vec![1, 2])));
        m.set("big ids", Value::Array(Array::U32(vec![1 << 31])));
        m
    }

    #[test]
    fn integers_of_any_width_are_read_if_they_fit() {
        let m = table();
        assert_eq!(m.u32("small"), Ok(7));
        assert_eq!(m.opt_u32("absent"), Ok(None));
        for (key, value) in [("wide", "4294967296"), ("negative", "-1")] {
            let expected = "0..=4294967295";
            let error = MetadataError::OutOfRange { key: key.into(), value: value.into(), expected };
            assert_eq!(m.u32(key), Err(error));
        }
        assert_eq!(m.opt_i32s("ids"), Ok(Some(vec![1, 2])));
        assert!(m.opt_i32s("big ids").is_err());
    }

    #[test]
    fn a_wrong_or_missing_value_names_its_key() {
        let m = table();
        assert_eq!(m.str("absent"), Err(MetadataError::Missing { key: "absent".into() }));
        assert_eq!(
            m.opt_str("ids").unwrap_err().to_string(),
            "metadata key 'ids' should be a string, but it is array of 2 u32"
        );
        assert_eq!(m.f32("half"), Ok(0.5));
        assert!(m.f32("small").is_err() && m.opt_bool("small").is_err() && m.opt_strings("name").is_err());
    }

    #[test]
    fn setting_again_replaces_in_place() {
        let mut m = table();
        let (len, first) = (m.len(), m.iter().next().map(|(k, _)| k.to_owned()));
        assert_eq!(m.set("name", Value::Bool(true)), Some(Value::String("x".into())));
        assert_eq!((m.len(), m.iter().next().map(|(k, _)| k.to_owned())), (len, first));
        assert_eq!(m.opt_bool("name"), Ok(Some(true)));
    }

    #[test]
    fn value_types_lead_back_from_their_ids() {
        for id in 0..13 {
            assert_eq!(ValueType::from_id(id).map(|t| t as u32), Some(id));
        }
        assert_eq!(ValueType::from_id(13), None);
    }
}
