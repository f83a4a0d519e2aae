//! Every block of every tensor: NaN, infinity, and stretches of nothing. The digest of the files is computed beside it.
//!
//! Threads take pieces of [`PIECE_BYTES`]; what they have read they give back, so that a file of any size needs little
//! memory. Findings do not depend on which thread took which piece.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};

use minfer_gguf::{Gguf, NotFinite, TensorInfo, can_dequantize, not_finite};

use super::{Check, Severity, VerifyOptions, digest};
use crate::error::EngineError;

/// Bytes of a piece of work, rounded down to whole blocks.
const PIECE_BYTES: usize = 4 << 20;

/// Most tensors that are named in one kind of finding.
const MAX_NAMED: usize = 8;

/// A stretch of a tensor.
struct Piece {
    tensor: usize,
    start: usize,
    len: usize,
}

/// What a piece held.
#[derive(Clone, Copy, Default)]
struct Found {
    not_finite: NotFinite,
    is_zero: bool,
}

/// Checks the data; gives the digests of the files, if they are wanted.
pub(super) fn check(
    file: &Gguf,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Check, Vec<String>), EngineError> {
    let tensors: Vec<&TensorInfo> = file.tensors().filter(|t| can_dequantize(t.dtype)).collect();
    let pieces = pieces(&tensors);
    let file_bytes: u64 = if options.digest { file.files().map(|f| f.n_bytes).sum() } else { 0 };
    let total = file_bytes + tensors.iter().map(|t| t.n_bytes() as u64).sum::<u64>();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel::<u64>();
    let (digests, mut found) = std::thread::scope(|scope| {
        let digests = options.digest.then(|| {
            let sender = sender.clone();
            scope.spawn(move || digest_all(file, &sender))
        });
        let workers: Vec<_> = (0..options.n_threads.max(1))
            .map(|_| {
                let (sender, tensors, pieces, next) = (sender.clone(), &tensors, &pieces, &next);
                scope.spawn(move || scan(file, tensors, pieces, next, &sender))
            })
            .collect();
        drop(sender);
        let mut done = 0;
        for n in receiver {
            done += n;
            progress(done, total);
        }
        // A thread that panicked is a defect, which goes on as such.
        let found: Vec<_> = workers.into_iter().flat_map(|w| w.join().unwrap_or_default()).collect();
        (digests.map(|d| d.join()), found)
    });
    found.sort_by_key(|(piece, _)| *piece);
    let digests = match digests {
        None => Vec::new(),
        Some(Ok(digests)) => digests?,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
    };
    Ok((report(file, &tensors, &pieces, &found), digests))
}

fn pieces(tensors: &[&TensorInfo]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (index, tensor) in tensors.iter().enumerate() {
        let block = tensor.dtype.block_bytes();
        let step = PIECE_BYTES / block * block;
        for start in (0..tensor.n_bytes()).step_by(step) {
            pieces.push(Piece { tensor: index, start, len: step.min(tensor.n_bytes() - start) });
        }
    }
    pieces
}

fn digest_all(file: &Gguf, sender: &Sender<u64>) -> Result<Vec<String>, EngineError> {
    let paths = file.files().filter_map(|f| f.path);
    paths
        .map(|path| {
            digest::sha256(path, &mut |n| {
                // The receiver lives as long as the scope.
                let _ = sender.send(n);
            })
        })
        .collect()
}

fn scan(
    file: &Gguf,
    tensors: &[&TensorInfo],
    pieces: &[Piece],
    next: &AtomicUsize,
    sender: &Sender<u64>,
) -> Vec<(usize, Found)> {
    let mut found = Vec::new();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(piece) = pieces.get(index) else { return found };
        let tensor = tensors[piece.tensor];
        let range = piece.start..piece.start + piece.len;
        let bytes = &file.data(tensor)[range.clone()];
        let is_zero = bytes.iter().all(|b| *b == 0);
        // Types without a reference have been left out.
        let not_finite = not_finite(tensor.dtype, bytes).unwrap_or_default();
        found.push((index, Found { not_finite, is_zero }));
        file.release(tensor, range);
        let _ = sender.send(piece.len as u64);
    }
}

/// What a tensor held, its pieces put together.
struct TensorFound {
    tensor: usize,
    n_bad: usize,
    first_bad: usize,
    n_zero_bytes: usize,
}

fn by_tensor(tensors: &[&TensorInfo], pieces: &[Piece], found: &[(usize, Found)]) -> Vec<TensorFound> {
    let mut all: Vec<_> = (0..tensors.len())
        .map(|tensor| TensorFound { tensor, n_bad: 0, first_bad: 0, n_zero_bytes: 0 })
        .collect();
    for (index, found) in found {
        let piece = &pieces[*index];
        let sum = &mut all[piece.tensor];
        if sum.n_bad == 0 && found.not_finite.n_blocks > 0 {
            let block = tensors[piece.tensor].dtype.block_bytes();
            sum.first_bad = piece.start / block + found.not_finite.first;
        }
        sum.n_bad += found.not_finite.n_blocks;
        sum.n_zero_bytes += if found.is_zero { piece.len } else { 0 };
    }
    all
}

fn report(file: &Gguf, tensors: &[&TensorInfo], pieces: &[Piece], found: &[(usize, Found)]) -> Check {
    let mut check = Check::new("data");
    let all = by_tensor(tensors, pieces, found);
    let n_bytes: usize = tensors.iter().map(|t| t.n_bytes()).sum();
    let bad: Vec<_> = all.iter().filter(|t| t.n_bad > 0).collect();
    for t in bad.iter().take(MAX_NAMED) {
        let tensor = tensors[t.tensor];
        let (dtype, n, n_blocks) = (tensor.dtype, t.n_bad, tensor.n_bytes() / tensor.dtype.block_bytes());
        let what = if dtype.block_elems() == 1 { "values" } else { "blocks" };
        let row = t.first_bad * dtype.block_elems() / tensor.shape.first().copied().unwrap_or(1).max(1);
        check.add(
            Severity::Damage,
            format!(
                "tensor '{}': {n} of {n_blocks} {what} of {dtype} hold NaN or infinity, the first in row {row}",
                tensor.name
            ),
        );
    }
    more(bad.len(), "tensors hold NaN or infinity", Severity::Damage, &mut check);
    // A vector of zeros may be meant, as biases are; a matrix of zeros hints at a download that was never finished.
    let is_matrix = |t: &&TensorFound| tensors[t.tensor].shape.len() > 1;
    let zero: Vec<_> = all.iter().filter(|t| t.n_zero_bytes > 0).filter(is_matrix).collect();
    for t in zero.iter().take(MAX_NAMED) {
        let tensor = tensors[t.tensor];
        let share = 100.0 * t.n_zero_bytes as f64 / tensor.n_bytes() as f64;
        check.add(
            Severity::Warning,
            format!("tensor '{}': {share:.0} % of its bytes lie in long stretches of zeros", tensor.name),
        );
    }
    more(zero.len(), "tensors have long stretches of zeros", Severity::Warning, &mut check);
    for t in file.tensors().filter(|t| !can_dequantize(t.dtype)) {
        check.add(Severity::Note, format!("tensor '{}' of {} was not looked at", t.name, t.dtype));
    }
    if bad.is_empty() {
        let n = tensors.len();
        check.add(Severity::Note, format!("{n_bytes} bytes in {n} tensors, every value is a finite number"));
    }
    check
}

fn more(n: usize, what: &str, severity: Severity, check: &mut Check) {
    if n > MAX_NAMED {
        check.add(severity, format!("{} more {what}", n - MAX_NAMED));
    }
}
