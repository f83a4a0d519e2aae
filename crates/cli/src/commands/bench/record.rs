//! One result, with the keys of llama-bench and what it is a share of.

use minfer_cpu::isa::Isa;
use minfer_cpu::limits::Limits;
use minfer_graph::KvType;
use serde::Serialize;

use super::measure::{Part, Phase, Run};
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
    /// What the machine could read meanwhile, in GB/s: like all limits, the median of what was measured beside the runs.
    pub(super) limit_read_gbs: f64,
    /// What the machine can compute, in 10⁹ operations per second of its dot product of integers.
    limit_dot_gops: f64,
    /// The same of its multiply-adds of floats.
    limit_fma_gops: f64,
    /// Percent of the reading limit that the test reached: the median over parts of runs, each against the limit beside it.
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
    pub(super) runs: Vec<Run>,
}

impl Measured {
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.runs.iter().flat_map(|run| &run.parts)
    }

    /// The median over all parts.
    fn median(&self, of: impl Fn(&Part) -> f64) -> f64 {
        median(self.parts().map(of).collect())
    }

    /// Percent of a limit that was reached; `ideal` is the time of some work at that limit, in seconds. Of each phase it is
    /// the median over the parts, each beside its own limit; a test of both phases is their mean, by the time they took.
    fn percent(&self, ideal: impl Fn(&Work, &Limits) -> f64) -> f64 {
        let (mut reached, mut total) = (0.0, 0.0);
        for phase in [Phase::Prompt, Phase::Generation] {
            let parts = || self.parts().filter(|part| part.phase == phase);
            let seconds = |part: &Part| part.time.as_secs_f64().max(1e-9);
            let share = median(parts().map(|part| ideal(&part.work, &part.limits) / seconds(part)).collect());
            let time: f64 = parts().map(seconds).sum();
            reached += share * time;
            total += time;
        }
        if total > 0.0 { 100.0 * reached / total } else { 0.0 }
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
        let times = measured.runs.iter().map(Run::time).collect();
        let samples = Samples::new(times, test.n_counted());
        let limit = |of: fn(&Limits) -> f64| measured.median(|part| of(&part.limits)) * 1e-9;
        let ((avg_ns, stddev_ns), (avg_ts, stddev_ts)) = (samples.of_ns(), samples.of_ts());
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
            read_percent: measured.percent(Work::read_seconds),
            peak_percent: measured.percent(Work::ops_seconds),
            samples_ns: samples.ns,
            samples_ts: samples.ts,
            test: test.name(),
            peak_gops: measured.median(|part| part.work.peak_ops(&part.limits)) * 1e-9,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn part(phase: Phase, seconds: u64, bytes: f64, read_bytes: f64) -> Part {
        let limits = Limits { read_bytes, dot_ops: 1.0, fma_ops: 1.0 };
        let work = Work { bytes, ..Work::default() };
        Part { phase, time: Duration::from_secs(seconds), work, limits }
    }

    #[test]
    fn a_part_is_a_share_of_the_limit_beside_it() {
        // The machine was twice as fast during the second part, and so was the run; the third was disturbed.
        let parts = [
            part(Phase::Generation, 10, 50.0, 10.0),
            part(Phase::Generation, 10, 100.0, 20.0),
            part(Phase::Generation, 40, 40.0, 10.0),
        ];
        let measured = Measured { runs: vec![Run { parts: parts.to_vec() }] };
        assert_eq!(measured.percent(Work::read_seconds), 50.0);
        assert_eq!(measured.median(|part| part.limits.read_bytes), 10.0);
    }

    #[test]
    fn phases_count_by_their_time() {
        let parts = [part(Phase::Prompt, 30, 30.0, 10.0), part(Phase::Generation, 10, 90.0, 10.0)];
        let measured = Measured { runs: parts.map(|part| Run { parts: vec![part] }).to_vec() };
        // 10 % of 30 seconds, 90 % of 10.
        assert!((measured.percent(Work::read_seconds) - 30.0).abs() < 1e-9);
        assert_eq!(Measured { runs: Vec::new() }.percent(Work::read_seconds), 0.0);
    }
}
