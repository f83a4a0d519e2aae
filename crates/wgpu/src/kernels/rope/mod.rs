//! Rotary position embedding, alone and fused with what surrounds it in a decode step.

use minfer_graph::{KvType, RopeFrequencies, RopeStyle};

use super::attention::{self, CACHE, kv_label, pieces_label, regions};
use super::rows::STATUS;
use super::{Constant, Kernel};

const ANGLE: &str = include_str!("angle.wgsl");

/// Rotates heads.
pub(crate) fn rope(style: RopeStyle) -> Kernel {
    let constants = [("NEOX", Constant::Bool(style == RopeStyle::Neox))];
    let pieces = [ANGLE, STATUS, include_str!("rope.wgsl")];
    Kernel::new(format!("f32-rope-{}", label(style)), &constants, &pieces)
}

/// Biases, rotation and stores behind a fused projection, into regions in so many pieces.
pub(crate) fn bias_rope_store(style: RopeStyle, bias: bool, kv: KvType, n_pieces: usize) -> Kernel {
    let [f16, in_pieces] = attention::constants(kv, n_pieces);
    let neox = ("NEOX", Constant::Bool(style == RopeStyle::Neox));
    let with = if bias { "bias_" } else { "" };
    let name = format!("{}-{with}rope_store-{}{}", kv_label(kv), label(style), pieces_label(n_pieces));
    let regions = regions(attention::OTHER_BINDINGS, &["keys", "values"], n_pieces);
    let pieces = [ANGLE, CACHE, STATUS, include_str!("bias_rope_store.wgsl"), &regions];
    Kernel::new(name, &[neox, ("BIAS", Constant::Bool(bias)), f16, in_pieces], &pieces)
}

fn label(style: RopeStyle) -> &'static str {
    match style {
        RopeStyle::Interleaved => "interleaved",
        RopeStyle::Neox => "neox",
    }
}

/// The frequencies as the kernels take them: for each pair the upper and the lower half of a fraction of a turn per
/// position, in 64 bits.
pub(crate) fn turns(frequencies: &RopeFrequencies) -> Vec<u32> {
    let halves = |radians: &f64| {
        let turn = (radians / (2.0 * std::f64::consts::PI)).rem_euclid(1.0);
        let fixed = (turn * 2f64.powi(64)) as u64;
        [(fixed >> 32) as u32, fixed as u32]
    };
    frequencies.per_position.iter().flat_map(halves).collect()
}

#[cfg(test)]
pub(super) fn all() -> Vec<Kernel> {
    let styles = [RopeStyle::Interleaved, RopeStyle::Neox];
    let mut kernels: Vec<_> = styles.into_iter().map(rope).collect();
    for style in styles {
        for bias in [false, true] {
            for n in [1, 2, attention::MAX_PIECES] {
                kernels.extend([KvType::F16, KvType::F32].map(|kv| bias_rope_store(style, bias, kv, n)));
            }
        }
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_fractions_in_64_bits() {
        let quarter = std::f64::consts::FRAC_PI_2;
        let f = RopeFrequencies { per_position: vec![quarter, 5.0 * quarter, 0.0], magnitude: 1.0 };
        let turns = turns(&f);
        assert_eq!(turns[0], 1 << 30);
        assert_eq!(turns[2] >> 28, 4);
        assert_eq!(turns[4..], [0, 0]);
    }
}
