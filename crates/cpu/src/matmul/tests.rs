//! Every type on every path: bits equal to the reference, values near the exact product, hostile input included.

#![expect(unsafe_code, reason = "outputs are written by pointer")]

mod packing;
mod panels;

use super::activations::tile_sizes;
use super::float::is_float;
use super::reference::{self, Block};
use super::*;
use crate::isa::Isa;
use minfer_gguf::TensorType;

/// Every type that has kernels.
fn types() -> Vec<TensorType> {
    TensorType::all().filter(|&t| PackedMatrix::supports(t)).collect()
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    /// Roughly normal.
    fn float(&mut self) -> f32 {
        (0..4).map(|_| (self.next() & 0xFFFF) as f32 / 65536.0 - 0.5).sum::<f32>() * 1.7
    }

    /// Activations with an outlier here and there.
    fn activations(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|i| self.float() * if i % 97 == 5 { 20.0 } else { 1.0 }).collect()
    }

    /// Any bytes whatever.
    fn hostile_weights(&mut self, dtype: TensorType, rows: usize, k: usize) -> Vec<u8> {
        let n = dtype.row_bytes(k).unwrap() * rows;
        (0..n).map(|_| self.next() as u8).collect()
    }

    /// Random codes and sub-scales, block scales of a sane size.
    fn weights(&mut self, dtype: TensorType, rows: usize, k: usize) -> Vec<u8> {
        let mut raw = self.hostile_weights(dtype, rows, k);
        for block in raw.chunks_exact_mut(dtype.block_bytes()) {
            match dtype {
                TensorType::F32 => block.copy_from_slice(&self.float().to_le_bytes()),
                TensorType::F16 => block.copy_from_slice(&half::f16::from_f32(self.float()).to_le_bytes()),
                TensorType::BF16 => block.copy_from_slice(&half::bf16::from_f32(self.float()).to_le_bytes()),
                TensorType::MXFP4 => block[0] = 118 + self.below(6) as u8,
                _ => {
                    for &at in half_scales(dtype) {
                        let scale =
                            (0.3 + self.float().abs()) * 0.01 * if self.next() & 1 == 0 { -1.0 } else { 1.0 };
                        block[at..at + 2].copy_from_slice(&half::f16::from_f32(scale).to_le_bytes());
                    }
                }
            }
        }
        raw
    }
}

/// Where the f16 scales of a block are.
fn half_scales(dtype: TensorType) -> &'static [usize] {
    match dtype {
        TensorType::Q4_1 | TensorType::Q5_1 | TensorType::Q4_K | TensorType::Q5_K => &[0, 2],
        TensorType::Q2_K => &[80, 82],
        TensorType::Q3_K => &[108],
        TensorType::Q6_K => &[208],
        _ => &[0],
    }
}

/// A product by the definition, `[n_tokens][rows]`.
fn expected(dtype: TensorType, raw: &[u8], rows: usize, k: usize, x: &[f32]) -> Vec<f32> {
    let row_bytes = dtype.row_bytes(k).unwrap();
    let mut out = vec![0.0; x.len() / k * rows];
    let tokens: Vec<Vec<Block>> = x.chunks_exact(k).map(blocks).collect();
    for (r, row) in raw.chunks_exact(row_bytes).enumerate() {
        let steps = if is_float(dtype) { vec![] } else { reference::steps(dtype, row) };
        for (t, x) in x.chunks_exact(k).enumerate() {
            out[t * rows + r] = match is_float(dtype) {
                true => reference::dot_float(dtype, row, x),
                false => reference::dot(&steps, &tokens[t]),
            };
        }
    }
    out
}

fn blocks(x: &[f32]) -> Vec<Block> {
    x.as_chunks::<32>().0.iter().map(reference::quantize).collect()
}

/// A product by the kernels of `isa`, in random splits of panels, in tiles of the given sizes, `[n_tokens][rows]`.
fn product(w: &PackedMatrix, x: &[f32], isa: Isa, sizes: &[usize], rng: &mut Rng) -> Vec<f32> {
    let (rows, k) = (w.rows(), w.k());
    let n_tokens = x.len() / k;
    let stride = rows + rng.below(3);
    let mut out = vec![f32::from_bits(0x7FC0_1234); n_tokens * stride];
    let mut act = QuantizedActivations::new();
    let x = if Activations::quantized_for(w.dtype()) {
        let writer = act.begin_tiled(x, n_tokens, k, isa, sizes).unwrap();
        writer.write_tiles(0..writer.n_tiles());
        act.prepare(&[w.dtype()]);
        Activations::Quantized(&act)
    } else {
        Activations::F32 { x, n_tokens, k }
    };
    // SAFETY: `out` holds `n_tokens` times `stride` values, and nothing else uses it until the calls return.
    let ptr = unsafe { OutPtr::new(out.as_mut_ptr(), stride, n_tokens, rows) };
    let (a, b) = (rng.below(w.n_panels() + 1), rng.below(w.n_panels() + 1));
    let (a, b) = (a.min(b), a.max(b));
    let mut scratch = Scratch::new();
    for range in [b..w.n_panels(), 0..a, a..b] {
        matmul_panels(w, &x, ptr, range, isa, &mut scratch).unwrap();
    }
    let untouched = out.chunks(stride).flat_map(|t| &t[rows..]).all(|v| v.to_bits() == 0x7FC0_1234);
    assert!(untouched, "{} wrote past the rows", kernel_name(w.dtype(), isa));
    out.chunks(stride).flat_map(|t| t[..rows].to_vec()).collect()
}

/// Bits, with one value for every NaN.
fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|v| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }).collect()
}

/// Compares every path with the reference; returns what was wrong.
fn compare(dtype: TensorType, raw: &[u8], rows: usize, k: usize, x: &[f32], rng: &mut Rng) -> Vec<String> {
    let w = PackedMatrix::pack(dtype, raw, rows, k, Isa::detect()).unwrap();
    let expected = bits(&expected(dtype, raw, rows, k, x));
    let mut wrong = vec![];
    for isa in Isa::available() {
        for sizes in [tile_sizes(isa), &[2, 1]] {
            let got = bits(&product(&w, x, isa, sizes, rng));
            if let Some(i) = (0..got.len()).find(|&i| got[i] != expected[i]) {
                let (token, row) = (i / rows, i % rows);
                let (g, e) = (f32::from_bits(got[i]), f32::from_bits(expected[i]));
                let n_tokens = x.len() / k;
                wrong.push(format!(
                    "{} {rows}x{k}, {n_tokens} tokens in {sizes:?}: out[{token}][{row}] is {g:e}, not {e:e}",
                    kernel_name(dtype, isa)
                ));
            }
        }
    }
    wrong
}

fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

const ROWS: [usize; 7] = [1, 5, 15, 16, 17, 37, 64];
const TOKENS: [usize; 10] = [0, 1, 2, 3, 4, 7, 8, 9, 17, 67];

/// Edge lengths of k for a type.
fn lengths(dtype: TensorType) -> &'static [usize] {
    match dtype.block_elems() {
        1 => &[1, 3, 96],
        32 => &[32, 224],
        _ => &[256, 768],
    }
}

#[test]
fn every_path_gives_the_bits_of_the_reference() {
    let mut rng = Rng(42);
    let mut wrong = vec![];
    for dtype in types() {
        for &k in lengths(dtype) {
            for rows in ROWS {
                let raw = rng.weights(dtype, rows, k);
                for n_tokens in TOKENS {
                    let x = rng.activations(n_tokens * k);
                    wrong.extend(compare(dtype, &raw, rows, k, &x, &mut rng));
                }
            }
        }
    }
    report(&wrong);
}

#[test]
fn chunks_of_tokens_change_nothing() {
    let mut rng = Rng(43);
    let mut wrong = vec![];
    for dtype in types() {
        // 4096 makes chunks of 96 tokens, which are expanded; 8192 of 48, which are not. `panels.rs` has more panels.
        for (k, n_tokens) in [(4096, 100), (8192, 50)] {
            let raw = rng.weights(dtype, 17, k);
            let x = rng.activations(n_tokens * k);
            wrong.extend(compare(dtype, &raw, 17, k, &x, &mut rng));
        }
    }
    report(&wrong);
}

#[test]
fn hostile_weights_and_activations_give_the_same_on_every_path() {
    let mut rng = Rng(44);
    let mut wrong = vec![];
    let (mut nans, mut finite) = (0, 0);
    for dtype in types() {
        for round in 0..30 {
            let (rows, k) = (19, 256);
            let n_tokens = 1 + rng.below(9);
            let raw = match round % 3 {
                0 => vec![[0x00, 0xFF, 0x80, 0x7F, 0x7C][round / 3 % 5]; dtype.row_bytes(k).unwrap() * rows],
                1 => rng.weights(dtype, rows, k),
                _ => rng.hostile_weights(dtype, rows, k),
            };
            let mut x = rng.activations(n_tokens * k);
            for _ in 0..round % 5 {
                let i = rng.below(x.len());
                x[i] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-44][rng.below(5)];
            }
            if round % 7 == 0 {
                x.iter_mut().for_each(|v| *v *= 1e-37);
            }
            let out = expected(dtype, &raw, rows, k, &x);
            nans += out.iter().filter(|v| v.is_nan()).count();
            finite += out.iter().filter(|v| v.is_finite()).count();
            wrong.extend(compare(dtype, &raw, rows, k, &x, &mut rng));
        }
    }
    report(&wrong);
    assert!(nans > 1000 && finite > 1000, "{nans} NaN and {finite} finite outputs don't test much");
}

/// The largest integers that a type can reach, with the sign that doesn't cancel.
#[test]
fn extreme_weights_and_activations_stay_exact() {
    let mut rng = Rng(45);
    let mut wrong = vec![];
    for dtype in types().into_iter().filter(|&t| !is_float(t)) {
        for byte in [0x00, 0x80, 0xFF] {
            let (rows, k) = (16, 256);
            let mut raw = vec![byte; dtype.row_bytes(k).unwrap() * rows];
            for block in raw.chunks_exact_mut(dtype.block_bytes()) {
                match dtype {
                    TensorType::MXFP4 => block[0] = 128,
                    _ => half_scales(dtype)
                        .iter()
                        .for_each(|&at| block[at..at + 2].copy_from_slice(&[0, 0x3C])),
                }
            }
            for x in [vec![127.0; k * 8], vec![-127.0; k * 8]] {
                wrong.extend(compare(dtype, &raw, rows, k, &x, &mut rng));
            }
        }
    }
    report(&wrong);
}

/// Relative to the norm of the products: up to 1024 additions to one f32 accumulator, whose rounding errors add up like a
/// random walk, sqrt(1024) * 2^-24 times partial sums of a few norms.
const ROUNDING: f64 = 1.6e-5;
/// The same with activations as they were: the error of 8 bits, measured at up to 1.2 % of the norm.
const EIGHT_BITS: f64 = 0.02;

#[test]
fn results_are_near_the_exact_product() {
    let mut rng = Rng(46);
    for dtype in types() {
        let (rows, k, n_tokens) = (32, 1024, 9);
        let raw = rng.weights(dtype, rows, k);
        let x = rng.activations(n_tokens * k);
        let w = PackedMatrix::pack(dtype, &raw, rows, k, Isa::detect()).unwrap();
        let out = product(&w, &x, Isa::detect(), tile_sizes(Isa::detect()), &mut rng);
        let mut weights = vec![0.0; k];
        let (mut rounding, mut eight_bits, mut size) = (0f64, 0f64, 0f64);
        for row in 0..rows {
            w.row(row, &mut weights);
            for (t, x) in x.chunks_exact(k).enumerate() {
                let got = f64::from(out[t * rows + row]);
                let (exact, norm) = dot64(&weights, x);
                let rounded = if is_float(dtype) { x.to_vec() } else { as_quantized(x) };
                rounding = rounding.max((got - dot64(&weights, &rounded).0).abs() / norm);
                eight_bits += ((got - exact) / norm).powi(2);
                size += (exact / norm).powi(2);
            }
        }
        let n = (rows * n_tokens) as f64;
        let (eight_bits, size) = ((eight_bits / n).sqrt(), (size / n).sqrt());
        assert!(rounding < ROUNDING, "{dtype}: rounding {rounding:e}");
        assert!(
            eight_bits < if is_float(dtype) { ROUNDING } else { EIGHT_BITS },
            "{dtype}: error {eight_bits:e}"
        );
        assert!(size > 0.3, "{dtype}: outputs are all near zero ({size})");
    }
}

/// The exact product and the norm of its terms.
fn dot64(w: &[f32], x: &[f32]) -> (f64, f64) {
    let terms = w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x));
    let (sum, squares) = terms.fold((0.0, 0.0), |(s, q), p| (s + p, q + p * p));
    (sum, squares.sqrt())
}

/// What int8 activations stand for.
fn as_quantized(x: &[f32]) -> Vec<f32> {
    blocks(x).iter().flat_map(|b| b.q.map(|q| q as f32 * b.scale)).collect()
}

#[test]
fn rows_come_out_as_the_reference_dequantizes_them() {
    let mut rng = Rng(47);
    for dtype in types() {
        let (rows, k) = (35, 512);
        let raw = rng.hostile_weights(dtype, rows, k);
        let w = PackedMatrix::pack(dtype, &raw, rows, k, Isa::detect()).unwrap();
        let mut out = vec![0.0; k];
        for (row, raw) in raw.chunks_exact(dtype.row_bytes(k).unwrap()).enumerate() {
            w.row(row, &mut out);
            let expected: Vec<f32> = match is_float(dtype) {
                true => raw.chunks_exact(dtype.block_bytes()).map(|w| reference::float(dtype, w)).collect(),
                false => reference::steps(dtype, raw).iter().flat_map(reference::Step::dequantize).collect(),
            };
            assert_eq!(bits(&out), bits(&expected), "{dtype} row {row}");
            let mut by_the_file_format = vec![0.0; k];
            minfer_gguf::dequantize(dtype, raw, &mut by_the_file_format).unwrap();
            assert_eq!(bits(&out), bits(&by_the_file_format), "{dtype} row {row}");
        }
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn rows_equal_the_fixtures() {
    let shared = std::env::var_os("MINFER_SHARED").map_or_else(
        || std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        Into::into,
    );
    for dtype in types().into_iter().filter(|&t| t != TensorType::F32) {
        let path = shared.join(format!("fixtures/quant/{dtype}.json"));
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("skipped: no {}", path.display());
            continue;
        };
        let fixture: serde_json::Value = serde_json::from_str(&text).unwrap();
        let blocks = fixture["blocks"].as_array().unwrap();
        assert!(!blocks.is_empty());
        for block in blocks {
            let hex = block["raw"].as_str().unwrap();
            let raw: Vec<u8> =
                (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[i * 2..i * 2 + 2], 16).unwrap()).collect();
            let k = raw.len() / dtype.block_bytes() * dtype.block_elems();
            let mut out = vec![0.0; k];
            PackedMatrix::pack(dtype, &raw, 1, k, Isa::detect()).unwrap().row(0, &mut out);
            let expected: Vec<f32> = block["values"].as_array().unwrap().iter().map(number).collect();
            assert_eq!(bits(&out), bits(&expected), "{dtype}: {}", block["what"]);
        }
    }
}

/// A value of a fixture: a number, or the name of one that JSON lacks.
fn number(v: &serde_json::Value) -> f32 {
    match v.as_str() {
        Some(name) => name.parse().unwrap(),
        None => v.to_string().parse().unwrap_or(f32::NAN),
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let isa = Isa::detect();
    let w = PackedMatrix::pack(TensorType::Q4_0, &[0; 20 * 2 * 18], 20, 64, Isa::Scalar).unwrap();
    let mut act = QuantizedActivations::new();
    act.quantize(&[0.0; 3 * 64], 3, 64, isa).unwrap();
    act.prepare(&[TensorType::Q4_0]);
    let mut short = QuantizedActivations::new();
    short.quantize(&[0.0; 32], 1, 32, isa).unwrap();
    short.prepare(&[TensorType::Q4_0]);
    let mut out = vec![0f32; 60];
    let mut run = |x: Activations<'_>, n_tokens, rows, panels| {
        // SAFETY: `out` holds 3 tokens of 20 rows, and no call states more.
        let ptr = unsafe { OutPtr::new(out.as_mut_ptr(), 20, n_tokens, rows) };
        matmul_panels(&w, &x, ptr, panels, isa, &mut Scratch::new())
    };
    let q = Activations::Quantized(&act);
    assert_eq!(run(q, 3, 20, 0..2), Ok(()));
    assert!(matches!(run(q, 2, 20, 0..2), Err(MatMulError::Output { needed_tokens: 3, .. })));
    assert!(matches!(run(q, 3, 19, 0..2), Err(MatMulError::Output { needed_rows: 20, .. })));
    assert!(matches!(run(q, 3, 20, 0..3), Err(MatMulError::Panels { end: 3, n_panels: 2, .. })));
    let short = Activations::Quantized(&short);
    assert!(matches!(run(short, 3, 20, 0..2), Err(MatMulError::InputLength { expected: 64, found: 32, .. })));
    let mut other = QuantizedActivations::new();
    other.quantize(&[0.0; 3 * 64], 3, 64, isa).unwrap();
    other.prepare(&[TensorType::Q5_0]);
    let other = Activations::Quantized(&other);
    assert!(matches!(run(other, 3, 20, 0..2), Err(MatMulError::ActivationForm { .. })), "not prepared");
    let floats = Activations::F32 { x: &[0.0; 64], n_tokens: 1, k: 64 };
    assert!(matches!(run(floats, 3, 20, 0..2), Err(MatMulError::ActivationForm { .. })));
    let lying = Activations::F32 { x: &[0.0; 63], n_tokens: 1, k: 64 };
    assert!(matches!(run(lying, 3, 20, 0..2), Err(MatMulError::Activations { .. })));
}

#[test]
fn kernels_are_named_by_machine_type_and_level() {
    let arch = std::env::consts::ARCH;
    assert_eq!(kernel_name(TensorType::Q4_K, Isa::Scalar), format!("{arch}-q4_k-scalar"));
    if let Ok(isa) = Isa::from_name("avx512") {
        assert_eq!(kernel_name(TensorType::Q4_K, isa), "x86_64-q4_k-avx512vnni");
        assert_eq!(kernel_name(TensorType::F16, isa), "x86_64-f16-avx512");
    }
}
