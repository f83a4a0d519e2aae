//! How attention reads keys and values: as they lie, or converted block by block.

use minfer_graph::KvPart;

use crate::ops::kv::{KvLayout, q8_0};
use crate::ops::outer::{Ahead, Elem, Rows};
use crate::simd::Simd;

/// One region, of keys or of values.
pub(super) trait Region: Copy + Sync {
    /// What the rows that are read consist of.
    type Elem: Elem;

    /// Elements of room that reading a block takes.
    fn room(layout: &KvLayout) -> usize;

    /// The keys `[k_dim][block_size]`, or the values `[block_size][v_row]`, of a head in a block; at least the first
    /// `n_positions` of them.
    fn rows<'r, S: Simd>(
        self,
        s: S,
        layout: &KvLayout,
        part: KvPart,
        head: usize,
        n_positions: usize,
        room: &'r mut [f32],
    ) -> Rows<'r, Self::Elem>
    where
        Self: 'r;

    /// The memory that this reads.
    fn memory(self, layout: &KvLayout, part: KvPart, head: usize) -> Ahead;
}

/// Positions, or elements, from one row to the next.
#[inline(always)]
fn stride(layout: &KvLayout, part: KvPart) -> usize {
    match part {
        KvPart::K => layout.block_size,
        KvPart::V => layout.v_row(),
    }
}

#[inline(always)]
fn head_len(layout: &KvLayout, part: KvPart) -> usize {
    match part {
        KvPart::K => layout.k_dim * layout.block_size,
        KvPart::V => layout.v_row() * layout.block_size,
    }
}

impl<E: Elem> Region for &[E] {
    type Elem = E;

    fn room(_layout: &KvLayout) -> usize {
        0
    }

    #[inline(always)]
    fn rows<'r, S: Simd>(
        self,
        _s: S,
        layout: &KvLayout,
        part: KvPart,
        head: usize,
        _n_positions: usize,
        _room: &'r mut [f32],
    ) -> Rows<'r, E>
    where
        Self: 'r,
    {
        let len = head_len(layout, part);
        Rows { data: &self[head * len..][..len], stride: stride(layout, part) }
    }

    #[inline(always)]
    fn memory(self, layout: &KvLayout, part: KvPart, head: usize) -> Ahead {
        let len = head_len(layout, part);
        Ahead::of(&self[head * len..][..len])
    }
}

/// The bytes of a region in q8_0.
#[derive(Clone, Copy)]
pub(super) struct Q8_0<'a>(pub(super) &'a [u8]);

impl Region for Q8_0<'_> {
    type Elem = f32;

    fn room(layout: &KvLayout) -> usize {
        head_len(layout, KvPart::K).max(head_len(layout, KvPart::V))
    }

    #[inline(always)]
    fn rows<'r, S: Simd>(
        self,
        s: S,
        layout: &KvLayout,
        part: KvPart,
        head: usize,
        n_positions: usize,
        room: &'r mut [f32],
    ) -> Rows<'r, f32>
    where
        Self: 'r,
    {
        let (sizes, len) = (q8_0::Head::of(layout, part), head_len(layout, part));
        let bytes = &self.0[head * sizes.bytes()..][..sizes.bytes()];
        sizes.load(s, bytes, n_positions, &mut room[..len]);
        Rows { data: &room[..len], stride: stride(layout, part) }
    }

    #[inline(always)]
    fn memory(self, layout: &KvLayout, part: KvPart, head: usize) -> Ahead {
        let len = q8_0::Head::of(layout, part).bytes();
        Ahead::of(&self.0[head * len..][..len])
    }
}
