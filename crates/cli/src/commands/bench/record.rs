//! One result, with the keys of llama-bench and what it is a share of.

use minfer_cpu::isa::Isa;
use minfer_cpu::limits::Limits;
use minfer_graph::KvType;
use serde::Serialize;

use super::measure::Run;
use super::model::ModelFacts;
use super::plan::{Setup, Test};
use super::stats::{Samples, median};
use super::work::Work;

/// One result. The fields up to `stddev_ts`, and the samples, are llama-bench's; those between them are minfer's own.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Record {
    /// The version of minfer.
    pub(super) build_commit: &'static str,
    /// Always null: minfer does not count its builds.
    build_number: Option<u64>,
    cpu_info: String,
    gpu_info: &'static str,
    pub(super) backends: String,
    model_filename: String,
    pub(super) model_type: String,
    /// Bytes of all tensors.
    pub(super) model_size: u64,
    pub(super) model_n_params: u64,
    n_batch: usize,
    pub(super) n_ubatch: usize,
    pub(super) n_threads: usize,
    pub(super) type_k: &'static str,
    type_v: &'static str,
    n_gpu_layers: u32,
    use_mmap: bool,
    n_prompt: usize,
    n_gen: usize,
    n_depth: usize,
    /// When it ended, in UTC.
    test_time: String,
    avg_ns: u64,
    stddev_ns: u64,
    /// Tokens per second.
    pub(super) avg_ts: f64,
    pub(super) stddev_ts: f64,
    /// Instruction set.
    isa: &'static str,
    /// What the machine could read meanwhile, in GB/s: like all limits and percents, the median over the runs.
    pub(super) limit_read_gbs: f64,
    /// What the machine can compute, in 10⁹ operations per second of its dot product of integers.
    limit_dot_gops: f64,
    /// The same of its multiply-adds of floats.
    limit_fma_gops: f64,
    /// Percent of the reading limit that the test reached.
    pub(super) read_percent: f64,
    /// Percent of the computing limit that the test reached.
    pub(super) peak_percent: f64,
    samples_ns: Vec<u64>,
    samples_ts: Vec<f64>,
    /// What the table calls the test.
    #[serde(skip)]
    pub(super) test: String,
    /// The peak rate of the test's mixture of integers and floats, which is what `peak_percent` is a share of.
    #[serde(skip)]
    pub(super) peak_gops: f64,
}

/// What one test came to.
pub(super) struct Measured {
    pub(super) work: Work,
    pub(super) runs: Vec<Run>,
}

impl Measured {
    /// The median over the runs.
    fn median(&self, of: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(of).collect())
    }

    /// Percent of a limit that the runs reached, each beside its own; `ideal` is the time of one at that limit, in seconds.
    fn percent(&self, ideal: impl Fn(&Limits) -> f64) -> f64 {
        self.median(|run| 100.0 * ideal(&run.limits) / run.time.as_secs_f64().max(1e-9))
    }
}

impl Record {
    pub(super) fn new(
        model: &ModelFacts,
        backends: &str,
        setup: &Setup,
        test: &Test,
        isa: Isa,
        measured: Measured,
    ) -> Self {
        let times = measured.runs.iter().map(|run| run.time).collect();
        let samples = Samples::new(times, test.n_counted());
        let limit = |of: fn(&Limits) -> f64| measured.median(|run| of(&run.limits)) * 1e-9;
        let ((avg_ns, stddev_ns), (avg_ts, stddev_ts)) = (samples.of_ns(), samples.of_ts());
        let work = &measured.work;
        let kv = kv_name(setup.kv_type());
        Self {
            build_commit: env!("CARGO_PKG_VERSION"),
            build_number: None,
            cpu_info: crate::machine::cpu_name(),
            gpu_info: "",
            backends: backends.to_owned(),
            model_filename: model.filename.clone(),
            model_type: model.kind.clone(),
            model_size: model.n_bytes,
            model_n_params: model.n_params,
            n_batch: setup.n_batch,
            n_ubatch: setup.n_ubatch,
            n_threads: setup.n_threads,
            type_k: kv,
            type_v: kv,
            n_gpu_layers: 0,
            use_mmap: model.is_mapped,
            n_prompt: test.n_prompt,
            n_gen: test.n_gen,
            n_depth: test.n_depth,
            test_time: now(),
            avg_ns: avg_ns as u64,
            stddev_ns: stddev_ns as u64,
            avg_ts,
            stddev_ts,
            isa: isa.name(),
            limit_read_gbs: limit(|it| it.read_bytes),
            limit_dot_gops: limit(|it| it.dot_ops),
            limit_fma_gops: limit(|it| it.fma_ops),
            read_percent: measured.percent(|limits| work.read_seconds(limits)),
            peak_percent: measured.percent(|limits| work.ops_seconds(limits)),
            samples_ns: samples.ns,
            samples_ts: samples.ts,
            test: test.name(),
            peak_gops: measured.median(|run| work.peak_ops(&run.limits)) * 1e-9,
        }
    }
}

fn kv_name(kv_type: KvType) -> &'static str {
    match kv_type {
        KvType::F16 => "f16",
        KvType::F32 => "f32",
        KvType::Q8_0 => "q8_0",
    }
}

/// `2026-01-31T12:00:00Z`.
fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}
