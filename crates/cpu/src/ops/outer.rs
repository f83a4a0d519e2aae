//! The inner loop of attention and of the batched product: rows of `A` times a matrix `B` of lanes.
//!
//! `C[r][j] = fma(A[r][i], B[i][j], C[r][j])` for i = 0, 1, 2, …: one accumulator per output, in order. How rows and lanes
//! are tiled is a matter of registers, and changes no bit. Elements of `B` are loaded once for all rows of a tile.

#![expect(unsafe_code, reason = "the inner loop reads by pointer")]

use half::f16;

use crate::simd::{LANES, Simd};

/// Bytes that come from memory at once.
const CACHE_LINE: usize = 64;

/// A type that keys, values and other right-hand sides are stored in.
pub(crate) trait Elem: Copy + Default + Send + Sync {
    fn load<S: Simd>(s: S, src: &[Self; LANES]) -> S::F;
    /// Rounds to nearest, ties to even.
    fn store<S: Simd>(s: S, x: S::F, dst: &mut [Self; LANES]);
}

impl Elem for f32 {
    #[inline(always)]
    fn load<S: Simd>(s: S, src: &[f32; LANES]) -> S::F {
        s.load(src)
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, x: S::F, dst: &mut [f32; LANES]) {
        s.store(x, dst);
    }
}

impl Elem for f16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, src: &[f16; LANES]) -> S::F {
        s.load_f16(src)
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, x: S::F, dst: &mut [f16; LANES]) {
        s.store_f16(x, dst);
    }
}

/// A matrix whose rows start `stride` elements apart.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) stride: usize,
}

/// Memory that will be read soon. The inner loop asks for as much of it as it reads itself: asked for at once, the lines
/// would wait for each other.
pub(crate) struct Ahead {
    at: *const u8,
    end: *const u8,
}

impl Ahead {
    pub(crate) fn of<T>(memory: &[T]) -> Ahead {
        let std::ops::Range { start, end } = memory.as_ptr_range();
        Ahead { at: start.cast(), end: end.cast() }
    }

    pub(crate) fn nothing() -> Ahead {
        Ahead::of::<u8>(&[])
    }

    #[inline(always)]
    fn ask<S: Simd>(&mut self, s: S, n_lines: usize) {
        for _ in 0..n_lines {
            s.prefetch(self.at);
            self.at = self.at.wrapping_add(CACHE_LINE).min(self.end);
        }
    }
}

/// The same, to be written.
pub(crate) struct RowsMut<'a> {
    pub(crate) data: &'a mut [f32],
    pub(crate) stride: usize,
}

/// Size of the product: rows of `A` and `C`, the summed index, vectors of 16 lanes of `B` and `C`.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) n_rows: usize,
    pub(crate) n_sum: usize,
    pub(crate) n_vecs: usize,
}

/// Adds the product of `a: [n_rows][n_sum]` and `b: [n_sum][16 n_vecs]` to `c: [n_rows][16 n_vecs]`, and asks for what is
/// `ahead` meanwhile.
///
/// # Panics
/// If a matrix is smaller than `extent`.
#[inline(always)]
pub(crate) fn outer<S: Simd, E: Elem>(
    s: S,
    a: Rows<'_, f32>,
    b: Rows<'_, E>,
    c: RowsMut<'_>,
    extent: Extent,
    ahead: &mut Ahead,
) {
    let Extent { n_rows, n_sum, n_vecs } = extent;
    if n_rows == 0 || n_sum == 0 || n_vecs == 0 {
        return;
    }
    assert!((n_rows - 1) * a.stride + n_sum <= a.data.len());
    assert!((n_sum - 1) * b.stride + n_vecs * LANES <= b.data.len());
    assert!((n_rows - 1) * c.stride + n_vecs * LANES <= c.data.len());
    let mut row = 0;
    while row < n_rows {
        let n = (n_rows - row).min(S::OUTER_TILE.0);
        let strip = Strip {
            a: a.data[row * a.stride..].as_ptr(),
            a_stride: a.stride,
            b: b.data.as_ptr(),
            b_stride: b.stride,
            c: c.data[row * c.stride..].as_mut_ptr(),
            c_stride: c.stride,
            n_sum,
        };
        // SAFETY: by the assertions, rows `row..row + n` and all vectors lie inside the three slices.
        unsafe {
            match n {
                1 => strip.run::<S, 1>(s, n_vecs, ahead),
                2 => strip.run::<S, 2>(s, n_vecs, ahead),
                3 => strip.run::<S, 3>(s, n_vecs, ahead),
                4 => strip.run::<S, 4>(s, n_vecs, ahead),
                5 => strip.run::<S, 5>(s, n_vecs, ahead),
                6 => strip.run::<S, 6>(s, n_vecs, ahead),
                7 => strip.run::<S, 7>(s, n_vecs, ahead),
                _ => strip.run::<S, 8>(s, n_vecs, ahead),
            }
        }
        row += n;
    }
}

/// Rows of one tile height, by pointers: bounds are checked once for all, and the inner loop is nothing but loads and
/// fused multiply-adds.
struct Strip<E> {
    a: *const f32,
    a_stride: usize,
    b: *const E,
    b_stride: usize,
    c: *mut f32,
    c_stride: usize,
    n_sum: usize,
}

impl<E: Elem> Strip<E> {
    /// # Safety
    /// `R` rows of `a` and `c`, `n_sum` rows of `b`, and `n_vecs` vectors of `b` and `c` are inside.
    #[inline(always)]
    unsafe fn run<S: Simd, const R: usize>(&self, s: S, n_vecs: usize, ahead: &mut Ahead) {
        let mut vec = 0;
        if S::OUTER_TILE.1 == 2 {
            while vec + 2 <= n_vecs {
                // SAFETY: the contract of this function.
                unsafe { self.tile::<S, R, 2>(s, vec * LANES, ahead) };
                vec += 2;
            }
        }
        while vec < n_vecs {
            // SAFETY: the contract of this function.
            unsafe { self.tile::<S, R, 1>(s, vec * LANES, ahead) };
            vec += 1;
        }
    }

    /// `R` rows of `V` vectors that start at lane `lane`.
    ///
    /// # Safety
    /// As for [`Strip::run`].
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "iterators over vectors are functions without the CPU features"
    )]
    unsafe fn tile<S: Simd, const R: usize, const V: usize>(&self, s: S, lane: usize, ahead: &mut Ahead) {
        let mut acc = [[s.splat(0.0); V]; R];
        for r in 0..R {
            for v in 0..V {
                // SAFETY: 16 elements inside row r of `c`, and no one else has `c`.
                acc[r][v] = s.load(unsafe { &*self.c.add(r * self.c_stride + lane + v * LANES).cast() });
            }
        }
        let n_lines = (V * size_of::<[E; LANES]>()).div_ceil(CACHE_LINE);
        for i in 0..self.n_sum {
            ahead.ask(s, n_lines);
            let mut lanes = [s.splat(0.0); V];
            for v in 0..V {
                // SAFETY: 16 elements inside row i of `b`.
                lanes[v] = E::load(s, unsafe { &*self.b.add(i * self.b_stride + lane + v * LANES).cast() });
            }
            for r in 0..R {
                // SAFETY: element i of row r of `a`.
                let x = s.splat(unsafe { *self.a.add(r * self.a_stride + i) });
                for v in 0..V {
                    acc[r][v] = s.fma(x, lanes[v], acc[r][v]);
                }
            }
        }
        for r in 0..R {
            for v in 0..V {
                // SAFETY: as for the load.
                s.store(acc[r][v], unsafe { &mut *self.c.add(r * self.c_stride + lane + v * LANES).cast() });
            }
        }
    }
}
