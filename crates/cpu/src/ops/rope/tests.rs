use super::*;
use crate::testing::{Random, assert_close, hard_f32s, same_bits_on_all};

/// Two products and a sum of elements up to 1, each rounded by half a unit, and factors rounded by half a unit.
const ROPE_ABS: f64 = 3.0 * f32::EPSILON as f64;

const YARN: RopeScaling = RopeScaling::Yarn {
    factor: 4.0,
    orig_ctx: 4096,
    ext_factor: 1.0,
    attn_factor: 1.0,
    beta_fast: 32.0,
    beta_slow: 1.0,
};

const STYLES: [RopeStyle; 2] = [RopeStyle::Norm, RopeStyle::Neox];

fn params(style: RopeStyle, n_rot: usize, scaling: RopeScaling) -> RopeParams {
    RopeParams { style, n_rot, freq_base: 10000.0, scaling }
}

fn table(style: RopeStyle, n_rot: usize, positions: &[i32]) -> RopeTable {
    let mut table = RopeTable::new(&params(style, n_rot, RopeScaling::None), None).unwrap();
    table.prepare(positions).unwrap();
    table
}

#[test]
fn rope_has_the_same_bits_everywhere() {
    let positions = [0, 1, 77, 40000];
    for style in STYLES {
        for (head_dim, n_rot) in [(2, 2), (64, 64), (40, 40), (80, 32), (66, 34), (128, 0), (30, 30)] {
            let table = table(style, n_rot, &positions);
            let x = hard_f32s(4 * 3 * head_dim, head_dim as u64);
            let all = same_bits_on_all("rope", |isa| {
                let mut out = vec![0.0; x.len()];
                rope(isa, &table, 0..4, head_dim, &x, &mut out).unwrap();
                out
            });
            let mut part = x[3 * head_dim..9 * head_dim].to_vec();
            rope_in_place(Isa::detect(), &table, 1..3, head_dim, &mut part).unwrap();
            crate::testing::assert_same_bits("part", &part, &all[3 * head_dim..9 * head_dim]);
        }
    }
}

#[test]
fn rope_turns_pairs_and_copies_the_rest() {
    let (head_dim, n_rot, position) = (80, 48, 1234);
    for style in STYLES {
        let x = Random::new(9).units(2 * head_dim);
        let mut out = vec![0.0; x.len()];
        rope(Isa::detect(), &table(style, n_rot, &[position]), 0..1, head_dim, &x, &mut out).unwrap();
        let mut exact: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        for head in exact.chunks_mut(head_dim) {
            for i in 0..n_rot / 2 {
                let (a, b) = match style {
                    RopeStyle::Norm => (2 * i, 2 * i + 1),
                    RopeStyle::Neox => (i, i + n_rot / 2),
                };
                let angle = f64::from(position) * 10000f64.powf(-2.0 * i as f64 / n_rot as f64);
                let (x, y) = (head[a], head[b]);
                head[a] = x * angle.cos() - y * angle.sin();
                head[b] = x * angle.sin() + y * angle.cos();
            }
        }
        assert_close("rope", &out, &exact, 0.0, ROPE_ABS);
        assert_eq!(out[n_rot..head_dim], x[n_rot..head_dim]);
    }
}

/// Frequencies of the first, a middle and the last pair, and the magnitude, as the reference implementation in float
/// (`oracle.py`, class `Rope`) gives them for `n_rot` 64, base 10000.
#[test]
fn scaled_frequencies_agree_with_the_reference() {
    let check = |scaling, expected: [f64; 4]| {
        let (f, magnitude) = frequencies::frequencies(&params(RopeStyle::Neox, 64, scaling), None).unwrap();
        let got = [f[0], f[15], f[31], magnitude];
        for (g, e) in got.iter().zip(expected) {
            assert!((g / e - 1.0).abs() < 1e-12, "{scaling:?}: {got:?}, expected {expected:?}");
        }
    };
    check(RopeScaling::None, ORACLE_NONE);
    check(RopeScaling::Linear { factor: 4.0 }, ORACLE_LINEAR);
    check(YARN, ORACLE_YARN);
}

const ORACLE_NONE: [f64; 4] = [1.0, 0.01333521432163324, 0.0001333521432163324, 1.0];
const ORACLE_LINEAR: [f64; 4] = [0.25, 0.00333380358040831, 3.33380358040831e-05, 1.0];
const ORACLE_YARN: [f64; 4] = [1.0, 0.009488517882700576, 3.33380358040831e-05, 1.138629436111989];

#[test]
fn yarn_without_extrapolation_is_linear() {
    let RopeScaling::Yarn { factor, orig_ctx, attn_factor, beta_fast, beta_slow, .. } = YARN else {
        unreachable!()
    };
    let scaling = RopeScaling::Yarn { factor, orig_ctx, ext_factor: 0.0, attn_factor, beta_fast, beta_slow };
    let yarn = frequencies::frequencies(&params(RopeStyle::Neox, 64, scaling), None).unwrap();
    let linear = frequencies::frequencies(&params(RopeStyle::Neox, 64, RopeScaling::Linear { factor }), None);
    assert_eq!(yarn, linear.unwrap());
}

#[test]
fn frequency_factors_divide() {
    let divisors: Vec<f32> = (0..8).map(|i| 1.0 + i as f32).collect();
    let plain = params(RopeStyle::Norm, 16, RopeScaling::None);
    let (without, _) = frequencies::frequencies(&plain, None).unwrap();
    let (with, _) = frequencies::frequencies(&plain, Some(&divisors)).unwrap();
    for i in 0..8 {
        assert_eq!(with[i], without[i] / f64::from(divisors[i]));
    }
    let error = RopeTable::new(&plain, Some(&divisors[..7])).unwrap_err();
    assert_eq!(error, KernelError::Length { what: "rope frequency factors", expected: 8, got: 7 });
}

#[test]
fn a_prepared_table_follows_the_positions() {
    let mut table = table(RopeStyle::Norm, 8, &[3, 4]);
    let before = table.factors.clone();
    table.prepare(&[3, 4]).unwrap();
    assert_eq!(table.factors, before);
    table.prepare(&[4]).unwrap();
    assert_eq!((table.n_tokens(), &table.factors[..]), (1, &before[16..]));
    let error = table.prepare(&[4, -1]).unwrap_err();
    assert!(matches!(error, KernelError::Index { what: "position", index: -1, at: 1, .. }));
}

#[test]
fn nonsense_is_refused() {
    let bad = [
        RopeParams { n_rot: 7, ..params(RopeStyle::Norm, 8, RopeScaling::None) },
        RopeParams { freq_base: 0.0, ..params(RopeStyle::Norm, 8, RopeScaling::None) },
        RopeParams { freq_base: f64::NAN, ..params(RopeStyle::Norm, 8, RopeScaling::None) },
        params(RopeStyle::Norm, 8, RopeScaling::Linear { factor: 0.0 }),
        RopeParams { freq_base: 1.0, ..params(RopeStyle::Norm, 8, YARN) },
    ];
    for params in bad {
        assert!(matches!(RopeTable::new(&params, None), Err(KernelError::Parameter { .. })), "{params:?}");
    }
    let table = table(RopeStyle::Norm, 8, &[0, 1]);
    let isa = Isa::Scalar;
    let too_many = rope_in_place(isa, &table, 0..3, 8, &mut [0.0; 24]);
    assert_eq!(too_many, Err(KernelError::Index { what: "end of tokens", index: 3, at: 0, limit: 3 }));
    let too_short = rope_in_place(isa, &table, 0..2, 6, &mut [0.0; 12]);
    assert!(matches!(too_short, Err(KernelError::Parameter { what: "head_dim", .. })));
    let ragged = rope_in_place(isa, &table, 0..2, 8, &mut [0.0; 24]);
    assert_eq!(ragged, Err(KernelError::Rows { what: "x", row_len: 16, got: 24 }));
}
