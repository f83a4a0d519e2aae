//! Dicts of requests, on which `x.items` is Python's method and `x['items']` the entry.
//!
//! JSON schemas have keys such as `items`; Jinja2 looks for an attribute before an entry, so `schema.items` is a method
//! there, hence defined and true, even if it is an entry as well. The engine has one lookup for both spellings. The
//! source is therefore rewritten: `x.items`, where it is not called, becomes `x['<prefix>items']`.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};
use minijinja::{Error, State, Value};

/// Attributes of every Python `dict`.
const METHODS: [&str; 11] =
    ["clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

const PREFIX: &str = "dict method ";

/// The subscript that stands for the method `name`, if dicts have such a method.
pub(super) fn method_subscript(name: &str) -> Option<String> {
    METHODS.contains(&name).then(|| format!("['{PREFIX}{name}']"))
}

/// A dict of strings to values.
#[derive(Debug)]
pub(super) struct Dict(DynObject);

impl Dict {
    /// A dict with these entries, in this order.
    pub(super) fn from_pairs(pairs: Vec<(&str, Value)>) -> Value {
        let map = Value::from_pairs(pairs);
        match map.as_object() {
            Some(object) => Value::from_object(Self(object.clone())),
            None => map,
        }
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str().and_then(|key| key.strip_prefix(PREFIX)) {
            Some(name) if METHODS.contains(&name) => Some(Value::from_object(BoundMethod {
                dict: Value::from_dyn_object(self.clone()),
                name: name.to_owned(),
            })),
            _ => self.0.get_value(key),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.0.enumerator_len()
    }
}

/// `x.items` without a call: true, callable, and nothing else.
#[derive(Debug)]
struct BoundMethod {
    dict: Value,
    name: String,
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.dict.call_method(state, &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}
