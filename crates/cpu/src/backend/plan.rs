//! Working memory, computed before there is any.
//!
//! The figures are upper bounds that follow the text of the steps: whoever gives a step more memory to work with gives it
//! to its line here, too. `engine/tests/plan.rs` compares them with what a process really takes.

use minfer_graph::{AttnSpec, ComputeGraph, KvSpec, Node, NodeId, Op};

use super::kv_layout;
use crate::matmul::{QuantizedActivations, Scratch};
use crate::ops::AttentionScratch;

/// Stack and small allocations of a thread.
const THREAD_BYTES: usize = 512 << 10;

/// Working memory of all threads for these nodes.
pub(super) fn scratch_bytes(
    graph: &ComputeGraph,
    nodes: &[NodeId],
    kv: &[KvSpec],
    n_threads: usize,
) -> usize {
    let mut need = Need::default();
    for &id in nodes {
        need.add(graph, graph.node(id), kv, n_threads);
    }
    let per_thread = need.product.saturating_add(need.tile).saturating_add(THREAD_BYTES);
    let shared = [need.activations, need.attention, need.temp, need.rope];
    shared.into_iter().fold(per_thread.saturating_mul(n_threads), usize::saturating_add)
}

/// The most that any node needs, in bytes: each kind of memory is used by one node after the other.
#[derive(Default)]
struct Need {
    activations: usize,
    attention: usize,
    temp: usize,
    rope: usize,
    /// Of one thread.
    product: usize,
    /// Of one thread.
    tile: usize,
}

impl Need {
    fn add(&mut self, graph: &ComputeGraph, node: &Node, kv: &[KvSpec], n_threads: usize) {
        let Some(source) = node.src.first().map(|s| graph.node(*s)) else { return };
        let n_tokens = source.n_elems() / source.out_shape[0].max(1);
        match &node.op {
            Op::MatMul => self.product(source, n_tokens),
            Op::FusedQkv(_) => self.product(source, n_tokens),
            Op::FusedQkvNorm { .. } => {
                self.product(source, n_tokens);
                self.temp(node.n_elems());
            }
            Op::FusedFfn => {
                self.product(source, n_tokens);
                self.temp(node.n_elems().saturating_mul(2));
            }
            Op::QkvBiasRopeStore { dims, rope, .. } => {
                self.temp(n_tokens.saturating_mul(2 * dims.kv));
                self.rope(n_tokens, rope.n_rot);
            }
            Op::Rope(spec) => self.rope(n_tokens, spec.n_rot),
            Op::Attn(spec) => {
                let blocks_per_seq = node.src.get(3).map_or(0, |s| graph.node(*s).out_shape[0]);
                self.attention(spec, n_tokens, kv, blocks_per_seq, n_threads);
            }
            _ => {}
        }
    }

    fn product(&mut self, source: &Node, n_tokens: usize) {
        let k = source.out_shape[0];
        self.activations = self.activations.max(QuantizedActivations::bytes_for(n_tokens, k));
        self.product = self.product.max(Scratch::bytes_for(n_tokens, k));
    }

    fn temp(&mut self, n_elems: usize) {
        self.temp = self.temp.max(n_elems.saturating_mul(size_of::<f32>()));
    }

    fn rope(&mut self, n_tokens: usize, n_rot: usize) {
        let row = 2 * n_rot * size_of::<f32>() + size_of::<i32>();
        self.rope = self.rope.max(n_tokens.saturating_mul(row));
    }

    fn attention(
        &mut self,
        spec: &AttnSpec,
        n_tokens: usize,
        kv: &[KvSpec],
        blocks_per_seq: usize,
        n_threads: usize,
    ) {
        let Some(kv) = kv.get(spec.layer) else { return };
        let n_ctx = blocks_per_seq.saturating_mul(kv.block);
        let need = AttentionScratch::bytes_for(kv_layout(kv), spec.n_heads, n_tokens, n_ctx, n_threads);
        self.attention = self.attention.max(need.shared);
        self.tile = self.tile.max(need.per_thread);
    }
}
