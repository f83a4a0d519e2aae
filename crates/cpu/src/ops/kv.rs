//! Where keys and values lie, and how they get there.
//!
//! A layer has one region of keys and one of values, both cut into blocks of `block_size` positions. Within a block:
//! * keys `[kv head][element][position]`: 16 positions are the lanes of a vector, so a score needs no sum over lanes;
//! * values `[kv head][position][element]`, elements padded to a multiple of 16: the weighted sum has elements as lanes.
//!
//! Position `p` of a sequence lies in its block `p / block_size` at offset `p % block_size`; a *slot* is
//! `block * block_size + offset`.

#![expect(unsafe_code, reason = "heads write interleaved parts of one region")]

pub(crate) mod q8_0;
pub(crate) mod values;

use half::f16;
use minfer_graph::KvPart;

use super::SPAN;
use super::outer::Elem;
use crate::error::KernelError;
use crate::isa::Isa;
use crate::pool::{Cost, Pool, SharedOut, piece_range};
use crate::simd::{Kernel, LANES, Simd, dispatch};

/// The shape of a layer's keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Positions in a block: 16, 32, 64, 128 or 256.
    pub block_size: usize,
    /// Heads of keys and values.
    pub n_kv_heads: usize,
    /// Elements of a key.
    pub k_dim: usize,
    /// Elements of a value.
    pub v_dim: usize,
}

/// The keys and values of a layer, all blocks.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the two regions, as described for the module")]
pub enum KvRegions<'a> {
    /// In half precision.
    F16 { k: &'a [f16], v: &'a [f16] },
    /// In single precision.
    F32 { k: &'a [f32], v: &'a [f32] },
    /// In blocks of int8.
    Q8_0 { k: &'a [u8], v: &'a [u8] },
}

/// One region, to be written.
#[derive(Debug)]
#[expect(missing_docs, reason = "the element types")]
pub enum RegionMut<'a> {
    F16(&'a mut [f16]),
    F32(&'a mut [f32]),
    Q8_0(&'a mut [u8]),
}

impl KvLayout {
    /// Elements of keys in one block.
    pub fn k_block_elems(&self) -> usize {
        self.n_kv_heads * self.k_dim * self.block_size
    }

    /// Elements of values in one block.
    pub fn v_block_elems(&self) -> usize {
        self.n_kv_heads * self.v_row() * self.block_size
    }

    /// Bytes of keys or values in one block of q8_0.
    pub fn q8_0_block_bytes(&self, part: KvPart) -> usize {
        self.n_kv_heads * q8_0::Head::of(self, part).bytes()
    }

    /// Elements of a value with its padding.
    pub(crate) fn v_row(&self) -> usize {
        self.v_dim.next_multiple_of(LANES)
    }

    /// The number of blocks in regions of these lengths.
    pub(crate) fn n_blocks(&self, k_len: usize, v_len: usize) -> Result<usize, KernelError> {
        let n_blocks = self.n_blocks_of(KvPart::K, k_len)?;
        KernelError::check_len("value region", v_len, n_blocks * self.v_block_elems())?;
        Ok(n_blocks)
    }

    /// The same for q8_0, in bytes.
    pub(crate) fn n_q8_0_blocks(&self, k_len: usize, v_len: usize) -> Result<usize, KernelError> {
        let n_blocks = self.n_q8_0_blocks_of(KvPart::K, k_len)?;
        KernelError::check_len("value region", v_len, n_blocks * self.q8_0_block_bytes(KvPart::V))?;
        Ok(n_blocks)
    }

    fn n_q8_0_blocks_of(&self, part: KvPart, len: usize) -> Result<usize, KernelError> {
        self.check()?;
        KernelError::check_rows("region", len, self.q8_0_block_bytes(part))
    }

    /// The number of blocks in a region of this length.
    fn n_blocks_of(&self, part: KvPart, len: usize) -> Result<usize, KernelError> {
        self.check()?;
        match part {
            KvPart::K => KernelError::check_rows("key region", len, self.k_block_elems()),
            KvPart::V => KernelError::check_rows("value region", len, self.v_block_elems()),
        }
    }

    fn check(&self) -> Result<(), KernelError> {
        if !self.block_size.is_multiple_of(LANES) || !SPAN.is_multiple_of(self.block_size) {
            let rule = "16, 32, 64, 128 or 256";
            let value = self.block_size as f64;
            return Err(KernelError::Parameter { what: "KV block size", value, rule });
        }
        for (what, n) in [("KV heads", self.n_kv_heads), ("key size", self.k_dim), ("value size", self.v_dim)]
        {
            if n == 0 {
                return Err(KernelError::Parameter { what, value: 0.0, rule: "positive" });
            }
        }
        Ok(())
    }

    fn head_dim(&self, part: KvPart) -> usize {
        match part {
            KvPart::K => self.k_dim,
            KvPart::V => self.v_dim,
        }
    }
}

/// Writes the keys, or values, `x: [head_dim * n_kv_heads, n_tokens]` of some tokens into their slots of the region,
/// rounded to its type. A slot outside is refused before anything is written; of two tokens with the same slot, the later
/// one stays.
pub fn store_kv(
    isa: Isa,
    pool: &Pool,
    layout: KvLayout,
    part: KvPart,
    x: &[f32],
    slots: &[i32],
    region: RegionMut<'_>,
) -> Result<(), KernelError> {
    match region {
        RegionMut::F16(to) => store(isa, pool, layout, part, x, slots, to),
        RegionMut::F32(to) => store(isa, pool, layout, part, x, slots, to),
        RegionMut::Q8_0(to) => store_q8_0(isa, pool, layout, part, x, slots, to),
    }
}

/// Work for one element: its conversion, and for keys a store to a cache line of its own.
const STORE_PS: u64 = 1000;

fn store<E: Elem>(
    isa: Isa,
    pool: &Pool,
    layout: KvLayout,
    part: KvPart,
    x: &[f32],
    slots: &[i32],
    to: &mut [E],
) -> Result<(), KernelError> {
    check_store(layout, part, x, slots, layout.n_blocks_of(part, to.len())?)?;
    // Pieces are heads, so that they are disjoint whatever the slots are.
    let n_pieces = Cost::of(x.len(), STORE_PS).n_pieces(layout.n_kv_heads, pool.n_threads());
    let to = SharedOut::new(to);
    pool.run(n_pieces, &|piece| {
        for head in piece_range(layout.n_kv_heads, n_pieces, piece) {
            dispatch(isa, StoreHead { layout, part, head, x, slots, to: &to });
        }
    });
    Ok(())
}

fn check_store(
    layout: KvLayout,
    part: KvPart,
    x: &[f32],
    slots: &[i32],
    n_blocks: usize,
) -> Result<(), KernelError> {
    let n_elems = slots.len() * layout.n_kv_heads * layout.head_dim(part);
    KernelError::check_len("keys or values", x.len(), n_elems)?;
    let n_slots = n_blocks * layout.block_size;
    slots
        .iter()
        .enumerate()
        .try_for_each(|(at, &slot)| KernelError::check_index("KV slot", slot, at, n_slots).map(|_| ()))
}

/// Work for one element of q8_0: the largest of its group, its division.
const STORE_Q8_0_PS: u64 = 2000;

fn store_q8_0(
    isa: Isa,
    pool: &Pool,
    layout: KvLayout,
    part: KvPart,
    x: &[f32],
    slots: &[i32],
    to: &mut [u8],
) -> Result<(), KernelError> {
    check_store(layout, part, x, slots, layout.n_q8_0_blocks_of(part, to.len())?)?;
    let n_pieces = Cost::of(x.len(), STORE_Q8_0_PS).n_pieces(layout.n_kv_heads, pool.n_threads());
    let to = SharedOut::new(to);
    pool.run(n_pieces, &|piece| {
        for head in piece_range(layout.n_kv_heads, n_pieces, piece) {
            dispatch(isa, StoreQ8_0 { layout, part, head, x, slots, to: &to });
        }
    });
    Ok(())
}

/// Stores one head of all tokens as q8_0.
struct StoreQ8_0<'a> {
    layout: KvLayout,
    part: KvPart,
    head: usize,
    x: &'a [f32],
    slots: &'a [i32],
    to: &'a SharedOut<'a, u8>,
}

impl Kernel for StoreQ8_0<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _s: S) {
        let KvLayout { block_size, n_kv_heads, .. } = self.layout;
        let (dim, sizes) = (self.layout.head_dim(self.part), q8_0::Head::of(&self.layout, self.part));
        for (token, &slot) in self.slots.iter().enumerate() {
            let (block, offset) = (slot as usize / block_size, slot as usize % block_size);
            let start = (block * n_kv_heads + self.head) * sizes.bytes();
            // SAFETY: one head of one block; another head's are elsewhere, and one thread has this head.
            let to = unsafe { self.to.part(start..start + sizes.bytes()) };
            let x = &self.x[(token * n_kv_heads + self.head) * dim..][..dim];
            sizes.store(x, to, offset);
        }
    }
}

/// Stores one head of all tokens.
struct StoreHead<'a, E> {
    layout: KvLayout,
    part: KvPart,
    head: usize,
    x: &'a [f32],
    slots: &'a [i32],
    to: &'a SharedOut<'a, E>,
}

impl<E: Elem> Kernel for StoreHead<'_, E> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let KvLayout { block_size, n_kv_heads, .. } = self.layout;
        let dim = self.layout.head_dim(self.part);
        for (token, &slot) in self.slots.iter().enumerate() {
            let (block, offset) = (slot as usize / block_size, slot as usize % block_size);
            let head_of_block = block * n_kv_heads + self.head;
            let x = &self.x[(token * n_kv_heads + self.head) * dim..][..dim];
            match self.part {
                KvPart::K => {
                    let start = head_of_block * dim * block_size;
                    // SAFETY: one head's keys of one block; another head's are elsewhere, and one thread has this head.
                    let to = unsafe { self.to.part(start..start + dim * block_size) };
                    store_column(s, x, to, block_size, offset);
                }
                KvPart::V => {
                    let start = (head_of_block * block_size + offset) * self.layout.v_row();
                    // SAFETY: as above, for one position of the values.
                    let to = unsafe { self.to.part(start..start + dim) };
                    store_row(s, x, to);
                }
            }
        }
    }
}

/// `column[i * stride + offset] = x[i]`.
#[inline(always)]
fn store_column<S: Simd, E: Elem>(s: S, x: &[f32], column: &mut [E], stride: usize, offset: usize) {
    for (x, rows) in x.chunks(LANES).zip(column.chunks_mut(LANES * stride)) {
        let mut lanes = [E::default(); LANES];
        E::store(s, s.load_part(x, 0.0), &mut lanes);
        for (row, lane) in rows.chunks_exact_mut(stride).zip(lanes) {
            row[offset] = lane;
        }
    }
}

/// `row[i] = x[i]`.
#[inline(always)]
fn store_row<S: Simd, E: Elem>(s: S, x: &[f32], row: &mut [E]) {
    for (x, row) in x.chunks(LANES).zip(row.chunks_mut(LANES)) {
        let mut lanes = [E::default(); LANES];
        E::store(s, s.load_part(x, 0.0), &mut lanes);
        row.copy_from_slice(&lanes[..row.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, hard_f32s};

    const LAYOUT: KvLayout = KvLayout { block_size: 32, n_kv_heads: 3, k_dim: 20, v_dim: 37 };

    fn store_f16(isa: Isa, pool: &Pool, k: &[f32], v: &[f32], slots: &[i32]) -> (Vec<f16>, Vec<f16>) {
        let mut to_k = vec![f16::ONE; 4 * LAYOUT.k_block_elems()];
        let mut to_v = vec![f16::ONE; 4 * LAYOUT.v_block_elems()];
        store_kv(isa, pool, LAYOUT, KvPart::K, k, slots, RegionMut::F16(&mut to_k)).unwrap();
        store_kv(isa, pool, LAYOUT, KvPart::V, v, slots, RegionMut::F16(&mut to_v)).unwrap();
        (to_k, to_v)
    }

    #[test]
    fn elements_go_to_their_slots_and_nowhere_else() {
        let slots = [5, 127, 0, 64, 63];
        let (k, v) = (hard_f32s(5 * 60, 1), hard_f32s(5 * 111, 2));
        let (mut want_k, mut want_v) = (vec![f16::ONE; 4 * 60 * 32], vec![f16::ONE; 4 * 3 * 48 * 32]);
        for (token, &slot) in slots.iter().enumerate() {
            let (block, offset) = (slot as usize / 32, slot as usize % 32);
            for head in 0..3 {
                for i in 0..20 {
                    want_k[((block * 3 + head) * 20 + i) * 32 + offset] =
                        f16::from_f32(k[token * 60 + head * 20 + i]);
                }
                for i in 0..37 {
                    want_v[((block * 3 + head) * 32 + offset) * 48 + i] =
                        f16::from_f32(v[token * 111 + head * 37 + i]);
                }
            }
        }
        let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for n_threads in [1, 3] {
            let pool = Pool::new(n_threads).unwrap();
            for isa in Isa::available() {
                let (got_k, got_v) = store_f16(isa, &pool, &k, &v, &slots);
                assert_eq!(bits(&got_k), bits(&want_k));
                assert_eq!(bits(&got_v), bits(&want_v));
            }
        }
    }

    #[test]
    fn slots_outside_are_refused_before_anything_is_written() {
        let pool = Pool::new(1).unwrap();
        let x = Random::new(1).units(2 * 111);
        let (k, v) = (&x[..2 * 60], &x[..]);
        for bad in [-1, 128, i32::MAX] {
            let mut to_k = vec![1.0; 4 * LAYOUT.k_block_elems()];
            let mut to_v = vec![1.0; 4 * LAYOUT.v_block_elems()];
            for (part, x, to) in [(KvPart::K, k, &mut to_k), (KvPart::V, v, &mut to_v)] {
                let error = store_kv(Isa::detect(), &pool, LAYOUT, part, x, &[0, bad], RegionMut::F32(to));
                let expected =
                    KernelError::Index { what: "KV slot", index: i64::from(bad), at: 1, limit: 128 };
                assert_eq!(error, Err(expected));
            }
            assert!(to_k.iter().chain(&to_v).all(|&x| x == 1.0));
        }
    }

    #[test]
    fn layouts_that_do_not_fit_are_refused() {
        for block_size in [0, 8, 24, 48, 512] {
            let layout = KvLayout { block_size, ..LAYOUT };
            assert!(matches!(
                layout.n_blocks(0, 0),
                Err(KernelError::Parameter { what: "KV block size", .. })
            ));
        }
        assert!(KvLayout { v_dim: 0, ..LAYOUT }.n_blocks(0, 0).is_err());
        let error = LAYOUT.n_blocks(2 * LAYOUT.k_block_elems(), LAYOUT.v_block_elems());
        assert!(matches!(error, Err(KernelError::Length { what: "value region", .. })));
        assert!(LAYOUT.n_blocks(7, 0).is_err());
    }
}
