//! What a session is tied to: the parts of a model that keys and values depend on.
//!
//! Hyper-parameters in effect, so that overridden metadata counts, and the weights. Of a large tensor only samples are
//! read: every tensor of another quantization or another training differs all over, and reading all of a file of many
//! gigabytes would take longer than what a session saves.

use minfer_gguf::Gguf;
use sha2::{Digest, Sha256};

/// Bytes of one sample, and how many of a tensor.
const SAMPLE: usize = 4096;
const N_SAMPLES: usize = 4;

/// A digest of hyper-parameters and weights.
pub(crate) fn fingerprint(description: &minfer_models::Model, file: &Gguf) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut text = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    text(&format!("{:?}", description.hparams()));
    for tensor in file.tensors() {
        text(&format!("{} {} {:?}", tensor.name, tensor.dtype.name(), tensor.shape));
    }
    for tensor in file.tensors() {
        let data = file.data(tensor);
        for i in 0..N_SAMPLES {
            let start = data.len().saturating_sub(SAMPLE) / (N_SAMPLES - 1) * i;
            let sample = start..data.len().min(start + SAMPLE);
            hash.update(&data[sample.clone()]);
            file.release(tensor, sample);
        }
    }
    hash.finalize().into()
}
