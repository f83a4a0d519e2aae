//! Rotary position embedding: pairs of a head's elements turned by an angle that grows with the position.
//!
//! Angles are computed in f64 with functions that give the same bits on every machine, once per step for the positions
//! of its tokens ([`RopeTable::prepare`]); all layers share them.

use std::ops::Range;

use minfer_graph::{RopeError, RopeSpec, RopeStyle};

use crate::error::KernelError;
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Simd, dispatch};

/// Sines and cosines for the positions of one step.
///
/// A row per token holds `n_rot` factors for the element itself, then `n_rot` for its partner, so that for both styles
/// `out[j] = fma(x[j], own[j], x[partner(j)] * other[j])`.
#[derive(Clone, Debug)]
pub struct RopeTable {
    style: RopeStyle,
    n_rot: usize,
    /// Angle per position of each pair.
    frequencies: Vec<f64>,
    magnitude: f64,
    positions: Vec<i32>,
    factors: Vec<f32>,
}

impl RopeTable {
    /// An empty table. `freq_factors` are divisors of the frequencies, one per pair (`rope_freqs.weight`).
    pub fn new(spec: &RopeSpec, freq_factors: Option<&[f32]>) -> Result<RopeTable, KernelError> {
        let of_spec = spec.frequencies(freq_factors).map_err(refused)?;
        let (frequencies, magnitude) = (of_spec.per_position, of_spec.magnitude);
        let RopeSpec { style, n_rot, .. } = *spec;
        Ok(RopeTable { style, n_rot, frequencies, magnitude, positions: Vec::new(), factors: Vec::new() })
    }

    /// Fills the table for these tokens; free when it already holds them.
    pub fn prepare(&mut self, positions: &[i32]) -> Result<(), KernelError> {
        if self.positions == positions {
            return Ok(());
        }
        for (at, &position) in positions.iter().enumerate() {
            KernelError::check_index("position", position, at, i32::MAX as usize)?;
        }
        self.positions.clear();
        self.positions.extend_from_slice(positions);
        self.factors.clear();
        self.factors.resize(positions.len() * 2 * self.n_rot, 0.0);
        let rows = self.factors.chunks_exact_mut((2 * self.n_rot).max(1));
        for (row, &position) in rows.zip(positions) {
            fill_row(row, position, self.style, &self.frequencies, self.magnitude);
        }
        Ok(())
    }

    /// The number of tokens it is filled for.
    pub fn n_tokens(&self) -> usize {
        self.positions.len()
    }
}

fn refused(e: RopeError) -> KernelError {
    match e {
        RopeError::Parameter { what, value, rule } => KernelError::Parameter { what, value, rule },
        RopeError::Divisors { expected, got } => {
            KernelError::Length { what: "rope frequency factors", expected, got }
        }
    }
}

fn fill_row(row: &mut [f32], position: i32, style: RopeStyle, frequencies: &[f64], magnitude: f64) {
    let n_rot = row.len() / 2;
    let (own, other) = row.split_at_mut(n_rot);
    for (i, frequency) in frequencies.iter().enumerate() {
        let (sin, cos) = libm::sincos(f64::from(position) * frequency);
        let (sin, cos) = ((sin * magnitude) as f32, (cos * magnitude) as f32);
        let (first, second) = match style {
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
            RopeStyle::Neox => (i, i + n_rot / 2),
        };
        (own[first], own[second]) = (cos, cos);
        (other[first], other[second]) = (-sin, sin);
    }
}

/// Rotates the heads of the tokens `tokens` of the table. `x` and `out` are `[head_dim, n_heads, tokens.len()]`.
pub fn rope(
    isa: Isa,
    table: &RopeTable,
    tokens: Range<usize>,
    head_dim: usize,
    x: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    KernelError::check_len("out", out.len(), x.len())?;
    check(table, &tokens, head_dim, x.len())?;
    out.copy_from_slice(x);
    rope_in_place(isa, table, tokens, head_dim, out)
}

/// As [`rope`], where `x` lies.
pub fn rope_in_place(
    isa: Isa,
    table: &RopeTable,
    tokens: Range<usize>,
    head_dim: usize,
    x: &mut [f32],
) -> Result<(), KernelError> {
    check(table, &tokens, head_dim, x.len())?;
    if tokens.is_empty() || table.n_rot == 0 {
        return Ok(());
    }
    let row_len = x.len() / tokens.len();
    let factors = &table.factors[tokens.start * 2 * table.n_rot..tokens.end * 2 * table.n_rot];
    dispatch(isa, Rotate { style: table.style, n_rot: table.n_rot, factors, head_dim, row_len, x });
    Ok(())
}

fn check(table: &RopeTable, tokens: &Range<usize>, head_dim: usize, len: usize) -> Result<(), KernelError> {
    if tokens.start > tokens.end || tokens.end > table.n_tokens() {
        let (index, limit) = (tokens.end as i64, table.n_tokens() + 1);
        return Err(KernelError::Index { what: "end of tokens", index, at: 0, limit });
    }
    if head_dim < table.n_rot {
        let rule = "at least the number of rotated elements";
        return Err(KernelError::Parameter { what: "head_dim", value: head_dim as f64, rule });
    }
    if tokens.is_empty() {
        return KernelError::check_len("x", len, 0);
    }
    KernelError::check_rows("x", len, head_dim * tokens.len()).map(|_| ())
}

struct Rotate<'a> {
    style: RopeStyle,
    n_rot: usize,
    factors: &'a [f32],
    head_dim: usize,
    row_len: usize,
    x: &'a mut [f32],
}

impl Kernel for Rotate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.x.chunks_exact_mut(self.row_len.max(1));
        for (row, factors) in rows.zip(self.factors.chunks_exact(2 * self.n_rot)) {
            let (own, other) = factors.split_at(self.n_rot);
            for head in row.chunks_exact_mut(self.head_dim) {
                let head = &mut head[..self.n_rot];
                match self.style {
                    RopeStyle::Interleaved => rotate_neighbours(s, head, own, other),
                    RopeStyle::Neox => rotate_halves(s, head, own, other),
                }
            }
        }
    }
}

#[inline(always)]
fn turn<S: Simd>(s: S, x: S::F, partner: S::F, own: S::F, other: S::F) -> S::F {
    s.fma(x, own, s.mul(partner, other))
}

#[inline(always)]
fn rotate_neighbours<S: Simd>(s: S, x: &mut [f32], own: &[f32], other: &[f32]) {
    let (x, x_rest) = x.as_chunks_mut::<LANES>();
    let (own, own_rest) = own.as_chunks::<LANES>();
    let (other, other_rest) = other.as_chunks::<LANES>();
    for ((x, own), other) in x.iter_mut().zip(own).zip(other) {
        let v = s.load(x);
        s.store(turn(s, v, s.swap_pairs(v), s.load(own), s.load(other)), x);
    }
    if !x_rest.is_empty() {
        let v = s.load_part(x_rest, 0.0);
        let (own, other) = (s.load_part(own_rest, 0.0), s.load_part(other_rest, 0.0));
        s.store_part(turn(s, v, s.swap_pairs(v), own, other), x_rest);
    }
}

#[inline(always)]
fn rotate_halves<S: Simd>(s: S, x: &mut [f32], own: &[f32], other: &[f32]) {
    let half = x.len() / 2;
    let (a, b) = x.split_at_mut(half);
    let (a, a_rest) = a.as_chunks_mut::<LANES>();
    let (b, b_rest) = b.as_chunks_mut::<LANES>();
    // The factors of the second half: those of the first but for the sign of `other`.
    let (own, own_rest) = own[half..].as_chunks::<LANES>();
    let (other, other_rest) = other[half..].as_chunks::<LANES>();
    for (((a, b), own), other) in a.iter_mut().zip(b).zip(own).zip(other) {
        let (va, vb, own, other) = (s.load(a), s.load(b), s.load(own), s.load(other));
        s.store(turn(s, va, vb, own, s.sub(s.splat(-0.0), other)), a);
        s.store(turn(s, vb, va, own, other), b);
    }
    if !a_rest.is_empty() {
        let (va, vb) = (s.load_part(a_rest, 0.0), s.load_part(b_rest, 0.0));
        let (own, other) = (s.load_part(own_rest, 0.0), s.load_part(other_rest, 0.0));
        s.store_part(turn(s, va, vb, own, s.sub(s.splat(-0.0), other)), a_rest);
        s.store_part(turn(s, vb, va, own, other), b_rest);
    }
}

#[cfg(test)]
mod tests;
