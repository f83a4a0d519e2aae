//! Rotation, the cache, and attention over it.

use minfer_graph::{AttnSpec, KernelFault, KvPart, KvSpec, KvType, Node, Op, RopeSpec};

use super::{Maker, word};
use crate::backend::weights::constant;
use crate::device::Span;
use crate::kernels;

impl Maker<'_> {
    pub(super) fn rope(&mut self, node: &Node, spec: &RopeSpec) -> Result<(), KernelFault> {
        let (x, positions, out) = (self.src(node, 0)?, self.src(node, 1)?, self.value(node)?);
        let (turns, magnitude) = self.turns(node, spec)?;
        let d = node.out_shape[0];
        let words = [
            self.node_word(),
            word(d)?,
            word(node.n_elems() / d.max(1))?,
            word(spec.head_dim)?,
            word(spec.n_rot)?,
            x.start(),
            positions.start(),
            out.start(),
            magnitude.to_bits(),
        ];
        let status = self.status.clone();
        let groups = kernels::threads(node.n_elems() / 2);
        let kernel = kernels::rope::rope(spec.style);
        self.dispatch(&kernel, &[&turns, &x, &positions, &out, &status], &words, groups)
    }

    /// The frequencies of a rotation, on the device, and its magnitude.
    fn turns(&self, node: &Node, spec: &RopeSpec) -> Result<(Span, f32), KernelFault> {
        let last = node.meta.weights.len().wrapping_sub(1);
        let divisors = spec.freq_factors.then(|| self.vector(node, last)).transpose()?;
        let frequencies = spec.frequencies(divisors.as_ref().map(|v| v.values.as_slice()));
        let frequencies = frequencies.map_err(|e| KernelFault::Bug(e.to_string()))?;
        let words = kernels::rope::turns(&frequencies);
        Ok((self.shared.turns(words)?, frequencies.magnitude as f32))
    }

    fn kv_spec(&self, layer: usize) -> Result<KvSpec, KernelFault> {
        let missing = || KernelFault::Bug(format!("layer {layer} has no KV geometry"));
        let spec = self.job.kv.get(layer).copied().ok_or_else(missing)?;
        match spec.kv_type {
            KvType::F16 | KvType::F32 => Ok(spec),
            other => {
                let name = other.dtype().name();
                Err(KernelFault::Bug(format!("no kernel reads a cache of {name}, as in layer {layer}")))
            }
        }
    }

    pub(super) fn store(&mut self, node: &Node, layer: usize, part: KvPart) -> Result<(), KernelFault> {
        let spec = self.kv_spec(layer)?;
        let (x, slots, region) = (self.src(node, 0)?, self.src(node, 1)?, self.kv(layer, part)?);
        let n = self.source(node, 1)?.n_elems();
        let words = [
            self.node_word(),
            word(n)?,
            word(spec.n_kv_heads)?,
            word(spec.head_dim)?,
            word(spec.block)?,
            word(spec.n_slots())?,
            x.start(),
            slots.start(),
            word(region.piece_blocks())?,
        ];
        let (status, pieces) = (self.status.clone(), region.spans()?);
        let groups = kernels::threads(n * spec.n_kv_heads * spec.head_dim / 2);
        let kernel = kernels::attention::store(part, spec.kv_type, pieces.len());
        let operands: Vec<_> = [&x, &slots, &status].into_iter().chain(&pieces).collect();
        self.dispatch(&kernel, &operands, &words, groups)
    }

    pub(super) fn bias_rope_store(&mut self, node: &Node) -> Result<(), KernelFault> {
        let Op::QkvBiasRopeStore { layer, dims, bias, rope } = &node.op else {
            return Err(KernelFault::Bug(format!("node '{}' stores nothing", node.name)));
        };
        let spec = self.kv_spec(*layer)?;
        let (turns, magnitude) = self.turns(node, rope)?;
        let biases = if *bias { self.biases(node)? } else { turns.clone() };
        let (qkv, positions, slots) = (self.src(node, 0)?, self.src(node, 1)?, self.src(node, 2)?);
        let (k, v, out) = (self.kv(*layer, KvPart::K)?, self.kv(*layer, KvPart::V)?, self.value(node)?);
        let n = self.source(node, 2)?.n_elems();
        let words = [
            self.node_word(),
            word(n)?,
            word(dims.q)?,
            word(spec.n_kv_heads)?,
            word(spec.head_dim)?,
            word(rope.n_rot)?,
            word(spec.block)?,
            word(spec.n_slots())?,
            qkv.start(),
            positions.start(),
            slots.start(),
            out.start(),
            magnitude.to_bits(),
            word(k.piece_blocks())?,
        ];
        let (status, keys, values) = (self.status.clone(), k.spans()?, v.spans()?);
        let others = [&turns, &biases, &qkv, &positions, &slots, &out, &status];
        let operands: Vec<_> = others.into_iter().chain(&keys).chain(&values).collect();
        let kernel = kernels::rope::bias_rope_store(rope.style, *bias, spec.kv_type, keys.len());
        self.dispatch(&kernel, &operands, &words, kernels::threads(n * dims.total() / 2))
    }

    /// The biases of query, key and value, one behind the other.
    fn biases(&self, node: &Node) -> Result<Span, KernelFault> {
        let mut bytes = Vec::new();
        for i in 0..3 {
            bytes.extend(self.vector(node, i)?.values.iter().flat_map(|x| x.to_le_bytes()));
        }
        constant(self.device(), &bytes)
    }

    pub(super) fn attention(&mut self, node: &Node, attn: &AttnSpec) -> Result<(), KernelFault> {
        let spec = self.kv_spec(attn.layer)?;
        let (q, out) = (self.src(node, 0)?, self.value(node)?);
        let (k, v) = (self.kv(attn.layer, KvPart::K)?, self.kv(attn.layer, KvPart::V)?);
        let (table, rows, lens) = (self.src(node, 3)?, self.src(node, 4)?, self.src(node, 5)?);
        let [blocks_per_seq, n_seqs, ..] = self.source(node, 3)?.out_shape;
        let n = self.source(node, 4)?.n_elems();
        let words = [
            self.node_word(),
            word(n)?,
            word(attn.n_heads)?,
            word(attn.n_kv_heads)?,
            word(attn.head_dim)?,
            word(spec.block)?,
            word(spec.n_blocks)?,
            word(blocks_per_seq)?,
            word(n_seqs)?,
            q.start(),
            table.start(),
            rows.start(),
            lens.start(),
            out.start(),
            attn.scale.to_bits(),
            word(k.piece_blocks())?,
        ];
        let (status, keys, values) = (self.status.clone(), k.spans()?, v.spans()?);
        let others = [&q, &table, &rows, &lens, &out, &status];
        let operands: Vec<_> = others.into_iter().chain(&keys).chain(&values).collect();
        let kernel = kernels::attention::attention(spec.kv_type, keys.len());
        self.dispatch(&kernel, &operands, &words, kernels::grid(n, word(attn.n_heads)?))
    }
}
