//! Weights on the device: matrices in the blocks of the file, cut into parts that a kernel can bind; vectors as f32. Each is
//! loaded once and kept for all graphs. A part of a matrix is read where the file is mapped, if [`Places`] has a window for it,
//! and copied otherwise; kernels see the same blocks either way.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use minfer_gguf::{MappedBytes, TensorType, dequantize};
use minfer_graph::{
    Buffer, InPlace, KernelFault, Op, WeightBytes, WeightData, WeightRef, WeightSource, WeightUse,
};

use super::claims::supports_vector;
use super::places::Places;
use crate::device::{Device, GpuBuffer, Span};
use crate::kernels::dequant;

/// Bytes of a matrix that are uploaded before the file's pages go.
const STRETCH_BYTES: usize = 8 << 20;

/// Bytes behind a matrix: kernels read whole words, and the next one with them, of which nothing is used.
const PADDING: usize = 8;

/// Weights that a backend is to load.
pub(super) type Uses<'w> = [(WeightUse<'w>, &'w WeightRef)];

/// Whether the op reads this weight as a vector.
fn is_vector(op: &Op, index: usize) -> bool {
    match op {
        Op::FusedQkvNorm { .. } => index >= 3,
        Op::Add | Op::RmsNorm { .. } | Op::QkNorm { .. } | Op::Rope(_) | Op::QkvBiasRopeStore { .. } => true,
        _ => false,
    }
}

/// Rows of a matrix that lie in one buffer.
pub(super) struct Part {
    pub(super) rows: Range<usize>,
    pub(super) span: Span,
}

/// A matrix in the blocks of its type.
pub(super) struct Matrix {
    pub(super) dtype: TensorType,
    /// Elements of a row.
    pub(super) k: usize,
    pub(super) n_rows: usize,
    pub(super) row_bytes: usize,
    pub(super) parts: Vec<Part>,
}

impl Matrix {
    /// Its bytes, if they lie in one piece.
    pub(super) fn only_part(&self) -> Option<&Span> {
        match &self.parts[..] {
            [part] => Some(&part.span),
            _ => None,
        }
    }
}

/// A vector of f32, on the device and, for what is computed from it at preparation, on the host.
pub(super) struct Vector {
    pub(super) span: Span,
    pub(super) values: Vec<f32>,
}

#[derive(Clone)]
enum Weight {
    Matrix(Arc<Matrix>),
    Vector(Arc<Vector>),
}

/// Weights by version and name.
#[derive(Default)]
pub(super) struct WeightCache {
    loaded: Mutex<HashMap<(u64, Box<str>), Weight>>,
    places: Places,
}

impl WeightCache {
    /// Whether weights of this source are read in place.
    pub(super) fn in_place(
        &self,
        device: &Arc<Device>,
        weights: &Uses<'_>,
        source: &dyn WeightSource,
    ) -> InPlace {
        let matrices = weights.iter().filter(|(usage, _)| !is_vector(usage.op, usage.index));
        let any = matrices.filter_map(|(usage, _)| source.mapped(usage.name)).next();
        self.places.answer(device, source.version(), any.as_ref())
    }

    /// What these weights will take that are not loaded.
    pub(super) fn planned(
        &self,
        device: &Arc<Device>,
        weights: &Uses<'_>,
        source: &dyn WeightSource,
    ) -> WeightBytes {
        self.in_place(device, weights, source);
        let (vectors, copied, mapped) = self.missing(device, weights, source);
        let mut own = vectors.saturating_add(copied);
        let mut add = |i: usize, is_in: bool| {
            let bytes: &MappedBytes = &mapped[i];
            own = own.saturating_add(if is_in { 0 } else { bytes.range.len().saturating_add(PADDING) });
        };
        let version = source.version();
        let planned = self.places.plan(device, version, &mapped, false, &mut add);
        WeightBytes { own, in_place: planned.bytes() }
    }

    /// Chooses the pages in which these weights are read.
    pub(super) fn expect(&self, device: &Arc<Device>, weights: &Uses<'_>, source: &dyn WeightSource) {
        if self.in_place(device, weights, source) == InPlace::Yes {
            let (_, _, mapped) = self.missing(device, weights, source);
            self.places.plan(device, source.version(), &mapped, true, |_, _| {});
        }
    }

    /// Of the weights that are not loaded: bytes of vectors, of matrices that can only be copied, and the parts of the others.
    fn missing(
        &self,
        device: &Device,
        weights: &Uses<'_>,
        source: &dyn WeightSource,
    ) -> (usize, usize, Vec<MappedBytes>) {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut vectors, mut copied, mut mapped) = (0usize, 0usize, Vec::new());
        for (usage, weight) in weights {
            if loaded.contains_key(&(source.version(), usage.name.into())) {
                continue;
            }
            if is_vector(usage.op, usage.index) {
                vectors = vectors.saturating_add(weight.shape[0].saturating_mul(size_of::<f32>()));
                continue;
            }
            let bytes = source.mapped(usage.name).filter(|_| device.import_alignment().is_ok());
            match bytes {
                Some(bytes) => mapped.extend(parts_of(device, weight, &bytes)),
                None => copied = copied.saturating_add(weight.file_bytes().saturating_add(PADDING)),
            }
        }
        (vectors, copied, mapped)
    }

    pub(super) fn load(
        &self,
        device: &Arc<Device>,
        usage: WeightUse<'_>,
        source: &dyn WeightSource,
    ) -> Result<(), KernelFault> {
        match is_vector(usage.op, usage.index) {
            true => self.vector(device, usage.name, source).map(|_| ()),
            false => self.matrix(device, usage.name, source).map(|_| ()),
        }
    }

    pub(super) fn matrix(
        &self,
        device: &Arc<Device>,
        name: &str,
        source: &dyn WeightSource,
    ) -> Result<Arc<Matrix>, KernelFault> {
        let make = |data| {
            let loading = Loading { device, name, source, places: &self.places };
            loading.matrix(data).map(|m| Weight::Matrix(Arc::new(m)))
        };
        match self.find(name, source, make)? {
            Weight::Matrix(m) => Ok(m),
            Weight::Vector(_) => Err(fault(name, "is read both as a vector and as a matrix")),
        }
    }

    pub(super) fn vector(
        &self,
        device: &Arc<Device>,
        name: &str,
        source: &dyn WeightSource,
    ) -> Result<Arc<Vector>, KernelFault> {
        let make = |data| {
            let values = vector_values(name, data)?;
            Vector::new(device, values).map(|v| Weight::Vector(Arc::new(v)))
        };
        match self.find(name, source, make)? {
            Weight::Vector(v) => Ok(v),
            Weight::Matrix(_) => Err(fault(name, "is read both as a matrix and as a vector")),
        }
    }

    fn find<'s>(
        &self,
        name: &str,
        source: &'s dyn WeightSource,
        make: impl FnOnce(WeightData<'s>) -> Result<Weight, KernelFault>,
    ) -> Result<Weight, KernelFault> {
        let key = (source.version(), name.into());
        let mut known = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key) {
            return Ok(found.clone());
        }
        let data = source.weight(name).ok_or_else(|| fault(name, "is missing"))?;
        let new = make(data)?;
        known.insert(key, new.clone());
        Ok(new)
    }
}

impl Vector {
    /// Uploads values.
    pub(super) fn new(device: &Arc<Device>, values: Vec<f32>) -> Result<Vector, KernelFault> {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Ok(Vector { span: constant(device, &bytes)?, values })
    }
}

/// Bytes that kernels only read; a whole number of words.
pub(super) fn constant(device: &Arc<Device>, bytes: &[u8]) -> Result<Span, KernelFault> {
    let buffer = Arc::new(GpuBuffer::zeroed(device, bytes.len())?);
    buffer.write(0, bytes)?;
    Span::of(buffer, 0, bytes.len())
}

fn fault(name: &str, reason: &str) -> KernelFault {
    KernelFault::Weight { name: name.into(), reason: reason.into() }
}

fn vector_values(name: &str, data: WeightData<'_>) -> Result<Vec<f32>, KernelFault> {
    if !supports_vector(data.dtype) {
        return Err(fault(name, "must be F32, F16 or BF16 to be used as a vector"));
    }
    let mut values = vec![0.0; data.shape.iter().product()];
    dequantize(data.dtype, data.bytes, &mut values).map_err(|e| fault(name, &e.to_string()))?;
    Ok(values)
}

/// Most bytes of rows that one part holds: a binding may have to begin some bytes before it, and pages are whole.
fn part_bytes(device: &Device) -> usize {
    let bound = device.max_binding_bytes().saturating_sub(PADDING + 4 + device.binding_alignment());
    let pages = 2 * device.import_alignment().unwrap_or(0);
    bound.min(device.max_buffer_bytes().saturating_sub(PADDING + 4 + pages))
}

/// Whether a matrix of this shape lies in one piece.
pub(super) fn fits_one_binding(device: &Device, dtype: TensorType, [k, n_rows, ..]: [usize; 4]) -> bool {
    dtype.row_bytes(k).is_some_and(|row| part_bytes(device) / row.max(1) >= n_rows)
}

/// The rows of each part of a matrix; none if the device cannot bind a row.
fn parts(device: &Device, row_bytes: usize, n_rows: usize) -> impl Iterator<Item = Range<usize>> {
    let rows_at_once = part_bytes(device) / row_bytes.max(1);
    let starts = (0..n_rows).step_by(rows_at_once.max(1)).filter(move |_| rows_at_once > 0);
    starts.map(move |first| first..n_rows.min(first + rows_at_once))
}

/// Where the parts of a mapped matrix lie.
fn parts_of(device: &Device, weight: &WeightRef, bytes: &MappedBytes) -> Vec<MappedBytes> {
    let [k, n_rows, ..] = weight.shape;
    let row_bytes = weight.dtype.row_bytes(k).unwrap_or(0);
    parts(device, row_bytes, n_rows).map(|rows| rows_of(bytes, row_bytes, &rows)).collect()
}

fn rows_of(bytes: &MappedBytes, row_bytes: usize, rows: &Range<usize>) -> MappedBytes {
    let start = bytes.range.start;
    let range = start + rows.start * row_bytes..start + rows.end * row_bytes;
    MappedBytes { file: bytes.file.clone(), range }
}

/// A matrix on its way to the device.
struct Loading<'a> {
    device: &'a Arc<Device>,
    name: &'a str,
    source: &'a dyn WeightSource,
    places: &'a Places,
}

impl Loading<'_> {
    fn matrix(&self, data: WeightData<'_>) -> Result<Matrix, KernelFault> {
        let [k, n_rows, ..] = data.shape;
        if !dequant::supports(data.dtype) {
            return Err(fault(self.name, &format!("is {}, which no kernel reads", data.dtype)));
        }
        let whole = data.dtype.row_bytes(k).filter(|row| row.checked_mul(n_rows) == Some(data.bytes.len()));
        let row_bytes = whole.ok_or_else(|| fault(self.name, "does not have the size of its shape"))?;
        let limit = part_bytes(self.device);
        if row_bytes > limit {
            let reason = format!("has rows of {row_bytes} bytes, the device binds {limit}");
            return Err(fault(self.name, &reason));
        }
        let mapped = self.source.mapped(self.name).filter(|bytes| bytes.range.len() == data.bytes.len());
        let mut made = Vec::new();
        for rows in parts(self.device, row_bytes, n_rows) {
            let there = mapped.as_ref().map(|bytes| self.in_place(&rows_of(bytes, row_bytes, &rows)));
            let span = match there.transpose()?.flatten() {
                Some(span) => span,
                None => self.copy(data.bytes, rows.start * row_bytes..rows.end * row_bytes)?,
            };
            made.push(Part { rows, span });
        }
        Ok(Matrix { dtype: data.dtype, k, n_rows, row_bytes, parts: made })
    }

    /// The bytes where the file is mapped, if the device has a window there. What lies behind them is bound as far as there is
    /// something, like the padding of a copy.
    fn in_place(&self, bytes: &MappedBytes) -> Result<Option<Span>, KernelFault> {
        let found = self.places.find(self.device, self.source.version(), bytes)?;
        let span = |(buffer, at): (Arc<GpuBuffer>, usize)| {
            let bound = (bytes.range.len() + PADDING).min(buffer.bytes() - at);
            Span::of_bytes(buffer, at, bound)
        };
        found.map(span).transpose()
    }

    /// A copy of the bytes, made stretch by stretch, letting the file's pages go behind itself.
    fn copy(&self, bytes: &[u8], range: Range<usize>) -> Result<Span, KernelFault> {
        let len = range.len();
        let buffer = Arc::new(GpuBuffer::zeroed(self.device, len.next_multiple_of(4) + PADDING)?);
        for start in range.clone().step_by(STRETCH_BYTES) {
            let end = range.end.min(start + STRETCH_BYTES);
            let words = (end - start) / 4 * 4;
            buffer.write(start - range.start, &bytes[start..start + words])?;
            if start + words < end {
                let mut last = [0; 4];
                last[..end - start - words].copy_from_slice(&bytes[start + words..end]);
                buffer.write(start + words - range.start, &last)?;
            }
            self.source.release(self.name, start..end);
        }
        let all = buffer.bytes();
        Span::of(buffer, 0, all)
    }
}
