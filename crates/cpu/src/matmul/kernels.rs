//! The table of kernels: for each quantized type its sizes and functions, chosen once per matrix.

#![expect(unsafe_code, reason = "a table of SIMD kernels")]

use super::corrections::Correction;
use super::format::{self, Format, for_each_format};
use super::quants::{Bytes, Quants};
use super::rearrange::{self, Plain};
use super::scalar;
use super::scales::Scales;
use super::walk::{LINE, steps};
use crate::isa::Isa;
use minfer_gguf::TensorType;

/// How far ahead kernels prefetch, in bytes. 4 KiB is equal, 16 KiB loses 1-3 %.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only SIMD kernels prefetch"))]
pub(super) const PREFETCH_AHEAD: usize = 8 << 10;

/// Panels that one token is multiplied with at a time, on levels that do so: each is read from a place of its own. A core
/// gets more out of memory from two places than from one (33 GB/s and 30), and needs the activations half as often, which
/// long panels drive out of the first cache (24 GB/s with one panel of Q6_K and 10,000 inputs, 30 with two).
pub(super) const STREAMS: usize = 2;

/// 16 rows of weights.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    /// Starts at a multiple of 64.
    pub(super) bytes: &'a [u8],
    pub(super) out: *mut f32,
    /// Rows that exist, 1..=16.
    pub(super) n_rows: usize,
}

/// The work of one kernel call: one panel by the tokens of one tile, or [`STREAMS`] panels by one token.
///
/// The arrays hold whole panels and tiles, laid out as `walk.rs`, `quants.rs`, `scales.rs` and `activations.rs` say. Of each
/// panel `out[token * out_stride + row]` may be written for `len` tokens and `n_rows` rows, and is written by nobody else
/// meanwhile.
pub(super) struct Tile<'a> {
    pub(super) panels: &'a [Panel<'a>],
    /// Steps of 32 k.
    pub(super) n_steps: usize,
    /// Tokens.
    pub(super) len: usize,
    pub(super) q: &'a [i8],
    pub(super) scale: &'a [f32],
    pub(super) scaled_sum: &'a [f32],
    /// In the form that [`Kernels::correction`] names.
    pub(super) correction: &'a [i32],
    pub(super) out_stride: usize,
    /// Whether the panels come from memory rather than from a cache.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only SIMD kernels prefetch"))]
    pub(super) prefetch: bool,
}

type TileFn = unsafe fn(&Tile<'_>);
type PutFn = unsafe fn(&[u8], usize, &mut [u8]);

/// Sizes and functions of one quantized type.
pub(super) struct Kernels {
    pub(super) dtype: TensorType,
    /// Sizes for 16 rows.
    pub(super) sizes: Sizes,
    /// The form of corrections that kernels read.
    pub(super) correction: Correction,
    /// Writes the `k` weights of row `.1` of a panel as floats.
    pub(super) dequantize: fn(&[u8], usize, &mut [f32]),
    scalar: Level,
    #[cfg(target_arch = "x86_64")]
    avx2: Level,
    #[cfg(target_arch = "x86_64")]
    avx512: Level,
}

/// Bytes of the scales of a block and of the quants of a step, and how many steps a block has.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    block_scales: usize,
    step_quants: usize,
    steps_per_block: usize,
}

impl Sizes {
    /// Bytes of a panel of `n_steps` (whole blocks), unless there are too many for an address.
    pub(super) fn panel(&self, n_steps: usize) -> Option<usize> {
        n_steps.checked_mul(self.step_quants)?.checked_add(self.scales(n_steps)?)
    }

    /// Bytes of such a panel when its quants are whole bytes.
    fn expanded(&self, n_steps: usize) -> Option<usize> {
        Sizes { step_quants: Bytes::BYTES, ..*self }.panel(n_steps)
    }

    /// Bytes of its lines of scales.
    fn scales(&self, n_steps: usize) -> Option<usize> {
        let bytes = (n_steps / self.steps_per_block).checked_mul(self.block_scales)?;
        bytes.checked_next_multiple_of(LINE)
    }
}

/// The functions of one type on one instruction set.
#[derive(Clone, Copy)]
struct Level {
    put_panel: PutFn,
    tile: TileFn,
    expanded: Option<Expanded>,
}

/// Unpacking the quants of a panel to plain bytes (64-byte aligned on both sides), its scales among them as before, and the
/// kernel that runs on those.
#[derive(Clone, Copy)]
struct Expanded {
    unpack: unsafe fn(&[u8], &mut [u8]),
    tile: TileFn,
}

macro_rules! table {
    ($($name:ident),*) => { static TABLE: &[Kernels] = &[$(Kernels::of::<format::$name>()),*]; };
}
for_each_format! { table }

impl Kernels {
    /// The kernels of a type, if it is a quantized one that has them.
    pub(super) fn find(dtype: TensorType) -> Option<&'static Kernels> {
        TABLE.iter().find(|k| k.dtype == dtype)
    }

    #[cfg(target_arch = "x86_64")]
    const fn of<F>() -> Kernels
    where
        F: Format<Quants: super::avx2::Unpack256 + super::avx512::Unpack512>,
    {
        use super::{avx2, avx512, rearrange_avx2};
        Kernels {
            // Plain bytes would be slower here: their sums must be widened after every group.
            avx2: Level {
                put_panel: rearrange_avx2::put_panel::<F>,
                tile: avx2::tile::<F::Quants, F::Scales>,
                expanded: None,
            },
            avx512: Level::new::<F>(
                rearrange_avx2::put_panel::<F>,
                avx512::tile::<F::Quants, F::Scales>,
                Expanded {
                    unpack: avx512::expand::<F::Quants, F::Scales>,
                    tile: avx512::tile::<Bytes, F::Scales>,
                },
            ),
            ..Kernels::portable::<F>()
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    const fn of<F: Format>() -> Kernels {
        Kernels::portable::<F>()
    }

    const fn portable<F: Format>() -> Kernels {
        const { assert!((F::OFFSET == 0) == F::Scales::MIN, "kernels correct either an offset or a minimum") };
        let correction = match (F::Scales::HALVES, F::Scales::MIN) {
            (false, true) => Correction::None,
            (false, false) => Correction::Step { offset: F::OFFSET },
            (true, false) => Correction::Halves { offset: F::OFFSET },
            (true, true) => Correction::Pair,
        };
        assert!(correction.words() == F::Scales::CORRECTIONS, "kernels read other corrections than they get");
        let scalar = Level::new::<F>(
            rearrange::put_panel::<F, Plain>,
            scalar::tile::<F::Quants, F::Scales>,
            Expanded {
                unpack: scalar::expand::<F::Quants, F::Scales>,
                tile: scalar::tile::<Bytes, F::Scales>,
            },
        );
        Kernels {
            dtype: F::TYPE,
            sizes: Sizes {
                block_scales: F::Scales::BYTES,
                step_quants: F::Quants::BYTES,
                steps_per_block: F::Scales::STEPS,
            },
            correction,
            dequantize: dequantize::<F>,
            scalar,
            #[cfg(target_arch = "x86_64")]
            avx2: scalar,
            #[cfg(target_arch = "x86_64")]
            avx512: scalar,
        }
    }

    fn level(&self, isa: Isa) -> &Level {
        match isa {
            Isa::Scalar => &self.scalar,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => &self.avx2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(_) => &self.avx512,
        }
    }

    /// Packs up to 16 raw rows of `row_bytes` into a panel that was zero.
    pub(super) fn put_panel(&self, raw: &[u8], row_bytes: usize, panel: &mut [u8], isa: Isa) {
        // SAFETY: the token in `isa` proves the features.
        unsafe { (self.level(isa).put_panel)(raw, row_bytes, panel) }
    }

    /// Whether kernels of this level take [`STREAMS`] panels at once with one token.
    pub(super) fn takes_streams(isa: Isa) -> bool {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(_) => true,
            _ => false,
        }
    }

    /// Bytes of a panel of `n_steps` after [`Kernels::expand`], if that pays on this level.
    pub(super) fn expanded_bytes(&self, n_steps: usize, isa: Isa) -> Option<usize> {
        self.level(isa).expanded.and_then(|_| self.sizes.expanded(n_steps))
    }

    /// Unpacks the quants of a panel to plain bytes, if this level does that.
    ///
    /// # Panics
    /// If either side does not start at a multiple of 64.
    pub(super) fn expand(&self, panel: &[u8], out: &mut [u8], isa: Isa) {
        assert!(panel.as_ptr().addr().is_multiple_of(64) && out.as_ptr().addr().is_multiple_of(64));
        if let Some(expanded) = self.level(isa).expanded {
            // SAFETY: the token in `isa` proves the features, and the alignment was just checked.
            unsafe { (expanded.unpack)(panel, out) }
        }
    }

    /// Runs one tile on `isa`; `expanded` says that its panel came from [`Kernels::expand`].
    ///
    /// # Safety
    /// The arrays and the output of `tile` are as [`Tile`] says, and `expanded` is true only if the level expands.
    pub(super) unsafe fn run(&self, tile: &Tile<'_>, isa: Isa, expanded: bool) {
        let level = self.level(isa);
        let kernel = match level.expanded {
            Some(plain) if expanded => plain.tile,
            _ => level.tile,
        };
        // SAFETY: the token in `isa` proves the features; the rest is granted by the caller.
        unsafe { kernel(tile) }
    }
}

impl Level {
    /// With no expansion for types that are packed as bytes already.
    const fn new<F: Format>(put_panel: PutFn, tile: TileFn, expanded: Expanded) -> Level {
        Level {
            put_panel,
            tile,
            expanded: if F::Quants::BYTES < Bytes::BYTES { Some(expanded) } else { None },
        }
    }
}

fn dequantize<F: Format>(panel: &[u8], row: usize, out: &mut [f32]) {
    for (step, out) in steps::<F::Quants, F::Scales>(panel).zip(out.chunks_exact_mut(32)) {
        let scales = step.row_scales::<F::Scales>(row);
        let weights = F::Quants::unpack(step.quants);
        for (i, out) in out.iter_mut().enumerate() {
            let q = (i32::from(weights[i / 4][row * 4 + i % 4]) - F::OFFSET) as f32;
            *out = scales.dequantize::<F::Scales>(q, i / 16);
        }
    }
}
