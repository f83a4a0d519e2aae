use super::*;

/// Applies every operation to three vectors, in a fixed order.
struct All<'a> {
    a: &'a [f32; LANES],
    b: &'a [f32; LANES],
    c: &'a [f32; LANES],
}

impl Kernel for All<'_> {
    type Out = Vec<(&'static str, [f64; LANES])>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Out {
        let (a, b, c) = (s.load(self.a), s.load(self.b), s.load(self.c));
        let mut half = [f16::ZERO; LANES];
        s.store_f16(a, &mut half);
        let halves = half.map(|x| f64::from(x.to_f32()));
        let widen = |x: S::F| s.to_f32s(x).map(f64::from);
        vec![
            ("splat", widen(s.splat(self.a[3]))),
            ("add", widen(s.add(a, b))),
            ("sub", widen(s.sub(a, b))),
            ("mul", widen(s.mul(a, b))),
            ("div", widen(s.div(a, b))),
            ("fma", widen(s.fma(a, b, c))),
            ("max", widen(s.max(a, b))),
            ("min", widen(s.min(a, b))),
            ("swap_pairs", widen(s.swap_pairs(a))),
            ("store_f16", halves),
            ("load_f16", widen(s.load_f16(&half))),
            ("load_i8", widen(s.load_i8(&self.a.map(|x| x.to_bits().to_le_bytes()[0])))),
            ("load_part", widen(s.load_part(&self.a[..5], 2.0))),
            ("add_squares", s.to_f64s(s.add_squares(s.add_squares(s.zero_f64(), a), b))),
        ]
    }
}

/// `x * 2^n` for each pair.
struct MulPow2<'a> {
    x: &'a [f32; LANES],
    n: &'a [f32; LANES],
}

impl Kernel for MulPow2<'_> {
    type Out = [f32; LANES];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [f32; LANES] {
        s.to_f32s(s.mul_pow2(s.load(self.x), s.load(self.n)))
    }
}

#[test]
fn every_operation_gives_the_bits_of_the_definition() {
    let values = crate::testing::hard_f32s(4096, 1);
    for chunk in values.chunks_exact(3 * LANES) {
        let vector = |i: usize| -> [f32; LANES] { std::array::from_fn(|lane| chunk[3 * lane + i]) };
        let (a, b, c) = (vector(0), vector(1), vector(2));
        let expected = dispatch(Isa::Scalar, All { a: &a, b: &b, c: &c });
        for isa in Isa::available() {
            let got = dispatch(isa, All { a: &a, b: &b, c: &c });
            for ((name, want), (_, got)) in expected.iter().zip(&got) {
                let equal =
                    want.iter().zip(got).all(|(w, g)| w.to_bits() == g.to_bits() || w.is_nan() && g.is_nan());
                assert!(equal, "{name} on {isa}: a {a:?} b {b:?} c {c:?}: {got:?}, defined as {want:?}");
            }
        }
    }
}

#[test]
fn scaling_by_powers_of_two_rounds_once() {
    for step in 0..2000usize {
        let x = std::array::from_fn(|i| 0.5 + (step * LANES + i) as f32 * 4.6e-5);
        let n = std::array::from_fn(|i| (((step * 7 + i * 31) % 505) as i32 - 250) as f32);
        for isa in Isa::available() {
            let got = dispatch(isa, MulPow2 { x: &x, n: &n });
            for i in 0..LANES {
                let exact = f64::from(x[i]) * f64::from(n[i]).exp2();
                assert_eq!(got[i].to_bits(), (exact as f32).to_bits(), "{} * 2^{} on {isa}", x[i], n[i]);
            }
        }
    }
}

#[test]
fn all_halves_convert_like_the_half_crate() {
    struct Widen<'a>(&'a [f16; LANES]);
    impl Kernel for Widen<'_> {
        type Out = [f32; LANES];
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> [f32; LANES] {
            s.to_f32s(s.load_f16(self.0))
        }
    }
    for first in (0..=u16::MAX).step_by(LANES) {
        let halves = std::array::from_fn(|i| f16::from_bits(first + i as u16));
        for isa in Isa::available() {
            let got = dispatch(isa, Widen(&halves));
            for (x, h) in got.iter().zip(halves) {
                assert_eq!(x.to_bits(), h.to_f32().to_bits(), "{:#06x} on {isa}", h.to_bits());
                // What the crate does on machines without an instruction for it.
                assert_eq!(x.to_bits(), h.to_f32_const().to_bits(), "{:#06x} in software", h.to_bits());
            }
        }
    }
}

#[test]
fn floats_round_to_halves_like_the_half_crate() {
    struct Narrow<'a>(&'a [f32; LANES]);
    impl Kernel for Narrow<'_> {
        type Out = [f16; LANES];
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> [f16; LANES] {
            let mut out = [f16::ZERO; LANES];
            s.store_f16(s.load(self.0), &mut out);
            out
        }
    }
    // Every f16 value's neighbourhood: the value, the midpoint to the next (a tie), and just beside both.
    let mut values = crate::testing::hard_f32s(4096, 2);
    for bits in 0..=u16::MAX {
        let x = f16::from_bits(bits).to_f32().to_bits();
        values.extend([x, x + 1, x.wrapping_sub(1), x + 0x0FFF, x + 0x1000, x + 0x1001].map(f32::from_bits));
    }
    for chunk in values.as_chunks::<LANES>().0 {
        for isa in Isa::available() {
            let got = dispatch(isa, Narrow(chunk));
            for (h, x) in got.iter().zip(chunk) {
                assert_eq!(h.to_bits(), f16::from_f32(*x).to_bits(), "{:#010x} on {isa}", x.to_bits());
                // What the crate does on machines without an instruction for it.
                assert_eq!(
                    h.to_bits(),
                    f16::from_f32_const(*x).to_bits(),
                    "{:#010x} in software",
                    x.to_bits()
                );
            }
        }
    }
}

#[test]
fn lanes_are_joined_as_a_tree() {
    let x: [f32; LANES] = std::array::from_fn(|i| 1.0 + (i * i) as f32 * 1e-7);
    let eight: Vec<f32> = (0..8).map(|i| x[i] + x[i + 8]).collect();
    let four: Vec<f32> = (0..4).map(|i| eight[i] + eight[i + 4]).collect();
    let expected = (four[0] + four[2]) + (four[1] + four[3]);
    assert_eq!(sum_lanes(x).to_bits(), expected.to_bits());
    assert_eq!(max_lanes(x), x[15]);
}
