//! Weights as the kernels read them: matrices in panels, vectors as f32. Each is made once and kept for all graphs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use minfer_gguf::{TensorType, dequantize};
use minfer_graph::{KernelFault, Op, WeightData, WeightSource, WeightUse};

use crate::buf::{AlignedBuf, Arena, OutOfMemory};
use crate::matmul::{PackError, PackedMatrix, Packer};
use crate::pool::Pool;
use crate::pool::{Cost, piece_range};

/// Time to pack one byte, in picoseconds: only decides into how many pieces the work is cut.
const PACK_PS: u64 = 300;

/// Small matrices share arenas, so that they lie on huge pages. What is never written costs no memory, but it counts where
/// the address space is limited: the first arena is small, and each is as large as all before it, up to this.
const ARENA_BYTES: usize = 64 << 20;
const FIRST_ARENA_BYTES: usize = 4 << 20;

/// Raw bytes packed before their pages go.
const STRETCH_BYTES: usize = 8 << 20;

/// Whether the op reads this weight as a vector.
pub(super) fn is_vector(op: &Op, index: usize) -> bool {
    match op {
        Op::FusedQkvNorm { .. } => index >= 3,
        Op::Add | Op::RmsNorm { .. } | Op::QkNorm { .. } | Op::Rope(_) => true,
        Op::QkvBiasRopeStore { .. } => true,
        _ => false,
    }
}

/// The types of vectors.
pub(super) fn supports_vector(dtype: TensorType) -> bool {
    matches!(dtype, TensorType::F32 | TensorType::F16 | TensorType::BF16)
}

#[derive(Clone)]
enum Weight {
    Matrix(Arc<PackedMatrix>),
    Vector(Arc<Vec<f32>>),
}

/// Weights by version and name.
#[derive(Default)]
pub(super) struct WeightCache(Mutex<Made>);

#[derive(Default)]
struct Made {
    weights: HashMap<(u64, Box<str>), Weight>,
    memory: Memory,
}

/// Where the next small matrix goes.
#[derive(Default)]
struct Memory {
    arena: Option<Arena>,
    /// Bytes of all arenas so far.
    n_mapped: usize,
}

impl Memory {
    fn take(&mut self, len: usize) -> Result<AlignedBuf, OutOfMemory> {
        if len > ARENA_BYTES / 4 {
            return AlignedBuf::zeroed(len);
        }
        if let Some(Ok(piece)) = self.arena.as_mut().map(|arena| arena.take(len)) {
            return Ok(piece);
        }
        // Room for a few of the same size: the rest of the arena before is lost.
        let capacity = self.n_mapped.clamp(FIRST_ARENA_BYTES, ARENA_BYTES).max(4 * len);
        self.n_mapped += capacity;
        self.arena.insert(Arena::with_capacity(capacity)?).take(len)
    }
}

impl WeightCache {
    pub(super) fn matrix(
        &self,
        name: &str,
        source: &dyn WeightSource,
        pool: &Pool,
    ) -> Result<Arc<PackedMatrix>, KernelFault> {
        let make = |data, memory: &mut Memory| {
            pack(name, data, source, pool, memory).map(|m| Weight::Matrix(Arc::new(m)))
        };
        match self.find(name, source, make)? {
            Weight::Matrix(m) => Ok(m),
            Weight::Vector(_) => Err(fault(name, "is read both as a vector and as a matrix")),
        }
    }

    pub(super) fn vector(&self, name: &str, source: &dyn WeightSource) -> Result<Arc<Vec<f32>>, KernelFault> {
        let make = |data, _: &mut Memory| vector(name, data).map(|v| Weight::Vector(Arc::new(v)));
        match self.find(name, source, make)? {
            Weight::Vector(v) => Ok(v),
            Weight::Matrix(_) => Err(fault(name, "is read both as a matrix and as a vector")),
        }
    }

    pub(super) fn load(
        &self,
        usage: WeightUse<'_>,
        source: &dyn WeightSource,
        pool: &Pool,
    ) -> Result<(), KernelFault> {
        match is_vector(usage.op, usage.index) {
            true => self.vector(usage.name, source).map(|_| ()),
            false => self.matrix(usage.name, source, pool).map(|_| ()),
        }
    }

    fn find<'s>(
        &self,
        name: &str,
        source: &'s dyn WeightSource,
        make: impl FnOnce(WeightData<'s>, &mut Memory) -> Result<Weight, KernelFault>,
    ) -> Result<Weight, KernelFault> {
        let key = (source.version(), name.into());
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Made { weights, memory } = &mut *made;
        if let Some(found) = weights.get(&key) {
            return Ok(found.clone());
        }
        let data = source.weight(name).ok_or_else(|| fault(name, "is missing"))?;
        let new = make(data, memory)?;
        weights.insert(key, new.clone());
        Ok(new)
    }
}

fn fault(name: &str, reason: &str) -> KernelFault {
    KernelFault::Weight { name: name.into(), reason: reason.into() }
}

/// Packs a matrix stretch by stretch, letting the file's pages go behind itself, so that a large one is never in memory
/// twice.
fn pack(
    name: &str,
    data: WeightData<'_>,
    source: &dyn WeightSource,
    pool: &Pool,
    memory: &mut Memory,
) -> Result<PackedMatrix, KernelFault> {
    let [k, rows, ..] = data.shape;
    let refuse = |e: PackError| match e {
        PackError::OutOfMemory(e) => {
            KernelFault::OutOfMemory { bytes: e.bytes, reason: format!("weight '{name}' does not fit") }
        }
        e => fault(name, &e.to_string()),
    };
    let bytes = PackedMatrix::packed_bytes(data.dtype, rows, k).map_err(refuse)?;
    let buf = memory.take(bytes).map_err(|e| refuse(e.into()))?;
    let packer = Packer::new(data.dtype, rows, k, buf).map_err(refuse)?;
    // A wrong length is the one thing that packing can refuse: asking for no panel asks about it before the pool does.
    packer.pack_panels(data.bytes, 0..0).map_err(refuse)?;
    let n_panels = packer.n_panels();
    let raw_panel = packer.raw_range(0..n_panels.min(1)).len().max(1);
    let stretch = (STRETCH_BYTES / raw_panel).max(1);
    for first in (0..n_panels).step_by(stretch) {
        let panels = first..n_panels.min(first + stretch);
        let n_pieces = Cost::of(panels.len() * raw_panel, PACK_PS).n_pieces(panels.len(), pool.n_threads());
        pool.run(n_pieces, &|i| {
            let piece = piece_range(panels.len(), n_pieces, i);
            let packed = packer.pack_panels(data.bytes, first + piece.start..first + piece.end);
            debug_assert!(packed.is_ok());
        });
        source.release(name, packer.raw_range(panels));
    }
    packer.finish().map_err(refuse)
}

fn vector(name: &str, data: WeightData<'_>) -> Result<Vec<f32>, KernelFault> {
    if !supports_vector(data.dtype) {
        return Err(fault(name, "must be F32, F16 or BF16 to be used as a vector"));
    }
    let mut values = vec![0.0; data.shape.iter().product()];
    dequantize(data.dtype, data.bytes, &mut values).map_err(|e| fault(name, &e.to_string()))?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_matrices_lie_together_and_large_ones_alone() {
        let mut memory = Memory::default();
        let first = memory.take(100).unwrap();
        assert_eq!(memory.take(ARENA_BYTES).unwrap().as_slice().len(), ARENA_BYTES);
        let second = memory.take(64).unwrap();
        assert_eq!(second.as_ptr(), first.as_ptr().wrapping_add(128));
        // A full arena is followed by another; the pieces of the first live on.
        for _ in 0..5 {
            assert_eq!(memory.take(ARENA_BYTES / 4).unwrap().as_slice().len(), ARENA_BYTES / 4);
        }
        assert!(first.as_slice().iter().chain(second.as_slice()).all(|&b| b == 0));
    }
}
