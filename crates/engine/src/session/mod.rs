//! Sequences in files: tokens, keys and values, and the state of the sampler.
//!
//! A file belongs to one model and one form of the cache. A file of anything else, or one that is cut short, is refused by
//! its header and its length, before anything is read into the cache; one that is changed is refused by its checksum, after.
//! On any fault the sequence is left empty. That a model is the same rests on its hyper-parameters and on samples of each
//! tensor, not on all of its bytes. Writing is atomic: whatever happens, what was there before, or the new file,
//! is there whole. What is restored is what was saved, to the bit, so what follows is, too.
//!
//! The checksum guards against accidents, not against forgers: keys and values are taken as they are, so a session from a
//! stranger deserves the trust of a model from a stranger.

mod error;
mod fingerprint;
mod hashed;
mod header;

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use minfer_gguf::AtomicFile;
use minfer_graph::{KvPart, StepError};

pub use error::SessionError;
pub(crate) use fingerprint::fingerprint;

use crate::context::{Context, SeqId};
use crate::error::EngineError;
use crate::sampler::SamplerState;

use hashed::{HashedReader, HashedWriter, SUM_BYTES};
use header::Header;

/// What a file brought back besides the sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Tokens that the sequence holds now.
    pub n_tokens: usize,
    /// The sampler's state, if it was saved.
    pub sampler: Option<SamplerState>,
}

impl Context {
    /// Saves what `seq` holds, and the state of its sampler if there is one to save. A context made
    /// [without weights](Self::without_weights) has no cache before its first step: there is nothing to save, and it fails.
    pub fn save_session(
        &self,
        seq: SeqId,
        sampler: Option<&SamplerState>,
        path: &Path,
    ) -> Result<(), EngineError> {
        let failed = |source: io::Error| SessionError::Io { path: path.into(), doing: "write", source };
        let header = Header::of(self, self.tokens(seq).len(), sampler)?;
        let mut out = HashedWriter::new(AtomicFile::create(path).map_err(failed)?);
        header.write(&mut out).map_err(failed)?;
        write_words(&mut out, self.tokens(seq)).map_err(failed)?;
        if let Some(state) = sampler {
            write_sampler(&mut out, state).map_err(failed)?;
        }
        let mut bytes = Vec::new();
        for &block in self.blocks(seq) {
            for (layer, part) in self.kv_parts() {
                bytes.resize(self.kv_block_bytes(layer, part)?, 0);
                let (kv, registry) = (self.scheduler().kv(), self.scheduler().registry());
                let read = kv.read_block((layer, part), block, registry, &mut bytes);
                read.map_err(StepError::Memory)?;
                out.write_all(&bytes).map_err(failed)?;
            }
        }
        let file = out.finish().map_err(failed)?;
        Ok(file.commit().map_err(failed)?)
    }

    /// Makes `seq` hold what a file holds. On an error it is empty.
    pub fn load_session(&mut self, seq: SeqId, path: &Path) -> Result<Session, EngineError> {
        self.truncate(seq, 0);
        let loaded = self.load(seq, path);
        if loaded.is_err() {
            self.truncate(seq, 0);
        }
        loaded
    }

    fn load(&mut self, seq: SeqId, path: &Path) -> Result<Session, EngineError> {
        let failed = |source: io::Error| SessionError::Io { path: path.into(), doing: "read", source };
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?.len();
        let mut input = HashedReader::new(BufReader::with_capacity(1 << 16, file));
        // Regions are made with the first graph.
        self.load_weights(&mut |_, _| {})?;
        let header = Header::read(&mut input, path, found, self)?;
        // From here on every size is one that the file really has, and the context too.
        let tokens = read_words(&mut input, header.n_tokens).map_err(failed)?;
        let n_vocab = self.model().n_vocab();
        if let Some(&id) = tokens.iter().find(|id| **id as usize >= n_vocab) {
            return Err(SessionError::Damaged { path: path.into(), what: format!("token {id}") }.into());
        }
        let sampler = match header.n_history {
            None => None,
            Some(n) => Some(read_sampler(&mut input, n).map_err(failed)?),
        };
        self.hold(seq, &tokens)?;
        let mut bytes = Vec::new();
        for i in 0..self.blocks(seq).len() {
            let block = self.blocks(seq)[i];
            for (layer, part) in self.kv_parts() {
                bytes.resize(self.kv_block_bytes(layer, part)?, 0);
                input.read_exact(&mut bytes).map_err(failed)?;
                let (kv, registry) = (self.scheduler().kv(), self.scheduler().registry());
                let written = kv.write_block((layer, part), block, registry, &bytes);
                written.map_err(StepError::Memory)?;
            }
        }
        if !input.sum_is_right().map_err(failed)? {
            return Err(SessionError::Damaged { path: path.into(), what: "its checksum".into() }.into());
        }
        Ok(Session { n_tokens: tokens.len(), sampler })
    }

    /// Every region of the cache, in the order in which they are saved.
    fn kv_parts(&self) -> impl Iterator<Item = (usize, KvPart)> + use<> {
        let n_layers = self.scheduler().kv().specs().len();
        (0..n_layers).flat_map(|layer| [(layer, KvPart::K), (layer, KvPart::V)])
    }

    fn kv_block_bytes(&self, layer: usize, part: KvPart) -> Result<usize, EngineError> {
        let scheduler = self.scheduler();
        let bytes = scheduler.kv().block_bytes(layer, part, scheduler.registry());
        Ok(bytes.map_err(StepError::Memory)?)
    }
}

fn write_words(out: &mut impl Write, words: &[u32]) -> io::Result<()> {
    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

fn read_words(input: &mut impl Read, n: usize) -> io::Result<Vec<u32>> {
    (0..n).map(|_| read_array(input).map(u32::from_le_bytes)).collect()
}

fn read_array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn write_sampler(out: &mut impl Write, state: &SamplerState) -> io::Result<()> {
    for word in [state.seed, state.generator[0], state.generator[1]] {
        out.write_all(&word.to_le_bytes())?;
    }
    write_words(out, &state.history)
}

fn read_sampler(input: &mut impl Read, n_history: usize) -> io::Result<SamplerState> {
    let mut word = || read_array(input).map(u64::from_le_bytes);
    let (seed, generator) = (word()?, [word()?, word()?]);
    Ok(SamplerState { seed, generator, history: read_words(input, n_history)? })
}
