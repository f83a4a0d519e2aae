//! Time for each op, backend and weight type, added up over steps that run node by node.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use minfer_gguf::TensorType;

use crate::backend::Backend;
use crate::graph::Node;
use crate::op::OpKind;

/// One line of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpTime {
    /// Runs.
    pub count: u64,
    /// Their time together.
    pub time: Duration,
}

/// Times by op, backend and the type of the first weight.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    rows: BTreeMap<(OpKind, Backend, Option<TensorType>), OpTime>,
}

impl Profile {
    /// Adds one run of `node`.
    pub fn add(&mut self, node: &Node, time: Duration) {
        let Some(backend) = node.backend else { return };
        let weight = node.meta.weights.first().map(|w| w.dtype);
        let row = self.rows.entry((node.op.kind(), backend, weight)).or_default();
        row.count += 1;
        row.time += time;
    }

    /// All rows, in the order of ops.
    pub fn rows(&self) -> impl Iterator<Item = (OpKind, Backend, Option<TensorType>, OpTime)> + '_ {
        self.rows.iter().map(|((op, backend, weight), t)| (*op, *backend, *weight, *t))
    }

    /// Time of all rows.
    pub fn total(&self) -> Duration {
        self.rows.values().map(|r| r.time).sum()
    }

    /// The table as text, the most expensive row first.
    pub fn table(&self) -> String {
        let mut rows: Vec<_> = self.rows().collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.3.time));
        let total = self.total().as_secs_f64().max(f64::MIN_POSITIVE);
        let mut text = format!(
            "{:<18} {:<8} {:<8} {:>8} {:>10} {:>8} {:>6}\n",
            "op", "backend", "weight", "runs", "ms", "us/run", "share"
        );
        for (op, backend, weight, t) in rows {
            let seconds = t.time.as_secs_f64();
            let _ = writeln!(
                text,
                "{:<18} {:<8} {:<8} {:>8} {:>10.2} {:>8.1} {:>5.1}%",
                op.name(),
                backend.to_string(),
                weight.map_or("-", TensorType::name),
                t.count,
                seconds * 1e3,
                seconds * 1e6 / t.count as f64,
                100.0 * seconds / total,
            );
        }
        text
    }
}
