//! The portable path: the packed panels of the SIMD kernels, with the arithmetic of `reference.rs` spelled out per row.

#![expect(unsafe_code, reason = "the output is shared with other threads and written by pointer")]

use super::kernels::Tile;
use super::quants::{Bytes, Quants, StepBytes};
use super::scales::{RowScales, Scales};
use super::walk::{expansion, steps};

/// Tokens of the largest tile.
const MAX_TOKENS: usize = 16;

/// One panel by the tokens of a tile.
///
/// # Safety
/// The output of the tile may be written, as [`Tile`] says.
pub(super) unsafe fn tile<Q: Quants, S: Scales>(x: &Tile<'_>) {
    assert!(x.len <= MAX_TOKENS);
    let [panel] = x.panels else { unreachable!("panels come one by one") };
    let mut acc = [[0f32; 16]; MAX_TOKENS];
    for (step, parts) in steps::<Q, S>(panel.bytes).enumerate() {
        let weights = Q::unpack(parts.quants);
        let scales: [RowScales; 16] = std::array::from_fn(|row| parts.row_scales::<S>(row));
        for (token, acc) in acc[..x.len].iter_mut().enumerate() {
            let sums = dot(&weights, &x.q[step * 32 * x.len..][..32 * x.len], token, x.len);
            add_step::<S>(acc, &scales, sums, x, step, token);
        }
    }
    for (token, acc) in acc[..x.len].iter().enumerate() {
        // SAFETY: granted by the caller for `len` tokens and `n_rows` rows.
        unsafe {
            std::ptr::copy_nonoverlapping(acc.as_ptr(), panel.out.add(token * x.out_stride), panel.n_rows)
        };
    }
}

/// Sums of products of 16 rows, for both halves of a step.
#[inline(always)]
fn dot(weights: &StepBytes, q: &[i8], token: usize, n_tokens: usize) -> [[i32; 16]; 2] {
    let mut sums = [[0i32; 16]; 2];
    for (g, group) in weights.iter().enumerate() {
        let x = &q[(g * n_tokens + token) * 4..][..4];
        for (sum, w) in sums[g / 4].iter_mut().zip(group.as_chunks::<4>().0) {
            *sum += w.iter().zip(x).map(|(&w, &x)| i32::from(w) * i32::from(x)).sum::<i32>();
        }
    }
    sums
}

/// Adds a step to the accumulators of one token.
#[inline(always)]
fn add_step<S: Scales>(
    acc: &mut [f32; 16],
    scales: &[RowScales; 16],
    sums: [[i32; 16]; 2],
    x: &Tile<'_>,
    step: usize,
    token: usize,
) {
    let at = step * x.len + token;
    let (scale, scaled_sum) = (x.scale[at], x.scaled_sum[at]);
    let correction = |i: usize| x.correction[(step * S::CORRECTIONS + i) * x.len + token];
    let correct = match (S::HALVES, S::MIN) {
        (true, false) => [correction(0), correction(1)],
        (false, false) => [correction(0), 0],
        _ => [0; 2],
    };
    for (row, (acc, s)) in acc.iter_mut().zip(scales).enumerate() {
        let isum = [sums[0][row] + correct[0], sums[1][row] + correct[1]];
        if S::HALVES {
            let mut sum = isum[0] as f32 * (s.d * s.sc[0] as f32);
            sum = (isum[1] as f32).mul_add(s.d * s.sc[1] as f32, sum);
            if S::MIN {
                let pair = correction(0);
                let minimums = s.mn[0] * i32::from(pair as i16) + s.mn[1] * (pair >> 16);
                sum = (-(minimums as f32)).mul_add(s.m, sum);
            }
            *acc = sum.mul_add(scale, *acc);
        } else {
            *acc = ((isum[0] + isum[1]) as f32).mul_add(s.step_scale::<S>() * scale, *acc);
            if S::MIN {
                *acc = s.step_offset::<S>().mul_add(scaled_sum, *acc);
            }
        }
    }
}

/// Unpacks the quants of a panel to plain bytes.
pub(super) fn expand<Q: Quants, S: Scales>(panel: &[u8], out: &mut [u8]) {
    for step in expansion::<Q, S>(panel.len()) {
        out[step.lines_to..][..step.lines.len()].copy_from_slice(&panel[step.lines]);
        let weights = Q::unpack(&panel[step.quants..]);
        out[step.quants_to..][..Bytes::BYTES].copy_from_slice(weights.as_flattened());
    }
}
