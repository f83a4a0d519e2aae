//! What a node's value stands for, so that it is found again on the other side.
//!
//! A product or a norm of heads is what its weight makes of the layer's input, wherever that is done: alone, or as rows
//! of a fused projection. Everything else is known by its node's name, which follows the stages of the float reference and
//! is the same in fused and unfused graphs.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use minfer_graph::{KvPart, Node, Op};

/// Which of a node's values is meant, where it has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The product, or norm, with this weight.
    Weight(String),
    /// What was stored in the cache.
    Cached(KvPart),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Weight(name) => write!(f, "the product with {name}"),
            Part::Cached(KvPart::K) => f.write_str("the keys in the cache"),
            Part::Cached(KvPart::V) => f.write_str("the values in the cache"),
        }
    }
}

/// Numbers for values.
#[derive(Default)]
pub(super) struct Interner {
    numbers: HashMap<String, u32>,
    parts: Vec<Option<Part>>,
}

impl Interner {
    pub(super) fn number(&mut self, value: &Value) -> u32 {
        if let Some(number) = self.numbers.get(&value.name) {
            return *number;
        }
        let number = self.parts.len() as u32;
        self.numbers.insert(value.name.clone(), number);
        self.parts.push(value.part.clone());
        number
    }

    /// What tells a value from others of its node, if something does.
    pub(super) fn part(&self, number: u32) -> Option<&Part> {
        self.parts.get(number as usize)?.as_ref()
    }
}

/// One value that a node holds: some of its rows.
pub(super) struct Value {
    /// What it is.
    pub(super) name: String,
    /// Its rows in the node.
    pub(super) rows: Range<usize>,
    /// What tells it from others of its node, if something does.
    pub(super) part: Option<Part>,
}

/// The values of a node, in order.
pub(super) fn values(node: &Node) -> Vec<Value> {
    let d = node.out_shape[0];
    let made_by = |what: &str, weight: usize, rows: Range<usize>| {
        let weight = node.meta.weights.get(weight).map(|w| w.name.to_string());
        let name = format!("{what} {}", weight.as_deref().unwrap_or(&node.name));
        Value { name, rows, part: weight.map(Part::Weight) }
    };
    match &node.op {
        Op::MatMul => vec![made_by("product", 0, 0..d)],
        Op::QkNorm { .. } => vec![made_by("norm", 0, 0..d)],
        Op::FusedQkv(dims) => vec![
            made_by("product", 0, 0..dims.q),
            made_by("product", 1, dims.q..dims.q + dims.kv),
            made_by("product", 2, dims.q + dims.kv..dims.total()),
        ],
        Op::FusedQkvNorm { dims, .. } => vec![
            made_by("norm", 3, 0..dims.q),
            made_by("norm", 4, dims.q..dims.q + dims.kv),
            made_by("product", 2, dims.q + dims.kv..dims.total()),
        ],
        _ => vec![Value { name: node.name.to_string(), rows: 0..d, part: None }],
    }
}
