//! The session of a run: what was read and generated, in a file.

use std::path::PathBuf;

use minfer_engine::sampler::SamplerState;
use minfer_engine::{Context, Generated, SeqId};

use super::lock::SessionLock;
use crate::report;

/// Where the session is kept, if it is.
pub(super) struct Keeper {
    pub(super) path: Option<PathBuf>,
    /// Whether the file stays as it is.
    pub(super) is_read_only: bool,
    /// Keeps other runs away from it.
    pub(super) _lock: Option<SessionLock>,
}

impl Keeper {
    /// Makes a sequence hold what the file holds, if it is there; gives the state that draws go on from.
    pub(super) fn load(&self, context: &mut Context, seq: SeqId) -> anyhow::Result<Option<SamplerState>> {
        let Some(path) = self.path.as_deref().filter(|path| self.is_read_only || path.exists()) else {
            return Ok(None);
        };
        let session = context.load_session(seq, path)?;
        report::note(format_args!("{} holds {} tokens", path.display(), session.n_tokens));
        Ok(session.sampler)
    }

    /// Saves the sequence after an answer.
    pub(super) fn save(&self, context: &Context, seq: SeqId, answer: &Generated) -> anyhow::Result<()> {
        let Some(path) = self.path.as_deref().filter(|_| !self.is_read_only) else { return Ok(()) };
        Ok(context.save_session(seq, Some(&answer.sampler), path)?)
    }
}
