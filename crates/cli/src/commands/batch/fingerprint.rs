//! What an answer belongs to: its request, and the model and settings that it came from. An answer carries both, so that a
//! run that goes on from an earlier one knows whether it still does.

use std::fmt;

use minfer_engine::{ContextParams, Model};
use sha2::{Digest, Sha256};

/// The beginning of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

fn of(hash: Sha256) -> Fingerprint {
    let digest: [u8; 32] = hash.finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    Fingerprint(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

/// Of a line as it was written.
pub(super) fn of_line(line: &[u8]) -> Fingerprint {
    of(Sha256::new_with_prefix(line.trim_ascii()))
}

/// Of a model with its template, and of the settings that an answer can depend on: the type of the cache, how long a
/// context is, and which backends may compute it.
pub(super) fn of_setup(model: &Model, params: &ContextParams) -> Fingerprint {
    let mut hash = Sha256::new_with_prefix(model.fingerprint());
    for key in ["tokenizer.chat_template", "tokenizer.chat_template.tool_use"] {
        hash.update(format!("{key} {:?}\n", model.file().metadata().get(key)));
    }
    hash.update(format!("{} {}", params.kv_type.dtype().name(), params.n_ctx));
    // Backends agree within tolerances only.
    let ContextParams { backends, disabled, gpu_layers, device, .. } = params;
    hash.update(format!("{backends:?} {disabled:?} {gpu_layers:?} {device:?}"));
    of(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_a_line_do_not_count() {
        assert_eq!(of_line(b" {}\r\n"), of_line(b"{}"));
        assert_ne!(of_line(b"{ }"), of_line(b"{}"));
        assert_eq!(of_line(b"{}").to_string(), "44136fa355b3678a");
    }
}
