//! Element by element: one or two inputs, every output from the elements at its place.

use crate::error::KernelError;
use crate::isa::Isa;
use crate::simd::{Kernel, LANES, Simd, dispatch};

/// A function of one element. `apply` must be `#[inline(always)]`.
pub(crate) trait Unary: Copy {
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F;
}

/// A function of two elements. `apply` must be `#[inline(always)]`.
pub(crate) trait Binary: Copy {
    fn apply<S: Simd>(self, s: S, x: S::F, y: S::F) -> S::F;
}

/// `out[i] = f(x[i])`.
pub(crate) fn unary<U: Unary>(isa: Isa, f: U, x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    KernelError::check_len("out", out.len(), x.len())?;
    dispatch(isa, MapUnary { f, x, out });
    Ok(())
}

/// `x[i] = f(x[i])`.
pub(crate) fn unary_in_place<U: Unary>(isa: Isa, f: U, x: &mut [f32]) {
    dispatch(isa, MapUnaryInPlace { f, x });
}

/// `out[i] = f(x[i], y[i mod len(y)])`: `y` is repeated for every row of its length.
pub(crate) fn binary<B: Binary>(
    isa: Isa,
    f: B,
    x: &[f32],
    y: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    KernelError::check_rows("x", x.len(), y.len())?;
    KernelError::check_len("out", out.len(), x.len())?;
    dispatch(isa, MapBinary { f, x, y, out });
    Ok(())
}

struct MapUnary<'a, U> {
    f: U,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl<U: Unary> Kernel for MapUnary<'_, U> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (x, x_rest) = self.x.as_chunks::<LANES>();
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        for (x, out) in x.iter().zip(out) {
            s.store(self.f.apply(s, s.load(x)), out);
        }
        s.store_part(self.f.apply(s, s.load_part(x_rest, 0.0)), out_rest);
    }
}

struct MapUnaryInPlace<'a, U> {
    f: U,
    x: &'a mut [f32],
}

impl<U: Unary> Kernel for MapUnaryInPlace<'_, U> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (x, rest) = self.x.as_chunks_mut::<LANES>();
        for x in x {
            s.store(self.f.apply(s, s.load(x)), x);
        }
        s.store_part(self.f.apply(s, s.load_part(rest, 0.0)), rest);
    }
}

struct MapBinary<'a, B> {
    f: B,
    x: &'a [f32],
    y: &'a [f32],
    out: &'a mut [f32],
}

impl<B: Binary> Kernel for MapBinary<'_, B> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let row_len = self.y.len().max(1);
        let (y, y_rest) = self.y.as_chunks::<LANES>();
        for (x, out) in self.x.chunks_exact(row_len).zip(self.out.chunks_exact_mut(row_len)) {
            let (x, x_rest) = x.as_chunks::<LANES>();
            let (out, out_rest) = out.as_chunks_mut::<LANES>();
            for ((x, y), out) in x.iter().zip(y).zip(out) {
                s.store(self.f.apply(s, s.load(x), s.load(y)), out);
            }
            s.store_part(self.f.apply(s, s.load_part(x_rest, 0.0), s.load_part(y_rest, 0.0)), out_rest);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::error::KernelError;
    use crate::isa::Isa;
    use crate::testing::{EDGE_LENS, assert_same_bits, hard_f32s, same_bits_on_all};

    type ToOut = fn(Isa, &[f32], &[f32], &mut [f32]) -> Result<(), KernelError>;

    /// What every binary op must do: the bits of `define` at every edge length, on every instruction set, with `y` as long as `x` and repeated over 3 rows; and refuse lengths that don't fit.
    pub(crate) fn check_binary(to_out: ToOut, define: fn(f32, f32) -> f32) {
        for len in EDGE_LENS {
            for n_rows in [1, 3] {
                let (x, y) = (hard_f32s(len * n_rows, len as u64 + 5), hard_f32s(len, len as u64 + 6));
                let out = same_bits_on_all("binary op", |isa| {
                    let mut out = vec![7.0; x.len()];
                    to_out(isa, &x, &y, &mut out).unwrap();
                    out
                });
                let defined = x.iter().enumerate().map(|(i, &x)| define(x, y[i % len.max(1)]));
                assert_same_bits("definition", &out, &defined.collect::<Vec<_>>());
            }
        }
        let wrong_rows = KernelError::Rows { what: "x", row_len: 3, got: 7 };
        assert_eq!(to_out(Isa::Scalar, &[0.0; 7], &[0.0; 3], &mut [0.0; 7]), Err(wrong_rows));
        let wrong_out = KernelError::Length { what: "out", expected: 6, got: 5 };
        assert_eq!(to_out(Isa::Scalar, &[0.0; 6], &[0.0; 3], &mut [0.0; 5]), Err(wrong_out));
    }

    /// The same for unary ops.
    pub(crate) fn check_unary(
        to_out: impl Fn(Isa, &[f32], &mut [f32]) -> Result<(), KernelError>,
        in_place: impl Fn(Isa, &mut [f32]),
    ) {
        for len in EDGE_LENS {
            let x = hard_f32s(len, len as u64 + 7);
            same_bits_on_all("unary op", |isa| {
                let mut out = vec![7.0; len];
                to_out(isa, &x, &mut out).unwrap();
                let mut place = x.clone();
                in_place(isa, &mut place);
                assert_same_bits("in place", &place, &out);
                out
            });
        }
        let wrong_out = KernelError::Length { what: "out", expected: 6, got: 5 };
        assert_eq!(to_out(Isa::Scalar, &[0.0; 6], &mut [0.0; 5]), Err(wrong_out));
    }
}
