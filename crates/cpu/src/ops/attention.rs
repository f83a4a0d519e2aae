//! Attention of query heads to cached keys and values, with groups of query heads sharing a KV head.
//!
//! The definition, for one token and one head that see positions `0..kv_len`:
//! 1. score of position j: `fma` over the elements of the key in order, one accumulator; then times `scale`.
//! 2. Positions are cut into *spans* of [`SPAN`], counted from position 0. Each span on its own: the maximum score `m`,
//!    `p_j = exp(score_j - m)`, their sum `l` (position j in lane j mod 16, lanes joined as a tree), and
//!    `acc[d] = fma(p_j, v_j[d], acc[d])` over its positions in order.
//! 3. Spans are merged in order: with M the larger maximum, both sides are multiplied by exp(own maximum - M) and added.
//! 4. `out = acc / l`.
//!
//! Nothing here depends on which tokens are computed together, on the block table, or on who computes what. Therefore a
//! token has the same bits alone and in a chunk, and one token's spans may be spread over threads.

#![expect(unsafe_code, reason = "tiles write interleaved parts of one output")]

mod cache;
mod plan;
mod span;

use std::cell::RefCell;
use std::ops::Range;

use half::f16;

use super::kv::{KvLayout, KvRegions};
use crate::error::KernelError;
use crate::isa::Isa;
use crate::pool::{Cost, Pool, SharedOut, piece_range};
use crate::simd::dispatch;
use cache::{Q8_0, Region};
pub use plan::Sight;
use span::{FinishHead, MergeSpans, SpanRecords, Tile};

/// Positions whose softmax is computed together.
pub const SPAN: usize = 256;

/// Query rows (tokens times heads of a group) that are computed together, so that keys and values are read from memory
/// once for all of them.
const TILE_ROWS: usize = 32;

/// Work for one query head, one position and one element of key and value.
const ELEMENT_PS: u64 = 90;

/// The pieces of a causal chunk are of very different size, so there are more of them than for other ops.
const TILES_PER_THREAD: usize = 8;

/// Checked inputs of one attention op.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    isa: Isa,
    q: &'a [f32],
    n_heads: usize,
    scale: f32,
    layout: KvLayout,
    regions: KvRegions<'a>,
    sight: Sight<'a>,
}

/// Memory that attention ops reuse one after the other; it grows on first use.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    tiles: Vec<Range<usize>>,
    records: Vec<f32>,
}

/// Bytes that attention works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScratchBytes {
    /// An [`AttentionScratch`].
    pub(crate) shared: usize,
    /// Of each thread.
    pub(crate) per_thread: usize,
}

impl AttentionScratch {
    /// Most bytes for steps of `n_tokens` whose sequences hold up to `n_ctx` positions.
    pub(crate) fn bytes_for(
        layout: KvLayout,
        n_heads: usize,
        n_tokens: usize,
        n_ctx: usize,
        n_threads: usize,
    ) -> ScratchBytes {
        let group = (n_heads / layout.n_kv_heads.max(1)).max(1);
        let record = (layout.v_row() + 2) * size_of::<f32>();
        let tile_tokens = (TILE_ROWS / group).max(1);
        // Spans are spread over threads only while tiles are fewer than pieces.
        let n_pieces = Cost::of(usize::MAX, ELEMENT_PS).n_pieces(usize::MAX, n_threads);
        let spread = n_tokens.min(n_pieces.div_ceil(layout.n_kv_heads.max(1)) * tile_tokens);
        let records = spread.saturating_mul(n_heads * n_ctx.div_ceil(SPAN)).saturating_mul(record);
        let rows = tile_tokens * group;
        // Types that are not read as they lie are converted block by block.
        let room = Q8_0::room(&layout) * size_of::<f32>();
        ScratchBytes {
            // Both vectors may have doubled as they grew.
            shared: records.saturating_add(n_tokens * size_of::<Range<usize>>()).saturating_mul(2),
            per_thread: 2 * (rows * (2 * record + (layout.k_dim + SPAN) * size_of::<f32>()) + room),
        }
    }
}

impl<'a> Attention<'a> {
    /// Queries `q: [k_dim * n_heads, n_tokens]`; query head h reads KV head `h / (n_heads / n_kv_heads)`.
    ///
    /// Everything that indexes the regions is checked here.
    pub fn new(
        isa: Isa,
        q: &'a [f32],
        n_heads: usize,
        scale: f32,
        layout: KvLayout,
        regions: KvRegions<'a>,
        sight: Sight<'a>,
    ) -> Result<Attention<'a>, KernelError> {
        let n_blocks = match regions {
            KvRegions::F16 { k, v } => layout.n_blocks(k.len(), v.len()),
            KvRegions::F32 { k, v } => layout.n_blocks(k.len(), v.len()),
            KvRegions::Q8_0 { k, v } => layout.n_q8_0_blocks(k.len(), v.len()),
        }?;
        if n_heads == 0 || !n_heads.is_multiple_of(layout.n_kv_heads) {
            let rule = "a positive multiple of the number of KV heads";
            return Err(KernelError::Parameter { what: "query heads", value: n_heads as f64, rule });
        }
        sight.check(layout.block_size, n_blocks)?;
        KernelError::check_len("queries", q.len(), sight.n_tokens() * n_heads * layout.k_dim)?;
        Ok(Attention { isa, q, n_heads, scale, layout, regions, sight })
    }

    /// Computes `out: [v_dim * n_heads, n_tokens]`.
    pub fn run(
        &self,
        pool: &Pool,
        scratch: &mut AttentionScratch,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        KernelError::check_len("out", out.len(), self.sight.n_tokens() * self.n_heads * self.layout.v_dim)?;
        match self.regions {
            KvRegions::F16 { k, v } => self.run_typed::<&[f16]>(pool, (k, v), scratch, out),
            KvRegions::F32 { k, v } => self.run_typed::<&[f32]>(pool, (k, v), scratch, out),
            KvRegions::Q8_0 { k, v } => self.run_typed(pool, (Q8_0(k), Q8_0(v)), scratch, out),
        }
        Ok(())
    }

    fn run_typed<P: Region>(&self, pool: &Pool, kv: (P, P), scratch: &mut AttentionScratch, out: &mut [f32]) {
        let AttentionScratch { tiles, records } = scratch;
        self.sight.tiles((TILE_ROWS / self.group()).max(1), tiles);
        let n_items = tiles.len() * self.layout.n_kv_heads;
        let seen: usize = self.sight.kv_len.iter().map(|&n| n as usize).sum();
        let cost = Cost::of(seen * self.n_heads * (self.layout.k_dim + self.layout.v_dim), ELEMENT_PS);
        let wanted = cost.n_pieces(usize::MAX, pool.n_threads());
        if n_items < wanted && self.max_spans() > 1 {
            self.by_spans(pool, cost, kv, records, out);
        } else {
            let n_pieces = if wanted <= 1 { wanted } else { TILES_PER_THREAD * pool.n_threads() };
            self.by_tiles(pool, n_pieces.min(n_items), tiles, kv, out);
        }
    }

    /// Each piece takes some tiles of tokens for some KV heads, through all their spans.
    fn by_tiles<P: Region>(
        &self,
        pool: &Pool,
        n_pieces: usize,
        tiles: &[Range<usize>],
        kv: (P, P),
        out: &mut [f32],
    ) {
        let n_items = tiles.len() * self.layout.n_kv_heads;
        let out = SharedOut::new(out);
        pool.run(n_pieces, &|piece| {
            for item in piece_range(n_items, n_pieces, piece) {
                // The last tokens see most: they come first, so that no thread is left with a long piece at the end.
                let tile = tiles.len() - 1 - item / self.layout.n_kv_heads;
                self.run_tile(self.tile(tiles[tile].clone(), item % self.layout.n_kv_heads), kv, &out);
            }
        });
    }

    fn run_tile<P: Region>(&self, tile: Tile<'_>, (k, v): (P, P), out: &SharedOut<'_, f32>) {
        let (group, record_len, v_dim) = (self.group(), tile.record_len(), self.layout.v_dim);
        let records_len = tile.n_rows() * record_len;
        with_scratch(2 * records_len + tile.scratch_len::<P>(), |scratch| {
            let (merged, scratch) = scratch.split_at_mut(records_len);
            let (records, scratch) = scratch.split_at_mut(records_len);
            dispatch(self.isa, SpanRecords { tile: &tile, span: 0, k, v, records: merged, scratch });
            for span in 1..tile.n_spans() {
                dispatch(self.isa, SpanRecords { tile: &tile, span, k, v, records, scratch });
                let rows = merged.chunks_exact_mut(group * record_len);
                for ((merged, records), token) in
                    rows.zip(records.chunks_exact(group * record_len)).zip(tile.tokens())
                {
                    if span < self.n_spans(token) {
                        dispatch(self.isa, MergeSpans { merged, records, record_len });
                    }
                }
            }
            for (merged, token) in merged.chunks_exact(group * record_len).zip(tile.tokens()) {
                let start = (token * self.n_heads + tile.kv_head * group) * v_dim;
                // SAFETY: the heads of one group of one token, which belong to this tile alone.
                let out = unsafe { out.part(start..start + group * v_dim) };
                dispatch(self.isa, FinishHead { merged, record_len, v_dim, out });
            }
        });
    }

    /// Each piece takes some spans of single tokens; then the spans of a token are merged.
    fn by_spans<P: Region>(
        &self,
        pool: &Pool,
        cost: Cost,
        (k, v): (P, P),
        records: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let (max_spans, n_kv_heads) = (self.max_spans(), self.layout.n_kv_heads);
        let record_len = self.tile(0..1, 0).record_len();
        let item_len = self.group() * record_len;
        let n_records = |n_spans| self.sight.n_tokens() * n_kv_heads * n_spans * item_len;
        // Room for the whole context at once, so that a growing sequence never waits for memory.
        let n_ctx = self.sight.row_len * self.layout.block_size;
        records.reserve_exact(n_records(n_ctx.div_ceil(SPAN)).saturating_sub(records.len()));
        // Old contents stay: every record that is merged below is written first.
        records.resize(n_records(max_spans), 0.0);
        pool.run_rows(records, item_len, cost, |items, part| {
            for (item, records) in items.zip(part.chunks_exact_mut(item_len)) {
                let (head, span) = (item / max_spans, item % max_spans);
                let token = head / n_kv_heads;
                if span < self.n_spans(token) {
                    let tile = &self.tile(token..token + 1, head % n_kv_heads);
                    with_scratch(tile.scratch_len::<P>(), |scratch| {
                        dispatch(self.isa, SpanRecords { tile, span, k, v, records, scratch });
                    });
                }
            }
        });
        let heads = records.chunks_exact_mut(max_spans * item_len);
        for ((head, records), out) in
            heads.enumerate().zip(out.chunks_exact_mut(self.group() * self.layout.v_dim))
        {
            let (merged, others) = records.split_at_mut(item_len);
            for records in others.chunks_exact(item_len).take(self.n_spans(head / n_kv_heads) - 1) {
                dispatch(self.isa, MergeSpans { merged, records, record_len });
            }
            dispatch(self.isa, FinishHead { merged, record_len, v_dim: self.layout.v_dim, out });
        }
    }

    /// Query heads per KV head.
    fn group(&self) -> usize {
        self.n_heads / self.layout.n_kv_heads
    }

    fn n_spans(&self, token: usize) -> usize {
        (self.sight.kv_len[token] as usize).div_ceil(SPAN)
    }

    fn max_spans(&self) -> usize {
        (0..self.sight.n_tokens()).map(|token| self.n_spans(token)).max().unwrap_or(0)
    }

    fn tile(&self, tokens: Range<usize>, kv_head: usize) -> Tile<'a> {
        Tile {
            q: self.q,
            n_heads: self.n_heads,
            scale: self.scale,
            layout: self.layout,
            blocks: self.sight.blocks(tokens.start),
            kv_len: self.sight.kv_len,
            tokens,
            kv_head,
        }
    }
}

/// Lends `f` memory of this thread. Its contents are whatever was left there.
fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    // Taken out while in use, so that a nested call finds an empty one instead of a borrowed one.
    let mut scratch = SCRATCH.take();
    if scratch.len() < len {
        scratch.resize(len, 0.0);
    }
    let result = f(&mut scratch[..len]);
    SCRATCH.set(scratch);
    result
}

#[cfg(test)]
mod tests;
