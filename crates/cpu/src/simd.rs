//! One vector of 16 lanes, on every instruction set.
//!
//! A kernel is written once, over [`Simd`], in terms of 16 lanes: which element goes to which lane, and in what order
//! lanes are joined, is fixed by its text. Each operation is one correctly rounded IEEE operation per lane, so every
//! instruction set gives the same bits; [`Scalar`], arrays and plain arithmetic, is the definition to read.
//!
//! The bits of a NaN are the one exception: that a result is NaN is the same everywhere, its sign and payload are not.
//!
//! How it gets compiled: [`dispatch`] enters a function that has the CPU features, and everything below it is inlined
//! into that function. Hence `#[inline(always)]` on every method here and on every [`Kernel::run`]. The trap: a closure,
//! an adapter such as `array::map`, or a call such as `copy_from_slice` is a function of its own without the features,
//! and the compiler may refuse to inline it where they are on. Over slices of arrays (`as_chunks`) iterators are fine; in
//! the innermost loops, index. Getting it wrong costs a factor of ten (attention: 4 against 60 GFLOP/s), and no bit.

#![expect(unsafe_code, reason = "vector intrinsics")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use half::f16;

use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
pub(crate) use scalar::Scalar;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// An instruction set; the value proves that it can be used.
pub(crate) trait Simd: Copy {
    /// 16 lanes of f32.
    type F: Copy;
    /// 16 lanes of f64.
    type D: Copy;
    /// The tile of [`outer`](crate::ops::outer) that fits the registers: rows, vectors.
    const OUTER_TILE: (usize, usize);

    fn splat(self, x: f32) -> Self::F;
    fn load(self, src: &[f32; LANES]) -> Self::F;
    fn store(self, x: Self::F, dst: &mut [f32; LANES]);
    fn load_f16(self, src: &[f16; LANES]) -> Self::F;
    /// Rounds to the nearest f16, ties to even; too large values become infinite.
    fn store_f16(self, x: Self::F, dst: &mut [f16; LANES]);

    /// 16 signed bytes.
    fn load_i8(self, src: &[u8; LANES]) -> Self::F;

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`: with a NaN, `b`.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `if a < b { a } else { b }`: with a NaN, `b`.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// Exchanges lanes 2i and 2i + 1.
    fn swap_pairs(self, x: Self::F) -> Self::F;
    /// `x * 2^n` for 0.5 <= x < 2 and integral n in -250..=254, rounded once (into the denormals, to zero, to
    /// infinity). NaN in `x` or `n` gives NaN, provided that both are.
    fn mul_pow2(self, x: Self::F, n: Self::F) -> Self::F;

    /// Asks for a cache line before it is needed; any address will do, and nothing happens where it can't be asked.
    fn prefetch<T>(self, at: *const T);

    fn zero_f64(self) -> Self::D;
    /// `acc + x * x` in f64; the square of an f32 is exact there, so it is rounded once.
    fn add_squares(self, acc: Self::D, x: Self::F) -> Self::D;
    fn to_f64s(self, x: Self::D) -> [f64; LANES];

    #[inline(always)]
    fn to_f32s(self, x: Self::F) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        self.store(x, &mut out);
        out
    }

    /// The at most 16 elements of `src`, then `fill`.
    #[inline(always)]
    fn load_part(self, src: &[f32], fill: f32) -> Self::F {
        let mut lanes = [fill; LANES];
        lanes[..src.len()].copy_from_slice(src);
        self.load(&lanes)
    }

    /// The first `dst.len() <= 16` lanes.
    #[inline(always)]
    fn store_part(self, x: Self::F, dst: &mut [f32]) {
        let lanes = self.to_f32s(x);
        dst.copy_from_slice(&lanes[..dst.len()]);
    }
}

/// The sum of the lanes as a fixed tree: lane i with i + 8, then i + 4, i + 2, i + 1.
#[inline(always)]
pub(crate) fn sum_lanes<T: Copy + std::ops::Add<Output = T>>(mut x: [T; LANES]) -> T {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            x[i] = x[i] + x[i + half];
        }
    }
    x[0]
}

/// The largest lane, in the order of [`sum_lanes`]. NaN as in [`Simd::max`].
#[inline(always)]
pub(crate) fn max_lanes(mut x: [f32; LANES]) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            x[i] = if x[i] > x[i + half] { x[i] } else { x[i + half] };
        }
    }
    x[0]
}

/// Work to be compiled for each instruction set: a function with its arguments.
pub(crate) trait Kernel {
    type Out;
    /// Must be `#[inline(always)]`, see the module's header.
    fn run<S: Simd>(self, s: S) -> Self::Out;
}

/// Runs `kernel` on `isa`.
pub(crate) fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c,bmi2")]
    fn on_avx2<K: Kernel>(token: Avx2, kernel: K) -> K::Out {
        kernel.run(token)
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
    fn on_avx512<K: Kernel>(token: Avx512, kernel: K) -> K::Out {
        kernel.run(token)
    }
    match isa {
        Isa::Scalar => kernel.run(Scalar),
        // SAFETY: the token proves that the CPU has these features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(token) => unsafe { on_avx2(token, kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vnni(token) => unsafe { on_avx512(token, kernel) },
    }
}

#[cfg(test)]
mod tests;
