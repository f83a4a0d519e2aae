//! Packing: sizes, levels, threads, and what is refused.

use super::*;

#[test]
fn packed_sizes_stay_close_to_the_file() {
    for dtype in types() {
        let raw = dtype.row_bytes(4096).unwrap() * 4096;
        let packed = PackedMatrix::packed_bytes(dtype, 4096, 4096).unwrap();
        assert!(packed >= raw && packed as f64 <= raw as f64 * 1.04, "{dtype}: {packed} of {raw}");
    }
}

#[test]
fn every_level_packs_the_same_bytes() {
    let mut rng = Rng(49);
    for dtype in types() {
        // Whole panels, and a last one with a single row.
        let (rows, k) = (33, 512);
        let raw = rng.hostile_weights(dtype, rows, k);
        let plain = PackedMatrix::pack(dtype, &raw, rows, k, Isa::Scalar).unwrap();
        for isa in Isa::available() {
            let w = PackedMatrix::pack(dtype, &raw, rows, k, isa).unwrap();
            assert!(w.panel_bytes(0..3) == plain.panel_bytes(0..3), "{dtype} on {isa}");
        }
    }
}

/// Panels are kept on disk by [`PACK_VERSION`]: where this fails, it has to be counted up, and the sum here changed. A new type
/// changes the sum alone.
#[test]
fn the_layout_is_the_one_that_its_version_names() {
    let mut sum = crc32fast::Hasher::new();
    for dtype in types() {
        let (rows, k) = (33, 512);
        let raw: Vec<u8> =
            (0..dtype.row_bytes(k).unwrap() * rows).map(|i| (i * i / 7 + i / 3) as u8).collect();
        sum.update(PackedMatrix::pack(dtype, &raw, rows, k, Isa::Scalar).unwrap().as_bytes());
    }
    assert_eq!((PACK_VERSION, sum.finalize()), (2, 1_028_557_456));
}

#[test]
fn panels_packed_before_serve_again() {
    let (dtype, rows, k) = (TensorType::F16, 33, 64);
    let raw = Rng(50).weights(dtype, rows, k);
    let isa = Isa::detect();
    let mut buf =
        crate::buf::AlignedBuf::zeroed(PackedMatrix::packed_bytes(dtype, rows, k).unwrap()).unwrap();
    let packed = PackedMatrix::pack(dtype, &raw, rows, k, isa).unwrap();
    buf.as_mut_slice().copy_from_slice(packed.as_bytes());
    let again = PackedMatrix::from_packed(dtype, rows, k, PackedBytes::Memory(buf)).unwrap();
    let (mut row, mut other) = (vec![0.0; k], vec![0.0; k]);
    for i in 0..rows {
        packed.row(i, &mut row);
        again.row(i, &mut other);
        assert_eq!(row, other);
    }
    let short = crate::buf::AlignedBuf::zeroed(packed.bytes() - 1).unwrap();
    let refused = PackedMatrix::from_packed(dtype, rows, k, PackedBytes::Memory(short));
    assert!(matches!(refused.err(), Some(PackError::Length { .. })));
}

#[test]
fn threads_pack_and_multiply_the_same() {
    let mut rng = Rng(48);
    for dtype in types() {
        let (rows, k, n_tokens) = (130, 256, 5);
        let raw = rng.weights(dtype, rows, k);
        let x = rng.activations(n_tokens * k);
        let isa = Isa::detect();
        let buf =
            crate::buf::AlignedBuf::zeroed(PackedMatrix::packed_bytes(dtype, rows, k).unwrap()).unwrap();
        let packer = Packer::new(dtype, rows, k, buf, isa).unwrap();
        let n_panels = packer.n_panels();
        std::thread::scope(|s| {
            for t in 0..3 {
                let (packer, raw) = (&packer, &raw);
                // Overlapping on purpose: a panel is packed once.
                s.spawn(move || packer.pack_panels(raw, t * 2..n_panels).unwrap());
            }
        });
        let w = packer.finish().unwrap();
        let whole = PackedMatrix::pack(dtype, &raw, rows, k, isa).unwrap();
        assert!(w.panel_bytes(0..n_panels) == whole.panel_bytes(0..n_panels), "{dtype}");

        let mut act = QuantizedActivations::new();
        let x = if Activations::quantized_for(dtype) {
            let writer = act.begin(&x, n_tokens, k, isa).unwrap();
            std::thread::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| writer.write_tiles(0..writer.n_tiles()));
                }
            });
            act.prepare(&[dtype]);
            Activations::Quantized(&act)
        } else {
            Activations::F32 { x: &x, n_tokens, k }
        };
        let (mut split, mut single) = (vec![0f32; n_tokens * rows], vec![0f32; n_tokens * rows]);
        // SAFETY: both hold `n_tokens` times `rows` values; the threads below write disjoint panels.
        let [split_ptr, single_ptr] =
            [&mut split, &mut single].map(|v| unsafe { OutPtr::new(v.as_mut_ptr(), rows, n_tokens, rows) });
        std::thread::scope(|s| {
            for t in 0..3 {
                let (w, x) = (&w, &x);
                let range = n_panels * t / 3..n_panels * (t + 1) / 3;
                s.spawn(move || matmul_panels(w, x, split_ptr, range, isa, &mut Scratch::new()).unwrap());
            }
        });
        matmul_panels(&w, &x, single_ptr, 0..n_panels, isa, &mut Scratch::new()).unwrap();
        assert_eq!(bits(&split), bits(&single), "{dtype}");
    }
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let (q4, rows) = (TensorType::Q4_0, 3);
    let refused =
        |dtype, raw: usize, rows, k| PackedMatrix::pack(dtype, &vec![0; raw], rows, k, Isa::Scalar).err();
    assert_eq!(
        refused(TensorType::IQ1_S, 50, 1, 256),
        Some(PackError::Unsupported { dtype: TensorType::IQ1_S })
    );
    assert_eq!(refused(q4, 18, 1, 31), Some(PackError::Shape { dtype: q4, rows: 1, k: 31 }));
    assert_eq!(refused(q4, 0, 1, 0), Some(PackError::Shape { dtype: q4, rows: 1, k: 0 }));
    assert_eq!(refused(q4, 0, usize::MAX, 32), Some(PackError::Shape { dtype: q4, rows: usize::MAX, k: 32 }));
    let length = PackError::Length { what: "a weight matrix", expected: 54, found: 53 };
    assert_eq!(refused(q4, 53, rows, 32), Some(length));
    let small = crate::buf::AlignedBuf::zeroed(64).unwrap();
    assert!(matches!(Packer::new(q4, rows, 32, small, Isa::Scalar).err(), Some(PackError::Length { .. })));
    let buf = crate::buf::AlignedBuf::zeroed(PackedMatrix::packed_bytes(q4, 40, 32).unwrap()).unwrap();
    let packer = Packer::new(q4, 40, 32, buf, Isa::Scalar).unwrap();
    packer.pack_panels(&[0; 40 * 18], 0..1).unwrap();
    assert_eq!(packer.finish().err(), Some(PackError::Unfinished { panel: 1 }));
}
