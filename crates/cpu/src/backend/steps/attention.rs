//! Attention over a layer's regions, and the stores that fill them.

use half::f16;
use minfer_graph::{KernelFault, KvPart};

use super::{Cx, Step, refused};
use crate::backend::memory::{Access, Plain, Span};
use crate::ops::{Attention, KvLayout, KvRegions, RegionMut, Sight, store_kv};

/// One region in the element type of the cache.
pub(in crate::backend) enum Region {
    F16(Span<f16>),
    F32(Span<f32>),
    Q8_0(Span<u8>),
}

impl Region {
    pub(super) fn get_mut<'a>(&'a self, access: &'a Access<'_>) -> RegionMut<'a> {
        match self {
            Region::F16(s) => RegionMut::F16(s.get_mut(access)),
            Region::F32(s) => RegionMut::F32(s.get_mut(access)),
            Region::Q8_0(s) => RegionMut::Q8_0(s.get_mut(access)),
        }
    }

    /// Whether the region shares a byte with a value.
    pub(in crate::backend) fn meets<T: Plain>(&self, value: &Span<T>) -> bool {
        match self {
            Region::F16(s) => s.meets(value),
            Region::F32(s) => s.meets(value),
            Region::Q8_0(s) => s.meets(value),
        }
    }

    /// Whether two regions share a byte.
    pub(in crate::backend) fn meets_region(&self, other: &Region) -> bool {
        match other {
            Region::F16(s) => self.meets(s),
            Region::F32(s) => self.meets(s),
            Region::Q8_0(s) => self.meets(s),
        }
    }
}

/// Keys and values of a layer.
pub(in crate::backend) struct Regions {
    pub(in crate::backend) layout: KvLayout,
    pub(in crate::backend) k: Region,
    pub(in crate::backend) v: Region,
}

impl Regions {
    fn get<'a>(&'a self, access: &'a Access<'_>) -> Result<KvRegions<'a>, KernelFault> {
        match (&self.k, &self.v) {
            (Region::F16(k), Region::F16(v)) => Ok(KvRegions::F16 { k: k.get(access), v: v.get(access) }),
            (Region::F32(k), Region::F32(v)) => Ok(KvRegions::F32 { k: k.get(access), v: v.get(access) }),
            (Region::Q8_0(k), Region::Q8_0(v)) => Ok(KvRegions::Q8_0 { k: k.get(access), v: v.get(access) }),
            _ => Err(KernelFault::Bug("keys and values of different types".into())),
        }
    }
}

/// Causal attention of `q`.
pub(in crate::backend) struct Attn {
    pub(in crate::backend) n_heads: usize,
    pub(in crate::backend) scale: f32,
    pub(in crate::backend) q: Span<f32>,
    pub(in crate::backend) regions: Regions,
    pub(in crate::backend) block_table: Span<i32>,
    pub(in crate::backend) blocks_per_seq: usize,
    pub(in crate::backend) seq_rows: Span<i32>,
    pub(in crate::backend) kv_lens: Span<i32>,
    pub(in crate::backend) out: Span<f32>,
}

impl Step for Attn {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let sight = Sight {
            block_table: self.block_table.get(cx.access),
            row_len: self.blocks_per_seq,
            rows: self.seq_rows.get(cx.access),
            kv_len: self.kv_lens.get(cx.access),
        };
        let (q, regions) = (self.q.get(cx.access), self.regions.get(cx.access)?);
        let attention =
            Attention::new(cx.isa, q, self.n_heads, self.scale, self.regions.layout, regions, sight);
        let out = self.out.get_mut(cx.access);
        attention.and_then(|a| a.run(cx.pool, &mut cx.working.attention, out)).map_err(refused)
    }
}

/// Columns of `x` into their slots of a region.
pub(in crate::backend) struct Store {
    pub(in crate::backend) layout: KvLayout,
    pub(in crate::backend) part: KvPart,
    pub(in crate::backend) x: Span<f32>,
    pub(in crate::backend) slots: Span<i32>,
    pub(in crate::backend) region: Region,
}

impl Step for Store {
    fn run(&self, cx: &mut Cx<'_>) -> Result<(), KernelFault> {
        let (x, slots) = (self.x.get(cx.access), self.slots.get(cx.access));
        store(cx, self.layout, self.part, x, slots, &self.region)
    }
}

pub(super) fn store(
    cx: &Cx<'_>,
    layout: KvLayout,
    part: KvPart,
    x: &[f32],
    slots: &[i32],
    region: &Region,
) -> Result<(), KernelFault> {
    store_kv(cx.isa, cx.pool, layout, part, x, slots, region.get_mut(cx.access)).map_err(refused)
}
