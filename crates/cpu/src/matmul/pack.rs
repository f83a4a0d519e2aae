//! Weight matrices rewritten once, at load, into panels of 16 rows.
//!
//! A panel of a quantized type is the quants of all steps (`quants.rs`) with lines of scales between them (`scales.rs`,
//! `walk.rs`), of a float type `[k][16 rows]`. The same panels serve one token and many, on every instruction set.
//! Rows missing from the last panel are zero. The size is that of the file plus at most 4 % (Q3_K 3.6 %, Q4_K 2.8 %), more
//! where rows have only a few blocks, since scales fill whole lines.
//!
//! Packing goes panel by panel, in any order and from any number of threads: see [`Packer`]. What comes out can be kept and
//! used again ([`PackedMatrix::from_packed`]), as long as [`PACK_VERSION`] is the same.

#![expect(unsafe_code, reason = "panels written by several threads")]

use super::float::{is_float, to_f32};
use super::kernels::Kernels;
use crate::buf::{ALIGN, AlignedBuf, OutOfMemory};
use crate::isa::Isa;
use crate::packed_cache::FilePart;
use minfer_gguf::TensorType;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of a panel.
pub const PANEL_ROWS: usize = 16;

/// Number of this layout of panels, of all types together: a change of any of them is a change of this number, since panels
/// are kept on disk.
pub const PACK_VERSION: u32 = 2;

/// A matrix can't be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// There are no kernels for this type.
    #[error("the CPU backend has no matrix product for weights of type {dtype}")]
    Unsupported {
        /// The type of the weights.
        dtype: TensorType,
    },
    /// A row is no whole number of blocks, or empty, or the matrix is larger than the address space.
    #[error("a {rows} x {k} matrix of {dtype} can't be packed: rows must be whole, non-empty blocks")]
    Shape {
        /// The type of the weights.
        dtype: TensorType,
        /// Rows asked for.
        rows: usize,
        /// Values per row asked for.
        k: usize,
    },
    /// The raw bytes, or the buffer for the packed ones, have the wrong length.
    #[error("{what} should be {expected} bytes, but it is {found}")]
    Length {
        /// Which of the two.
        what: &'static str,
        /// What the shape asks for.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// Not all panels were packed.
    #[error("panel {panel} was never packed")]
    Unfinished {
        /// The first one missing.
        panel: usize,
    },
    /// Panels that were packed before lie where they cannot be read from.
    #[error("a packed matrix must start at a multiple of {ALIGN} bytes")]
    Alignment,
    /// The system refused memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

/// A weight matrix `[rows, k]` in panels.
pub struct PackedMatrix {
    dtype: TensorType,
    rows: usize,
    k: usize,
    pub(super) layout: Layout,
    bytes: PackedBytes,
}

/// Where panels are.
pub enum PackedBytes {
    /// In memory of their own.
    Memory(AlignedBuf),
    /// In a file that is mapped.
    File(FilePart),
}

impl PackedBytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            PackedBytes::Memory(buf) => buf.as_slice(),
            PackedBytes::File(part) => part.as_slice(),
        }
    }
}

/// Sizes of the panels of one matrix.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Kernels of a quantized type; `None` for float types.
    pub(super) kernels: Option<&'static Kernels>,
    /// Bytes of a panel.
    pub(super) panel_bytes: usize,
    /// Bytes of a raw row.
    row_bytes: usize,
}

impl Layout {
    fn new(dtype: TensorType, rows: usize, k: usize) -> Result<Layout, PackError> {
        let kernels = Kernels::find(dtype);
        if kernels.is_none() && !is_float(dtype) {
            return Err(PackError::Unsupported { dtype });
        }
        Layout::checked(kernels, dtype, rows, k).ok_or(PackError::Shape { dtype, rows, k })
    }

    fn checked(
        kernels: Option<&'static Kernels>,
        dtype: TensorType,
        rows: usize,
        k: usize,
    ) -> Option<Layout> {
        let row_bytes = dtype.row_bytes(k).filter(|&n| n > 0)?;
        let panel_bytes = match kernels {
            Some(kernels) => kernels.sizes.panel(k / 32)?,
            None => row_bytes.checked_mul(PANEL_ROWS)?,
        };
        rows.div_ceil(PANEL_ROWS).checked_mul(panel_bytes).filter(|&n| n <= isize::MAX as usize)?;
        rows.checked_mul(row_bytes)?;
        Some(Layout { kernels, panel_bytes, row_bytes })
    }
}

impl PackedMatrix {
    /// Whether matrices of this type can be packed.
    pub fn supports(dtype: TensorType) -> bool {
        is_float(dtype) || Kernels::find(dtype).is_some()
    }

    /// Bytes of a packed matrix, for planning; errors as [`PackedMatrix::pack`] does.
    pub fn packed_bytes(dtype: TensorType, rows: usize, k: usize) -> Result<usize, PackError> {
        Ok(rows.div_ceil(PANEL_ROWS) * Layout::new(dtype, rows, k)?.panel_bytes)
    }

    /// Packs `raw`, the `rows` rows of `k` weights as they lie in the file, on this thread.
    /// Errors if the type has no kernels, or the lengths don't fit together.
    pub fn pack(
        dtype: TensorType,
        raw: &[u8],
        rows: usize,
        k: usize,
        isa: Isa,
    ) -> Result<PackedMatrix, PackError> {
        let buf = AlignedBuf::zeroed(PackedMatrix::packed_bytes(dtype, rows, k)?)?;
        let packer = Packer::new(dtype, rows, k, buf, isa)?;
        packer.pack_panels(raw, 0..packer.n_panels())?;
        packer.finish()
    }

    /// A matrix of panels that were packed before, in a process with the same [`PACK_VERSION`]. Errors if they have the wrong
    /// length or do not start at a multiple of [`ALIGN`].
    pub fn from_packed(
        dtype: TensorType,
        rows: usize,
        k: usize,
        bytes: PackedBytes,
    ) -> Result<PackedMatrix, PackError> {
        let layout = Layout::new(dtype, rows, k)?;
        let (expected, found) = (rows.div_ceil(PANEL_ROWS) * layout.panel_bytes, bytes.as_slice().len());
        if expected != found {
            return Err(PackError::Length { what: "a packed matrix", expected, found });
        }
        if !bytes.as_slice().as_ptr().addr().is_multiple_of(ALIGN) {
            return Err(PackError::Alignment);
        }
        Ok(PackedMatrix { dtype, rows, k, layout, bytes })
    }

    /// All panels.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The type of the weights.
    pub fn dtype(&self) -> TensorType {
        self.dtype
    }

    /// Rows: outputs of the product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row: inputs of the product.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Panels, the units in which work is split between threads.
    pub fn n_panels(&self) -> usize {
        self.rows.div_ceil(PANEL_ROWS)
    }

    /// Bytes that a product reads.
    pub fn bytes(&self) -> usize {
        self.n_panels() * self.layout.panel_bytes
    }

    /// The packed bytes of these panels, as a product of them reads them once from first to last.
    ///
    /// # Panics
    /// If the range ends after the last panel.
    pub fn panel_bytes(&self, range: Range<usize>) -> &[u8] {
        let size = self.layout.panel_bytes;
        &self.as_bytes()[range.start * size..range.end * size]
    }

    /// Dequantizes row `row` into `out` (of `k` values), bit for bit as the reference dequantization of the file format
    /// does. This is the embedding gather of a matrix that is also multiplied with.
    ///
    /// # Panics
    /// If there is no such row, or `out` has another length.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(
            row < self.rows && out.len() == self.k,
            "row {row} of {}, {} of {}",
            self.rows,
            out.len(),
            self.k
        );
        let panel = self.panel_bytes(row / PANEL_ROWS..row / PANEL_ROWS + 1);
        match self.layout.kernels {
            Some(kernels) => (kernels.dequantize)(panel, row % PANEL_ROWS, out),
            None => self.float_row(panel, row % PANEL_ROWS, out),
        }
    }

    fn float_row(&self, panel: &[u8], row: usize, out: &mut [f32]) {
        let size = self.dtype.block_bytes();
        for (weights, out) in panel.chunks_exact(PANEL_ROWS * size).zip(out) {
            *out = to_f32(self.dtype, &weights[row * size..]);
        }
    }
}

/// Transposes up to 16 rows of weights of `SIZE` bytes to `[k][16 rows]`.
fn interleave<const SIZE: usize>(raw: &[u8], row_bytes: usize, out: &mut [u8]) {
    let columns = out.as_chunks_mut::<SIZE>().0.as_chunks_mut::<PANEL_ROWS>().0;
    for (row, raw) in raw.chunks_exact(row_bytes).enumerate() {
        for (column, w) in columns.iter_mut().zip(raw.as_chunks::<SIZE>().0) {
            column[row] = *w;
        }
    }
}

/// A matrix being packed, from any number of threads.
///
/// ```
/// # use minfer_cpu::{buf::AlignedBuf, isa::Isa, matmul::{PackedMatrix, Packer, PackError}};
/// # use minfer_gguf::TensorType::F32;
/// # fn main() -> Result<(), PackError> {
/// let raw = vec![0; 40 * 3 * 4];
/// let buf = AlignedBuf::zeroed(PackedMatrix::packed_bytes(F32, 40, 3)?)?;
/// let packer = Packer::new(F32, 40, 3, buf, Isa::detect())?;
/// std::thread::scope(|s| {
///     for panel in 0..packer.n_panels() {
///         let (packer, raw) = (&packer, &raw);
///         s.spawn(move || packer.pack_panels(raw, panel..panel + 1));
///     }
/// });
/// assert_eq!(packer.finish()?.rows(), 40);
/// # Ok(()) }
/// ```
pub struct Packer {
    matrix: PackedMatrix,
    base: *mut u8,
    isa: Isa,
    claimed: Vec<AtomicBool>,
}

// SAFETY: `base` points into the buffer that `matrix` owns, which may move between threads.
unsafe impl Send for Packer {}
// SAFETY: a panel is written only by the thread that claimed it, and read by nobody before `finish` takes the packer.
unsafe impl Sync for Packer {}

impl Packer {
    /// Starts packing a `[rows, k]` matrix into `buf`, which must be zero and exactly
    /// [`PackedMatrix::packed_bytes`] long (say, a piece of a new [`crate::buf::Arena`]). The bytes are the same on every
    /// `isa`, some of them sooner.
    pub fn new(
        dtype: TensorType,
        rows: usize,
        k: usize,
        mut buf: AlignedBuf,
        isa: Isa,
    ) -> Result<Packer, PackError> {
        let layout = Layout::new(dtype, rows, k)?;
        let n_panels = rows.div_ceil(PANEL_ROWS);
        let (expected, found) = (n_panels * layout.panel_bytes, buf.as_slice().len());
        if expected != found {
            return Err(PackError::Length { what: "the buffer of a packed matrix", expected, found });
        }
        let base = buf.as_mut_slice().as_mut_ptr();
        let claimed = (0..n_panels).map(|_| AtomicBool::new(false)).collect();
        let bytes = PackedBytes::Memory(buf);
        Ok(Packer { matrix: PackedMatrix { dtype, rows, k, layout, bytes }, base, isa, claimed })
    }

    /// Panels to pack.
    pub fn n_panels(&self) -> usize {
        self.claimed.len()
    }

    /// The bytes of the raw matrix that these panels come from.
    pub fn raw_range(&self, panels: Range<usize>) -> Range<usize> {
        let row = |panel: usize| (panel * PANEL_ROWS).min(self.matrix.rows);
        row(panels.start) * self.matrix.layout.row_bytes..row(panels.end) * self.matrix.layout.row_bytes
    }

    /// Packs these panels of `raw`, the whole matrix as it lies in the file. A panel that was packed already, by any
    /// thread, is left alone. Errors if `raw` has the wrong length.
    ///
    /// # Panics
    /// If the range ends after the last panel.
    pub fn pack_panels(&self, raw: &[u8], panels: Range<usize>) -> Result<(), PackError> {
        let expected = self.matrix.rows * self.matrix.layout.row_bytes;
        if raw.len() != expected {
            return Err(PackError::Length { what: "a weight matrix", expected, found: raw.len() });
        }
        for panel in panels {
            if !self.claimed[panel].swap(true, Ordering::Relaxed) {
                let size = self.matrix.layout.panel_bytes;
                // SAFETY: inside the buffer (there are `claimed.len()` panels), and this thread alone claimed the panel.
                let out = unsafe { std::slice::from_raw_parts_mut(self.base.add(panel * size), size) };
                self.pack_panel(&raw[self.raw_range(panel..panel + 1)], out);
            }
        }
        Ok(())
    }

    fn pack_panel(&self, raw: &[u8], out: &mut [u8]) {
        let Layout { kernels, row_bytes, .. } = self.matrix.layout;
        match kernels {
            Some(kernels) => kernels.put_panel(raw, row_bytes, out, self.isa),
            None => self.pack_float(raw, out),
        }
    }

    fn pack_float(&self, raw: &[u8], out: &mut [u8]) {
        match self.matrix.dtype.block_bytes() {
            2 => interleave::<2>(raw, self.matrix.layout.row_bytes, out),
            _ => interleave::<4>(raw, self.matrix.layout.row_bytes, out),
        }
    }

    /// The packed matrix; an error if a panel is missing.
    pub fn finish(self) -> Result<PackedMatrix, PackError> {
        match self.claimed.iter().position(|c| !c.load(Ordering::Relaxed)) {
            Some(panel) => Err(PackError::Unfinished { panel }),
            None => Ok(self.matrix),
        }
    }
}
