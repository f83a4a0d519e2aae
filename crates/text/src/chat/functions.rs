//! Global functions: those of `transformers` and those of Jinja2 that the engine lacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::bound::bound;
use super::clock;
use super::environment::raised;
use super::render::Clock;

/// Names that a template may call without defining them.
pub(super) const NAMES: &[&str] = &[
    "caller",
    "cycler",
    "dict",
    "joiner",
    "loop",
    "namespace",
    "raise_exception",
    "range",
    "strftime_now",
    "super",
];

/// Adds the functions.
pub(super) fn add_to(env: &mut Environment<'_>) {
    env.remove_global("debug");
    env.add_function("raise_exception", |message: Value| -> Result<Value, Error> { Err(raised(&message)) });
    env.add_function("strftime_now", strftime_now);
    let namespace = env.globals().find(|(name, _)| *name == "namespace").map(|(_, function)| function);
    env.add_function("dict", dict);
    env.add_function("namespace", move |state: &mut State<'_, '_>, args: Rest<Value>, kwargs: Kwargs| {
        // Only the engine's own namespace can be assigned to; it takes one dict.
        let initial = bound(state, dict(args, kwargs)?, 0)?;
        namespace.as_ref().map_or(Ok(Value::UNDEFINED), |function| function.call(state, &[initial]))
    });
    // What Jinja2 keeps the template's blocks in.
    env.add_global("self", Value::from_object(TemplateReference));
    env.add_function("cycler", cycler);
    env.add_function("joiner", |separator: Option<String>| {
        Value::from_object(Joiner {
            separator: separator.unwrap_or_else(|| ", ".to_owned()),
            is_used: AtomicBool::new(false),
        })
    });
}

fn strftime_now(state: &State<'_, '_>, pattern: &str) -> Result<String, Error> {
    let clock = state.lookup(Clock::VARIABLE);
    let now = clock.as_ref().and_then(|value| value.downcast_object_ref::<Clock>()).map(|clock| clock.0);
    now.map(|now| clock::strftime(pattern, now))
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "there is no clock"))
}

#[derive(Debug)]
struct TemplateReference;

impl Object for TemplateReference {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// Python's `dict`: of another dict or of pairs, with keywords added.
fn dict(args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    match &args[..] {
        [] => {}
        [dict] if dict.kind() == ValueKind::Map => {
            for key in dict.try_iter()?.checked() {
                let key = key?;
                pairs.push((key.clone(), dict.get_item(&key)?));
            }
        }
        [items] => {
            for pair in items.try_iter()?.checked() {
                pairs.push(key_and_value(&pair?)?);
            }
        }
        _ => return Err(Error::from(ErrorKind::TooManyArguments)),
    }
    for name in kwargs.args() {
        pairs.push((Value::from(name), kwargs.peek(name)?));
    }
    Ok(Value::from_pairs(pairs))
}

fn key_and_value(pair: &Value) -> Result<(Value, Value), Error> {
    let items: Vec<Value> = pair.try_iter()?.checked().take(3).collect::<Result<_, _>>()?;
    match <[Value; 2]>::try_from(items) {
        Ok([key, value]) => Ok((key, value)),
        Err(_) => Err(Error::new(ErrorKind::InvalidOperation, "a dict is made of pairs")),
    }
}

/// Jinja2's `cycler('odd', 'even')`, advanced by `next()`.
#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

fn cycler(state: &State<'_, '_>, items: Rest<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return Err(Error::new(ErrorKind::MissingArgument, "at least one item has to be provided"));
    }
    let items: Result<Vec<Value>, Error> = items.0.into_iter().map(|item| bound(state, item, 2)).collect();
    Ok(Value::from_object(Cycler { items: items?, at: AtomicUsize::new(0) }))
}

impl Cycler {
    fn current(&self) -> Value {
        self.items[self.at.load(Ordering::Relaxed) % self.items.len()].clone()
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        _: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "next" => {
                let item = self.current();
                self.at.fetch_add(1, Ordering::Relaxed);
                Ok(item)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// Jinja2's `joiner(', ')`: empty at the first call, the separator afterwards.
#[derive(Debug)]
struct Joiner {
    separator: String,
    is_used: AtomicBool,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, _: &[Value]) -> Result<Value, Error> {
        let is_first = !self.is_used.swap(true, Ordering::Relaxed);
        Ok(Value::from(if is_first { "" } else { self.separator.as_str() }))
    }
}
