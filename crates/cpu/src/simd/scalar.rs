//! The definition: arrays of lanes and plain arithmetic.

use half::f16;

use super::{LANES, Simd};

/// Plain Rust, on any machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar;

type Lanes = [f32; LANES];

#[inline(always)]
fn lanes(f: impl Fn(usize) -> f32) -> Lanes {
    std::array::from_fn(f)
}

impl Simd for Scalar {
    type F = Lanes;
    type D = [f64; LANES];
    const OUTER_TILE: (usize, usize) = (1, 1);

    #[inline(always)]
    fn splat(self, x: f32) -> Lanes {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, src: &[f32; LANES]) -> Lanes {
        *src
    }

    #[inline(always)]
    fn store(self, x: Lanes, dst: &mut [f32; LANES]) {
        *dst = x;
    }

    #[inline(always)]
    fn load_f16(self, src: &[f16; LANES]) -> Lanes {
        lanes(|i| src[i].to_f32())
    }

    #[inline(always)]
    fn store_f16(self, x: Lanes, dst: &mut [f16; LANES]) {
        *dst = x.map(f16::from_f32);
    }

    #[inline(always)]
    fn load_i8(self, src: &[u8; LANES]) -> Lanes {
        lanes(|i| f32::from(src[i].cast_signed()))
    }

    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        lanes(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        lanes(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: Lanes, b: Lanes) -> Lanes {
        lanes(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: Lanes, b: Lanes) -> Lanes {
        lanes(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        lanes(|i| a[i].mul_add(b[i], c[i]))
    }

    #[inline(always)]
    fn max(self, a: Lanes, b: Lanes) -> Lanes {
        lanes(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(self, a: Lanes, b: Lanes) -> Lanes {
        lanes(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn swap_pairs(self, x: Lanes) -> Lanes {
        lanes(|i| x[i ^ 1])
    }

    /// Two factors, since one may be out of range; the first product is exact.
    #[inline(always)]
    fn mul_pow2(self, x: Lanes, n: Lanes) -> Lanes {
        let pow2 = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
        lanes(|i| {
            let n = n[i] as i32;
            x[i] * pow2(n >> 1) * pow2(n - (n >> 1))
        })
    }

    #[inline(always)]
    fn prefetch<T>(self, _at: *const T) {}

    #[inline(always)]
    fn zero_f64(self) -> Self::D {
        [0.0; LANES]
    }

    #[inline(always)]
    fn add_squares(self, acc: Self::D, x: Lanes) -> Self::D {
        std::array::from_fn(|i| acc[i] + f64::from(x[i]) * f64::from(x[i]))
    }

    #[inline(always)]
    fn to_f64s(self, x: Self::D) -> [f64; LANES] {
        x
    }
}
