//! What a file of packed weights holds: known before it is opened, from the list of matrices alone.

use std::collections::HashMap;

use minfer_gguf::TensorType;
use sha2::{Digest, Sha256};

use crate::buf::ALIGN;
use crate::matmul::{PACK_VERSION, PackedMatrix};

/// Bytes that are written and checked at once: a huge page.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;

/// First bytes of the table behind the weights.
const MAGIC: &[u8; 16] = b"minfer packed 1\n";

/// A weight matrix by what packing makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: TensorType,
    pub(crate) rows: usize,
    pub(crate) k: usize,
}

/// Where a matrix is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    dtype: TensorType,
    rows: usize,
    k: usize,
    /// A multiple of [`ALIGN`].
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// The layout `[weights][table]` of one file.
pub(crate) struct Contents {
    pieces: HashMap<Box<str>, Piece>,
    n_bytes: usize,
    key: [u8; 32],
}

impl Contents {
    /// Of these matrices in this order; each name counts once. `None` if there is nothing to keep, or too much for a number.
    pub(crate) fn new(origin: &[u8], matrices: &[Matrix<'_>]) -> Option<Contents> {
        let mut key = Sha256::new_with_prefix(MAGIC);
        key.update(PACK_VERSION.to_le_bytes());
        key.update((origin.len() as u64).to_le_bytes());
        key.update(origin);
        let (mut pieces, mut n_bytes) = (HashMap::new(), 0usize);
        for m in matrices {
            // What cannot be packed is refused when it is loaded.
            let Ok(len) = PackedMatrix::packed_bytes(m.dtype, m.rows, m.k) else { continue };
            if pieces.contains_key(m.name) {
                continue;
            }
            let offset = n_bytes.checked_next_multiple_of(ALIGN)?;
            n_bytes = offset.checked_add(len)?;
            pieces.insert(m.name.into(), Piece { dtype: m.dtype, rows: m.rows, k: m.k, offset, len });
            for number in [m.name.len(), m.dtype as usize, m.rows, m.k] {
                key.update((number as u64).to_le_bytes());
            }
            key.update(m.name);
        }
        n_bytes.checked_add(CHUNK_BYTES)?;
        (n_bytes > 0).then(|| Contents { pieces, n_bytes, key: key.finalize().into() })
    }

    /// The place of this very matrix.
    pub(crate) fn piece(&self, m: &Matrix<'_>) -> Option<&Piece> {
        self.pieces.get(m.name).filter(|p| (p.dtype, p.rows, p.k) == (m.dtype, m.rows, m.k))
    }

    /// The place of the matrix of this name.
    pub(super) fn named(&self, name: &str) -> Option<&Piece> {
        self.pieces.get(name)
    }

    /// Bytes of the weights.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    pub(super) fn n_chunks(&self) -> usize {
        self.n_bytes.div_ceil(CHUNK_BYTES)
    }

    /// Bytes of weights and table.
    pub(super) fn file_bytes(&self) -> u64 {
        (self.n_bytes + self.table_bytes()) as u64
    }

    pub(super) fn table_bytes(&self) -> usize {
        MAGIC.len() + self.key.len() + 4 * self.n_chunks()
    }

    /// `[magic][key][CRC-32 of each chunk]`.
    pub(super) fn table(&self, sums: &[u32]) -> Vec<u8> {
        let sums = sums.iter().flat_map(|sum| sum.to_le_bytes());
        MAGIC.iter().chain(&self.key).copied().chain(sums).collect()
    }

    /// The checksums of a table, if it is one for these contents.
    pub(super) fn sums(&self, table: &[u8]) -> Option<Vec<u32>> {
        let sums = table.strip_prefix(MAGIC)?.strip_prefix(&self.key)?.as_chunks::<4>();
        (sums.0.len() == self.n_chunks() && sums.1.is_empty())
            .then(|| sums.0.iter().map(|b| u32::from_le_bytes(*b)).collect())
    }

    pub(super) fn file_name(&self) -> String {
        let digits: String = self.key[..16].iter().map(|b| format!("{b:02x}")).collect();
        format!("{digits}.packed")
    }
}
