//! Inputs and weights that are the same in every run, and cover signs, sizes and every code of a block format.

use std::collections::HashMap;

use minfer_gguf::{QuantError, TensorType, can_quantize, dequantize, quantize, scale_offsets};
use minfer_graph::{WeightData, WeightRef, WeightSource};

use crate::weights::next_version;

/// A xorshift generator.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From -1 to 1.
    pub(super) fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Mostly of moderate size, with zeros of both signs and a few that are very small or large.
    pub(super) fn floats(&mut self, n: usize) -> Vec<f32> {
        let one = |_| match self.next() % 32 {
            0 => 0.0,
            1 => -0.0,
            2 => self.signed() * 1e-20,
            3 => self.signed() * 50.0,
            _ => self.signed() * 2.0,
        };
        (0..n).map(one).collect()
    }
}

/// Weights of a case.
pub(super) struct Weights {
    version: u64,
    all: HashMap<String, (TensorType, [usize; 4], Vec<u8>)>,
}

impl Weights {
    /// No weights, with a version that no others have: a driver keeps weights by version and name.
    pub(super) fn new() -> Self {
        Weights { version: next_version(), all: HashMap::new() }
    }

    /// Adds a weight of random content.
    pub(super) fn add(
        &mut self,
        name: &str,
        dtype: TensorType,
        shape: [usize; 2],
        random: &mut Random,
    ) -> WeightRef {
        let shape = [shape[0], shape[1], 1, 1];
        let bytes = blocks(dtype, shape[0] * shape[1], random);
        self.all.insert(name.into(), (dtype, shape, bytes));
        WeightRef { name: name.into(), dtype, shape }
    }

    /// The same numbers as F32.
    pub(super) fn plain(&self) -> Result<Weights, QuantError> {
        let mut plain = Weights::new();
        for (name, (dtype, shape, bytes)) in &self.all {
            let mut values = vec![0.0f32; shape.iter().product()];
            dequantize(*dtype, bytes, &mut values)?;
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            plain.all.insert(name.clone(), (TensorType::F32, *shape, bytes));
        }
        Ok(plain)
    }

    /// Makes every number of an F32 weight at least one half.
    pub(super) fn make_positive(&mut self, name: &str) {
        let Some((TensorType::F32, _, bytes)) = self.all.get_mut(name) else { return };
        for word in bytes.as_chunks_mut::<4>().0 {
            *word = (f32::from_le_bytes(*word).abs() + 0.5).to_le_bytes();
        }
    }
}

impl WeightSource for Weights {
    fn version(&self) -> u64 {
        self.version
    }

    fn weight(&self, name: &str) -> Option<WeightData<'_>> {
        self.all.get(name).map(|(dtype, shape, bytes)| WeightData { dtype: *dtype, shape: *shape, bytes })
    }
}

/// Blocks of `n` elements: quantized numbers where there is a quantizer, else random codes under sensible scales.
fn blocks(dtype: TensorType, n: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; n / dtype.block_elems() * dtype.block_bytes()];
    if can_quantize(dtype) {
        let values: Vec<f32> = (0..n).map(|_| random.signed()).collect();
        // Sizes fit by construction, so this cannot fail; if it did, zeros would be a case as well.
        let _ = quantize(dtype, &values, &mut bytes);
        return bytes;
    }
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        block.iter_mut().for_each(|b| *b = (random.next() >> 32) as u8);
        match scale_offsets(dtype) {
            Some(offsets) => {
                for at in offsets {
                    let scale = half::f16::from_f32(random.signed() * 0.01);
                    block[*at..*at + 2].copy_from_slice(&scale.to_le_bytes());
                }
            }
            // MXFP4 begins with an exponent.
            None => block[0] = 120 + (random.next() % 10) as u8,
        }
    }
    bytes
}
