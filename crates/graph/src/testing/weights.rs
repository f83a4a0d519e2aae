//! Weights made by a test.

use std::collections::HashMap;

use minfer_gguf::TensorType;

use crate::driver::{WeightData, WeightSource};
use crate::op::WeightRef;

/// Named F32 weights.
#[derive(Clone, Default)]
pub struct MapWeights {
    weights: HashMap<String, (TensorType, [usize; 4], Vec<u8>)>,
    version: u64,
}

impl MapWeights {
    /// No weights, with this version.
    pub fn new(version: u64) -> Self {
        MapWeights { version, ..Self::default() }
    }

    /// Adds an F32 weight; gives the reference to name it by.
    pub fn add(&mut self, name: &str, shape: [usize; 4], values: &[f32]) -> WeightRef {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.add_raw(name, TensorType::F32, shape, bytes)
    }

    /// Adds a weight of any type from its bytes.
    pub fn add_raw(&mut self, name: &str, dtype: TensorType, shape: [usize; 4], bytes: Vec<u8>) -> WeightRef {
        self.weights.insert(name.into(), (dtype, shape, bytes));
        WeightRef { name: name.into(), dtype, shape }
    }
}

impl WeightSource for MapWeights {
    fn version(&self) -> u64 {
        self.version
    }

    fn weight(&self, name: &str) -> Option<WeightData<'_>> {
        self.weights.get(name).map(|(dtype, shape, bytes)| WeightData { dtype: *dtype, shape: *shape, bytes })
    }
}
