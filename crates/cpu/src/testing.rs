//! Inputs and comparisons that the tests of all kernels share.

use crate::isa::Isa;

/// Lengths around the edges of a vector of 16 lanes, and some odd ones.
pub(crate) const EDGE_LENS: [usize; 12] = [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 100, 259];

/// A small generator (SplitMix64), for inputs that are the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Between -1 and 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn units(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }
}

/// Values of every kind: ordinary ones, any bit pattern, denormals, infinities, NaNs, zeros of both signs.
pub(crate) fn hard_f32s(n: usize, seed: u64) -> Vec<f32> {
    const SPECIAL: [f32; 10] = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-40,
        -1e-45,
        1.0,
    ];
    let mut random = Random::new(seed);
    let one = |random: &mut Random| match random.below(8) {
        0 => SPECIAL[random.below(SPECIAL.len())],
        1 => f32::from_bits(random.bits() as u32),
        2 => random.unit() * 100.0,
        _ => random.unit() * 4.0,
    };
    (0..n).map(|_| one(&mut random)).collect()
}

/// Runs `kernel` on every instruction set and compares the bits with the scalar ones, a NaN being equal to any NaN.
pub(crate) fn same_bits_on_all(what: &str, kernel: impl Fn(Isa) -> Vec<f32>) -> Vec<f32> {
    let expected = kernel(Isa::Scalar);
    for isa in Isa::available() {
        assert_same_bits(&format!("{what} on {isa}"), &kernel(isa), &expected);
    }
    expected
}

/// Equal bits in every element, a NaN being equal to any NaN.
pub(crate) fn assert_same_bits(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            g.to_bits() == e.to_bits() || g.is_nan() && e.is_nan(),
            "{what}: [{i}] is {g:e}, expected {e:e}"
        );
    }
}

/// Every element within `abs + rel * |expected|` of the f64 reference, which must not be all about zero.
pub(crate) fn assert_close(what: &str, got: &[f32], expected: &[f64], rel: f64, abs: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    assert!(expected.is_empty() || expected.iter().any(|x| x.abs() > 1e-3), "{what}: vacuous reference");
    for (i, (&g, &e)) in got.iter().zip(expected).enumerate() {
        assert!((f64::from(g) - e).abs() <= abs + rel * e.abs(), "{what}: [{i}] is {g:e}, expected {e:e}");
    }
}
