//! The memory of a planned graph as JSON: each buffer with its address in the arena, and who lives in it from when to when.
//!
//! Addresses are those of an arena in one piece, as a context reserves it.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::backend::Backend;
use crate::plan::{BufferKey, MemoryPlan, Storage};

use super::view::View;

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const MEMORY_SCHEMA_VERSION: u32 = 1;

/// The memory plan as a JSON document; before the graph is planned there is nothing in it.
pub fn memory(view: &View<'_>) -> Value {
    let empty = MemoryPlan::default();
    let plan = view.plan().unwrap_or(&empty);
    let buffers = addressed(plan);
    let index: HashMap<BufferKey, usize> =
        buffers.iter().enumerate().map(|(i, (key, _))| (*key, i)).collect();
    let values = values(view, plan);
    json!({
        "schema": "minfer.memory",
        "version": MEMORY_SCHEMA_VERSION,
        "n_nodes": view.graph().nodes.len(),
        "arenas": arenas(&buffers),
        "buffers": buffers.iter().map(|(key, address)| json!({
            "backend": key.backend.name(), "bytes": key.bytes, "ordinal": key.ordinal, "address": address,
        })).collect::<Vec<_>>(),
        "lives": plan.storages.iter().zip(values).map(|(s, values)| life(s, &index, &values)).collect::<Vec<_>>(),
    })
}

/// Every buffer and the byte of its backend's arena where it starts.
fn addressed(plan: &MemoryPlan) -> Vec<(BufferKey, usize)> {
    let mut used: HashMap<Backend, usize> = HashMap::new();
    let place = |key: BufferKey| {
        let next = used.entry(key.backend).or_default();
        let address = *next;
        *next += key.bytes;
        (key, address)
    };
    plan.laid_out().into_iter().map(place).collect()
}

fn arenas(buffers: &[(BufferKey, usize)]) -> Vec<Value> {
    let mut ends: Vec<(Backend, usize)> = Vec::new();
    for (key, address) in buffers {
        let end = address + key.bytes;
        match ends.iter_mut().find(|e| e.0 == key.backend) {
            Some(e) => e.1 = end,
            None => ends.push((key.backend, end)),
        }
    }
    ends.iter().map(|(backend, bytes)| json!({ "backend": backend.name(), "bytes": bytes })).collect()
}

/// Who lies in each storage: node, offset, and whether it is a copy of another backend's value.
fn values(view: &View<'_>, plan: &MemoryPlan) -> Vec<Vec<Value>> {
    let mut values = vec![Vec::new(); plan.storages.len()];
    let backends = view.params().cparams.backends;
    for node in &view.graph().nodes {
        for backend in backends.iter() {
            let Some(place) = plan.placement(node.id, backend) else { continue };
            values[place.storage].push(json!({
                "node": node.id.0,
                "offset": place.offset,
                "bytes": node.out_bytes(),
                "copy": node.backend != Some(backend),
            }));
        }
    }
    values
}

/// `last` is the number of nodes when the value lives to the end.
fn life(storage: &Storage, index: &HashMap<BufferKey, usize>, values: &[Value]) -> Value {
    json!({
        "buffer": index.get(&storage.buffer),
        "bytes": storage.bytes,
        "first": storage.first,
        "last": storage.last,
        "values": values,
    })
}
