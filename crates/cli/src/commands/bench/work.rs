//! What a test has to read and compute at least, however it is done.
//!
//! Each step reads all weights but the embedding once, of the embedding a row per token, and the cached keys and values
//! up to its last token. The bytes of the weights are those of the file. Products are those with the weights; the last
//! matrix counts for one token of a prompt, the one whose logits are wanted.

use std::ops::AddAssign;

use minfer_cpu::limits::Limits;
use minfer_engine::Model;
use minfer_gguf::TensorType;
use minfer_graph::KvType;
use minfer_models::HParams;

/// The least work of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Bytes read.
    pub(super) bytes: f64,
    /// Operations on integers: two for each product with a quantized weight.
    pub(super) int_ops: f64,
    /// Operations on floats.
    pub(super) float_ops: f64,
}

impl Work {
    /// Seconds that the reading takes at the bandwidth of the machine.
    pub(super) fn read_seconds(&self, limits: &Limits) -> f64 {
        self.bytes / limits.read_bytes
    }

    /// Seconds that the products take at the peak rates of the machine.
    pub(super) fn ops_seconds(&self, limits: &Limits) -> f64 {
        self.int_ops / limits.dot_ops + self.float_ops / limits.fma_ops
    }

    /// Operations per second that the machine could do of this mixture.
    pub(super) fn peak_ops(&self, limits: &Limits) -> f64 {
        let seconds = self.ops_seconds(limits);
        if seconds > 0.0 { (self.int_ops + self.float_ops) / seconds } else { 0.0 }
    }

    fn add_matrices(&mut self, matrices: &Matrices, n: usize) {
        self.bytes += matrices.bytes;
        self.int_ops += 2.0 * matrices.int_weights * n as f64;
        self.float_ops += 2.0 * matrices.float_weights * n as f64;
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.int_ops += other.int_ops;
        self.float_ops += other.float_ops;
    }
}

/// What one step costs, by what it has to do with.
#[derive(Debug)]
pub(super) struct Costs {
    layers: Matrices,
    output: Matrices,
    /// Bytes of one row.
    embedding_row: f64,
    /// Bytes of the keys and values of one position.
    kv_position: f64,
}

#[derive(Debug, Default)]
struct Matrices {
    bytes: f64,
    int_weights: f64,
    float_weights: f64,
}

impl Costs {
    pub(super) fn of(model: &Model, kv_type: KvType) -> Self {
        let (file, hparams) = (model.file(), model.description().hparams());
        let is_tied = file.tensor("output.weight").is_none();
        let mut costs = Self {
            layers: Matrices::default(),
            output: Matrices::default(),
            embedding_row: 0.0,
            kv_position: kv_bytes(hparams, kv_type),
        };
        for tensor in file.tensors() {
            let (bytes, n_rows) = (tensor.n_bytes() as f64, tensor.shape.get(1).copied().unwrap_or(1));
            let n_weights = if n_rows > 1 { tensor.n_elems() as f64 } else { 0.0 };
            let is_embedding = tensor.name == "token_embd.weight";
            if is_embedding {
                costs.embedding_row = bytes / n_rows as f64;
            }
            match tensor.name.as_str() {
                "token_embd.weight" if !is_tied => {}
                "token_embd.weight" | "output.weight" => costs.output.add(tensor.dtype, bytes, n_weights),
                _ => costs.layers.add(tensor.dtype, bytes, n_weights),
            }
        }
        costs
    }

    /// A step of `n` tokens, after which `n_kv` are in the cache.
    pub(super) fn step(&self, n_kv: usize, n: usize, has_logits: bool) -> Work {
        let mut work = Work::default();
        work.add_matrices(&self.layers, n);
        if has_logits {
            work.add_matrices(&self.output, 1);
        }
        work.bytes += self.embedding_row * n as f64 + self.kv_position * n_kv as f64;
        work
    }
}

impl Matrices {
    /// Vectors, such as the weights of norms, are read but make no products worth counting.
    fn add(&mut self, dtype: TensorType, bytes: f64, n_weights: f64) {
        self.bytes += bytes;
        match dtype {
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => self.float_weights += n_weights,
            _ => self.int_weights += n_weights,
        }
    }
}

fn kv_bytes(hparams: &HParams, kv_type: KvType) -> f64 {
    (2 * hparams.n_layers * hparams.n_kv_heads * kv_type.row_bytes(hparams.head_dim)) as f64
}

#[cfg(test)]
mod tests {
    use minfer_engine::LoadOptions;

    use super::*;

    fn costs() -> Costs {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny.gguf");
        let model = Model::load(path.as_ref(), &LoadOptions::default()).unwrap();
        Costs::of(&model, KvType::F16)
    }

    #[test]
    fn a_prompt_reads_the_weights_once_a_chunk() {
        let costs = costs();
        let (one, mut two) = (costs.step(8, 8, true), costs.step(8, 8, false));
        two += costs.step(16, 8, true);
        let ops = |work: Work| work.int_ops + work.float_ops;
        assert!(two.bytes > one.bytes && two.bytes < 2.0 * one.bytes + 1e5, "{one:?} {two:?}");
        assert!(ops(two) > 1.5 * ops(one) && ops(two) < 2.0 * ops(one), "{one:?} {two:?}");
    }

    #[test]
    fn generated_tokens_read_all_weights_and_the_cache() {
        let costs = costs();
        let (one, deep) = (costs.step(1, 1, true), costs.step(101, 1, true));
        let kv = deep.bytes - one.bytes;
        assert!(kv > 0.0);
        let second = costs.step(2, 1, true);
        assert!((second.bytes - one.bytes - kv / 100.0).abs() < 1e-6);
        assert_eq!(second.int_ops + second.float_ops, one.int_ops + one.float_ops);
    }

    #[test]
    fn the_limit_is_work_over_rate() {
        let limits = Limits { read_bytes: 10.0, dot_ops: 4.0, fma_ops: 2.0 };
        let work = Work { bytes: 20.0, int_ops: 4.0, float_ops: 4.0 };
        assert_eq!((work.read_seconds(&limits), work.ops_seconds(&limits)), (2.0, 3.0));
        assert_eq!(work.peak_ops(&limits), 8.0 / 3.0);
        assert_eq!(Work::default().peak_ops(&limits), 0.0);
    }
}
