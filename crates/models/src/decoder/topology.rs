//! The graph of one step.
//!
//! Node names are those of the float reference's trace (`3.q_rope`, `3.ffn_inner`, `logits`), so that values compare by
//! name. Stages that a fusion swallows have no node of their own.

use minfer_graph::{
    AttnSpec, BuildError, ComputeGraph, DType, GraphBuilder, GraphParams, GraphType, Head, KvPart, NodeId,
    Op, Policy, QkvDims, Support, WeightRef,
};

use crate::hparams::HParams;
use crate::weights::{LayerWeights, Weights};

/// The inputs of a step, in the order in which every graph declares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepInput {
    /// Token ids, `[n_tokens]`.
    Tokens,
    /// Position of each token in its sequence, `[n_tokens]`.
    Positions,
    /// Where each token's key and value go: `block * kv_block + offset`, `[n_tokens]`.
    KvSlots,
    /// Blocks of each sequence, `[blocks_per_seq, n_seq_max]`.
    BlockTable,
    /// Column of the block table of each token, `[n_tokens]`.
    SeqRows,
    /// Positions that each token sees, counted from 0, `[n_tokens]`.
    KvLens,
    /// Tokens whose output is wanted, `[n_out]`; not declared when all are, or none.
    OutRows,
}

impl StepInput {
    /// Every input, in order.
    pub const ALL: [StepInput; 7] = [
        StepInput::Tokens,
        StepInput::Positions,
        StepInput::KvSlots,
        StepInput::BlockTable,
        StepInput::SeqRows,
        StepInput::KvLens,
        StepInput::OutRows,
    ];

    /// The node's name.
    pub fn name(self) -> &'static str {
        match self {
            StepInput::Tokens => "tokens",
            StepInput::Positions => "positions",
            StepInput::KvSlots => "kv_slots",
            StepInput::BlockTable => "block_table",
            StepInput::SeqRows => "seq_rows",
            StepInput::KvLens => "kv_lens",
            StepInput::OutRows => "out_rows",
        }
    }

    /// Whether the graph of `params` declares it.
    pub fn is_declared(self, params: &GraphParams) -> bool {
        self != StepInput::OutRows || selects_rows(params)
    }
}

/// Whether the tail runs on fewer rows than the step has.
fn selects_rows(params: &GraphParams) -> bool {
    params.n_out != params.n_tokens && params.n_out != 0
}

struct Inputs {
    positions: NodeId,
    kv_slots: NodeId,
    /// Block table, its columns, lengths.
    bounds: [NodeId; 3],
    out_rows: Option<NodeId>,
}

struct Step<'a> {
    b: GraphBuilder,
    h: &'a HParams,
    w: &'a Weights,
    params: &'a GraphParams,
    policy: &'a Policy<'a>,
}

pub(super) fn build(
    h: &HParams,
    w: &Weights,
    params: &GraphParams,
    policy: &Policy<'_>,
) -> Result<ComputeGraph, BuildError> {
    let mut s = Step { b: GraphBuilder::new(), h, w, params, policy };
    let tokens = s.input(StepInput::Tokens);
    let inputs = s.inputs();
    let mut x = s.b.embed("embed", tokens, &w.token_embd);
    for (layer, weights) in w.layers.iter().enumerate() {
        s.b.set_layer(Some(layer));
        let rows = if layer + 1 == h.n_layers { inputs.out_rows } else { None };
        x = s.layer(layer, weights, x, &inputs, rows);
    }
    s.b.set_layer(None);
    if params.n_out == 0 {
        // A step that only fills the cache: its stores keep every node but the last layer's tail alive.
        return s.b.finish();
    }
    let x = match inputs.out_rows {
        Some(rows) if h.n_layers == 0 => s.b.get_rows("out_rows_embed", x, rows),
        _ => x,
    };
    let x = s.b.rms_norm("output_norm", x, &w.output_norm, h.norm_eps);
    let output = match params.head {
        Head::Logits => s.b.matmul("logits", x, &w.output),
        Head::Best => {
            let logits = s.b.matmul("logits", x, &w.output);
            s.b.argmax("best", logits)
        }
        Head::Hidden => x,
    };
    s.b.output(output);
    s.b.finish()
}

impl Step<'_> {
    fn input(&mut self, input: StepInput) -> NodeId {
        let (p, c) = (self.params, &self.params.cparams);
        let shape = match input {
            StepInput::BlockTable => [c.blocks_per_seq(), c.n_seq_max, 1, 1],
            StepInput::OutRows => [p.n_out, 1, 1, 1],
            _ => [p.n_tokens, 1, 1, 1],
        };
        self.b.input(input.name(), shape, DType::I32)
    }

    fn inputs(&mut self) -> Inputs {
        Inputs {
            positions: self.input(StepInput::Positions),
            kv_slots: self.input(StepInput::KvSlots),
            bounds: [StepInput::BlockTable, StepInput::SeqRows, StepInput::KvLens].map(|i| self.input(i)),
            out_rows: selects_rows(self.params).then(|| self.input(StepInput::OutRows)),
        }
    }

    /// One block; in the last one everything after attention runs on the wanted `rows` only.
    fn layer(
        &mut self,
        layer: usize,
        w: &LayerWeights,
        x: NodeId,
        inputs: &Inputs,
        rows: Option<NodeId>,
    ) -> NodeId {
        let h = self.b.rms_norm("attn_norm", x, &w.attn_norm, self.h.norm_eps);
        let heads = self.attention(layer, w, h, inputs);
        let (heads, x) = match rows {
            Some(rows) => {
                (self.b.get_rows("attn_heads_rows", heads, rows), self.b.get_rows("residual_rows", x, rows))
            }
            None => (heads, x),
        };
        let out = self.projection("attn_out", heads, &w.attn_output, w.attn_output_bias.as_ref());
        let x = self.b.add("attn_residual", x, out);
        let h = self.b.rms_norm("ffn_norm", x, &w.ffn_norm, self.h.norm_eps);
        let inner = self.feed_forward(layer, w, h);
        let down = self.b.matmul("ffn_out", inner, &w.ffn_down);
        self.b.add("out", x, down)
    }

    fn projection(&mut self, name: &str, x: NodeId, w: &WeightRef, bias: Option<&WeightRef>) -> NodeId {
        match bias {
            None => self.b.matmul(name, x, w),
            Some(bias) => {
                let y = self.b.matmul(&format!("{name}_matmul"), x, w);
                self.b.add_bias(name, y, bias)
            }
        }
    }

    fn attention(&mut self, layer: usize, w: &LayerWeights, x: NodeId, inputs: &Inputs) -> NodeId {
        let h = self.h;
        let fused = self.fused_qkv(layer, w);
        let refused = fused.as_ref().err().copied();
        let (q, stored_k, stored_v) = match fused {
            Ok(fused) => {
                let q = self.qkv_fused(layer, w, x, inputs, fused);
                (q, q, q)
            }
            Err(_) => self.qkv(layer, w, x, inputs),
        };
        self.b.consider("fused-qkv", q, refused);
        let c = &self.params.cparams;
        let region = [h.kv_dim(), c.kv_block * c.n_kv_blocks];
        let k = self.b.kv_load("k_region", stored_k, layer, KvPart::K, region, c.kv_type);
        let v = self.b.kv_load("v_region", stored_v, layer, KvPart::V, region, c.kv_type);
        self.b.attn("attn_heads", q, [k, v], inputs.bounds, self.attn_spec(layer))
    }

    fn attn_spec(&self, layer: usize) -> AttnSpec {
        let h = self.h;
        AttnSpec {
            layer,
            n_heads: h.n_heads,
            n_kv_heads: h.n_kv_heads,
            head_dim: h.head_dim,
            scale: h.attn_scale,
        }
    }

    /// Projections, norms, rotation and stores as nodes of their own: the rotated query and the two stores.
    fn qkv(
        &mut self,
        layer: usize,
        w: &LayerWeights,
        x: NodeId,
        inputs: &Inputs,
    ) -> (NodeId, NodeId, NodeId) {
        let h = self.h;
        let bias = |i: usize| w.qkv_bias.as_ref().map(|b| &b[i]);
        let mut q = self.projection("q", x, &w.qkv[0], bias(0));
        let mut k = self.projection("k", x, &w.qkv[1], bias(1));
        let v = self.projection("v", x, &w.qkv[2], bias(2));
        if let Some([q_norm, k_norm]) = &w.qk_norm {
            q = self.b.qk_norm("q_norm", q, q_norm, h.norm_eps, h.head_dim);
            k = self.b.qk_norm("k_norm", k, k_norm, h.norm_eps, h.head_dim);
        }
        let factors = self.w.rope_factors.as_ref();
        let q = self.b.rope("q_rope", q, inputs.positions, h.rope, factors);
        let k = self.b.rope("k_rope", k, inputs.positions, h.rope, factors);
        let kv_type = self.params.cparams.kv_type;
        let stored_k = self.b.kv_store("k_store", k, inputs.kv_slots, layer, KvPart::K, kv_type);
        let stored_v = self.b.kv_store("v_store", v, inputs.kv_slots, layer, KvPart::V, kv_type);
        (q, stored_k, stored_v)
    }

    /// The fused projection of this step, if it is a decode step, wanted, and the owner has both kernels; else why not.
    fn fused_qkv(&self, layer: usize, w: &LayerWeights) -> Result<Op, &'static str> {
        self.wants_fused(self.params.cparams.fuse_qkv)?;
        let h = self.h;
        let dims = self.qkv_dims();
        // Biases come before the norm, and the fused norm has none: a model with both takes the plain path.
        let project = match (&w.qk_norm, &w.qkv_bias) {
            (None, _) => Op::FusedQkv(dims),
            (Some(_), None) => Op::FusedQkvNorm { dims, eps: h.norm_eps, head_dim: h.head_dim },
            (Some(_), Some(_)) => return Err("no fused kernel has both biases and norms of heads"),
        };
        let bias = w.qkv_bias.is_some();
        let store = Op::QkvBiasRopeStore { layer, dims, bias, rope: h.rope };
        let types: Vec<_> = w.qkv.iter().map(|w| w.dtype).collect();
        let kv = [self.params.cparams.kv_type.tensor_type()];
        let attn = Op::Attn(self.attn_spec(layer));
        claim(self.policy.claims_fused(&project, &Op::MatMul, &types, Some(layer)))?;
        claim(self.policy.claims_fused(&store, &attn, &kv, Some(layer)))?;
        Ok(project)
    }

    /// Structural fusions are for decode steps, where a step is bound by reading weights, and can be switched off.
    fn wants_fused(&self, switch: bool) -> Result<(), &'static str> {
        match (self.params.gtype, switch) {
            (GraphType::Prefill, _) => Err("it is for decode steps"),
            (GraphType::Decode, false) => Err("it is switched off"),
            (GraphType::Decode, true) => Ok(()),
        }
    }

    fn qkv_dims(&self) -> QkvDims {
        QkvDims { q: self.h.q_dim(), kv: self.h.kv_dim() }
    }

    fn qkv_fused(
        &mut self,
        layer: usize,
        w: &LayerWeights,
        x: NodeId,
        inputs: &Inputs,
        project: Op,
    ) -> NodeId {
        let h = self.h;
        let dims = self.qkv_dims();
        let [wq, wk, wv] = &w.qkv;
        let qkv = match (&project, &w.qk_norm) {
            (Op::FusedQkvNorm { .. }, Some([q_norm, k_norm])) => {
                let weights = [wq, wk, wv, q_norm, k_norm];
                self.b.fused_qkv_norm("qkv", x, weights, dims, h.norm_eps, h.head_dim)
            }
            _ => self.b.fused_qkv("qkv", x, [wq, wk, wv], dims),
        };
        let sources = [qkv, inputs.positions, inputs.kv_slots];
        let biases = w.qkv_bias.as_ref().map(|b| [&b[0], &b[1], &b[2]]);
        let rope = (h.rope, self.w.rope_factors.as_ref());
        self.b.qkv_bias_rope_store("q_rope", sources, layer, dims, biases, rope)
    }

    /// `silu(gate x) · (up x)`, as one node or as four of which fusion makes three.
    fn feed_forward(&mut self, layer: usize, w: &LayerWeights, x: NodeId) -> NodeId {
        let refused = self.fused_ffn(layer, w).err();
        let inner = match refused {
            None => self.b.fused_ffn("ffn_inner", x, &w.ffn_gate, &w.ffn_up),
            Some(_) => {
                let gate = self.b.matmul("ffn_gate", x, &w.ffn_gate);
                let up = self.b.matmul("ffn_up", x, &w.ffn_up);
                let silu = self.b.silu("ffn_silu", gate);
                self.b.mul("ffn_inner", silu, up)
            }
        };
        self.b.consider("fused-ffn", inner, refused);
        inner
    }

    fn fused_ffn(&self, layer: usize, w: &LayerWeights) -> Result<(), &'static str> {
        self.wants_fused(self.params.cparams.fuse_ffn)?;
        let types = [w.ffn_gate.dtype, w.ffn_up.dtype];
        claim(self.policy.claims_fused(&Op::FusedFfn, &Op::MatMul, &types, Some(layer)))
    }
}

fn claim(support: Support) -> Result<(), &'static str> {
    match support {
        Support::Yes => Ok(()),
        Support::No(reason) => Err(reason),
    }
}
