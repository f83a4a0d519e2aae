//! A layer's keys or values: in one buffer, or in several where a kernel can't bind so much at once.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use minfer_graph::{Buffer, KernelFault, KvPart, KvSpec};

use crate::device::{Device, GpuBuffer, Span};
use crate::kernels::attention::{MAX_PIECES, OTHER_BINDINGS};

/// The blocks of a region, as many in each buffer as a kernel can bind.
pub(super) struct Region {
    pieces: Vec<Arc<GpuBuffer>>,
    /// Bytes of every piece but the last, which may have fewer.
    piece_bytes: usize,
    piece_blocks: usize,
}

/// What is done with a piece, from a byte of it on, for a range of the bytes in question.
type Each<'a> = dyn FnMut(&GpuBuffer, usize, Range<usize>) -> Result<(), KernelFault> + 'a;

/// Most blocks of so many bytes that one piece has.
fn blocks_at_once(device: &Device, block_bytes: usize) -> usize {
    device.max_binding_bytes().min(device.max_buffer_bytes()) / block_bytes.max(1)
}

/// Most blocks of so many bytes that a region has.
pub(super) fn max_blocks(device: &Device, block_bytes: usize) -> usize {
    // Keys and values are bound together, beside what else a kernel reads and writes.
    let bindings = device.max_bindings().saturating_sub(OTHER_BINDINGS) / 2;
    blocks_at_once(device, block_bytes).saturating_mul(bindings.min(MAX_PIECES))
}

impl Region {
    /// Memory for the keys or values of a layer, zeroed.
    pub(super) fn zeroed(
        device: &Arc<Device>,
        spec: &KvSpec,
        block_bytes: usize,
    ) -> Result<Region, KernelFault> {
        if spec.n_blocks > max_blocks(device, block_bytes) {
            let (name, most) = (&device.adapter().name, device.max_binding_bytes());
            let reason = format!("device '{name}' lets a kernel see {most} bytes as one operand");
            return Err(KernelFault::OutOfMemory {
                bytes: block_bytes.saturating_mul(spec.n_blocks),
                reason,
            });
        }
        let piece_blocks = spec.n_blocks.min(blocks_at_once(device, block_bytes)).max(1);
        let firsts = (0..spec.n_blocks.max(1)).step_by(piece_blocks);
        let piece = |first: usize| {
            let n = piece_blocks.min(spec.n_blocks - first.min(spec.n_blocks));
            GpuBuffer::zeroed(device, n * block_bytes).map(Arc::new)
        };
        let pieces = firsts.map(piece).collect::<Result<_, _>>()?;
        Ok(Region { pieces, piece_bytes: piece_blocks * block_bytes, piece_blocks })
    }

    /// Every piece, for a kernel.
    pub(super) fn spans(&self) -> Result<Vec<Span>, KernelFault> {
        self.pieces.iter().map(|piece| Span::of(piece.clone(), 0, piece.bytes())).collect()
    }

    /// Blocks of every piece but the last.
    pub(super) fn piece_blocks(&self) -> usize {
        self.piece_blocks
    }

    /// Calls `each` for every piece that bytes `offset..offset + len` touch: the piece, where in it, and which of the bytes.
    fn each(&self, offset: usize, len: usize, each: &mut Each<'_>) -> Result<(), KernelFault> {
        let bytes = self.bytes();
        if offset.checked_add(len).is_none_or(|end| end > bytes) {
            return Err(KernelFault::Bug(format!("{len} bytes at {offset} of a region of {bytes}")));
        }
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let (piece, within) = (at / self.piece_bytes, at % self.piece_bytes);
            let n = (len - done).min(self.piece_bytes - within);
            each(&self.pieces[piece], within, done..done + n)?;
            done += n;
        }
        Ok(())
    }
}

impl Buffer for Region {
    fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes()).sum()
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<(), KernelFault> {
        self.each(offset, data.len(), &mut |piece, at, range| piece.write(at, &data[range]))
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), KernelFault> {
        self.each(offset, out.len(), &mut |piece, at, range| piece.read(at, &mut out[range]))
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// The region that the driver made.
pub(super) fn of(buffer: Arc<dyn Buffer>, layer: usize, part: KvPart) -> Result<Arc<Region>, KernelFault> {
    let foreign =
        |_| KernelFault::Bug(format!("{part:?} of layer {layer} lie in a buffer of another backend"));
    buffer.as_any().downcast::<Region>().map_err(foreign)
}
