//! The beginning of a session file, of fixed size, little-endian: what it is, what it belongs to, how long it is.

use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{SUM_BYTES, SessionError, read_array};
use crate::context::Context;
use crate::error::EngineError;
use crate::sampler::SamplerState;

const MAGIC: [u8; 8] = *b"MINFERSQ";
const VERSION: u32 = 1;

/// Longest name of a type.
const NAME_BYTES: usize = 16;

/// Magic, version, name of the type, two digests, two lengths, and whether the second counts.
const HEADER_BYTES: u64 = (8 + 4 + NAME_BYTES + 32 + 32 + 8 + 8 + 1) as u64;

/// Words of a sampler's state besides its history.
const SAMPLER_BYTES: u64 = 3 * 8;

pub(super) struct Header {
    kv_type: [u8; NAME_BYTES],
    model: [u8; 32],
    /// Digest of the geometry of every layer and of where it lies.
    cache: [u8; 32],
    pub(super) n_tokens: usize,
    /// Tokens of the sampler's history, if its state is there.
    pub(super) n_history: Option<usize>,
}

impl Header {
    /// The header of a session of `context`.
    pub(super) fn of(
        context: &Context,
        n_tokens: usize,
        sampler: Option<&SamplerState>,
    ) -> Result<Header, EngineError> {
        let mut kv_type = [0; NAME_BYTES];
        kv_type.iter_mut().zip(context.kv_type_name().bytes()).for_each(|(to, from)| *to = from);
        Ok(Header {
            kv_type,
            model: context.model().fingerprint(),
            cache: cache_digest(context)?,
            n_tokens,
            n_history: sampler.map(|state| state.history.len()),
        })
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&self.kv_type)?;
        out.write_all(&self.model)?;
        out.write_all(&self.cache)?;
        out.write_all(&(self.n_tokens as u64).to_le_bytes())?;
        out.write_all(&(self.n_history.unwrap_or(0) as u64).to_le_bytes())?;
        out.write_all(&[u8::from(self.n_history.is_some())])
    }

    /// Reads the header of a file of `found` bytes, and refuses what is not a session of this context.
    pub(super) fn read(
        input: &mut impl Read,
        path: &Path,
        found: u64,
        context: &Context,
    ) -> Result<Header, EngineError> {
        let path = || path.to_path_buf();
        let failed = |source| SessionError::Io { path: path(), doing: "read", source };
        let magic: [u8; 8] = if found < 8 { [0; 8] } else { read_array(input).map_err(failed)? };
        if magic != MAGIC {
            return Err(SessionError::NotASession { path: path() }.into());
        }
        if found < HEADER_BYTES + SUM_BYTES as u64 {
            let expected = HEADER_BYTES + SUM_BYTES as u64;
            return Err(SessionError::Torn { path: path(), found, expected }.into());
        }
        let version = u32::from_le_bytes(read_array(input).map_err(failed)?);
        if version != VERSION {
            return Err(SessionError::Version { path: path(), found: version, expected: VERSION }.into());
        }
        let kv_type: [u8; NAME_BYTES] = read_array(input).map_err(failed)?;
        let (model, cache) = (read_array(input).map_err(failed)?, read_array(input).map_err(failed)?);
        let n_tokens = u64::from_le_bytes(read_array(input).map_err(failed)?);
        let n_history = u64::from_le_bytes(read_array(input).map_err(failed)?);
        let has_sampler = read_array::<1>(input).map_err(failed)? != [0];
        if model != context.model().fingerprint() {
            return Err(SessionError::Model { path: path() }.into());
        }
        if cache != cache_digest(context)? {
            let found = String::from_utf8_lossy(&kv_type).trim_end_matches('\0').escape_default().to_string();
            return Err(SessionError::Cache { path: path(), found, expected: context.kv_type_name() }.into());
        }
        let n_ctx = context.n_ctx();
        if n_tokens > n_ctx as u64 {
            return Err(SessionError::TooLong { path: path(), n_tokens, n_ctx }.into());
        }
        let n_history_bytes = n_history.saturating_mul(4).saturating_add(SAMPLER_BYTES);
        let sampler = if has_sampler { n_history_bytes } else { 0 };
        let blocks = (n_tokens as usize).div_ceil(context.block_len()) as u64 * all_block_bytes(context)?;
        let expected =
            (HEADER_BYTES + SUM_BYTES as u64 + n_tokens * 4).saturating_add(sampler).saturating_add(blocks);
        if expected != found {
            return Err(SessionError::Torn { path: path(), found, expected }.into());
        }
        let n_history = has_sampler.then_some(n_history as usize);
        Ok(Header { kv_type, model, cache, n_tokens: n_tokens as usize, n_history })
    }
}

/// Bytes of one block in all regions.
fn all_block_bytes(context: &Context) -> Result<u64, EngineError> {
    let mut parts = context.kv_parts();
    parts.try_fold(0, |sum, (layer, part)| Ok(sum + context.kv_block_bytes(layer, part)? as u64))
}

fn cache_digest(context: &Context) -> Result<[u8; 32], EngineError> {
    let mut hash = Sha256::new();
    for (layer, part) in context.kv_parts() {
        let kv = context.scheduler().kv();
        let owner = kv.region(layer, part).map(|(backend, _)| backend.name());
        let (spec, bytes) = (kv.specs()[layer], context.kv_block_bytes(layer, part)?);
        let (heads, dim, block) = (spec.n_kv_heads, spec.head_dim, spec.block);
        let line = format!("{layer} {part:?} {heads} {dim} {block} {bytes} {owner:?} {:?};", spec.kv_type);
        hash.update(line);
    }
    Ok(hash.finalize().into())
}
