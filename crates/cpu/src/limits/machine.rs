//! The limits themselves: the loops of the parent module, timed on the threads of a pool.
//!
//! On a shared machine the limits move by the second. So there are two ways to measure: [`Meter::measure`] takes the best of
//! several passes, which is what the machine can do when left alone; [`Meter::beside`] takes milliseconds, to be set beside
//! work that was timed directly before or after.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{read, run_dots, run_fmas};
use crate::buf::AlignedBuf;
use crate::isa::Isa;
use crate::pool::{Pool, PoolError};

/// Samples that the best is taken of.
const N_PASSES: usize = 5;
/// Bytes that are claimed at a time: many more pieces than threads, so that none waits long for the last one.
const PIECE_BYTES: usize = 512 << 10;
/// The buffer is at least this large, whatever the system says of its caches, and at most [`MAX_BYTES`].
const MIN_BYTES: usize = 256 << 20;
const MAX_BYTES: usize = 2 << 30;
/// How many times the last-level cache the buffer is.
const CACHES: usize = 4;
/// A round of arithmetic lasts about this long.
const ROUND: Duration = Duration::from_millis(20);
/// What is measured beside work takes about this long, after a start of a quarter of it that does not count: threads are woken,
/// those of the work go to sleep.
const BESIDE: Duration = Duration::from_millis(2);
const START: u32 = 4;
/// Pieces of arithmetic for each thread, so that a thread that comes late takes fewer.
const ROUND_PIECES: usize = 16;
/// Iterations that are timed to find out how many make a round.
const PROBE: usize = 20_000;

/// What a set of threads can do on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes per second that can be read from memory, by all threads together.
    pub read_bytes: f64,
    /// Operations per second of the integer dot instruction; two per product.
    pub dot_ops: f64,
    /// Operations per second of fused multiply-adds of f32; two per element.
    pub fma_ops: f64,
}

/// The limits could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum LimitsError {
    /// The threads could not be started.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// There is no memory for a buffer larger than the caches.
    #[error("cannot measure the read bandwidth: no memory for a buffer of {bytes} bytes")]
    Memory {
        /// What was asked for.
        bytes: usize,
    },
}

/// The buffer and the threads that the measuring takes, to measure again and again.
pub struct Meter {
    isa: Isa,
    pool: Pool,
    buffer: AlignedBuf,
    /// The piece of the buffer that [`Self::beside`] reads next: by the time it comes round again, no cache has it.
    next_piece: AtomicUsize,
}

/// How much of something was done in how long.
#[derive(Clone, Copy, Default)]
struct Tally {
    amount: f64,
    seconds: f64,
}

impl Tally {
    fn rate(self) -> f64 {
        self.amount / self.seconds.max(1e-9)
    }

    fn and(self, other: Tally) -> Tally {
        Tally { amount: self.amount + other.amount, seconds: self.seconds + other.seconds }
    }
}

impl Meter {
    /// A meter for `n_threads` of the level `isa`. Holds a buffer four times as large as the last-level cache, at least
    /// 256 MiB.
    pub fn new(isa: Isa, n_threads: usize) -> Result<Meter, LimitsError> {
        let pool = Pool::new(n_threads)?;
        let bytes = buffer_bytes(last_level_cache(CPU0_CACHES.as_ref()));
        let mut buffer = AlignedBuf::zeroed(bytes).map_err(|_| LimitsError::Memory { bytes })?;
        // Memory that was never written is one page of zeros, which stays in the cache.
        buffer.as_mut_slice().fill(1);
        Ok(Meter { isa, pool, buffer, next_piece: AtomicUsize::new(0) })
    }

    /// The limits when nothing disturbs: the best of five samples; takes about half a second.
    pub fn measure(&self) -> Limits {
        let samples: Vec<Limits> = (0..N_PASSES).map(|_| self.sample()).collect();
        let best = |rate: fn(&Limits) -> f64| samples.iter().map(rate).fold(0.0, f64::max);
        Limits {
            read_bytes: best(|limits| limits.read_bytes),
            dot_ops: best(|limits| limits.dot_ops),
            fma_ops: best(|limits| limits.fma_ops),
        }
    }

    /// The limits at this moment, on the average of so many rounds of a few milliseconds, at least one. Each reads a part of
    /// the buffer that was not read for long, and does each kind of arithmetic.
    pub fn beside(&self, n_rounds: usize) -> Limits {
        let [mut read, mut dots, mut fmas] = [Tally::default(); 3];
        for _ in 0..n_rounds.max(1) {
            // The start tells how fast it goes, so how much is a round.
            let n_first = 2 * self.pool.n_threads();
            let first = self.read_pieces(n_first);
            let n_start = pieces_in(BESIDE / START, first, n_first);
            let start = self.read_pieces(n_start);
            read = read.and(self.read_pieces(pieces_in(BESIDE, start, n_start)));
            dots = dots.and(self.compute(run_dots, BESIDE));
            fmas = fmas.and(self.compute(run_fmas, BESIDE));
        }
        Limits { read_bytes: read.rate(), dot_ops: dots.rate(), fma_ops: fmas.rate() }
    }

    /// One pass over the buffer, one round of each kind of arithmetic.
    fn sample(&self) -> Limits {
        Limits {
            read_bytes: self.read_pieces(self.buffer.as_slice().len() / PIECE_BYTES).rate(),
            dot_ops: self.compute(run_dots, ROUND).rate(),
            fma_ops: self.compute(run_fmas, ROUND).rate(),
        }
    }

    /// Reads the next `n` pieces of the buffer, round after round.
    fn read_pieces(&self, n: usize) -> Tally {
        let (pieces, _) = self.buffer.as_slice().as_chunks::<PIECE_BYTES>();
        let n = n.clamp(1, pieces.len());
        let first = self.next_piece.fetch_add(n, Ordering::Relaxed);
        let start = Instant::now();
        self.pool.run(n, &|i| read(self.isa, &pieces[(first + i) % pieces.len()]));
        Tally { amount: (n * PIECE_BYTES) as f64, seconds: seconds(start) }
    }

    fn compute(&self, run: fn(Isa, usize) -> u64, round: Duration) -> Tally {
        let start = Instant::now();
        run(self.isa, PROBE);
        let n_pieces = ROUND_PIECES * self.pool.n_threads();
        let n = (PROBE as f64 * round.as_secs_f64() / seconds(start)) as usize / ROUND_PIECES;
        let tally = |n: usize| {
            let n_ops = AtomicU64::new(0);
            let start = Instant::now();
            self.pool.run(n_pieces, &|_| {
                n_ops.fetch_add(run(self.isa, n.max(PROBE / ROUND_PIECES)), Ordering::Relaxed);
            });
            Tally { amount: n_ops.into_inner() as f64, seconds: seconds(start) }
        };
        tally(n / START as usize);
        tally(n)
    }
}

/// How many pieces are read in `time` at the speed of `n` pieces in `tally`.
fn pieces_in(time: Duration, tally: Tally, n: usize) -> usize {
    (n as f64 * time.as_secs_f64() / tally.seconds) as usize
}

/// At least a nanosecond, so that it can be divided by.
fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64().max(1e-9)
}

fn buffer_bytes(last_level_cache: usize) -> usize {
    (CACHES * last_level_cache).clamp(MIN_BYTES, MAX_BYTES)
}

const CPU0_CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// Bytes of the largest cache that the system describes in `folder`; 0 if it describes none.
fn last_level_cache(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("size")).ok();
    let sizes = entries.flatten().filter_map(size);
    sizes.filter_map(|size| parse_size(size.trim())).max().unwrap_or(0)
}

/// `32768K`, `1M` or a plain number of bytes.
fn parse_size(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(['K', 'M']);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_is_found() {
        let folder = std::env::temp_dir().join(format!("minfer-caches-{}", std::process::id()));
        for (name, size) in [("index0", "32K\n"), ("index2", "1M\n"), ("index3", "33000K\n"), ("index4", "?")]
        {
            std::fs::create_dir_all(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("size"), size).unwrap();
        }
        std::fs::write(folder.join("uevent"), "").unwrap();
        assert_eq!(last_level_cache(&folder), 33_000 << 10);
        assert_eq!(last_level_cache(&folder.join("missing")), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_buffer_is_larger_than_the_caches_and_not_absurd() {
        assert_eq!(buffer_bytes(0), MIN_BYTES);
        assert_eq!(buffer_bytes(100 << 20), 400 << 20);
        assert_eq!(buffer_bytes(1 << 40), MAX_BYTES);
        assert_eq!(
            ["12K", "2M", "7", "x", "1G", "MK"].map(parse_size),
            [Some(12 << 10), Some(2 << 20), Some(7), None, None, None]
        );
    }

    #[test]
    fn what_is_read_beside_work_comes_round_last() {
        let meter = Meter::new(Isa::detect(), 2).unwrap();
        let n_pieces = meter.buffer.as_slice().len() / PIECE_BYTES;
        assert!(n_pieces * PIECE_BYTES >= MIN_BYTES);
        let next = || meter.next_piece.load(Ordering::Relaxed);
        let read = meter.read_pieces(3);
        assert_eq!((next(), read.amount), (3, (3 * PIECE_BYTES) as f64));
        meter.read_pieces(usize::MAX);
        assert_eq!(next(), 3 + n_pieces, "no piece is read twice at a time");
        meter.read_pieces(0);
        assert_eq!(next(), 4 + n_pieces);
    }

    #[test]
    fn every_level_has_limits_above_zero() {
        for isa in Isa::available() {
            let meter = Meter::new(isa, 2).unwrap();
            for limits in [meter.beside(1), meter.beside(2), meter.measure()] {
                assert!(
                    limits.read_bytes > 0.0 && limits.dot_ops > 0.0 && limits.fma_ops > 0.0,
                    "{isa}: {limits:?}"
                );
            }
        }
    }
}
