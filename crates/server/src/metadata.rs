//! What a model's file says, as JSON.

use std::collections::BTreeMap;

use minfer_engine::Model;
use minfer_gguf::{Array, Value as Meta};
use serde_json::Value;

/// Longest list that is told, unless all is asked for.
const MAX_LIST: usize = 16;

/// A value of the metadata. Of a long list there is null, unless `verbose`: vocabularies are megabytes.
pub(crate) fn meta_json(value: &Meta, verbose: bool) -> Value {
    match value {
        Meta::U8(x) => (*x).into(),
        Meta::I8(x) => (*x).into(),
        Meta::U16(x) => (*x).into(),
        Meta::I16(x) => (*x).into(),
        Meta::U32(x) => (*x).into(),
        Meta::I32(x) => (*x).into(),
        Meta::U64(x) => (*x).into(),
        Meta::I64(x) => (*x).into(),
        Meta::F32(x) => (*x).into(),
        Meta::F64(x) => (*x).into(),
        Meta::Bool(x) => (*x).into(),
        Meta::String(text) => text.as_str().into(),
        Meta::Array(list) if !verbose && list.len() > MAX_LIST => Value::Null,
        Meta::Array(list) => list_json(list),
    }
}

fn list_json(list: &Array) -> Value {
    fn all<T: Copy + Into<Value>>(list: &[T]) -> Value {
        list.iter().map(|x| (*x).into()).collect::<Vec<Value>>().into()
    }
    match list {
        Array::U8(x) => all(x),
        Array::I8(x) => all(x),
        Array::U16(x) => all(x),
        Array::I16(x) => all(x),
        Array::U32(x) => all(x),
        Array::I32(x) => all(x),
        Array::U64(x) => all(x),
        Array::I64(x) => all(x),
        Array::F32(x) => all(x),
        Array::F64(x) => all(x),
        Array::Bool(x) => all(x),
        Array::String(x) => x.iter().collect(),
        Array::Array(x) => x.iter().map(list_json).collect(),
    }
}

/// The type that most bytes of the weights have.
pub(crate) fn file_type(model: &Model) -> &'static str {
    let mut bytes: BTreeMap<&'static str, usize> = BTreeMap::new();
    for tensor in model.file().tensors() {
        *bytes.entry(tensor.dtype.name()).or_default() += tensor.n_bytes();
    }
    bytes.into_iter().max_by_key(|(_, n)| *n).map_or("", |(name, _)| name)
}
