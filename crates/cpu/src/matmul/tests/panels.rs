//! Panels, groups of panels and chunks of tokens: whatever the cut, the bits are those of the reference.

use super::super::activations::SMALLEST_AMAX;
use super::super::kernels::Kernels;
use super::*;

/// Outputs where nothing was written.
const UNTOUCHED: u32 = 0x7FC0_1234;

#[test]
fn one_token_meets_any_run_of_panels() {
    let mut rng = Rng(51);
    let mut wrong = vec![];
    for dtype in types() {
        let k = dtype.block_elems().max(32);
        for rows in [1, 16, 17, 31, 33, 48, 63, 80, 97] {
            let raw = rng.weights(dtype, rows, k);
            let x = rng.activations(k);
            let w = PackedMatrix::pack(dtype, &raw, rows, k, Isa::detect()).unwrap();
            let expected = bits(&expected(dtype, &raw, rows, k, &x));
            for isa in Isa::available() {
                let mut act = QuantizedActivations::new();
                let x = ready(&mut act, &w, &x, isa);
                for (a, b) in (0..=w.n_panels()).flat_map(|b| (0..=b).map(move |a| (a, b))) {
                    let mut out = vec![f32::from_bits(UNTOUCHED); rows];
                    // SAFETY: `out` holds one token of `rows`.
                    let ptr = unsafe { OutPtr::new(out.as_mut_ptr(), rows, 1, rows) };
                    matmul_panels(&w, &x, ptr, a..b, isa, &mut Scratch::new()).unwrap();
                    let written = (a * 16).min(rows)..(b * 16).min(rows);
                    let is_right = out.iter().enumerate().all(|(i, v)| match written.contains(&i) {
                        true => bits(&[*v])[0] == expected[i],
                        false => v.to_bits() == UNTOUCHED,
                    });
                    if !is_right {
                        wrong.push(format!("{dtype} on {isa}: panels {a}..{b} of {rows} rows"));
                    }
                }
            }
        }
    }
    report(&wrong);
}

/// Long rows: a panel is unpacked once for several chunks, with others that stay beside it.
#[test]
fn several_groups_of_panels_meet_several_chunks() {
    let mut rng = Rng(52);
    let (k, n_tokens, rows) = (4096, 197, 113);
    for dtype in [TensorType::Q4_0, TensorType::Q4_K, TensorType::Q6_K, TensorType::Q2_K, TensorType::MXFP4] {
        let raw = rng.weights(dtype, rows, k);
        let x = rng.activations(n_tokens * k);
        let w = PackedMatrix::pack(dtype, &raw, rows, k, Isa::detect()).unwrap();
        // One token after the other takes another way altogether.
        let alone: Vec<u32> = x
            .chunks_exact(k)
            .flat_map(|x| bits(&product(&w, x, Isa::detect(), tile_sizes(Isa::detect()), &mut rng)))
            .collect();
        for isa in Isa::available() {
            let together = bits(&product(&w, &x, isa, tile_sizes(isa), &mut rng));
            assert!(together == alone, "{dtype} on {isa}");
        }
    }
}

#[test]
fn a_workspace_that_is_used_again_forgets_what_it_held() {
    let mut rng = Rng(53);
    let (k, rows, n_tokens) = (256, 33, 2);
    let isa = Isa::detect();
    let mut act = QuantizedActivations::new();
    for round in 0..3 {
        let x = rng.activations(n_tokens * k);
        act.quantize(&x, n_tokens, k, isa).unwrap();
        // More types than are kept at once, one after the other. A round begins with the one that the last ended with: what
        // was kept for it then must be gone.
        let types =
            [TensorType::Q2_K, TensorType::Q8_0, TensorType::Q6_K, TensorType::Q4_0, TensorType::Q2_K];
        for dtype in types {
            let raw = rng.weights(dtype, rows, k);
            let w = PackedMatrix::pack(dtype, &raw, rows, k, isa).unwrap();
            act.prepare(&[dtype]);
            let mut out = vec![0f32; n_tokens * rows];
            // SAFETY: `out` holds two tokens of `rows`.
            let ptr = unsafe { OutPtr::new(out.as_mut_ptr(), rows, n_tokens, rows) };
            let act = Activations::Quantized(&act);
            matmul_panels(&w, &act, ptr, 0..w.n_panels(), isa, &mut Scratch::new()).unwrap();
            assert_eq!(bits(&out), bits(&expected(dtype, &raw, rows, k, &x)), "{dtype}, round {round}");
        }
    }
}

/// The plan counts on [`Scratch::bytes_for`] being the most.
#[test]
fn working_memory_stays_within_its_plan() {
    let (dtype, rows) = (TensorType::Q4_0, 112);
    for isa in Isa::available() {
        let mut scratch = Scratch::new();
        let mut planned = 0;
        for (k, n_tokens) in [(2048, 200), (2304, 180), (4096, 100), (5120, 90), (8192, 60), (64, 80)] {
            let w = PackedMatrix::pack(dtype, &vec![0; rows * k / 32 * 18], rows, k, isa).unwrap();
            let mut act = QuantizedActivations::new();
            let x = vec![1.0; k * n_tokens];
            let x = ready(&mut act, &w, &x, isa);
            let mut out = vec![0f32; n_tokens * rows];
            // SAFETY: `out` holds these tokens of `rows`.
            let ptr = unsafe { OutPtr::new(out.as_mut_ptr(), rows, n_tokens, rows) };
            matmul_panels(&w, &x, ptr, 0..w.n_panels(), isa, &mut scratch).unwrap();
            planned = planned.max(Scratch::bytes_for(n_tokens, k));
            let taken = scratch.capacity_bytes();
            assert!(taken <= planned, "{isa}: {taken} of {planned} at k of {k}");
        }
        let unpacks = Kernels::find(dtype).unwrap().expanded_bytes(2, isa).is_some();
        assert_eq!(scratch.capacity_bytes() > 0, unpacks, "{isa}");
    }
}

/// Largest values at and around the smallest that counts, and beyond all floats, in every lane of a tile of eight.
#[test]
fn whole_tiles_quantize_hard_blocks_as_single_tokens_do() {
    let near = |step: i32| f32::from_bits((SMALLEST_AMAX.to_bits() as i32 + step) as u32);
    let mut rng = Rng(54);
    let largest = [near(0), near(-1), near(1), -near(0), 0.0, -0.0, 1e-45, f32::MIN_POSITIVE, f32::MAX, 1.0];
    let beyond = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(0xFF80_0001)];
    let (k, n_tokens) = (32 * 5, 8);
    for isa in Isa::available() {
        for _ in 0..100 {
            let mut x = vec![0f32; n_tokens * k];
            for block in x.chunks_exact_mut(32) {
                let peak = largest[rng.below(largest.len())];
                block.iter_mut().for_each(|v| *v = peak * (rng.float() / 4.0).clamp(-1.0, 1.0));
                block[rng.below(32)] = peak;
                if rng.below(4) == 0 {
                    block[rng.below(32)] = beyond[rng.below(beyond.len())];
                }
            }
            let [together, alone] = [tile_sizes(isa), &[1]].map(|sizes| {
                let mut act = QuantizedActivations::new();
                let writer = act.begin_tiled(&x, n_tokens, k, isa, sizes).unwrap();
                writer.write_tiles(0..writer.n_tiles());
                (0..n_tokens).flat_map(|t| act.token_bits(t)).collect::<Vec<_>>()
            });
            assert_eq!(together, alone, "{isa}");
        }
    }
}

/// The activations in the form that `w` wants.
fn ready<'a>(act: &'a mut QuantizedActivations, w: &PackedMatrix, x: &'a [f32], isa: Isa) -> Activations<'a> {
    let (k, n_tokens) = (w.k(), x.len() / w.k());
    if !Activations::quantized_for(w.dtype()) {
        return Activations::F32 { x, n_tokens, k };
    }
    act.quantize(x, n_tokens, k, isa).unwrap();
    act.prepare(&[w.dtype()]);
    Activations::Quantized(act)
}
