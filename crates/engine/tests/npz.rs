//! What NumPy reads from the files.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::Path;
use std::process::Command;

use half::f16;
use minfer_engine::npz::{Elements, NpzWriter, write_npy};

fn python(script: &str, argument: &Path) -> Option<std::process::Output> {
    Command::new("python3").arg("-c").arg(script).arg(argument).output().ok()
}

fn has_numpy() -> bool {
    let found = python("import numpy", Path::new("")).is_some_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: no python3 with numpy");
    }
    found
}

fn assert_python(script: &str, argument: &Path) {
    let out = python(script, argument).expect("has_numpy ran it");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn numpy_reads_an_array() {
    if !has_numpy() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logits.npy");
    let values: Vec<f32> = (0..6000).map(|i| i as f32 / 8.0).collect();
    write_npy(&path, &[3000, 2], Elements::F32(&values)).unwrap();
    assert_python(
        "import sys, numpy as np
a = np.load(sys.argv[1])
assert a.dtype == np.float32 and a.shape == (2, 3000) and a.flags.c_contiguous
assert (a.ravel() == np.arange(6000) / 8).all()
import io
b = io.BytesIO(); np.save(b, a)
assert b.getvalue() == open(sys.argv[1], 'rb').read(), 'not the bytes that NumPy writes'",
        &path,
    );
}

#[test]
fn numpy_reads_an_archive() {
    if !has_numpy() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for deflated in [false, true] {
        let path = folder.path().join("trace.npz");
        let mut npz = NpzWriter::create(&path, deflated).unwrap();
        npz.add("layer 0/attn", &[3, 2, 1], Elements::F32(&[0.0, 1.0, 2.0, 3.0, 4.0, f32::NAN])).unwrap();
        npz.add("half", &[2], Elements::F16(&[f16::from_f32(1.5), f16::NEG_INFINITY])).unwrap();
        npz.add("scalar", &[], Elements::I32(&[i32::MIN])).unwrap();
        npz.add("none", &[4, 0], Elements::I32(&[])).unwrap();
        npz.finish().unwrap();
        assert_python(
            "import sys, numpy as np
z = np.load(sys.argv[1])
assert sorted(z.files) == ['half', 'layer 0/attn', 'none', 'scalar'], z.files
a = z['layer 0/attn']
assert a.shape == (1, 2, 3) and a[0, 1, 1] == 4 and np.isnan(a[0, 1, 2])
assert z['half'].dtype == np.float16 and z['half'].tolist() == [1.5, float('-inf')]
assert z['scalar'].shape == () and z['scalar'] == -2**31 and z['scalar'].dtype == np.int32
assert z['none'].shape == (0, 4)",
            &path,
        );
    }
}
