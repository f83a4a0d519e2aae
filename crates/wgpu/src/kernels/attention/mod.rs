//! Attention over the cache, and the stores that fill it.

use minfer_graph::{KvPart, KvType};

use super::rows::STATUS;
use super::{Constant, Kernel};

pub(super) const CACHE: &str = include_str!("cache.wgsl");

/// Most values of a head.
pub(crate) const MAX_HEAD_DIM: usize = 256;

/// Columns into their slots.
pub(crate) fn store(part: KvPart, kv: KvType) -> Kernel {
    let (label, keys) = match part {
        KvPart::K => ("keys", true),
        KvPart::V => ("values", false),
    };
    let constants = [("KEYS", Constant::Bool(keys)), ("F16", Constant::Bool(is_f16(kv)))];
    let pieces = [CACHE, STATUS, include_str!("store.wgsl")];
    Kernel::new(format!("{}-store-{label}", kv_label(kv)), &constants, &pieces)
}

/// Causal attention.
pub(crate) fn attention(kv: KvType) -> Kernel {
    let constants = [("F16", Constant::Bool(is_f16(kv)))];
    let pieces = [CACHE, STATUS, include_str!("attention.wgsl")];
    Kernel::new(format!("{}-attention", kv_label(kv)), &constants, &pieces)
}

pub(super) fn is_f16(kv: KvType) -> bool {
    kv == KvType::F16
}

pub(super) fn kv_label(kv: KvType) -> String {
    kv.dtype().name().to_lowercase()
}

#[cfg(test)]
pub(super) fn all() -> Vec<Kernel> {
    let of = |kv| [store(KvPart::K, kv), store(KvPart::V, kv), attention(kv)];
    [KvType::F16, KvType::F32].into_iter().flat_map(of).collect()
}
