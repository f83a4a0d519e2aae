//! What each pass keeps of the values that go by.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use minfer_graph::{Backend, DType, Node, Observer};

use super::NodeOn;
use super::cache::Store;
use super::difference::Difference;
use super::run::Watcher;
use super::values::{Interner, Value, values};

/// Most bytes of values that are kept for the second pass; later tokens are left out of the measure, not of the verdict.
const MAX_KEPT_BYTES: usize = 256 << 20;

/// Which tokens the columns of a step's nodes belong to.
#[derive(Default)]
pub(super) struct Columns {
    first: u32,
    n_tokens: usize,
    wanted: Vec<u32>,
}

impl Columns {
    pub(super) fn set(&mut self, first: usize, n_tokens: usize, wanted: &[usize]) {
        self.first = first as u32;
        self.n_tokens = n_tokens;
        self.wanted = wanted.iter().map(|w| *w as u32).collect();
    }

    /// The token of each column; nodes behind the choice of rows have only the wanted ones.
    fn token(&self, n_columns: usize, column: usize) -> Option<u32> {
        match n_columns == self.n_tokens {
            true => Some(self.first + column as u32),
            false if n_columns == self.wanted.len() => self.wanted.get(column).copied(),
            false => None,
        }
    }
}

/// Calls `f` with every value of every token of a node: what it is, whose, its elements.
fn each(columns: &Columns, node: &Node, bytes: &[u8], f: &mut dyn FnMut(&Value, u32, &[u8])) {
    let d = node.out_shape[0];
    let n_columns = node.n_elems() / d.max(1);
    for value in values(node) {
        for column in 0..n_columns {
            let start = (column * d + value.rows.start) * 4;
            let elements = bytes.get(start..start + value.rows.len() * 4);
            if let (Some(token), Some(elements)) = (columns.token(n_columns, column), elements) {
                f(&value, token, elements);
            }
        }
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// A value that went by.
pub(super) struct Seen {
    pub(super) key: u32,
    pub(super) token: u32,
    pub(super) digest: u64,
    pub(super) n_elems: u32,
    pub(super) node: Arc<NodeOn>,
    /// Whether one node holds several values.
    pub(super) is_fused: bool,
    /// Whether it is what a layer hands on, or the logits.
    pub(super) ends_layer: bool,
    /// Whether it was read back from the cache.
    pub(super) is_cached: bool,
}

/// First pass: digests.
pub(super) struct Digests<'a> {
    interner: &'a mut Interner,
    columns: Columns,
    seen: Vec<Seen>,
    /// What nodes are called; a name is kept once.
    nodes: HashMap<Arc<str>, Arc<NodeOn>>,
    stores: Vec<Store>,
    /// What the cache holds, and before which of `seen` it belongs.
    cached: Vec<(usize, Seen)>,
}

impl<'a> Digests<'a> {
    pub(super) fn new(interner: &'a mut Interner) -> Self {
        let columns = Columns::default();
        Digests {
            interner,
            columns,
            seen: Vec::new(),
            nodes: HashMap::new(),
            stores: Vec::new(),
            cached: Vec::new(),
        }
    }

    pub(super) fn into_seen(self) -> Vec<Seen> {
        self.seen
    }
}

impl Watcher for Digests<'_> {
    fn columns(&mut self) -> &mut Columns {
        // A step may run another graph, in which the same name stands for another op.
        self.nodes.clear();
        &mut self.columns
    }

    fn take_stores(&mut self) -> Vec<Store> {
        std::mem::take(&mut self.stores)
    }

    fn cached(&mut self, store: &Store, token: u32, elements: &[f32]) {
        let mut hasher = std::hash::DefaultHasher::new();
        elements.iter().for_each(|x| hasher.write(&x.to_le_bytes()));
        let seen = Seen {
            key: self.interner.number(&store.value(elements.len())),
            token,
            digest: hasher.finish(),
            n_elems: elements.len() as u32,
            node: store.node.clone(),
            is_fused: false,
            ends_layer: false,
            is_cached: true,
        };
        self.cached.push((store.at, seen));
    }

    fn step_is_over(&mut self) {
        let Some(&(first, _)) = self.cached.first() else { return };
        let mut cached = std::mem::take(&mut self.cached).into_iter().peekable();
        let later = self.seen.split_off(first);
        for (at, seen) in (first..).zip(later) {
            while let Some((_, seen)) = cached.next_if(|(before, _)| *before <= at) {
                self.seen.push(seen);
            }
            self.seen.push(seen);
        }
        self.seen.extend(cached.map(|(_, seen)| seen));
    }
}

impl Observer for Digests<'_> {
    fn wants(&self, node: &Node) -> bool {
        node.out_dtype == DType::F32
    }

    fn ran(&mut self, node: &Node, _time: Duration) {
        self.stores.extend(Store::of(node, self.seen.len()));
    }

    fn value(&mut self, node: &Node, bytes: &[u8]) {
        let on = self.nodes.entry(node.name.clone()).or_insert_with(|| {
            Arc::new(NodeOn {
                name: node.name.to_string(),
                op: node.op.kind().name(),
                backend: node.backend.unwrap_or(Backend::CPU),
            })
        });
        let (interner, seen) = (&mut self.interner, &mut self.seen);
        let ends_layer = &*node.name == "logits" || node.name.ends_with(".out");
        let is_fused = values(node).len() > 1;
        each(&self.columns, node, bytes, &mut |value, token, elements| {
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write(elements);
            seen.push(Seen {
                key: interner.number(value),
                token,
                digest: hasher.finish(),
                n_elems: (elements.len() / 4) as u32,
                node: on.clone(),
                is_fused,
                ends_layer,
                is_cached: false,
            });
        });
    }
}

/// Values by what they are and whose.
pub(super) type Values = HashMap<(u32, u32), Vec<f32>>;

/// Second pass, first side: values of some nodes.
pub(super) struct Keep<'a> {
    interner: &'a mut Interner,
    columns: Columns,
    keys: &'a [u32],
    first_token: u32,
    n_bytes: usize,
    values: Values,
    stores: Vec<Store>,
}

impl<'a> Keep<'a> {
    pub(super) fn new(interner: &'a mut Interner, keys: &'a [u32], first_token: u32) -> Self {
        let columns = Columns::default();
        Keep { interner, columns, keys, first_token, n_bytes: 0, values: HashMap::new(), stores: Vec::new() }
    }

    pub(super) fn into_values(self) -> Values {
        self.values
    }
}

impl Watcher for Keep<'_> {
    fn columns(&mut self) -> &mut Columns {
        &mut self.columns
    }

    fn take_stores(&mut self) -> Vec<Store> {
        std::mem::take(&mut self.stores)
    }

    fn cached(&mut self, store: &Store, token: u32, elements: &[f32]) {
        let key = self.interner.number(&store.value(elements.len()));
        if self.keys.contains(&key) && token >= self.first_token && self.n_bytes < MAX_KEPT_BYTES {
            self.n_bytes += size_of_val(elements);
            self.values.insert((key, token), elements.to_vec());
        }
    }
}

impl Observer for Keep<'_> {
    fn wants(&self, node: &Node) -> bool {
        node.out_dtype == DType::F32
    }

    fn ran(&mut self, node: &Node, _time: Duration) {
        self.stores.extend(Store::of(node, 0));
    }

    fn value(&mut self, node: &Node, bytes: &[u8]) {
        let Keep { interner, columns, keys, first_token, n_bytes, values, .. } = self;
        each(columns, node, bytes, &mut |value, token, elements| {
            let key = interner.number(value);
            if keys.contains(&key) && token >= *first_token && *n_bytes < MAX_KEPT_BYTES {
                *n_bytes += elements.len();
                values.insert((key, token), floats(elements));
            }
        });
    }
}

/// Second pass, second side: how far its values are from those that were kept.
pub(super) struct Measure<'a> {
    interner: &'a mut Interner,
    columns: Columns,
    kept: &'a Values,
    differences: HashMap<u32, Difference>,
    stores: Vec<Store>,
}

impl<'a> Measure<'a> {
    pub(super) fn new(interner: &'a mut Interner, kept: &'a Values) -> Self {
        let columns = Columns::default();
        Measure { interner, columns, kept, differences: HashMap::new(), stores: Vec::new() }
    }

    pub(super) fn into_differences(self) -> HashMap<u32, Difference> {
        self.differences
    }
}

impl Watcher for Measure<'_> {
    fn columns(&mut self) -> &mut Columns {
        &mut self.columns
    }

    fn take_stores(&mut self) -> Vec<Store> {
        std::mem::take(&mut self.stores)
    }

    fn cached(&mut self, store: &Store, token: u32, elements: &[f32]) {
        let key = self.interner.number(&store.value(elements.len()));
        if let Some(a) = self.kept.get(&(key, token)) {
            self.differences.entry(key).or_default().add(token as usize, a, elements);
        }
    }
}

impl Observer for Measure<'_> {
    fn wants(&self, node: &Node) -> bool {
        node.out_dtype == DType::F32
    }

    fn ran(&mut self, node: &Node, _time: Duration) {
        self.stores.extend(Store::of(node, 0));
    }

    fn value(&mut self, node: &Node, bytes: &[u8]) {
        let Measure { interner, columns, kept, differences, .. } = self;
        each(columns, node, bytes, &mut |value, token, elements| {
            let key = interner.number(value);
            if let Some(a) = kept.get(&(key, token)) {
                differences.entry(key).or_default().add(token as usize, a, &floats(elements));
            }
        });
    }
}
