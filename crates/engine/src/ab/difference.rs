//! How far two rows of numbers are apart.

/// The largest difference of some kind and where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worst {
    /// Its size.
    pub size: f64,
    /// Position of the token in the sequence.
    pub token: usize,
    /// Which element of the token's value.
    pub index: usize,
    /// The element on the first side.
    pub a: f32,
    /// The element on the second side.
    pub b: f32,
}

/// A difference, summed up over tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Elements measured.
    pub n_elems: usize,
    /// Elements whose bits differ.
    pub n_differing: usize,
    /// The largest `|a - b|`.
    pub absolute: Worst,
    /// The largest `|a - b| / max(|a|, |b|)`.
    pub relative: Worst,
    /// The most representable numbers between `a` and `b`.
    pub ulps: Worst,
}

impl Difference {
    /// Adds the values of a token.
    pub(super) fn add(&mut self, token: usize, a: &[f32], b: &[f32]) {
        self.n_elems += a.len().min(b.len());
        for (index, (&a, &b)) in a.iter().zip(b).enumerate() {
            if a.to_bits() == b.to_bits() {
                continue;
            }
            self.n_differing += 1;
            let (x, y) = (f64::from(a), f64::from(b));
            // NaN on one side is as far away as can be.
            let absolute = if a.is_nan() || b.is_nan() { f64::INFINITY } else { (x - y).abs() };
            let largest = x.abs().max(y.abs());
            let relative = if absolute == 0.0 { 0.0 } else { absolute / largest };
            let relative = if relative.is_nan() { f64::INFINITY } else { relative };
            for (worst, size) in [
                (&mut self.absolute, absolute),
                (&mut self.relative, relative),
                (&mut self.ulps, ulps(a, b) as f64),
            ] {
                if size > worst.size || self.n_differing == 1 {
                    *worst = Worst { size, token, index, a, b };
                }
            }
        }
    }
}

/// Representable numbers from `a` to `b`; 0 and -0 are one apart.
fn ulps(a: f32, b: f32) -> u64 {
    // Negative numbers count down from zero, so that neighbours differ by one across it.
    let place = |x: f32| {
        let bits = i64::from(x.to_bits() & 0x7fff_ffff);
        if x.is_sign_negative() { -1 - bits } else { bits }
    };
    place(a).abs_diff(place(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_ulp_apart() {
        for (a, b, n) in [
            (1.0, 1.0, 0),
            (1.0, f32::from_bits(1.0f32.to_bits() + 1), 1),
            (0.0, -0.0, 1),
            (f32::from_bits(1), -f32::from_bits(1), 3),
            (2.0, 4.0, 1 << 23),
        ] {
            assert_eq!((ulps(a, b), ulps(b, a)), (n, n), "{a} {b}");
        }
    }

    #[test]
    fn the_largest_of_each_kind_is_kept_with_its_place() {
        let mut d = Difference::default();
        d.add(4, &[1.0, 0.5, 100.0], &[1.0, 0.75, 101.0]);
        d.add(7, &[1e-9, -3.0], &[-1e-9, -3.0]);
        assert_eq!((d.n_elems, d.n_differing), (5, 3));
        assert_eq!((d.absolute.size, d.absolute.token, d.absolute.index), (1.0, 4, 2));
        assert_eq!((d.relative.size, d.relative.token, d.relative.index), (2.0, 7, 0));
        assert_eq!((d.ulps.token, d.ulps.a, d.ulps.b), (7, 1e-9, -1e-9));
        let mut d = Difference::default();
        d.add(0, &[1.0], &[f32::NAN]);
        assert_eq!((d.absolute.size, d.relative.size), (f64::INFINITY, f64::INFINITY));
    }
}
