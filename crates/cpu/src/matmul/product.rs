//! The loops around the kernels: chunks of tokens, panels, tiles.
//!
//! Tokens are taken in chunks whose activations stay in the L2 cache; a panel is read from memory once, or once for each chunk,
//! and meets all tiles of a chunk while it is in the cache. k is never split, so no partial sums exist.

#![expect(unsafe_code, reason = "an output shared between threads")]

use super::activations::{QuantizedActivations, TileSpan, resize_exact};
use super::float::{self, FloatTile, is_float};
use super::kernels::{Kernels, Panel, STREAMS, Tile};
use super::pack::{PANEL_ROWS, PackedMatrix};
use super::walk::LINE;
use crate::isa::Isa;
use minfer_gguf::TensorType;
use std::ops::Range;

/// Bytes of activations in a chunk. 128 to 768 KiB are equal; all of 512 long tokens at once lose a quarter.
const CHUNK_BYTES: usize = 384 << 10;
/// Fewest tokens of a chunk, however long they are.
const MIN_CHUNK_TOKENS: usize = 16;
/// Most bytes of panels unpacked at once: together with a chunk they stay in the L2 cache.
const EXPANDED_BYTES: usize = 256 << 10;
/// From this many tokens in a chunk it pays to unpack a panel once rather than in every tile.
const EXPAND_TOKENS: usize = 64;

// The longest rows that are unpacked fit: with a line of scales for each step, one panel of theirs has 108 KiB.
const _: () = assert!(CHUNK_BYTES / EXPAND_TOKENS / 32 * (32 * PANEL_ROWS + LINE) <= EXPANDED_BYTES);

/// The operands of a product don't fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatMulError {
    /// The activations don't have the stated shape, or `k` is not a multiple of 32.
    #[error("{len} activations are not {n_tokens} tokens of {k} (a multiple of 32 for quantized weights)")]
    Activations {
        /// Values given.
        len: usize,
        /// Tokens stated.
        n_tokens: usize,
        /// Values per token stated.
        k: usize,
    },
    /// The activations have another length than the rows of the matrix.
    #[error("a {dtype} matrix of {expected} inputs can't be multiplied with activations of {found}")]
    InputLength {
        /// The type of the weights.
        dtype: TensorType,
        /// Inputs of the matrix.
        expected: usize,
        /// Values per token given.
        found: usize,
    },
    /// Float activations for quantized weights or the other way round, or quantized for another instruction set, or not
    /// [prepared](QuantizedActivations::prepare) for this type.
    #[error(
        "the activations are not in the form that {kernel} reads, or not prepared for the type of its weights"
    )]
    ActivationForm {
        /// The kernel that was to run.
        kernel: String,
    },
    /// The output is too small.
    #[error("the output holds {n_tokens} tokens of {rows}, but {needed_tokens} of {needed_rows} are needed")]
    Output {
        /// Tokens that fit.
        n_tokens: usize,
        /// Rows that fit.
        rows: usize,
        /// Tokens of the activations.
        needed_tokens: usize,
        /// Rows of the matrix.
        needed_rows: usize,
    },
    /// The matrix has fewer panels.
    #[error("panels {start}..{end} of a matrix that has {n_panels}")]
    Panels {
        /// First panel asked for.
        start: usize,
        /// End of the panels asked for.
        end: usize,
        /// Panels there are.
        n_panels: usize,
    },
}

/// What the weights are multiplied with.
#[derive(Clone, Copy)]
pub enum Activations<'a> {
    /// `x: [n_tokens, k]`, row-major, for F32, F16 and BF16 weights.
    F32 {
        /// The values.
        x: &'a [f32],
        /// Tokens.
        n_tokens: usize,
        /// Values per token.
        k: usize,
    },
    /// For every other type, [prepared](QuantizedActivations::prepare) for that of the weights.
    Quantized(&'a QuantizedActivations),
}

impl Activations<'_> {
    /// Whether weights of this type want quantized activations.
    pub fn quantized_for(dtype: TensorType) -> bool {
        !is_float(dtype)
    }

    /// Tokens.
    pub fn n_tokens(&self) -> usize {
        match self {
            Activations::F32 { n_tokens, .. } => *n_tokens,
            Activations::Quantized(act) => act.n_tokens(),
        }
    }

    fn k(&self) -> usize {
        match self {
            Activations::F32 { k, .. } => *k,
            Activations::Quantized(act) => act.k(),
        }
    }
}

/// Where outputs go: `out[token * stride + row]`, written by several threads at once.
#[derive(Clone, Copy, Debug)]
pub struct OutPtr {
    ptr: *mut f32,
    stride: usize,
    n_tokens: usize,
    rows: usize,
}

// SAFETY: a plain address; the contract of `new` speaks of all threads that use it.
unsafe impl Send for OutPtr {}
// SAFETY: as above.
unsafe impl Sync for OutPtr {}

impl OutPtr {
    /// An output of `n_tokens` tokens of `rows` values, `stride` values apart.
    ///
    /// # Safety
    /// While this value or a copy is used: `ptr[token * stride + row]` is valid for writes for all `token < n_tokens` and
    /// `row < rows`; `stride >= rows`; calls that run at the same time write disjoint panels; nobody else accesses those
    /// values. They need not be initialized.
    pub unsafe fn new(ptr: *mut f32, stride: usize, n_tokens: usize, rows: usize) -> OutPtr {
        OutPtr { ptr, stride, n_tokens, rows }
    }

    /// The values of some rows of a token.
    ///
    /// # Safety
    /// They have been written, and nobody else accesses them while the result lives.
    ///
    /// # Panics
    /// If they are not inside.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps parts disjoint")]
    pub(crate) unsafe fn part(&self, token: usize, rows: Range<usize>) -> &mut [f32] {
        assert!(token < self.n_tokens && rows.start <= rows.end && rows.end <= self.rows);
        // SAFETY: inside by the promise of `new`; initialized and unique by that of the caller.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(token * self.stride + rows.start), rows.len()) }
    }
}

/// Working memory of one thread; it grows on first use and is then reused.
#[derive(Default)]
pub struct Scratch {
    expanded: Vec<Line>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

impl Scratch {
    /// Most bytes for products of `n_tokens` of `k` values.
    pub(crate) fn bytes_for(n_tokens: usize, k: usize) -> usize {
        if max_tokens(k).min(n_tokens) < EXPAND_TOKENS {
            return 0;
        }
        EXPANDED_BYTES
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub(super) fn capacity_bytes(&self) -> usize {
        self.expanded.capacity() * size_of::<Line>()
    }

    /// Empty working memory.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Multiplies panels `panels` of `w` with `x`: overwrites `out[token][row]` for all tokens of `x` and the rows
/// `panels.start * 16..panels.end * 16` (those that exist). Errors, before anything is written, if shapes don't fit or the
/// activations are in another form than the kernels of `isa` read, or not prepared for this type.
pub fn matmul_panels(
    w: &PackedMatrix,
    x: &Activations<'_>,
    out: OutPtr,
    panels: Range<usize>,
    isa: Isa,
    scratch: &mut Scratch,
) -> Result<(), MatMulError> {
    check(w, x, &out, &panels)?;
    match (w.layout.kernels, x) {
        (Some(kernels), Activations::Quantized(act)) if act.isa() == Some(isa) => {
            let form = || MatMulError::ActivationForm { kernel: kernel_name(w.dtype(), isa) };
            let corrections = act.corrections.get(kernels.correction).ok_or_else(form)?;
            Quantized { w, kernels, act, corrections, out, isa }.run(panels, scratch);
            Ok(())
        }
        (None, Activations::F32 { x, n_tokens, .. }) => {
            Float { w, x, n_tokens: *n_tokens, out, isa }.run(panels);
            Ok(())
        }
        _ => Err(MatMulError::ActivationForm { kernel: kernel_name(w.dtype(), isa) }),
    }
}

fn check(
    w: &PackedMatrix,
    x: &Activations<'_>,
    out: &OutPtr,
    panels: &Range<usize>,
) -> Result<(), MatMulError> {
    if let Activations::F32 { x, n_tokens, k } = *x
        && n_tokens.checked_mul(k) != Some(x.len())
    {
        return Err(MatMulError::Activations { len: x.len(), n_tokens, k });
    }
    if x.k() != w.k() {
        return Err(MatMulError::InputLength { dtype: w.dtype(), expected: w.k(), found: x.k() });
    }
    if x.n_tokens() > out.n_tokens || w.rows() > out.rows {
        let (needed_tokens, needed_rows) = (x.n_tokens(), w.rows());
        return Err(MatMulError::Output {
            n_tokens: out.n_tokens,
            rows: out.rows,
            needed_tokens,
            needed_rows,
        });
    }
    if panels.start > panels.end || panels.end > w.n_panels() {
        return Err(MatMulError::Panels { start: panels.start, end: panels.end, n_panels: w.n_panels() });
    }
    Ok(())
}

/// The name of the kernel that runs for a type: `x86_64-q4_k-avx512vnni`.
pub fn kernel_name(dtype: TensorType, isa: Isa) -> String {
    let level = match isa.name() {
        "avx512" if !is_float(dtype) => "avx512vnni",
        name => name,
    };
    format!("{}-{}-{level}", std::env::consts::ARCH, dtype.name().to_lowercase())
}

/// A product with quantized weights.
struct Quantized<'a> {
    w: &'a PackedMatrix,
    kernels: &'static Kernels,
    act: &'a QuantizedActivations,
    corrections: &'a [i32],
    out: OutPtr,
    isa: Isa,
}

impl Quantized<'_> {
    fn run(&self, panels: Range<usize>, scratch: &mut Scratch) {
        let tiles = self.act.tiles();
        if let [tile @ TileSpan { len: 1, .. }] = tiles {
            return self.run_token(tile, panels);
        }
        let max_tokens = max_tokens(self.w.k());
        let n_tokens = self.act.n_tokens().min(max_tokens);
        let expanded_bytes = match n_tokens {
            ..EXPAND_TOKENS => None,
            _ => self.kernels.expanded_bytes(self.w.k() / 32, self.isa),
        };
        let Some(n_bytes) = expanded_bytes else {
            return chunks(tiles, max_tokens).for_each(|chunk| self.run_chunk(chunk, panels.clone()));
        };
        // With one chunk a panel is best used as soon as it is unpacked; with several it is unpacked once for all.
        let at_once = if n_tokens < self.act.n_tokens() { EXPANDED_BYTES / n_bytes } else { 1 };
        let mut rest = panels;
        while !rest.is_empty() {
            let group = rest.start..(rest.start + at_once).min(rest.end);
            rest.start = group.end;
            let expanded = self.expand(group.clone(), n_bytes, &mut scratch.expanded);
            for chunk in chunks(tiles, max_tokens) {
                for (index, bytes) in group.clone().zip(expanded.chunks_exact(n_bytes)) {
                    chunk
                        .iter()
                        .for_each(|tile| self.run_tile(&[self.panel(bytes, index, tile)], tile, false, true));
                }
            }
        }
    }

    /// Panels as they are packed, each from memory for the first tile and from a cache for the others.
    fn run_chunk(&self, tiles: &[TileSpan], panels: Range<usize>) {
        for index in panels {
            let bytes = self.w.panel_bytes(index..index + 1);
            for (i, tile) in tiles.iter().enumerate() {
                self.run_tile(&[self.panel(bytes, index, tile)], tile, i == 0, false);
            }
        }
    }

    /// One token, with as many panels at once as the level takes: their places are as far apart as can be, so that each is a
    /// stream of its own.
    fn run_token(&self, tile: &TileSpan, panels: Range<usize>) {
        let panel = |i| self.panel(self.w.panel_bytes(i..i + 1), i, tile);
        let mut rest = panels.start;
        if Kernels::takes_streams(self.isa) {
            let apart = panels.len() / STREAMS;
            for i in panels.start..panels.start + apart {
                let together: [Panel<'_>; STREAMS] = std::array::from_fn(|s| panel(i + s * apart));
                self.run_tile(&together, tile, true, false);
            }
            rest += apart * STREAMS;
        }
        for i in rest..panels.end {
            self.run_tile(&[panel(i)], tile, true, false);
        }
    }

    /// Panel `index`, whose bytes these are, with the place of its outputs for a tile.
    fn panel<'b>(&self, bytes: &'b [u8], index: usize, tile: &TileSpan) -> Panel<'b> {
        let n_rows = (self.w.rows() - index * PANEL_ROWS).min(PANEL_ROWS);
        Panel { bytes, out: self.out.at(tile.first, index), n_rows }
    }

    fn run_tile(
        &self,
        panels: &[Panel<'_>],
        &TileSpan { first, len }: &TileSpan,
        prefetch: bool,
        expanded: bool,
    ) {
        let k = self.w.k();
        let blocks = first * (k / 32)..(first + len) * (k / 32);
        let words = self.kernels.correction.words();
        let tile = Tile {
            panels,
            n_steps: k / 32,
            len,
            q: &self.act.q[first * k..(first + len) * k],
            scale: &self.act.scale[blocks.clone()],
            scaled_sum: &self.act.scaled_sum[blocks.clone()],
            correction: &self.corrections[blocks.start * words..blocks.end * words],
            out_stride: self.out.stride,
            prefetch,
        };
        // SAFETY: the slices are those of these panels and one tile, packed and quantized for these kernels; the outputs are
        // valid for the panels' rows and these tokens (checked against the sizes that `OutPtr::new` was promised).
        unsafe { self.kernels.run(&tile, self.isa, expanded) }
    }

    /// The panels with their quants as plain bytes, `n_bytes` each.
    fn expand<'b>(&self, panels: Range<usize>, n_bytes: usize, lines: &'b mut Vec<Line>) -> &'b [u8] {
        let total = n_bytes * panels.len();
        resize_exact(lines, (total / LINE).max(lines.len()), Line([0; LINE]));
        let lines = &mut lines[..total / LINE];
        // SAFETY: `Line` is plain bytes without padding.
        let out = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<u8>(), total) };
        for (index, out) in panels.zip(out.chunks_exact_mut(n_bytes)) {
            self.kernels.expand(self.w.panel_bytes(index..index + 1), out, self.isa);
        }
        out
    }
}

/// Most tokens of `k` values in a chunk.
fn max_tokens(k: usize) -> usize {
    (CHUNK_BYTES / k.max(1)).max(MIN_CHUNK_TOKENS)
}

/// Runs of tiles of `max_tokens` together, or single tiles.
fn chunks(tiles: &[TileSpan], max_tokens: usize) -> impl Iterator<Item = &[TileSpan]> {
    let mut rest = tiles;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let fits = |t: &TileSpan| t.first + t.len - first.first <= max_tokens;
        let (chunk, after) = rest.split_at(rest.iter().take_while(|t| fits(t)).count().max(1));
        rest = after;
        Some(chunk)
    })
}

impl OutPtr {
    /// The first row of a panel, for a token. Both exist.
    fn at(&self, token: usize, panel: usize) -> *mut f32 {
        self.ptr.wrapping_add(token * self.stride + panel * PANEL_ROWS)
    }
}

/// A product with float weights.
struct Float<'a> {
    w: &'a PackedMatrix,
    x: &'a [f32],
    n_tokens: usize,
    out: OutPtr,
    isa: Isa,
}

impl Float<'_> {
    fn run(&self, panels: Range<usize>) {
        let chunk = (CHUNK_BYTES / 4 / self.w.k()).max(MIN_CHUNK_TOKENS);
        for first in (0..self.n_tokens).step_by(chunk) {
            self.run_chunk(first..(first + chunk).min(self.n_tokens), panels.clone());
        }
    }

    fn run_chunk(&self, tokens: Range<usize>, panels: Range<usize>) {
        // As many panels at once as the widest kernel of the smallest tile takes.
        let group = float::shapes(self.isa).iter().map(|&(_, panels)| panels).max().unwrap_or(1);
        for start in panels.clone().step_by(group) {
            let group = start..(start + group).min(panels.end);
            let mut first = tokens.start;
            while first < tokens.end {
                let left = tokens.end - first;
                let len =
                    float::shapes(self.isa).iter().map(|&(len, _)| len).find(|&len| len <= left).unwrap_or(1);
                self.run_tile(group.clone(), first, len, first == tokens.start);
                first += len;
            }
        }
    }

    fn run_tile(&self, panels: Range<usize>, first: usize, len: usize, prefetch: bool) {
        let k = self.w.k();
        let tile = FloatTile {
            panels: self.w.panel_bytes(panels.clone()),
            n_panels: panels.len(),
            k,
            len,
            x: &self.x[first * k..(first + len) * k],
            out: self.out.at(first, panels.start),
            out_stride: self.out.stride,
            n_rows: self.w.rows().min(panels.end * PANEL_ROWS) - panels.start * PANEL_ROWS,
            prefetch,
        };
        // SAFETY: the slices are those of these panels and tokens; the output as in `Quantized::run_tile`.
        unsafe { float::run(self.w.dtype(), &tile, self.isa) }
    }
}
