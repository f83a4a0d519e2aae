//! Weights as the kernels read them: matrices in panels, vectors as f32. Each is made once and kept for all graphs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minfer_gguf::{TensorType, dequantize};
use minfer_graph::{KernelFault, LoadNote, Op, WeightData, WeightRef, WeightSource, WeightUse};

use crate::buf::{AlignedBuf, Arena, OutOfMemory};
use crate::isa::Isa;
use crate::matmul::{PackError, PackedBytes, PackedMatrix, Packer};
use crate::packed_cache::{Found, Keeper, Matrix, PackedCacheOptions};
use crate::pool::{Cost, MAX_PIECES, Pool, piece_range};

/// Time to pack one byte, in picoseconds: only decides into how many pieces the work is cut.
const PACK_PS: u64 = 150;

/// Small matrices share arenas, so that they lie on huge pages. What is never written costs no memory, but it counts where
/// the address space is limited: the first arena is small, and each is as large as all before it, up to this.
const ARENA_BYTES: usize = 64 << 20;
const FIRST_ARENA_BYTES: usize = 4 << 20;

/// What the system gives at once: to arenas, and to the end of a mapping.
const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// Packed bytes that one thread copies at a time.
const COPY_BYTES: usize = 1 << 20;

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

/// Who packs, and with which instructions.
#[derive(Clone, Copy)]
pub(super) struct Packing<'a> {
    pub(super) pool: &'a Pool,
    pub(super) isa: Isa,
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
    home: Home,
}

/// Where new matrices come from and go to.
#[derive(Default)]
struct Home {
    memory: Memory,
    keeper: Keeper,
}

/// Where matrices go.
#[derive(Default)]
struct Memory {
    arena: Option<Arena>,
    rule: ArenaRule,
}

/// Which matrix goes into which mapping: followed while loading, and before it, to know what loading will take.
#[derive(Clone, Debug, Default)]
struct ArenaRule {
    /// Bytes of the last arena, and how many of them are taken.
    capacity: usize,
    used: usize,
    /// Bytes of all arenas so far.
    n_mapped: usize,
}

/// Where a matrix goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A mapping of its own.
    Own,
    /// The last arena.
    Arena,
    /// A new arena of so many bytes.
    NewArena(usize),
}

impl ArenaRule {
    fn place(&mut self, len: usize) -> Place {
        if len > ARENA_BYTES / 4 {
            return Place::Own;
        }
        let size = Arena::footprint(len);
        if size <= self.capacity - self.used {
            self.used += size;
            return Place::Arena;
        }
        // Room for a few of the same size: the rest of the arena before is lost.
        let capacity = self.n_mapped.clamp(FIRST_ARENA_BYTES, ARENA_BYTES).max(4 * size);
        self.n_mapped += capacity;
        (self.capacity, self.used) = (capacity, size);
        Place::NewArena(capacity)
    }

    /// Bytes of the last arena that are in memory: huge pages come whole.
    fn resident(&self) -> usize {
        self.used.next_multiple_of(HUGE_PAGE).min(self.capacity)
    }
}

impl Memory {
    fn take(&mut self, len: usize) -> Result<AlignedBuf, OutOfMemory> {
        match (self.rule.place(len), &mut self.arena) {
            (Place::Own, _) => AlignedBuf::zeroed(len),
            (Place::Arena, Some(arena)) => arena.take(len),
            (Place::Arena, None) => Err(OutOfMemory { bytes: len }),
            (Place::NewArena(capacity), arena) => arena.insert(Arena::with_capacity(capacity)?).take(len),
        }
    }
}

/// Bytes that loading these weights in this order takes. A matrix that can't be packed counts as nothing: loading it is
/// refused.
pub(super) fn planned_bytes(weights: &[(WeightUse<'_>, &WeightRef)]) -> usize {
    let mut rule = ArenaRule::default();
    let mut total = 0usize;
    for (usage, weight) in weights {
        let [k, rows, ..] = weight.shape;
        if is_vector(usage.op, usage.index) {
            total = total.saturating_add(k.saturating_mul(size_of::<f32>()));
            continue;
        }
        let Ok(len) = PackedMatrix::packed_bytes(weight.dtype, rows, k) else { continue };
        let before = rule.resident();
        match rule.place(len) {
            Place::Own => total = total.saturating_add(len.next_multiple_of(PAGE)),
            Place::Arena => {}
            Place::NewArena(_) => total = total.saturating_add(before),
        }
    }
    total.saturating_add(rule.resident())
}

impl Weight {
    fn bytes(&self) -> usize {
        match self {
            Weight::Matrix(m) => m.bytes(),
            Weight::Vector(v) => v.len() * size_of::<f32>(),
        }
    }
}

impl WeightCache {
    pub(super) fn new(options: Option<PackedCacheOptions>) -> WeightCache {
        let home = Home { keeper: Keeper::new(options), ..Home::default() };
        WeightCache(Mutex::new(Made { home, ..Made::default() }))
    }

    /// Prepares for loading these weights in this order, those that are loaded left out.
    pub(super) fn begin(
        &self,
        weights: &[(WeightUse<'_>, &WeightRef)],
        source: &dyn WeightSource,
        pool: &Pool,
    ) {
        let mut made = self.lock();
        let is_new = |name: &str| !made.weights.contains_key(&(source.version(), name.into()));
        let matrices: Vec<_> = weights
            .iter()
            .filter(|(usage, weight)| !is_vector(usage.op, usage.index) && is_new(&weight.name))
            .map(|(_, w)| Matrix { name: &w.name, dtype: w.dtype, rows: w.shape[1], k: w.shape[0] })
            .collect();
        if !matrices.is_empty() {
            made.home.keeper.begin(source.origin(), &matrices, pool);
        }
    }

    /// Ends what [`Self::begin`] began.
    pub(super) fn end(&self) {
        self.lock().home.keeper.end();
    }

    pub(super) fn take_notes(&self) -> Vec<LoadNote> {
        self.lock().home.keeper.take_notes()
    }

    fn lock(&self) -> MutexGuard<'_, Made> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the weights of this version that are loaded.
    pub(super) fn loaded_bytes(&self, version: u64) -> usize {
        let made = self.lock();
        made.weights.iter().filter(|(key, _)| key.0 == version).map(|(_, weight)| weight.bytes()).sum()
    }

    pub(super) fn matrix(
        &self,
        name: &str,
        source: &dyn WeightSource,
        by: Packing<'_>,
    ) -> Result<Arc<PackedMatrix>, KernelFault> {
        let make =
            |data, home: &mut Home| matrix(name, data, source, by, home).map(|m| Weight::Matrix(Arc::new(m)));
        match self.find(name, source, make)? {
            Weight::Matrix(m) => Ok(m),
            Weight::Vector(_) => Err(fault(name, "is read both as a vector and as a matrix")),
        }
    }

    pub(super) fn vector(&self, name: &str, source: &dyn WeightSource) -> Result<Arc<Vec<f32>>, KernelFault> {
        let make = |data, _: &mut Home| vector(name, data).map(|v| Weight::Vector(Arc::new(v)));
        match self.find(name, source, make)? {
            Weight::Vector(v) => Ok(v),
            Weight::Matrix(_) => Err(fault(name, "is read both as a matrix and as a vector")),
        }
    }

    pub(super) fn load(
        &self,
        usage: WeightUse<'_>,
        source: &dyn WeightSource,
        by: Packing<'_>,
    ) -> Result<(), KernelFault> {
        match is_vector(usage.op, usage.index) {
            true => self.vector(usage.name, source).map(|_| ()),
            false => self.matrix(usage.name, source, by).map(|_| ()),
        }
    }

    fn find<'s>(
        &self,
        name: &str,
        source: &'s dyn WeightSource,
        make: impl FnOnce(WeightData<'s>, &mut Home) -> Result<Weight, KernelFault>,
    ) -> Result<Weight, KernelFault> {
        let key = (source.version(), name.into());
        let mut made = self.lock();
        let Made { weights, home } = &mut *made;
        if let Some(found) = weights.get(&key) {
            return Ok(found.clone());
        }
        let data = source.weight(name).ok_or_else(|| fault(name, "is missing"))?;
        let new = make(data, home)?;
        weights.insert(key, new.clone());
        Ok(new)
    }
}

fn fault(name: &str, reason: &str) -> KernelFault {
    KernelFault::Weight { name: name.into(), reason: reason.into() }
}

/// A matrix that was packed before, or packed now.
fn matrix(
    name: &str,
    data: WeightData<'_>,
    source: &dyn WeightSource,
    by: Packing<'_>,
    home: &mut Home,
) -> Result<PackedMatrix, KernelFault> {
    let [k, rows, ..] = data.shape;
    let bytes = match home.keeper.find(name, data.dtype, rows, k) {
        None => {
            let packed = pack(name, data, source, by, &mut home.memory)?;
            home.keeper.add(name, packed.as_bytes());
            return Ok(packed);
        }
        Some(Found::InPlace(part)) => PackedBytes::File(part),
        Some(Found::Copy(part)) => {
            let buf =
                copy(part.as_slice(), by.pool, &mut home.memory).map_err(|e| refused(name, e.into()))?;
            part.release();
            home.keeper.add(name, buf.as_slice());
            PackedBytes::Memory(buf)
        }
    };
    PackedMatrix::from_packed(data.dtype, rows, k, bytes).map_err(|e| refused(name, e))
}

fn copy(bytes: &[u8], pool: &Pool, memory: &mut Memory) -> Result<AlignedBuf, OutOfMemory> {
    let mut buf = memory.take(bytes.len())?;
    let pieces = buf.as_mut_slice().chunks_mut(COPY_BYTES).zip(bytes.chunks(COPY_BYTES));
    let pieces: Vec<_> = pieces.map(Mutex::new).collect();
    for pieces in pieces.chunks(MAX_PIECES) {
        pool.run(pieces.len(), &|i| {
            let (to, from) = &mut *pieces[i].lock().unwrap_or_else(PoisonError::into_inner);
            to.copy_from_slice(from);
        });
    }
    drop(pieces);
    Ok(buf)
}

/// Why a matrix can't be loaded.
fn refused(name: &str, e: PackError) -> KernelFault {
    match e {
        PackError::OutOfMemory(e) => {
            KernelFault::OutOfMemory { bytes: e.bytes, reason: format!("weight '{name}' does not fit") }
        }
        e => fault(name, &e.to_string()),
    }
}

/// Packs a matrix stretch by stretch, letting the file's pages go behind itself, so that a large one is never in memory
/// twice.
fn pack(
    name: &str,
    data: WeightData<'_>,
    source: &dyn WeightSource,
    by: Packing<'_>,
    memory: &mut Memory,
) -> Result<PackedMatrix, KernelFault> {
    let [k, rows, ..] = data.shape;
    let refuse = |e: PackError| refused(name, e);
    let bytes = PackedMatrix::packed_bytes(data.dtype, rows, k).map_err(refuse)?;
    let buf = memory.take(bytes).map_err(|e| refuse(e.into()))?;
    let packer = Packer::new(data.dtype, rows, k, buf, by.isa).map_err(refuse)?;
    // A wrong length is the one thing that packing can refuse: asking for no panel asks about it before the pool does.
    packer.pack_panels(data.bytes, 0..0).map_err(refuse)?;
    let n_panels = packer.n_panels();
    let raw_panel = packer.raw_range(0..n_panels.min(1)).len().max(1);
    let stretch = (STRETCH_BYTES / raw_panel).max(1);
    for first in (0..n_panels).step_by(stretch) {
        let panels = first..n_panels.min(first + stretch);
        let n_pieces =
            Cost::of(panels.len() * raw_panel, PACK_PS).n_pieces(panels.len(), by.pool.n_threads());
        by.pool.run(n_pieces, &|i| {
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

    #[test]
    fn the_plan_counts_what_loading_takes() {
        let matrix = |name: &str, rows: usize| WeightRef {
            name: name.into(),
            dtype: TensorType::F32,
            shape: [1024, rows, 1, 1],
        };
        let weights =
            [matrix("a", 16), matrix("b", 2048), matrix("c", 16), matrix("d", 4096), matrix("e", 32)];
        let usages: Vec<_> =
            weights.iter().map(|w| (WeightUse { name: &w.name, op: &Op::MatMul, index: 0 }, w)).collect();
        // 64 KiB, 8 MiB, 64 KiB, 16 MiB, 128 KiB: small ones go into an arena of 4 MiB, the 8 MiB into one of 32 MiB.
        let mut memory = Memory::default();
        let mut places = Vec::new();
        for w in &weights {
            places.push(
                memory.rule.clone().place(PackedMatrix::packed_bytes(w.dtype, w.shape[1], 1024).unwrap()),
            );
            memory.take(PackedMatrix::packed_bytes(w.dtype, w.shape[1], 1024).unwrap()).unwrap();
        }
        let mib = 1 << 20;
        assert_eq!(places[..3], [Place::NewArena(4 * mib), Place::NewArena(32 * mib), Place::Arena]);
        assert_eq!(planned_bytes(&usages[..1]), 2 * mib);
        assert_eq!(planned_bytes(&usages[..3]), 2 * mib + 10 * mib);
        assert_eq!(planned_bytes(&usages), 2 * mib + 26 * mib);
        let vector = (WeightUse { name: "v", op: &Op::Add, index: 0 }, &weights[0]);
        assert_eq!(planned_bytes(&[vector]), 4096);
    }
}
