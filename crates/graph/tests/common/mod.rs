//! Small graphs, params and registries for the tests of decisions and of the machinery.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;

use minfer_graph::testing::{MapWeights, NullDriver, ReferenceDriver};
use minfer_graph::{
    Backend, BackendSet, BuildError, CParams, Compiled, ComputeGraph, DType, GpuOffload, GraphBuilder,
    GraphParams, GraphType, Head, KvSpec, KvType, NodeId, OpKind, Policy, Registry, compile,
};

pub(crate) const D: usize = 8;

pub(crate) fn params(n_tokens: usize) -> GraphParams {
    let cparams = CParams {
        n_ctx: 64,
        n_seq_max: 4,
        kv_block: 16,
        n_kv_blocks: 16,
        kv_type: KvType::F32,
        backends: BackendSet::all(),
        gpu: Some(GpuOffload { backend: Backend::METAL, n_layers: 100, outside_layers: true }),
        fuse_qkv: true,
        fuse_ffn: true,
    };
    GraphParams {
        n_tokens,
        n_out: n_tokens,
        head: Head::Logits,
        gtype: GraphType::Prefill,
        cparams,
        weights_version: 1,
    }
}

pub(crate) fn kv_spec() -> KvSpec {
    KvSpec { n_kv_heads: 1, head_dim: 4, block: 16, n_blocks: 16, kv_type: KvType::F32 }
}

/// The CPU claims everything; a null GPU refuses `refused`.
pub(crate) fn null_registry(refused: &[OpKind]) -> Registry {
    let mut r = Registry::new();
    r.register(Arc::new(NullDriver::new(Backend::CPU)));
    r.register(Arc::new(NullDriver::new(Backend::METAL).refusing(refused)));
    r
}

/// The same with backends that compute.
pub(crate) fn reference_registry(refused: &[OpKind]) -> Registry {
    let mut r = Registry::new();
    r.register(Arc::new(ReferenceDriver::new(Backend::CPU)));
    r.register(Arc::new(ReferenceDriver::new(Backend::METAL).refusing(refused)));
    r
}

pub(crate) fn build_with(
    f: impl Fn(&mut GraphBuilder, NodeId) -> NodeId,
) -> impl Fn(&GraphParams, &Policy<'_>) -> Result<ComputeGraph, BuildError> {
    move |p: &GraphParams, _: &Policy<'_>| {
        let mut b = GraphBuilder::new();
        let x = b.input("x", [D, p.n_tokens, 1, 1], DType::F32);
        b.set_layer(Some(0));
        let y = f(&mut b, x);
        b.output(y);
        b.finish()
    }
}

pub(crate) fn compiled(registry: &Registry, f: impl Fn(&mut GraphBuilder, NodeId) -> NodeId) -> Compiled {
    compile(&build_with(f), &params(2), registry, &mut |_, _| {}).unwrap()
}

/// `Mul(Silu(x + x), x · 2)`.
pub(crate) fn silu_mul(b: &mut GraphBuilder, x: NodeId) -> NodeId {
    let gate = b.add("gate", x, x);
    let up = b.scale("up", x, 2.0);
    let silu = b.silu("silu", gate);
    b.mul("mul", silu, up)
}

pub(crate) fn no_weights() -> Arc<MapWeights> {
    Arc::new(MapWeights::new(1))
}
