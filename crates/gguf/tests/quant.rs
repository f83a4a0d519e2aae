//! Dequantization is bit-equal to the fixtures; quantization comes back within half a step.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod common;

use minfer_gguf::{QuantError, TensorType, can_dequantize, can_quantize, dequantize, quantize};
use proptest::prelude::*;
use serde_json::Value;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// What differs between the fixture file of `dtype` and [`dequantize`], one line per wrong value.
fn differences(dtype: TensorType, fixture: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for block in fixture["blocks"].as_array().unwrap() {
        let raw = unhex(block["raw"].as_str().unwrap());
        let expected: Vec<f32> =
            block["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
        assert!(!expected.is_empty());
        let mut found = vec![f32::NAN; expected.len()];
        dequantize(dtype, &raw, &mut found).unwrap();
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if found.to_bits() != expected.to_bits() {
                wrong.push(format!(
                    "{dtype}, {}: element {i} is {found:e}, expected {expected:e}",
                    block["what"]
                ));
            }
        }
    }
    wrong
}

#[test]
fn dequantization_is_bit_equal_to_the_fixtures() {
    let Some(folder) = common::fixtures("quant") else { return };
    let (mut n_types, mut wrong) = (0, Vec::new());
    for dtype in TensorType::all() {
        let Ok(text) = std::fs::read_to_string(folder.join(format!("{dtype}.json"))) else { continue };
        let fixture: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(fixture["ggml_type"], dtype as u32);
        assert_eq!(fixture["values_per_block"], dtype.block_elems());
        assert_eq!(fixture["bytes_per_block"], dtype.block_bytes());
        wrong.extend(differences(dtype, &fixture));
        n_types += 1;
    }
    assert_eq!(n_types, 25);
    assert!(
        wrong.is_empty(),
        "{} values differ, the first are\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

/// 64-bit FNV-1a of the numbers' bytes.
fn hash_of_bits(x: &[f32]) -> u64 {
    let bytes = x.iter().flat_map(|x| x.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// A few blocks of every type travel with the crate, so that any clone notices a wrong bit.
#[test]
fn dequantization_matches_the_committed_hashes() {
    let rows = include_str!("data/quant.txt").lines().filter(|line| !line.starts_with('#'));
    let mut types = std::collections::BTreeSet::new();
    for row in rows {
        let [name, raw, hash] = row.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let (dtype, raw) = (TensorType::from_name(name).unwrap(), unhex(raw));
        let mut values = vec![f32::NAN; raw.len() / dtype.block_bytes() * dtype.block_elems()];
        dequantize(dtype, &raw, &mut values).unwrap();
        assert_eq!(format!("{:016x}", hash_of_bits(&values)), hash, "{row}");
        types.insert(dtype);
    }
    // F32 is its own bits.
    let with_reference = TensorType::all().filter(|&t| can_dequantize(t) && t != TensorType::F32);
    assert!(types.into_iter().eq(with_reference));
}

#[test]
fn types_without_a_reference_are_refused_by_name() {
    for dtype in TensorType::all().filter(|&t| !can_dequantize(t)) {
        let error = dequantize(dtype, &[], &mut []).unwrap_err();
        assert_eq!(error, QuantError::Unsupported { dtype, doing: "dequantizing" });
        assert!(error.to_string().contains(dtype.name()));
    }
    assert!(!can_dequantize(TensorType::I32));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    for dtype in TensorType::all().filter(|&t| can_dequantize(t)) {
        let (n_bytes, n_elems) = (dtype.block_bytes(), dtype.block_elems());
        let bytes = vec![0; 2 * n_bytes];
        for (b, e) in [(n_bytes - 1, n_elems), (n_bytes, 2 * n_elems), (2 * n_bytes, n_elems), (0, n_elems)] {
            let error = dequantize(dtype, &bytes[..b], &mut vec![0.0; e]).unwrap_err();
            assert_eq!(error, QuantError::Size { dtype, n_bytes: b, n_elems: e });
        }
        assert_eq!(dequantize(dtype, &[], &mut []), Ok(()));
    }
}

/// Largest error of a block whose elements lie in `-max..=max`: half a step of the format plus the rounding of the
/// half-precision scale (and of the offset), in units of `max`.
const BOUNDS: &[(TensorType, f32)] = &[
    (TensorType::F32, 0.0),
    (TensorType::F16, 1.0 / 2048.0),
    (TensorType::BF16, 1.0 / 256.0),
    (TensorType::Q8_0, 0.5 / 127.0 + 1.0 / 2048.0),
    // The far end of the range is cut: steps go from -8 to 7 only.
    (TensorType::Q4_0, 1.0 / 8.0 + 1.0 / 2048.0),
    (TensorType::Q5_0, 1.0 / 16.0 + 1.0 / 2048.0),
    (TensorType::Q4_1, 1.0 / 15.0 + 3.0 / 2048.0),
    (TensorType::Q5_1, 1.0 / 31.0 + 3.0 / 2048.0),
];

#[test]
fn every_quantizer_has_a_bound() {
    let can: Vec<_> = TensorType::all().filter(|&t| can_quantize(t)).collect();
    assert!(can.iter().all(|t| BOUNDS.iter().any(|(b, _)| b == t)));
    assert_eq!(can.len(), BOUNDS.len());
}

proptest! {
    #[test]
    fn quantized_numbers_come_back_within_the_bound(x in prop::collection::vec(-8.0f32..8.0, 64)) {
        for &(dtype, bound) in BOUNDS {
            let mut bytes = vec![0; dtype.row_bytes(x.len()).unwrap()];
            quantize(dtype, &x, &mut bytes).unwrap();
            let mut back = vec![f32::NAN; x.len()];
            dequantize(dtype, &bytes, &mut back).unwrap();
            for (block, back) in x.chunks(32).zip(back.chunks(32)) {
                let max = block.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                for (v, b) in block.iter().zip(back) {
                    prop_assert!((v - b).abs() <= bound * max, "{}: {} came back as {}", dtype, v, b);
                }
            }
        }
    }

    #[test]
    fn any_bits_quantize_without_panic(bits in prop::collection::vec(any::<u32>(), 32)) {
        let x: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        for &(dtype, _) in BOUNDS {
            quantize(dtype, &x, &mut vec![0; dtype.row_bytes(32).unwrap()]).unwrap();
        }
    }

    #[test]
    fn any_bytes_dequantize_without_panic(bytes in prop::collection::vec(any::<u8>(), 300)) {
        for dtype in TensorType::all().filter(|&t| can_dequantize(t)) {
            dequantize(dtype, &bytes[..dtype.block_bytes()], &mut vec![0.0; dtype.block_elems()]).unwrap();
        }
    }
}
