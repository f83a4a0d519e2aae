//! What a node has to read, write and compute at least, whoever runs it: what rates are made of.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use minfer_gguf::TensorType;

use crate::graph::{ComputeGraph, Node};
use crate::op::{Op, WeightRef};
use crate::params::KvType;

/// Bytes and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes read and written: weights as they are in the file, values, cached keys and values.
    pub bytes: u64,
    /// Operations on integers: two for each product with a quantized weight.
    pub int_ops: u64,
    /// Operations on floats: two for each product with a float weight or between values; what is not a sum of products
    /// is not counted.
    pub float_ops: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.bytes += other.bytes;
        self.int_ops += other.int_ops;
        self.float_ops += other.float_ops;
    }
}

/// How much of the cache the rows of a step see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Positions that rows see, all rows together.
    pub pairs: u64,
    /// Positions that have to be read: of rows of one sequence, those of the row that sees most.
    pub positions: u64,
}

impl Seen {
    /// From the inputs of an attention: which sequence each row belongs to, and how many positions it sees.
    pub fn of(seq_rows: &[i32], kv_lens: &[i32]) -> Seen {
        let mut longest: BTreeMap<i32, i32> = BTreeMap::new();
        for (row, len) in seq_rows.iter().zip(kv_lens) {
            let most = longest.entry(*row).or_default();
            *most = (*most).max(*len);
        }
        let sum = |lens: &mut dyn Iterator<Item = i32>| lens.map(|len| len.max(0) as u64).sum();
        Seen { pairs: sum(&mut kv_lens.iter().copied()), positions: sum(&mut longest.into_values()) }
    }
}

/// The least work of a node; `seen` is asked for by attention only.
pub fn work(graph: &ComputeGraph, node: &Node, kv: KvType, seen: Seen) -> Work {
    let value = |n: &Node| if n.op.is_kv_handle() { 0 } else { n.out_bytes() as u64 };
    let sources: u64 = node.src.iter().map(|s| value(graph.node(*s))).sum();
    let mut work = Work { bytes: sources + value(node), ..Work::default() };
    let columns = |n: &Node| (n.n_elems() / n.out_shape[0].max(1)) as u64;
    match &node.op {
        Op::Input | Op::View { .. } | Op::Reshape | Op::KvcacheLoad { .. } => return Work::default(),
        Op::MatMul | Op::FusedQkv(_) | Op::FusedFfn => products(&mut work, &node.meta.weights, columns(node)),
        Op::FusedQkvNorm { .. } => {
            let matrices = node.meta.weights.len().min(3);
            products(&mut work, &node.meta.weights[..matrices], columns(node));
        }
        Op::GetRows => {
            // One row for each column of the result; a value that is picked from is not read whole either.
            let table = node.meta.weights.first().map_or(value(node), |w| row_bytes(w) * columns(node));
            work.bytes = 2 * value(node) + table;
        }
        Op::BatchMatMul => {
            let k = node.src.first().map_or(0, |s| graph.node(*s).out_shape[0]);
            work.float_ops = 2 * k as u64 * node.n_elems() as u64;
        }
        Op::Attn(spec) => {
            let position = kv.row_bytes(spec.n_kv_heads * spec.head_dim) as u64;
            let q_dim = (spec.n_heads * spec.head_dim) as u64;
            work.bytes = 2 * value(node) + 2 * position * seen.positions;
            work.float_ops = 4 * q_dim * seen.pairs;
        }
        Op::KvcacheStore { .. } => {
            work.bytes += columns(node) * kv.row_bytes(node.out_shape[0]) as u64;
        }
        _ => work.bytes += node.meta.weights.iter().map(weight_bytes).sum::<u64>(),
    }
    work
}

fn products(work: &mut Work, weights: &[WeightRef], columns: u64) {
    for w in weights {
        work.bytes += weight_bytes(w);
        let ops = 2 * w.shape.iter().product::<usize>() as u64 * columns;
        match w.dtype {
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => work.float_ops += ops,
            _ => work.int_ops += ops,
        }
    }
}

fn weight_bytes(w: &WeightRef) -> u64 {
    row_bytes(w) * w.shape[1..].iter().product::<usize>() as u64
}

fn row_bytes(w: &WeightRef) -> u64 {
    w.dtype.row_bytes(w.shape[0]).unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::GraphBuilder;
    use crate::graph::DType;
    use crate::op::{AttnSpec, KvPart};

    #[test]
    fn positions_are_read_once_for_each_sequence() {
        let seen = Seen::of(&[0, 0, 0, 2], &[4, 5, 6, 10]);
        assert_eq!((seen.pairs, seen.positions), (25, 16));
        assert_eq!(Seen::of(&[], &[]), Seen::default());
    }

    #[test]
    fn work_is_counted_by_hand() {
        let mut b = GraphBuilder::new();
        let x = b.input("x", [64, 3, 1, 1], DType::F32);
        let w = |dtype| WeightRef { name: "w".into(), dtype, shape: [64, 10, 1, 1] };
        let quantized = b.matmul("quantized", x, &w(TensorType::Q8_0));
        let float = b.matmul("float", x, &w(TensorType::F16));
        let slots = b.input("slots", [3, 1, 1, 1], DType::I32);
        let store = b.kv_store("store", x, slots, 0, KvPart::K, KvType::F16);
        let load = b.kv_load("load", store, 0, KvPart::K, [64, 32], KvType::F16);
        let bounds = [slots; 3];
        let spec = AttnSpec { layer: 0, n_heads: 1, n_kv_heads: 1, head_dim: 64, scale: 1.0 };
        let attn = b.attn("attn", x, [load, load], bounds, spec);
        let graph = b.finish().unwrap();
        let of = |id| work(&graph, graph.node(id), KvType::F16, Seen { pairs: 30, positions: 12 });
        let values = 4 * (64 * 3 + 10 * 3);
        assert_eq!(of(quantized), Work { bytes: values + 10 * 68, int_ops: 2 * 64 * 10 * 3, float_ops: 0 });
        assert_eq!(of(float), Work { bytes: values + 10 * 128, int_ops: 0, float_ops: 2 * 64 * 10 * 3 });
        assert_eq!(of(store).bytes, 4 * 64 * 3 + 4 * 3 + 2 * 64 * 3);
        assert_eq!(of(load), Work::default());
        let expected = Work { bytes: 2 * 4 * 64 * 3 + 2 * 64 * 2 * 12, int_ops: 0, float_ops: 4 * 64 * 30 };
        assert_eq!(of(attn), expected);
    }
}
