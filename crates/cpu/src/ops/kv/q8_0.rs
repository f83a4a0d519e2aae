//! Keys and values as int8 with a scale for each 32 elements of a position: 8.5 bits an element.
//!
//! The definition, for one position and one head, elements 32 at a time (the last group may be shorter):
//! `scale = f16(amax / 127)`, `q = round_ties_even(x / scale)` clamped to -127..=127, or 0 where the scale is 0; read back,
//! an element is `scale * q` in f32. A group with an infinity or NaN gets the scale NaN, so that whoever sees it knows.
//! A group lies within one position, so appending never touches what was stored before.
//!
//! A block is, for each KV head, `[scales][quants]`: of keys `[group][position]` f16 and `[element][position]` i8, of values
//! `[position][group]` f16 and `[position][element]` i8, elements padded to a multiple of 16.

use half::f16;
use minfer_graph::KvPart;

use super::KvLayout;
use crate::simd::{LANES, Simd};

/// Elements that share a scale.
pub(crate) const GROUP: usize = 32;

const SCALE_BYTES: usize = size_of::<f16>();

/// What is added and taken away again to round an f32 below 2^22 to a whole number, ties to even.
const ROUND: f32 = 12_582_912.0;

/// Sizes of one head of one block.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    part: KvPart,
    block_size: usize,
    dim: usize,
    /// Elements with padding.
    row: usize,
    n_groups: usize,
}

impl Head {
    pub(crate) fn of(layout: &KvLayout, part: KvPart) -> Head {
        let (dim, row) = match part {
            KvPart::K => (layout.k_dim, layout.k_dim),
            KvPart::V => (layout.v_dim, layout.v_row()),
        };
        Head { part, block_size: layout.block_size, dim, row, n_groups: dim.div_ceil(GROUP) }
    }

    /// Bytes of the head in a block.
    pub(crate) fn bytes(&self) -> usize {
        self.block_size * (self.n_groups * SCALE_BYTES + self.row)
    }

    fn scales_len(&self) -> usize {
        self.block_size * self.n_groups * SCALE_BYTES
    }

    /// Stores the elements of the position at `offset`.
    #[inline(always)]
    pub(super) fn store(&self, x: &[f32], head: &mut [u8], offset: usize) {
        let (scales, quants) = head.split_at_mut(self.scales_len());
        for (group, x) in x.chunks(GROUP).enumerate() {
            let mut q = [0; GROUP];
            let scale = quantize(x, &mut q);
            let at = match self.part {
                KvPart::K => group * self.block_size + offset,
                KvPart::V => offset * self.n_groups + group,
            };
            scales[at * SCALE_BYTES..][..SCALE_BYTES].copy_from_slice(&scale.to_le_bytes());
            for (i, q) in (group * GROUP..).zip(&q[..x.len()]) {
                let at = match self.part {
                    KvPart::K => i * self.block_size + offset,
                    KvPart::V => offset * self.row + i,
                };
                quants[at] = q.cast_unsigned();
            }
        }
    }

    /// One element of a position, as the definition has it.
    pub(super) fn element(&self, head: &[u8], position: usize, i: usize) -> f32 {
        let (scales, quants) = head.split_at(self.scales_len());
        let (scale, at) = match self.part {
            KvPart::K => (i / GROUP * self.block_size + position, i * self.block_size + position),
            KvPart::V => (position * self.n_groups + i / GROUP, position * self.row + i),
        };
        f16::from_le_bytes(scales.as_chunks().0[scale]).to_f32() * f32::from(quants[at].cast_signed())
    }

    /// Keys `[element][position]`, or values `[position][element]`, of at least the first `n_positions`.
    #[inline(always)]
    pub(crate) fn load<S: Simd>(&self, s: S, head: &[u8], n_positions: usize, out: &mut [f32]) {
        let (scales, quants) = head.split_at(self.scales_len());
        match self.part {
            KvPart::K => self.load_keys(s, scales, quants, n_positions, out),
            KvPart::V => self.load_values(s, scales, quants, n_positions, out),
        }
    }

    #[inline(always)]
    fn load_keys<S: Simd>(&self, s: S, scales: &[u8], quants: &[u8], n_positions: usize, out: &mut [f32]) {
        let size = self.block_size;
        for first in (0..n_positions).step_by(LANES) {
            for group in 0..self.n_groups {
                let scale = s.load_f16(&halves(&scales[(group * size + first) * SCALE_BYTES..]));
                for i in group * GROUP..self.dim.min((group + 1) * GROUP) {
                    put(s, scale, &quants[i * size + first..], &mut out[i * size + first..]);
                }
            }
        }
    }

    #[inline(always)]
    fn load_values<S: Simd>(&self, s: S, scales: &[u8], quants: &[u8], n_positions: usize, out: &mut [f32]) {
        for position in 0..n_positions {
            let scales = &scales[position * self.n_groups * SCALE_BYTES..];
            for first in (0..self.row).step_by(LANES) {
                let at = first / GROUP * SCALE_BYTES;
                let scale = s.load_f16(&[f16::from_le_bytes([scales[at], scales[at + 1]]); LANES]);
                let start = position * self.row + first;
                put(s, scale, &quants[start..], &mut out[start..]);
            }
        }
    }
}

/// `out = scale * quants`, 16 of them.
#[inline(always)]
fn put<S: Simd>(s: S, scale: S::F, quants: &[u8], out: &mut [f32]) {
    if let (Some(quants), Some(out)) = (quants.first_chunk(), out.first_chunk_mut()) {
        s.store(s.mul(scale, s.load_i8(quants)), out);
    }
}

#[inline(always)]
fn halves(bytes: &[u8]) -> [f16; LANES] {
    let mut out = [f16::ZERO; LANES];
    let mut i = 0;
    while i < LANES {
        out[i] = f16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
        i += 1;
    }
    out
}

/// The scale and the whole numbers of at most 32 elements.
#[inline(always)]
fn quantize(x: &[f32], q: &mut [i8; GROUP]) -> f16 {
    // Zero, unless some element is not a number, or infinite.
    let odd = x.iter().fold(0.0, |sum, x| sum + x * 0.0);
    if odd != 0.0 || f32::is_nan(odd) {
        return f16::NAN;
    }
    let amax = x.iter().fold(0.0f32, |max, x| if x.abs() > max { x.abs() } else { max });
    let scale = f16::from_f32_const(amax / 127.0);
    let unit = scale.to_f32_const();
    if unit > 0.0 {
        for (q, x) in q.iter_mut().zip(x) {
            // Within ±127 but for the rounding of the scale.
            let whole = (x / unit + ROUND) - ROUND;
            *q = whole.clamp(-127.0, 127.0) as i8;
        }
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::simd::{Kernel, dispatch};
    use crate::testing::{Random, assert_same_bits, hard_f32s};

    struct Load<'a> {
        head: Head,
        bytes: &'a [u8],
        n_positions: usize,
    }

    impl Kernel for Load<'_> {
        type Out = Vec<f32>;

        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> Vec<f32> {
            let mut out = vec![7.0; self.head.row * self.head.block_size];
            self.head.load(s, self.bytes, self.n_positions, &mut out);
            out
        }
    }

    /// The definition, element by element.
    fn defined(x: &[f32]) -> Vec<f32> {
        let mut out = Vec::new();
        for group in x.chunks(GROUP) {
            let amax = group.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let scale = f16::from_f32(amax / 127.0).to_f32();
            out.extend(group.iter().map(|x| match scale {
                0.0 => 0.0,
                scale => scale * f32::from((x / scale).round_ties_even().clamp(-127.0, 127.0) as i8),
            }));
        }
        out
    }

    fn heads() -> Vec<(KvLayout, KvPart)> {
        let layout = |block_size, k_dim, v_dim| KvLayout { block_size, n_kv_heads: 1, k_dim, v_dim };
        let layouts = [layout(16, 64, 128), layout(32, 24, 40), layout(256, 1, 1), layout(32, 96, 33)];
        layouts.into_iter().flat_map(|l| [(l, KvPart::K), (l, KvPart::V)]).collect()
    }

    #[test]
    fn what_is_read_back_is_what_the_definition_says_on_every_level() {
        let mut random = Random::new(1);
        for (layout, part) in heads() {
            let head = Head::of(&layout, part);
            let mut bytes = vec![0; head.bytes()];
            let n = head.block_size - 3;
            let rows: Vec<Vec<f32>> = (0..n).map(|_| random.units(head.dim)).collect();
            for (offset, x) in rows.iter().enumerate() {
                head.store(x, &mut bytes, offset);
            }
            for isa in Isa::available() {
                let out = dispatch(isa, Load { head, bytes: &bytes, n_positions: n });
                for (p, x) in rows.iter().enumerate() {
                    let got: Vec<f32> = (0..head.dim)
                        .map(|i| match part {
                            KvPart::K => out[i * head.block_size + p],
                            KvPart::V => out[p * head.row + i],
                        })
                        .collect();
                    assert_same_bits(&format!("{part:?} {layout:?} on {isa}"), &got, &defined(x));
                }
            }
        }
    }

    #[test]
    fn a_position_changes_no_other() {
        for (layout, part) in heads() {
            let head = Head::of(&layout, part);
            let mut random = Random::new(2);
            let rows: Vec<Vec<f32>> = (0..head.block_size).map(|_| random.units(head.dim)).collect();
            let stored = |order: &[usize]| {
                let mut bytes = vec![0; head.bytes()];
                order.iter().for_each(|&p| head.store(&rows[p], &mut bytes, p));
                bytes
            };
            let order: Vec<usize> = (0..head.block_size).collect();
            let backwards: Vec<usize> = order.iter().rev().copied().collect();
            assert_eq!(stored(&order), stored(&backwards));
        }
    }

    #[test]
    fn hard_values_stay_near_or_are_known_to_be_lost() {
        let values = hard_f32s(4096, 3);
        let odd = [f32::NAN, f32::INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-40, -0.0, 8e6];
        for x in values.chunks(GROUP).map(<[f32]>::to_vec).chain(odd.iter().map(|&x| vec![x; GROUP])) {
            let mut q = [0; GROUP];
            let scale = quantize(&x, &mut q).to_f32();
            let amax = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let lost = x.iter().any(|x| !x.is_finite()) || amax / 127.0 > 65519.0;
            for (x, q) in x.iter().zip(q) {
                let back = scale * f32::from(q);
                match lost {
                    true => assert!(back.is_nan(), "{x} became {back}"),
                    // Half a step, the rounding of the scale, and what is below the smallest scale.
                    false => assert!((back - x).abs() <= amax * 0.0048 + 4e-6, "{x} became {back} of {amax}"),
                }
            }
        }
    }
}
