//! The arithmetic of attention: one span, the merging of two, the end.
//!
//! A *record* is what is known of one query row over some spans: `[acc: v_row][maximum][sum]`.

use std::ops::Range;

use minfer_graph::KvPart;

use super::SPAN;
use super::cache::Region;
use crate::math::exp_one;
use crate::ops::kv::KvLayout;
use crate::ops::outer::{Ahead, Elem, Extent, Rows, RowsMut, outer};
use crate::ops::softmax::{divide, exp_row};
use crate::simd::{Kernel, LANES, Simd};

/// How many blocks before their turn keys and values are asked for: a block is read in about the time that memory takes.
const BLOCKS_AHEAD: usize = 2;

/// Tokens of one sequence, with the query heads that share one KV head. Its rows are token after token, head after head.
#[derive(Clone)]
pub(super) struct Tile<'a> {
    pub(super) q: &'a [f32],
    pub(super) n_heads: usize,
    pub(super) scale: f32,
    pub(super) layout: KvLayout,
    /// Blocks of the sequence.
    pub(super) blocks: &'a [i32],
    /// Of all tokens.
    pub(super) kv_len: &'a [i32],
    pub(super) tokens: Range<usize>,
    pub(super) kv_head: usize,
}

impl Tile<'_> {
    fn group(&self) -> usize {
        self.n_heads / self.layout.n_kv_heads
    }

    pub(super) fn tokens(&self) -> Range<usize> {
        self.tokens.clone()
    }

    pub(super) fn n_rows(&self) -> usize {
        self.tokens.len() * self.group()
    }

    pub(super) fn record_len(&self) -> usize {
        self.layout.v_row() + 2
    }

    /// Elements of scratch for [`SpanRecords`]: queries and scores of all rows, room to read a block.
    pub(super) fn scratch_len<P: Region>(&self) -> usize {
        self.n_rows() * (self.layout.k_dim + SPAN) + P::room(&self.layout)
    }

    pub(super) fn n_spans(&self) -> usize {
        self.tokens().map(|token| (self.kv_len[token] as usize).div_ceil(SPAN)).max().unwrap_or(0)
    }

    /// How many positions of a span a row sees.
    fn visible(&self, row: usize, span: usize) -> usize {
        let kv_len = self.kv_len[self.tokens.start + row / self.group()] as usize;
        kv_len.saturating_sub(span * SPAN).min(SPAN)
    }

    /// The queries of the group of one token.
    fn queries(&self, token: usize) -> &[f32] {
        let (k_dim, group) = (self.layout.k_dim, self.group());
        &self.q[(token * self.n_heads + self.kv_head * group) * k_dim..][..group * k_dim]
    }

    /// The blocks that hold the first `n_seen` positions of a span, with the number of those in each.
    fn blocks_of(&self, span: usize, n_seen: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        let size = self.layout.block_size;
        let blocks = self.blocks[(span * SPAN / size).min(self.blocks.len())..].iter();
        (0..n_seen)
            .step_by(size)
            .zip(blocks)
            .map(move |(first, &b)| (b as usize, first..n_seen.min(first + size)))
    }

    /// What is read [`BLOCKS_AHEAD`] blocks after the one that holds `position` of a span: keys of the span, then its
    /// values, then keys of the next one.
    fn ahead<P: Region>(&self, (k, v): (P, P), part: KvPart, span: usize, position: usize) -> Ahead {
        let size = self.layout.block_size;
        let n_seen = self.tokens().map(|token| self.kv_len[token] as usize).max().unwrap_or(0);
        let first = span * SPAN;
        let end = n_seen.min(first + SPAN);
        let next = first + position + BLOCKS_AHEAD * size;
        // How far beyond the last block of the span, if it is.
        let over = next.checked_sub(end.next_multiple_of(size));
        let (part, at) = match (part, over) {
            (part, None) => (part, next),
            (KvPart::K, Some(over)) => (KvPart::V, (first + over).min(end - 1)),
            (KvPart::V, Some(over)) => (KvPart::K, end + over),
        };
        if at >= n_seen {
            return Ahead::nothing();
        }
        let head = self.head_of(self.blocks[at / size] as usize);
        let region = if part == KvPart::K { k } else { v };
        region.memory(&self.layout, part, head)
    }

    /// The tile's head in a block, counted over the region.
    fn head_of(&self, block: usize) -> usize {
        block * self.layout.n_kv_heads + self.kv_head
    }
}

/// Computes the record of every row of a tile over one span. Rows that see nothing of it get none.
pub(super) struct SpanRecords<'a, P> {
    pub(super) tile: &'a Tile<'a>,
    pub(super) span: usize,
    pub(super) k: P,
    pub(super) v: P,
    pub(super) records: &'a mut [f32],
    pub(super) scratch: &'a mut [f32],
}

impl<P: Region> Kernel for SpanRecords<'_, P> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (q, scratch) = self.scratch.split_at_mut(self.tile.n_rows() * self.tile.layout.k_dim);
        let (scores, room) = scratch.split_at_mut(self.tile.n_rows() * SPAN);
        let kv = (self.k, self.v);
        scores_of(s, self.tile, self.span, kv, (q, room), scores);
        softmax_rows(s, self.tile, self.span, scores, self.records);
        weigh_values(s, self.tile, self.span, (kv, room), scores, self.records);
    }
}

/// `scores: [n_rows][SPAN]`, unscaled. Whole vectors of positions are computed; those that a row doesn't see hold
/// whatever the region had there.
#[inline(always)]
fn scores_of<S: Simd, P: Region>(
    s: S,
    tile: &Tile<'_>,
    span: usize,
    kv: (P, P),
    (q, room): (&mut [f32], &mut [f32]),
    scores: &mut [f32],
) {
    let k_dim = tile.layout.k_dim;
    for (token, q) in tile.tokens().zip(q.chunks_exact_mut(tile.group() * k_dim)) {
        q.copy_from_slice(tile.queries(token));
    }
    scores.fill(0.0);
    let n_seen = (0..tile.n_rows()).map(|row| tile.visible(row, span)).max().unwrap_or(0);
    for (block, positions) in tile.blocks_of(span, n_seen) {
        let extent = Extent { n_rows: tile.n_rows(), n_sum: k_dim, n_vecs: positions.len().div_ceil(LANES) };
        let c = RowsMut { data: &mut scores[positions.start..], stride: SPAN };
        let keys = kv.0.rows(s, &tile.layout, KvPart::K, tile.head_of(block), positions.len(), room);
        let mut ahead = tile.ahead(kv, KvPart::K, span, positions.start);
        outer(s, Rows { data: q, stride: k_dim }, keys, c, extent, &mut ahead);
    }
}

/// Scores become weights `exp(score - maximum)`; the records get maximum and sum, and an accumulator of zero.
#[inline(always)]
fn softmax_rows<S: Simd>(s: S, tile: &Tile<'_>, span: usize, scores: &mut [f32], records: &mut [f32]) {
    let record_len = tile.record_len();
    let scale = s.splat(tile.scale);
    let rows = scores.chunks_exact_mut(SPAN).zip(records.chunks_exact_mut(record_len));
    for (row, (scores, record)) in rows.enumerate() {
        let n = tile.visible(row, span);
        if n == 0 {
            continue;
        }
        let padded = n.next_multiple_of(LANES);
        for x in scores[..padded].as_chunks_mut::<LANES>().0 {
            s.store(s.mul(s.load(x), scale), x);
        }
        scores[n..padded].fill(f32::NEG_INFINITY);
        let (max, sum) = exp_row(s, &mut scores[..padded]);
        let (acc, tail) = record.split_at_mut(record_len - 2);
        acc.fill(0.0);
        tail.copy_from_slice(&[max, sum]);
    }
}

/// Adds the weighted values to the accumulators, position after position.
///
/// A row may not touch positions beyond its own: even a weight of zero would turn a stale NaN into one of the result.
/// So rows are taken together as far as all of them see, and one by one beyond.
#[inline(always)]
fn weigh_values<S: Simd, P: Region>(
    s: S,
    tile: &Tile<'_>,
    span: usize,
    (kv, room): ((P, P), &mut [f32]),
    weights: &[f32],
    records: &mut [f32],
) {
    let n_rows = tile.n_rows();
    let n_seen = (0..n_rows).map(|row| tile.visible(row, span)).max().unwrap_or(0);
    for (block, positions) in tile.blocks_of(span, n_seen) {
        let values = kv.1.rows(s, &tile.layout, KvPart::V, tile.head_of(block), positions.len(), room);
        let mut ahead = tile.ahead(kv, KvPart::V, span, positions.start);
        for first in (0..n_rows).step_by(S::OUTER_TILE.0) {
            let rows = first..n_rows.min(first + S::OUTER_TILE.0);
            let shared = rows.clone().map(|row| tile.visible(row, span)).min().unwrap_or(0);
            let shared = shared.clamp(positions.start, positions.end);
            weigh_block(
                s,
                tile,
                values,
                &positions,
                positions.start..shared,
                rows.clone(),
                weights,
                records,
                &mut ahead,
            );
            for row in rows {
                let own = tile.visible(row, span).clamp(shared, positions.end);
                weigh_block(
                    s,
                    tile,
                    values,
                    &positions,
                    shared..own,
                    row..row + 1,
                    weights,
                    records,
                    &mut ahead,
                );
            }
        }
    }
}

/// Adds the values of the positions `some`, which lie in the block that holds `positions`, for some rows.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the inner step of one loop, apart to be read alone")]
fn weigh_block<S: Simd, E: Elem>(
    s: S,
    tile: &Tile<'_>,
    values: Rows<'_, E>,
    positions: &Range<usize>,
    some: Range<usize>,
    rows: Range<usize>,
    weights: &[f32],
    records: &mut [f32],
    ahead: &mut Ahead,
) {
    let stride = tile.record_len();
    let a = Rows { data: &weights[rows.start * SPAN + some.start..], stride: SPAN };
    let b =
        Rows { data: &values.data[(some.start - positions.start) * values.stride..], stride: values.stride };
    let c = RowsMut { data: &mut records[rows.start * stride..], stride };
    let extent = Extent { n_rows: rows.len(), n_sum: some.len(), n_vecs: tile.layout.v_row() / LANES };
    outer(s, a, b, c, extent, ahead);
}

/// Merges the records of a later span into those of all spans before it.
pub(super) struct MergeSpans<'a> {
    pub(super) merged: &'a mut [f32],
    pub(super) records: &'a [f32],
    pub(super) record_len: usize,
}

impl Kernel for MergeSpans<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.merged.chunks_exact_mut(self.record_len);
        for (merged, record) in rows.zip(self.records.chunks_exact(self.record_len)) {
            let (acc, tail) = merged.split_at_mut(self.record_len - 2);
            let (add, add_tail) = record.split_at(self.record_len - 2);
            let max = if add_tail[0] > tail[0] { add_tail[0] } else { tail[0] };
            let (keep, gain) = (exp_one(s, tail[0] - max), exp_one(s, add_tail[0] - max));
            for (acc, add) in acc.as_chunks_mut::<LANES>().0.iter_mut().zip(add.as_chunks::<LANES>().0) {
                let kept = s.mul(s.load(acc), s.splat(keep));
                s.store(s.fma(s.load(add), s.splat(gain), kept), acc);
            }
            tail.copy_from_slice(&[max, add_tail[1].mul_add(gain, tail[1] * keep)]);
        }
    }
}

/// `out = acc / sum` for each row.
pub(super) struct FinishHead<'a> {
    pub(super) merged: &'a [f32],
    pub(super) record_len: usize,
    pub(super) v_dim: usize,
    pub(super) out: &'a mut [f32],
}

impl Kernel for FinishHead<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.merged.chunks_exact(self.record_len);
        for (record, out) in rows.zip(self.out.chunks_exact_mut(self.v_dim)) {
            out.copy_from_slice(&record[..self.v_dim]);
            divide(s, out, record[self.record_len - 1]);
        }
    }
}
