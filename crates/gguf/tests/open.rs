//! Valid files open, mapped and read, with the same contents.

mod common;

use minfer_gguf::{Gguf, OpenOptions, TensorType};

#[test]
fn tiny_models_open_mapped_and_read_alike() {
    let Some(folder) = common::fixtures("tiny") else { return };
    let mut n_files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gguf") {
            continue;
        }
        n_files += 1;
        let mapped = Gguf::open(&path).unwrap();
        let read = Gguf::open_with(&path, &OpenOptions { mmap: false }).unwrap();
        assert_eq!(mapped.metadata(), read.metadata());
        assert!(mapped.tensors().eq(read.tensors()));
        for t in mapped.tensors() {
            assert_eq!(mapped.data(t), read.data(t), "{} of {}", t.name, path.display());
            assert_eq!(mapped.data(t).len(), t.n_rows() * t.row_bytes());
            assert_eq!(t.row_bytes(), t.dtype.row_bytes(t.shape[0]).unwrap());
        }
        assert!(mapped.metadata().str("general.architecture").is_ok());
    }
    assert!(n_files >= 15, "{n_files} files");
}

#[test]
fn a_real_model_opens() {
    let Some(path) = common::model("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf") else { return };
    let model = Gguf::open(&path).unwrap();
    assert_eq!(model.metadata().str("general.architecture").unwrap(), "qwen2");
    assert_eq!(model.files().len(), 1);
    let norm = model.tensor("output_norm.weight").unwrap();
    assert_eq!(
        (norm.dtype, norm.shape.as_slice(), norm.n_bytes()),
        (TensorType::F32, [896].as_slice(), 896 * 4)
    );
    let total: usize = model.tensors().map(|t| t.n_bytes()).sum();
    let n_bytes = model.files().next().unwrap().n_bytes;
    assert!(total as u64 <= n_bytes && total as u64 > n_bytes - (16 << 20), "{total} of {n_bytes}");
}

#[test]
fn an_open_model_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Gguf>();
}
