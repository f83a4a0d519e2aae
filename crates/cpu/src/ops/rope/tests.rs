use minfer_graph::RopeScaling;

use super::*;
use crate::testing::{Random, assert_close, hard_f32s, same_bits_on_all};

/// Two products and a sum of elements up to 1, each rounded by half a unit, and factors rounded by half a unit.
const ROPE_ABS: f64 = 3.0 * f32::EPSILON as f64;

const STYLES: [RopeStyle; 2] = [RopeStyle::Interleaved, RopeStyle::Neox];

fn spec(style: RopeStyle, n_rot: usize) -> RopeSpec {
    let scaling = RopeScaling::None;
    RopeSpec { style, head_dim: n_rot, n_rot, freq_base: 10000.0, scaling, freq_factors: false }
}

fn table(style: RopeStyle, n_rot: usize, positions: &[i32]) -> RopeTable {
    let mut table = RopeTable::new(&spec(style, n_rot), None).unwrap();
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
                    RopeStyle::Interleaved => (2 * i, 2 * i + 1),
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

#[test]
fn a_prepared_table_follows_the_positions() {
    let mut table = table(RopeStyle::Interleaved, 8, &[3, 4]);
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
    let odd = RopeTable::new(&spec(RopeStyle::Interleaved, 7), None);
    assert!(matches!(odd, Err(KernelError::Parameter { .. })));
    let too_few = RopeTable::new(&spec(RopeStyle::Interleaved, 16), Some(&[1.0; 7]));
    assert_eq!(
        too_few.unwrap_err(),
        KernelError::Length { what: "rope frequency factors", expected: 8, got: 7 }
    );
    let table = table(RopeStyle::Interleaved, 8, &[0, 1]);
    let isa = Isa::Scalar;
    let too_many = rope_in_place(isa, &table, 0..3, 8, &mut [0.0; 24]);
    assert_eq!(too_many, Err(KernelError::Index { what: "end of tokens", index: 3, at: 0, limit: 3 }));
    let too_short = rope_in_place(isa, &table, 0..2, 6, &mut [0.0; 12]);
    assert!(matches!(too_short, Err(KernelError::Parameter { what: "head_dim", .. })));
    let ragged = rope_in_place(isa, &table, 0..2, 8, &mut [0.0; 24]);
    assert_eq!(ragged, Err(KernelError::Rows { what: "x", row_len: 16, got: 24 }));
}
