//! Time and work for each op, backend and weight type, added up over steps that run node by node.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use minfer_gguf::TensorType;

use crate::backend::Backend;
use crate::graph::Node;
use crate::op::OpKind;
use crate::work::Work;

/// One line of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpTime {
    /// Runs.
    pub count: u64,
    /// Their time together.
    pub time: Duration,
    /// Their least work together.
    pub work: Work,
}

impl OpTime {
    /// Whether its bytes, in percent of what memory gives, are shown as more than 100.
    fn is_faster_than_memory(&self, limits: &MachineLimits) -> bool {
        let seconds = self.time.as_secs_f64();
        seconds > 0.0 && (100.0 * self.work.bytes as f64 / limits.read_bytes / seconds).round() > 100.0
    }
}

/// What the machine can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLimits {
    /// Bytes per second that can be read from memory; out of a cache it is more.
    pub read_bytes: f64,
    /// Operations on integers per second.
    pub int_ops: f64,
    /// Operations on floats per second.
    pub float_ops: f64,
}

/// Times by op, backend and the type of the first weight.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    rows: BTreeMap<(OpKind, Backend, Option<TensorType>), OpTime>,
    wall: Duration,
    io: Duration,
    n_steps: u64,
}

impl Profile {
    /// Adds one run of `node`.
    pub fn add(&mut self, node: &Node, time: Duration, work: Work) {
        let Some(backend) = node.backend else { return };
        let weight = node.meta.weights.first().map(|w| w.dtype);
        let row = self.rows.entry((node.op.kind(), backend, weight)).or_default();
        row.count += 1;
        row.time += time;
        row.work += work;
    }

    /// Adds the time of a whole step, from its inputs to its outputs, and what of it these two took.
    pub fn add_step(&mut self, wall: Duration, io: Duration) {
        self.wall += wall;
        self.io += io;
        self.n_steps += 1;
    }

    /// All rows, in the order of ops.
    pub fn rows(&self) -> impl Iterator<Item = (OpKind, Backend, Option<TensorType>, OpTime)> + '_ {
        self.rows.iter().map(|((op, backend, weight), t)| (*op, *backend, *weight, *t))
    }

    /// Time of all rows.
    pub fn total(&self) -> Duration {
        self.rows.values().map(|r| r.time).sum()
    }

    /// Time of inputs and outputs.
    pub fn io(&self) -> Duration {
        self.io
    }

    /// Time of all steps.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    /// The table as text, the most expensive row first; with `limits`, rates as shares of what the machine can do. `of read`
    /// is a share of what memory gives, so it is above 100 % where bytes came out of a cache.
    pub fn table(&self, limits: Option<&MachineLimits>) -> String {
        let mut rows: Vec<_> = self.rows().collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.3.time));
        let total = self.total().as_secs_f64().max(f64::MIN_POSITIVE);
        let mut text = format!(
            "{:<18} {:<8} {:<8} {:>8} {:>10} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8}\n",
            "op", "backend", "weight", "runs", "ms", "us/run", "share", "GB/s", "of read", "GOP/s", "of peak"
        );
        for (op, backend, weight, t) in rows {
            let seconds = t.time.as_secs_f64();
            let rates = Rates::of(&t.work, seconds, limits.filter(|_| backend == Backend::CPU));
            let _ = writeln!(
                text,
                "{:<18} {:<8} {:<8} {:>8} {:>10.2} {:>8.1} {:>5.1}% {:>8} {:>8} {:>8} {:>8}",
                op.name(),
                backend.to_string(),
                weight.map_or("-", TensorType::name),
                t.count,
                seconds * 1e3,
                seconds * 1e6 / t.count as f64,
                100.0 * seconds / total,
                rates.gbs,
                rates.of_read,
                rates.gops,
                rates.of_peak,
            );
        }
        self.write_total(total, limits, &mut text);
        text
    }

    fn write_total(&self, total: f64, limits: Option<&MachineLimits>, text: &mut String) {
        let wall = self.wall.as_secs_f64();
        let io = self.io.as_secs_f64();
        let share = if wall > 0.0 { 100.0 * (total + io) / wall } else { 0.0 };
        let (n, ops_ms, io_ms, wall_ms) = (self.n_steps, total * 1e3, io * 1e3, wall * 1e3);
        let _ = writeln!(
            text,
            "ops {ops_ms:.2} ms and inputs and outputs {io_ms:.2} ms are {share:.1} % of {wall_ms:.2} ms in {n} steps"
        );
        if let Some(l) = limits {
            let _ = writeln!(
                text,
                "limits {:.1} GB/s read from memory, {:.0} GOP/s of integers, {:.0} GOP/s of floats",
                l.read_bytes * 1e-9,
                l.int_ops * 1e-9,
                l.float_ops * 1e-9
            );
            if self.rows().any(|(_, backend, _, t)| backend == Backend::CPU && t.is_faster_than_memory(l)) {
                text.push_str(
                    "above 100 % of read: those bytes came out of a cache, which is faster than memory\n",
                );
            }
        }
    }
}

/// The rates of a row, ready to print; `-` where there is none.
struct Rates {
    gbs: String,
    of_read: String,
    gops: String,
    of_peak: String,
}

impl Rates {
    fn of(work: &Work, seconds: f64, limits: Option<&MachineLimits>) -> Rates {
        let none = || "-".to_owned();
        if seconds <= 0.0 {
            return Rates { gbs: none(), of_read: none(), gops: none(), of_peak: none() };
        }
        let (bytes, ops) = (work.bytes as f64, (work.int_ops + work.float_ops) as f64);
        let percent = |ideal: f64| format!("{:.0} %", 100.0 * ideal / seconds);
        let ideal = |l: &MachineLimits| work.int_ops as f64 / l.int_ops + work.float_ops as f64 / l.float_ops;
        Rates {
            gbs: if bytes > 0.0 { format!("{:.1}", bytes / seconds * 1e-9) } else { none() },
            of_read: limits.filter(|_| bytes > 0.0).map_or_else(none, |l| percent(bytes / l.read_bytes)),
            gops: if ops > 0.0 { format!("{:.1}", ops / seconds * 1e-9) } else { none() },
            of_peak: limits.filter(|_| ops > 0.0).map_or_else(none, |l| percent(ideal(l))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_work_over_time_and_shares_of_the_limits() {
        let limits = MachineLimits { read_bytes: 10e9, int_ops: 100e9, float_ops: 50e9 };
        let work = Work { bytes: 2_000_000_000, int_ops: 10_000_000_000, float_ops: 5_000_000_000 };
        let rates = Rates::of(&work, 0.5, Some(&limits));
        assert_eq!([rates.gbs.as_str(), &rates.of_read], ["4.0", "40 %"]);
        assert_eq!([rates.gops.as_str(), &rates.of_peak], ["30.0", "40 %"]);
        let rates = Rates::of(&Work::default(), 0.5, Some(&limits));
        assert!([rates.gbs, rates.of_read, rates.gops, rates.of_peak].iter().all(|r| r == "-"));
        assert_eq!(Rates::of(&work, 0.5, None).of_peak, "-");
    }

    #[test]
    fn more_than_memory_gives_is_explained() {
        let limits = MachineLimits { read_bytes: 10e9, int_ops: 100e9, float_ops: 50e9 };
        let table = |bytes| {
            let mut profile = Profile::default();
            let time =
                OpTime { count: 1, time: Duration::from_secs(1), work: Work { bytes, ..Work::default() } };
            profile.rows.insert((OpKind::Attn, Backend::CPU, None), time);
            profile.table(Some(&limits))
        };
        let fast = table(12_000_000_000);
        assert!(fast.contains(" 120 % ") && fast.contains("\nabove 100 % of read: "), "{fast}");
        let slow = table(10_000_000_000);
        assert!(slow.contains(" 100 % ") && !slow.contains("above 100 %"), "{slow}");
        assert!(slow.contains("\nlimits 10.0 GB/s read from memory, "), "{slow}");
    }
}
