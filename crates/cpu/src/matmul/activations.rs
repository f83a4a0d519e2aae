//! Activations as int8 with one f32 scale per 32, quantized once and shared by every matrix that reads them.
//!
//! Per token and block of 32 k: `scale = amax / 127`, `q = round_ties_even(x * (127 / amax))`, so q is in -127..=127.
//! A block below [`SMALLEST_AMAX`] counts as zero; a block with an infinity or NaN gets the scale NaN and zeros, so that
//! every output it takes part in is NaN, on every path.
//!
//! Tokens are grouped in *tiles* of the sizes that the kernels have, and a tile is interleaved for them:
//! `q[block][group of 4 k][token][4]`, `scale[block][token]`, `half_sums[block][half][token]`. Tiles follow each other,
//! so the arrays of a tile start at `first_token * k` and so on. Tiling changes no bits.
//!
//! A workspace is reused: once it has held the largest step, quantizing allocates nothing.

#![expect(unsafe_code, reason = "SIMD, and tiles written by several threads")]

use super::corrections::{Corrections, MAX_FORMS};
use super::kernels::Kernels;
use super::product::MatMulError;
use crate::isa::Isa;
use minfer_gguf::TensorType;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Below this, `127 / amax` would overflow.
pub(super) const SMALLEST_AMAX: f32 = f32::from_bits((127 - 117) << 23);

/// A run of tokens that a kernel takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileSpan {
    pub(super) first: usize,
    pub(super) len: usize,
}

/// The reusable workspace. Empty until [`QuantizedActivations::quantize`] or [`QuantizedActivations::begin`].
#[derive(Default)]
pub struct QuantizedActivations {
    n_tokens: usize,
    k: usize,
    isa: Option<Isa>,
    tiles: Vec<TileSpan>,
    claimed: Vec<AtomicBool>,
    pub(super) q: Vec<i8>,
    /// What an integer is worth.
    pub(super) scale: Vec<f32>,
    /// `scale * sum(q)`, rounded once.
    pub(super) scaled_sum: Vec<f32>,
    /// Sums of q over the first and the last 16 of a block.
    half_sums: Vec<i32>,
    pub(super) corrections: Corrections,
}

impl QuantizedActivations {
    /// Most types that [`Self::prepare`] may be given for [the plan](Self::bytes_for) to hold.
    pub(crate) const MAX_TYPES: usize = MAX_FORMS;

    /// An empty workspace; it grows on first use.
    pub fn new() -> Self {
        Self::default()
    }

    /// Quantizes `x: [n_tokens, k]` (row-major) for kernels of `isa`, on this thread. Before a product,
    /// [prepare](Self::prepare) for the type of its weights.
    pub fn quantize(&mut self, x: &[f32], n_tokens: usize, k: usize, isa: Isa) -> Result<(), MatMulError> {
        let writer = self.begin(x, n_tokens, k, isa)?;
        writer.write_tiles(0..writer.n_tiles());
        Ok(())
    }

    /// Gets ready for products with weights of these types. It costs little, and nothing for types that are ready.
    /// Readiness for others may end, and that for all ends when other values are quantized.
    pub fn prepare(&mut self, dtypes: &[TensorType]) {
        let forms = dtypes.iter().filter_map(|&dtype| Some(Kernels::find(dtype)?.correction));
        self.corrections.prepare(forms, &self.tiles, self.k / 32, &self.half_sums);
    }

    /// Starts quantizing `x: [n_tokens, k]`; several threads may then share the writer, each taking ranges of tiles.
    /// Tiles that nobody writes keep old contents. Errors if `k` is not a multiple of 32 or `x` has another length.
    pub fn begin<'a>(
        &'a mut self,
        x: &'a [f32],
        n_tokens: usize,
        k: usize,
        isa: Isa,
    ) -> Result<ActivationWriter<'a>, MatMulError> {
        self.begin_tiled(x, n_tokens, k, isa, tile_sizes(isa))
    }

    pub(super) fn begin_tiled<'a>(
        &'a mut self,
        x: &'a [f32],
        n_tokens: usize,
        k: usize,
        isa: Isa,
        sizes: &[usize],
    ) -> Result<ActivationWriter<'a>, MatMulError> {
        if !k.is_multiple_of(32) || n_tokens.checked_mul(k) != Some(x.len()) {
            return Err(MatMulError::Activations { len: x.len(), n_tokens, k });
        }
        (self.n_tokens, self.k, self.isa) = (n_tokens, k, Some(isa));
        self.corrections.clear();
        fill_tiles(&mut self.tiles, n_tokens, sizes);
        self.claimed.clear();
        self.claimed.resize_with(self.tiles.len(), || AtomicBool::new(false));
        resize_exact(&mut self.q, n_tokens * k, 0);
        resize_exact(&mut self.scale, n_tokens * k / 32, 0.0);
        resize_exact(&mut self.scaled_sum, n_tokens * k / 32, 0.0);
        resize_exact(&mut self.half_sums, n_tokens * k / 16, 0);
        Ok(ActivationWriter {
            x,
            k,
            isa,
            tiles: &self.tiles,
            claimed: &self.claimed,
            q: shared(&mut self.q),
            scale: shared(&mut self.scale),
            scaled_sum: shared(&mut self.scaled_sum),
            half_sums: shared(&mut self.half_sums),
        })
    }

    /// Most bytes of a workspace that has held `n_tokens` of `k` values.
    pub(crate) fn bytes_for(n_tokens: usize, k: usize) -> usize {
        // A byte for each value; two floats, two sums and two words of each form of corrections for each 32; the tiles are
        // doubled as they are added.
        let per_token = k + k / 32 * (16 + 8 * MAX_FORMS) + 2 * size_of::<TileSpan>() + 2;
        n_tokens.saturating_mul(per_token)
    }

    /// Tokens in the workspace.
    pub fn n_tokens(&self) -> usize {
        self.n_tokens
    }

    /// Values per token.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The level whose kernels can read this workspace, once it has been filled.
    pub fn isa(&self) -> Option<Isa> {
        self.isa
    }

    /// All that is known of one token, with one value for every NaN.
    #[cfg(test)]
    pub(super) fn token_bits(&self, token: usize) -> Vec<u32> {
        let tile = self.tiles.iter().find(|t| (t.first..t.first + t.len).contains(&token)).unwrap();
        let (k, n, t) = (self.k, tile.len, token - tile.first);
        let float = |x: f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        let of = |per_token: usize| tile.first * per_token..;
        let q = (0..k).map(|i| self.q[of(k)][(i / 4 * n + t) * 4 + i % 4] as u32);
        let floats = (0..k / 32)
            .flat_map(|b| [&self.scale, &self.scaled_sum].map(|v| float(v[of(k / 32)][b * n + t])));
        let sums = (0..k / 16).map(|half| self.half_sums[of(k / 16)][half * n + t] as u32);
        q.chain(floats).chain(sums).collect()
    }

    pub(super) fn tiles(&self) -> &[TileSpan] {
        &self.tiles
    }
}

/// Resizes without the reserve that a growing vector usually takes: what a workspace takes is planned.
pub(super) fn resize_exact<T: Clone>(v: &mut Vec<T>, len: usize, value: T) {
    v.reserve_exact(len.saturating_sub(v.len()));
    v.resize(len, value);
}

/// The tile sizes of a level's kernels, largest first.
pub(super) fn tile_sizes(isa: Isa) -> &'static [usize] {
    match isa {
        Isa::Scalar => &[8, 4, 2, 1],
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(_) => &[6, 4, 3, 2, 1],
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vnni(_) => &[8, 6, 4, 3, 2, 1],
    }
}

/// Cuts tokens into tiles, each the largest that fits; `sizes` must end in 1.
fn fill_tiles(tiles: &mut Vec<TileSpan>, n_tokens: usize, sizes: &[usize]) {
    tiles.clear();
    let mut first = 0;
    while first < n_tokens {
        let len = sizes.iter().copied().find(|&s| s <= n_tokens - first).unwrap_or(1);
        tiles.push(TileSpan { first, len });
        first += len;
    }
}

/// Fills the tiles of a workspace, from any number of threads.
pub struct ActivationWriter<'a> {
    x: &'a [f32],
    k: usize,
    isa: Isa,
    tiles: &'a [TileSpan],
    claimed: &'a [AtomicBool],
    q: &'a [UnsafeCell<i8>],
    scale: &'a [UnsafeCell<f32>],
    scaled_sum: &'a [UnsafeCell<f32>],
    half_sums: &'a [UnsafeCell<i32>],
}

// SAFETY: the cells of a tile are written only by the thread that claimed it, and read by nobody while the writer,
// which holds the unique borrow of the workspace, exists.
unsafe impl Sync for ActivationWriter<'_> {}

impl ActivationWriter<'_> {
    /// How many tiles there are to write.
    pub fn n_tiles(&self) -> usize {
        self.tiles.len()
    }

    /// Quantizes the tokens of these tiles. A tile that was written already, by any thread, is left alone.
    ///
    /// # Panics
    /// If the range ends after the last tile.
    pub fn write_tiles(&self, range: Range<usize>) {
        for i in range {
            if !self.claimed[i].swap(true, Ordering::Relaxed) {
                // SAFETY: this thread is the only one that saw the claim unset, so the tile's cells are its own.
                unsafe { self.write_tile(self.tiles[i]) }
            }
        }
    }

    /// # Safety
    /// No other thread accesses the cells of this tile.
    unsafe fn write_tile(&self, TileSpan { first, len }: TileSpan) {
        let (k, tokens) = (self.k, first..first + len);
        let of = |per_token: usize| tokens.start * per_token..tokens.end * per_token;
        let x = &self.x[of(k)];
        // SAFETY: the ranges belong to this tile alone (tiles are disjoint runs of tokens), and the caller grants it.
        let mut tile = unsafe {
            TileMut {
                len,
                k,
                q: exclusive(&self.q[of(k)]),
                scale: exclusive(&self.scale[of(k / 32)]),
                scaled_sum: exclusive(&self.scaled_sum[of(k / 32)]),
                half_sums: exclusive(&self.half_sums[of(k / 16)]),
            }
        };
        match self.isa {
            Isa::Scalar => tile.fill(x),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token proves the features.
            Isa::Avx2(_) => unsafe { fill_avx2(&mut tile, x) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token proves the features; `x` has len * k values.
            Isa::Avx512Vnni(_) => unsafe { super::quantize_avx512::quantize_tile(&mut tile, x) },
        }
    }
}

/// Views a unique slice as cells that threads may share.
fn shared<T>(slice: &mut [T]) -> &[UnsafeCell<T>] {
    // SAFETY: `UnsafeCell<T>` has the layout of `T`, and the borrow is unique.
    unsafe { &*(std::ptr::from_mut(slice) as *const [UnsafeCell<T>]) }
}

/// # Safety
/// Nobody else accesses these cells while the result lives.
#[expect(clippy::mut_from_ref, reason = "the cells were claimed")]
unsafe fn exclusive<T>(cells: &[UnsafeCell<T>]) -> &mut [T] {
    // SAFETY: same layout; the caller grants exclusive access.
    unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), cells.len()) }
}

/// The arrays of one tile; layouts in the module header.
pub(super) struct TileMut<'a> {
    pub(super) len: usize,
    pub(super) k: usize,
    pub(super) q: &'a mut [i8],
    pub(super) scale: &'a mut [f32],
    pub(super) scaled_sum: &'a mut [f32],
    pub(super) half_sums: &'a mut [i32],
}

impl TileMut<'_> {
    /// Portable; the compiler vectorizes it.
    #[inline(always)]
    fn fill(&mut self, x: &[f32]) {
        for (token, row) in x.chunks_exact(self.k.max(1)).enumerate() {
            for (b, v) in row.as_chunks::<32>().0.iter().enumerate() {
                self.put_block(b, token, v);
            }
        }
    }

    #[inline(always)]
    fn put_block(&mut self, b: usize, token: usize, x: &[f32; 32]) {
        let (scale, inverse) = scales(abs_max_bits(x));
        let q = if scale.is_nan() { [0; 32] } else { x.map(|v| round(v * inverse)) };
        let sums = [q[..16].iter().sum::<i32>(), q[16..].iter().sum::<i32>()];
        let n = self.len;
        for (g, four) in q.as_chunks::<4>().0.iter().enumerate() {
            self.q[((b * 8 + g) * n + token) * 4..][..4].copy_from_slice(&four.map(|v| v as i8));
        }
        self.scale[b * n + token] = scale;
        self.scaled_sum[b * n + token] = scale * (sums[0] + sums[1]) as f32;
        self.half_sums[b * 2 * n + token] = sums[0];
        self.half_sums[(b * 2 + 1) * n + token] = sums[1];
    }
}

/// The largest magnitude, as bits: ordered like the floats, with infinity and then NaN on top.
#[inline(always)]
fn abs_max_bits(x: &[f32; 32]) -> u32 {
    let mut lanes = [0u32; 8];
    for eight in x.as_chunks::<8>().0 {
        for (m, v) in lanes.iter_mut().zip(eight) {
            *m = (*m).max(v.abs().to_bits());
        }
    }
    lanes.into_iter().fold(0, u32::max)
}

/// The scale of a block and what its values are multiplied with, from the bits of its largest magnitude.
#[inline(always)]
pub(super) fn scales(amax_bits: u32) -> (f32, f32) {
    let amax = f32::from_bits(amax_bits);
    if !amax.is_finite() {
        (f32::NAN, 0.0)
    } else if amax < SMALLEST_AMAX {
        (0.0, 0.0)
    } else {
        (amax / 127.0, 127.0 / amax)
    }
}

/// Rounds to the nearest integer, ties to even; exact for |v| < 2^22.
#[inline(always)]
fn round(v: f32) -> i32 {
    // Beyond 1.5 * 2^23 a float has no fraction, so the addition itself rounds.
    const MAGIC: f32 = 12_582_912.0;
    (v + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32
}

/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fill_avx2(tile: &mut TileMut<'_>, x: &[f32]) {
    tile.fill(x);
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;

    /// Values of every magnitude, ties, zeros, subnormals, infinities and NaN.
    fn hard_values(n: usize) -> Vec<f32> {
        let mut state = 7u32;
        let mut x: Vec<f32> = (0..n)
            .map(|i| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let v = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
                v * [1.0, 1e-3, 40.0, 1e30, 1e-30, 1e-42][i / 32 % 6]
            })
            .collect();
        for (i, block) in x.chunks_exact_mut(32).enumerate() {
            match i % 9 {
                3 => block.fill(0.0),
                4 => block.iter_mut().enumerate().for_each(|(j, v)| *v = j as f32 * 0.5 - 4.0),
                5 => block[i % 32] = 127.0,
                7 if i % 2 == 0 => block.fill(-SMALLEST_AMAX),
                6 => block[i % 32] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][i / 9 % 3],
                7 => block[i % 32] = SMALLEST_AMAX,
                8 => block[i % 32] = f32::MAX,
                _ => {}
            }
        }
        x
    }

    #[test]
    fn every_level_and_tiling_quantizes_as_the_reference() {
        let (n_tokens, k) = (19, 32 * 11);
        let x = hard_values(n_tokens * k);
        let mut seen = (0, 0);
        for isa in Isa::available() {
            for sizes in [tile_sizes(isa), &[1], &[3, 1], &[16, 5, 1]] {
                let mut act = QuantizedActivations::new();
                let writer = act.begin_tiled(&x, n_tokens, k, isa, sizes).unwrap();
                writer.write_tiles(3..writer.n_tiles());
                writer.write_tiles(0..writer.n_tiles());
                for span in &act.tiles {
                    for token in 0..span.len {
                        for b in 0..k / 32 {
                            let at = (span.first + token) * k + b * 32;
                            let expected = reference::quantize(x[at..at + 32].try_into().unwrap());
                            let block = &act.q[span.first * k + b * 32 * span.len..];
                            let q: [i32; 32] =
                                std::array::from_fn(|i| block[(i / 4 * span.len + token) * 4 + i % 4].into());
                            assert_eq!(q, expected.q, "{isa} {sizes:?} token {token} block {b}");
                            let i = span.first * k / 32 + b * span.len + token;
                            assert_eq!(act.scale[i].is_nan(), expected.scale.is_nan());
                            if !expected.scale.is_nan() {
                                let sum: i32 = q.iter().sum();
                                assert_eq!(act.scale[i].to_bits(), expected.scale.to_bits());
                                assert_eq!(act.scaled_sum[i], expected.scale * sum as f32);
                            }
                            let half = span.first * k / 16 + b * 2 * span.len + token;
                            assert_eq!(act.half_sums[half], q[..16].iter().sum::<i32>());
                            assert_eq!(act.half_sums[half + span.len], q[16..].iter().sum::<i32>());
                            seen.0 += usize::from(expected.scale.is_nan());
                            seen.1 += usize::from(q.contains(&127) || q.contains(&-127));
                        }
                    }
                }
            }
        }
        assert!(seen.0 > 50 && seen.1 > 50, "the values are too tame: {seen:?}");
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let mut act = QuantizedActivations::new();
        let isa = Isa::Scalar;
        assert!(act.quantize(&[0.0; 63], 2, 32, isa).is_err());
        assert!(act.quantize(&[0.0; 62], 2, 31, isa).is_err());
        assert!(act.quantize(&[], usize::MAX, 32, isa).is_err());
        assert!(act.quantize(&[], 0, 32, isa).is_ok());
    }

    #[test]
    fn a_second_use_allocates_nothing() {
        let mut act = QuantizedActivations::new();
        act.quantize(&[1.0; 320], 5, 64, Isa::Scalar).unwrap();
        let before = (act.q.as_ptr(), act.q.capacity(), act.scale.capacity(), act.half_sums.capacity());
        act.quantize(&[1.0; 32], 1, 32, Isa::Scalar).unwrap();
        act.quantize(&[1.0; 320], 10, 32, Isa::Scalar).unwrap();
        assert_eq!(
            before,
            (act.q.as_ptr(), act.q.capacity(), act.scale.capacity(), act.half_sums.capacity())
        );
    }
}
