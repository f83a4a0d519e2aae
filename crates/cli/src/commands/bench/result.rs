//! The result of a test, under llama-bench's keys.

use std::time::Duration;

use minfer_engine::{Context, Model};
use minfer_gguf::{Gguf, Value};
use serde::Serialize;

use crate::args::BenchArgs;
use crate::units;

use super::{Test, machine};

/// One line of results. Fields that llama-bench has, too, have its names, units and meaning.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TestResult {
    pub(super) build_commit: &'static str,
    pub(super) cpu_info: String,
    pub(super) backends: String,
    pub(super) model_filename: String,
    pub(super) model_type: String,
    /// Bytes of all tensors.
    pub(super) model_size: u64,
    pub(super) model_n_params: u64,
    pub(super) n_batch: usize,
    pub(super) n_ubatch: usize,
    pub(super) n_threads: usize,
    pub(super) type_k: String,
    pub(super) type_v: String,
    pub(super) n_gpu_layers: usize,
    pub(super) use_mmap: bool,
    pub(super) n_prompt: usize,
    pub(super) n_gen: usize,
    pub(super) n_depth: usize,
    pub(super) test_time: String,
    pub(super) avg_ns: u64,
    pub(super) stddev_ns: u64,
    pub(super) avg_ts: f64,
    pub(super) stddev_ts: f64,
    pub(super) samples_ns: Vec<u64>,
    pub(super) samples_ts: Vec<f64>,
    /// What the machine reads at most, in bytes per second.
    pub(super) read_limit: Option<f64>,
    /// How much of that the weights took, in percent; `None` for a prompt, which reads them once for many tokens.
    pub(super) read_percent: Option<f64>,
}

/// What the results of one run of the program have in common.
pub(super) struct Setup {
    common: TestResult,
    /// Bytes of the weights that every token needs.
    bytes_per_token: u64,
    /// The machine's limit.
    pub(super) read_bytes_per_second: Option<f64>,
}

/// The times of one test.
pub(super) struct Measured {
    pub(super) samples: Vec<Duration>,
}

impl Setup {
    pub(super) fn new(model: &Model, context: &Context, args: &BenchArgs) -> Self {
        let file = model.file();
        let kv_type = |it| format!("{it:?}").to_lowercase();
        let path = file.files().next().and_then(|it| it.path.map(|path| path.display().to_string()));
        let common = TestResult {
            build_commit: env!("CARGO_PKG_VERSION"),
            cpu_info: machine::cpu_name(),
            backends: names(context),
            model_filename: path.unwrap_or_default(),
            model_type: model_type(file),
            model_size: model.weight_bytes() as u64,
            model_n_params: n_params(file),
            n_batch: args.compute.batch_size,
            n_ubatch: args.compute.n_ubatch(),
            n_threads: context.n_threads(),
            type_k: kv_type(args.compute.cache_type_k),
            type_v: kv_type(args.compute.cache_type_v),
            n_gpu_layers: 0,
            use_mmap: !args.model.open.no_mmap,
            n_prompt: 0,
            n_gen: 0,
            n_depth: 0,
            test_time: String::new(),
            avg_ns: 0,
            stddev_ns: 0,
            avg_ts: 0.0,
            stddev_ts: 0.0,
            samples_ns: Vec::new(),
            samples_ts: Vec::new(),
            read_limit: None,
            read_percent: None,
        };
        Self { common, bytes_per_token: bytes_per_token(file), read_bytes_per_second: None }
    }

    /// The result of `test`, finished now.
    pub(super) fn result(&self, test: Test, measured: &Measured) -> TestResult {
        let ns: Vec<_> = measured.samples.iter().map(|time| time.as_nanos() as f64).collect();
        let ts: Vec<_> = ns.iter().map(|ns| test.n_tokens() as f64 * 1e9 / ns.max(1.0)).collect();
        let (n_prompt, n_gen) = match test {
            Test::Prompt(n) => (n, 0),
            Test::Generate(n) => (0, n),
        };
        let share = |limit: f64| mean(&ts) * self.bytes_per_token as f64 / limit * 100.0;
        TestResult {
            n_prompt,
            n_gen,
            test_time: format!("{:.0}", jiff::Timestamp::now()),
            avg_ns: mean(&ns) as u64,
            stddev_ns: deviation(&ns) as u64,
            avg_ts: mean(&ts),
            stddev_ts: deviation(&ts),
            samples_ns: ns.iter().map(|ns| *ns as u64).collect(),
            samples_ts: ts.clone(),
            read_limit: self.read_bytes_per_second,
            read_percent: self.read_bytes_per_second.filter(|_| n_gen > 0).map(share),
            ..self.common.clone()
        }
    }
}

impl TestResult {
    /// `pp512` or `tg128`.
    pub(super) fn test_name(&self) -> String {
        if self.n_gen > 0 { format!("tg{}", self.n_gen) } else { format!("pp{}", self.n_prompt) }
    }
}

fn names(context: &Context) -> String {
    let drivers = context.scheduler().registry().drivers();
    drivers.iter().map(|driver| driver.backend().to_string().to_uppercase()).collect::<Vec<_>>().join(",")
}

/// `qwen2 494.0 M Q4_K - Medium` is more than the file says; this is architecture, size and the commonest tensor type.
fn model_type(file: &Gguf) -> String {
    let text = |key| match file.metadata().get(key) {
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    };
    let mut bytes = std::collections::BTreeMap::new();
    for tensor in file.tensors() {
        *bytes.entry(tensor.dtype).or_insert(0) += tensor.n_bytes();
    }
    let commonest = bytes.into_iter().max_by_key(|row| row.1).map_or("", |row| row.0.name());
    format!("{} {} {commonest}", text("general.architecture"), units::count(n_params(file)))
}

fn n_params(file: &Gguf) -> u64 {
    file.tensors().map(|tensor| tensor.n_elems() as u64).sum()
}

/// All tensors, without an embedding of which a token needs one row only.
fn bytes_per_token(file: &Gguf) -> u64 {
    let is_tied = file.tensor("output.weight").is_none();
    let is_read = |name: &str| is_tied || name != "token_embd.weight";
    file.tensors().filter(|tensor| is_read(&tensor.name)).map(|tensor| tensor.n_bytes() as u64).sum()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The standard deviation of a sample; 0 for fewer than two values.
fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let sum: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (sum / (values.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_of_a_sample() {
        assert_eq!(mean(&[2.0, 4.0, 4.0, 6.0]), 4.0);
        assert_eq!(deviation(&[1.0, 3.0]), 2f64.sqrt());
        assert_eq!((deviation(&[5.0]), mean(&[])), (0.0, 0.0));
    }
}
