//! Weights on the device: matrices in the blocks of the file, cut into parts that a kernel can bind; vectors as f32. Each is
//! loaded once and kept for all graphs.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use minfer_gguf::{TensorType, dequantize};
use minfer_graph::{Buffer, KernelFault, Op, WeightData, WeightRef, WeightSource, WeightUse};

use super::claims::supports_vector;
use crate::device::{Device, GpuBuffer, Span};
use crate::kernels::dequant;

/// Bytes of a matrix that are uploaded before the file's pages go.
const STRETCH_BYTES: usize = 8 << 20;

/// Bytes behind a matrix: kernels read whole words, and the next one with them.
const PADDING: usize = 8;

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
    bytes: usize,
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
pub(super) struct WeightCache(Mutex<HashMap<(u64, Box<str>), Weight>>);

/// Bytes that these weights take.
pub(super) fn planned_bytes(weights: &[(WeightUse<'_>, &WeightRef)]) -> usize {
    let bytes = |usage: &WeightUse<'_>, weight: &WeightRef| match is_vector(usage.op, usage.index) {
        true => weight.shape[0].saturating_mul(size_of::<f32>()),
        false => weight.file_bytes().saturating_add(PADDING),
    };
    weights.iter().fold(0, |sum, (usage, weight)| sum.saturating_add(bytes(usage, weight)))
}

impl WeightCache {
    /// Bytes of the weights of this version that are loaded.
    pub(super) fn loaded_bytes(&self, version: u64) -> usize {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = |weight: &Weight| match weight {
            Weight::Matrix(m) => m.bytes,
            Weight::Vector(v) => v.values.len() * size_of::<f32>(),
        };
        known.iter().filter(|(key, _)| key.0 == version).map(|(_, weight)| bytes(weight)).sum()
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
        let make = |data| upload(device, name, data, source).map(|m| Weight::Matrix(Arc::new(m)));
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
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Most bytes of rows that one part holds.
fn part_bytes(device: &Device) -> usize {
    device.max_binding_bytes().min(device.max_buffer_bytes()).saturating_sub(PADDING + 4)
}

/// Whether a matrix of this shape lies in one piece.
pub(super) fn fits_one_binding(device: &Device, dtype: TensorType, [k, n_rows, ..]: [usize; 4]) -> bool {
    dtype.row_bytes(k).is_some_and(|row| part_bytes(device) / row.max(1) >= n_rows)
}

/// Uploads a matrix part by part, stretch by stretch, letting the file's pages go behind itself.
fn upload(
    device: &Arc<Device>,
    name: &str,
    data: WeightData<'_>,
    source: &dyn WeightSource,
) -> Result<Matrix, KernelFault> {
    let [k, n_rows, ..] = data.shape;
    if !dequant::supports(data.dtype) {
        return Err(fault(name, &format!("is {}, which no kernel reads", data.dtype)));
    }
    let whole = data.dtype.row_bytes(k).filter(|row| row.checked_mul(n_rows) == Some(data.bytes.len()));
    let row_bytes = whole.ok_or_else(|| fault(name, "does not have the size of its shape"))?;
    let limit = part_bytes(device);
    let rows_at_once = limit / row_bytes.max(1);
    if rows_at_once == 0 {
        return Err(fault(name, &format!("has rows of {row_bytes} bytes, the device binds {limit}")));
    }
    let mut parts = Vec::with_capacity(n_rows.div_ceil(rows_at_once));
    for first in (0..n_rows).step_by(rows_at_once) {
        let rows = first..n_rows.min(first + rows_at_once);
        let bytes = rows.start * row_bytes..rows.end * row_bytes;
        let span = upload_part(device, data.bytes, bytes, &|done| source.release(name, done))?;
        parts.push(Part { rows, span });
    }
    Ok(Matrix { dtype: data.dtype, k, n_rows, row_bytes, parts, bytes: data.bytes.len() })
}

fn upload_part(
    device: &Arc<Device>,
    bytes: &[u8],
    range: Range<usize>,
    release: &dyn Fn(Range<usize>),
) -> Result<Span, KernelFault> {
    let len = range.len();
    let buffer = Arc::new(GpuBuffer::zeroed(device, len.next_multiple_of(4) + PADDING)?);
    for start in range.clone().step_by(STRETCH_BYTES) {
        let end = range.end.min(start + STRETCH_BYTES);
        let words = (end - start) / 4 * 4;
        buffer.write(start - range.start, &bytes[start..start + words])?;
        if start + words < end {
            let mut last = [0; 4];
            last[..end - start - words].copy_from_slice(&bytes[start + words..end]);
            buffer.write(start + words - range.start, &last)?;
        }
        release(start..end);
    }
    let all = buffer.bytes();
    Span::of(buffer, 0, all)
}
