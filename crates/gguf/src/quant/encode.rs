//! Reference quantization of the simple formats: round to nearest, no search for better scales.
//!
//! For tests and tools; the results are those of GGML's own simple path. Numbers that are not finite give some block,
//! never a panic.

use half::{bf16, f16};

use super::{QuantError, check_sizes};
use crate::TensorType;

type Encoder = fn(&[f32], &mut [u8]);

fn encoder(dtype: TensorType) -> Option<Encoder> {
    Some(match dtype {
        TensorType::F32 => |x, out| each(x, out, |x: &[f32; 1], out| *out = x[0].to_le_bytes()),
        TensorType::F16 => {
            |x, out| each(x, out, |x: &[f32; 1], out| *out = f16::from_f32(x[0]).to_le_bytes())
        }
        TensorType::BF16 => {
            |x, out| each(x, out, |x: &[f32; 1], out| *out = bf16::from_f32(x[0]).to_le_bytes())
        }
        TensorType::Q8_0 => |x, out| each(x, out, q8_0),
        TensorType::Q4_0 => |x, out| each(x, out, q4_0),
        TensorType::Q4_1 => |x, out| each(x, out, q4_1),
        TensorType::Q5_0 => |x, out| each(x, out, q5_0),
        TensorType::Q5_1 => |x, out| each(x, out, q5_1),
        _ => return None,
    })
}

fn each<const ELEMS: usize, const BYTES: usize>(
    x: &[f32],
    out: &mut [u8],
    block: fn(&[f32; ELEMS], &mut [u8; BYTES]),
) {
    for (x, out) in x.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        block(x, out);
    }
}

/// Whether [`quantize`] knows the type.
pub fn can_quantize(dtype: TensorType) -> bool {
    encoder(dtype).is_some()
}

/// Turns numbers into blocks of `dtype`; overwrites all of `out`.
///
/// Errors if the type has no reference, or if `x` and `out` are not the same whole number of blocks.
pub fn quantize(dtype: TensorType, x: &[f32], out: &mut [u8]) -> Result<(), QuantError> {
    let encode = encoder(dtype).ok_or(QuantError::Unsupported { dtype, doing: "quantizing" })?;
    check_sizes(dtype, out, x)?;
    encode(x, out);
    Ok(())
}

fn put_f16(out: &mut [u8], at: usize, x: f32) {
    out[at..at + 2].copy_from_slice(&f16::from_f32(x).to_le_bytes());
}

fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// The element farthest from zero, with its sign.
fn extreme(x: &[f32; 32]) -> f32 {
    x.iter().fold(0.0, |most: f32, &v| if v.abs() > most.abs() { v } else { most })
}

fn min_and_max(x: &[f32; 32]) -> (f32, f32) {
    x.iter().fold((f32::MAX, f32::MIN), |(min, max), &v| (v.min(min), v.max(max)))
}

fn q8_0(x: &[f32; 32], out: &mut [u8; 34]) {
    let d = extreme(x).abs() / 127.0;
    let id = inverse(d);
    put_f16(out, 0, d);
    for (q, &v) in out[2..].iter_mut().zip(x) {
        *q = (v * id).round() as i8 as u8;
    }
}

fn q4_0(x: &[f32; 32], out: &mut [u8; 18]) {
    let d = extreme(x) / -8.0;
    put_f16(out, 0, d);
    put_nibbles(&mut out[2..], &centred::<15>(x, d, 8.5));
}

fn q5_0(x: &[f32; 32], out: &mut [u8; 22]) {
    let d = extreme(x) / -16.0;
    put_f16(out, 0, d);
    let q = centred::<31>(x, d, 16.5);
    put_fifth_bits(&mut out[2..6], &q);
    put_nibbles(&mut out[6..], &q);
}

fn q4_1(x: &[f32; 32], out: &mut [u8; 20]) {
    let q = from_min::<15>(x, out);
    put_nibbles(&mut out[4..], &q);
}

fn q5_1(x: &[f32; 32], out: &mut [u8; 24]) {
    let q = from_min::<31>(x, out);
    put_fifth_bits(&mut out[4..8], &q);
    put_nibbles(&mut out[8..], &q);
}

/// `x / d + offset`, cut to a whole number from 0 to `MAX`; the half in `offset` makes the cut a rounding.
fn centred<const MAX: u8>(x: &[f32; 32], d: f32, offset: f32) -> [u8; 32] {
    let id = inverse(d);
    x.map(|v| ((v * id + offset) as u8).min(MAX))
}

/// Writes scale and offset of the formats with a minimum; returns the whole numbers from 0 to `MAX`.
fn from_min<const MAX: u8>(x: &[f32; 32], out: &mut [u8]) -> [u8; 32] {
    let (min, max) = min_and_max(x);
    let d = (max - min) / f32::from(MAX);
    let id = inverse(d);
    put_f16(out, 0, d);
    put_f16(out, 2, min);
    x.map(|v| (((v - min) * id + 0.5) as u8).min(MAX))
}

fn put_nibbles(out: &mut [u8], q: &[u8; 32]) {
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = (q[i] & 15) | (q[i + 16] & 15) << 4;
    }
}

fn put_fifth_bits(out: &mut [u8], q: &[u8; 32]) {
    let bits = q.iter().enumerate().fold(0u32, |bits, (i, q)| bits | u32::from(q >> 4 & 1) << i);
    out.copy_from_slice(&bits.to_le_bytes());
}
