//! What the machine allows: the loops whose rates every matrix product is measured against.
//!
//! The loops are to be timed on the threads that run the product and right beside it: both limits of a shared machine
//! move by the minute. [`Meter`] does that for those who have no timing of their own.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "SIMD"))]

mod machine;

pub use machine::{Limits, LimitsError, Meter};

use crate::isa::Isa;
use std::hint::black_box;

/// Runs the integer dot instruction of a level (`vpdpbusd`; `vpmaddubsw` and its widening; plain multiply-adds) on
/// registers, about `n` times, and returns how many operations that was: two per product.
pub fn run_dots(isa: Isa, n: usize) -> u64 {
    match isa {
        Isa::Scalar => scalar_dots(n),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the token proves the features.
        Isa::Avx2(_) => unsafe { x86::avx2_dots(n) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the token proves the features.
        Isa::Avx512Vnni(_) => unsafe { x86::avx512_dots(n) },
    }
}

/// Runs fused multiply-adds of f32 on registers, about `n` times, and returns how many operations that was: two per
/// element.
pub fn run_fmas(isa: Isa, n: usize) -> u64 {
    match isa {
        Isa::Scalar => scalar_fmas(n),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the token proves the features.
        Isa::Avx2(_) => unsafe { x86::avx2_fmas(n) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the token proves the features.
        Isa::Avx512Vnni(_) => unsafe { x86::avx512_fmas(n) },
    }
}

/// Reads every byte once with the widest loads of a level; up to 1023 at the end are left out. SIMD levels read from two places
/// in turn: of the ways to read with one core the fastest (one, two, four and eight places: 30, 33, 33 and 27 GB/s; with
/// prefetch instructions 28).
pub fn read(isa: Isa, bytes: &[u8]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the token proves the features.
        Isa::Avx512Vnni(_) => unsafe { x86::avx512_read(bytes) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the token proves the features.
        Isa::Avx2(_) => unsafe { x86::avx2_read(bytes) },
        Isa::Scalar => {
            let words = bytes.as_chunks::<8>().0.iter();
            black_box(words.fold(0, |acc, w| acc ^ u64::from_le_bytes(*w)));
        }
    }
}

fn scalar_dots(n: usize) -> u64 {
    let mut acc = [0i32; 64];
    let (a, b) = black_box(([3u8; 64], [-5i8; 64]));
    for _ in 0..n {
        for (acc, (a, b)) in acc.iter_mut().zip(a.iter().zip(&b)) {
            *acc = acc.wrapping_add(i32::from(*a) * i32::from(*b));
        }
        black_box(&mut acc);
    }
    (n * 64 * 2) as u64
}

fn scalar_fmas(n: usize) -> u64 {
    let mut acc = [0f32; 16];
    let (a, b) = black_box((0.5f32, 0.25f32));
    for _ in 0..n {
        for acc in &mut acc {
            *acc = a.mul_add(b, *acc);
        }
        black_box(&mut acc);
    }
    (n * 16 * 2) as u64
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::black_box;
    use std::arch::asm;
    use std::arch::x86_64::*;

    /// Independent accumulators, enough to hide the latency of every instruction in question.
    const CHAINS: usize = 12;

    /// Keeps the compiler from folding iterations together.
    fn barrier() {
        // SAFETY: no instructions.
        unsafe { asm!("", options(nomem, nostack, preserves_flags)) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn avx512_dots(n: usize) -> u64 {
        let (a, b) = (_mm512_set1_epi8(black_box(3)), _mm512_set1_epi8(black_box(5)));
        let mut acc = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..n / CHAINS {
            for acc in &mut acc {
                *acc = _mm512_dpbusd_epi32(*acc, a, b);
            }
            barrier();
        }
        black_box(acc);
        (n / CHAINS * CHAINS * 64 * 2) as u64
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2_dots(n: usize) -> u64 {
        let (a, b) = (_mm256_set1_epi8(black_box(3)), _mm256_set1_epi8(black_box(5)));
        let ones = _mm256_set1_epi16(black_box(1));
        let mut acc = [_mm256_setzero_si256(); CHAINS];
        for _ in 0..n / CHAINS {
            for (i, acc) in acc.iter_mut().enumerate() {
                // Other operands in each chain, or one product would serve all.
                let pairs = _mm256_maddubs_epi16(_mm256_add_epi8(a, _mm256_set1_epi8(i as i8)), b);
                *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(_mm256_xor_si256(pairs, *acc), ones));
            }
            barrier();
        }
        black_box(acc);
        (n / CHAINS * CHAINS * 32 * 2) as u64
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512_fmas(n: usize) -> u64 {
        let (a, b) = (_mm512_set1_ps(black_box(0.5)), _mm512_set1_ps(black_box(0.25)));
        let mut acc = [_mm512_setzero_ps(); CHAINS];
        for _ in 0..n / CHAINS {
            for acc in &mut acc {
                *acc = _mm512_fmadd_ps(a, b, *acc);
            }
            barrier();
        }
        black_box(acc);
        (n / CHAINS * CHAINS * 16 * 2) as u64
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2_fmas(n: usize) -> u64 {
        let (a, b) = (_mm256_set1_ps(black_box(0.5)), _mm256_set1_ps(black_box(0.25)));
        let mut acc = [_mm256_setzero_ps(); CHAINS];
        for _ in 0..n / CHAINS {
            for acc in &mut acc {
                *acc = _mm256_fmadd_ps(a, b, *acc);
            }
            barrier();
        }
        black_box(acc);
        (n / CHAINS * CHAINS * 8 * 2) as u64
    }

    /// The two halves of `bytes`, in chunks of 512.
    pub(super) fn halves(bytes: &[u8]) -> impl Iterator<Item = [&[u8]; 2]> {
        let (first, second) = bytes.split_at(bytes.len() / 1024 * 512);
        first.chunks_exact(512).zip(second.chunks_exact(512)).map(|(a, b)| [a, b])
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512_read(bytes: &[u8]) {
        let mut acc = [_mm512_setzero_si512(); 8];
        for chunks in halves(bytes) {
            for (i, acc) in acc.iter_mut().enumerate() {
                for chunk in chunks {
                    // SAFETY: a load inside the chunk.
                    let v = unsafe { _mm512_loadu_si512(chunk.as_ptr().add(i * 64).cast()) };
                    *acc = _mm512_xor_si512(*acc, v);
                }
            }
        }
        black_box(acc);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2_read(bytes: &[u8]) {
        let mut acc = [_mm256_setzero_si256(); 8];
        for chunks in halves(bytes) {
            for i in 0..16 {
                for chunk in chunks {
                    // SAFETY: a load inside the chunk.
                    let v = unsafe { _mm256_loadu_si256(chunk.as_ptr().add(i * 32).cast()) };
                    acc[i % 8] = _mm256_xor_si256(acc[i % 8], v);
                }
            }
        }
        black_box(acc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_counts_its_operations() {
        for isa in Isa::available() {
            assert!(run_dots(isa, 1200) >= 1200 * 64, "{isa}");
            assert!(run_fmas(isa, 1200) >= 1200 * 16, "{isa}");
            read(isa, &[1; 1500]);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn both_halves_are_read_once() {
        let bytes: Vec<u8> = (0..2500).map(|i| (i / 512) as u8).collect();
        let chunks: Vec<_> =
            x86::halves(&bytes).map(|pair| pair.map(|chunk| (chunk[0], chunk.len()))).collect();
        assert_eq!(chunks, [[(0, 512), (2, 512)], [(1, 512), (3, 512)]]);
    }
}
