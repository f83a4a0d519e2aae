//! Attention over the cache, and the stores that fill it.

mod regions;

use minfer_graph::{KvPart, KvType};

pub(super) use self::regions::regions;
pub(crate) use self::regions::{MAX_PIECES, OTHER_BINDINGS};
use super::rows::STATUS;
use super::{Constant, Kernel};

pub(super) const CACHE: &str = include_str!("cache.wgsl");

/// Most values of a head.
pub(crate) const MAX_HEAD_DIM: usize = 256;

/// Columns into their slots of a region in so many pieces.
pub(crate) fn store(part: KvPart, kv: KvType, n_pieces: usize) -> Kernel {
    let (label, keys) = match part {
        KvPart::K => ("keys", true),
        KvPart::V => ("values", false),
    };
    let [f16, in_pieces] = constants(kv, n_pieces);
    let regions = regions(3, &["region"], n_pieces);
    let name = format!("{}-store-{label}{}", kv_label(kv), pieces_label(n_pieces));
    let pieces = [CACHE, STATUS, include_str!("store.wgsl"), &regions];
    Kernel::new(name, &[("KEYS", Constant::Bool(keys)), f16, in_pieces], &pieces)
}

/// Causal attention over regions in so many pieces.
pub(crate) fn attention(kv: KvType, n_pieces: usize) -> Kernel {
    let regions = regions(6, &["keys", "values"], n_pieces);
    let name = format!("{}-attention{}", kv_label(kv), pieces_label(n_pieces));
    let pieces = [CACHE, STATUS, include_str!("attention.wgsl"), &regions];
    Kernel::new(name, &constants(kv, n_pieces), &pieces)
}

/// What the cache is, as kernels know it.
pub(super) fn constants(kv: KvType, n_pieces: usize) -> [(&'static str, Constant); 2] {
    [("F16", Constant::Bool(kv == KvType::F16)), ("PIECES", Constant::U32(n_pieces as u32))]
}

/// The pieces in the name of a kernel; nothing for the usual one.
pub(super) fn pieces_label(n_pieces: usize) -> String {
    if n_pieces == 1 { String::new() } else { format!("-p{n_pieces}") }
}

pub(super) fn kv_label(kv: KvType) -> String {
    kv.dtype().name().to_lowercase()
}

#[cfg(test)]
pub(super) fn all() -> Vec<Kernel> {
    let of = |kv, n| [store(KvPart::K, kv, n), store(KvPart::V, kv, n), attention(kv, n)];
    let types = [KvType::F16, KvType::F32];
    types.into_iter().flat_map(|kv| (1..=MAX_PIECES).flat_map(move |n| of(kv, n))).collect()
}
