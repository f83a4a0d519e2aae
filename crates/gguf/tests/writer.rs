//! What is written reads back the same, and nothing is written that the reader would refuse.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use minfer_gguf::{
    Array, Fault, Gguf, GgufWriter, MAX_ARRAY_DEPTH, Metadata, TensorType, Value, WriteError,
    create_atomically,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn numbers() -> impl Strategy<Value = Array> {
    prop_oneof![
        vec(any::<u8>(), 0..5).prop_map(Array::U8),
        vec(any::<i8>(), 0..5).prop_map(Array::I8),
        vec(any::<u16>(), 0..5).prop_map(Array::U16),
        vec(any::<i16>(), 0..5).prop_map(Array::I16),
        vec(any::<u32>(), 0..5).prop_map(Array::U32),
        vec(any::<i32>(), 0..5).prop_map(Array::I32),
        vec(any::<u64>(), 0..5).prop_map(Array::U64),
        vec(any::<i64>(), 0..5).prop_map(Array::I64),
        vec(any::<f32>(), 0..5).prop_map(Array::F32),
        vec(any::<f64>(), 0..5).prop_map(Array::F64),
        vec(any::<bool>(), 0..5).prop_map(Array::Bool),
        vec(any::<String>(), 0..5).prop_map(|texts| Array::String(texts.into())),
    ]
}

fn array() -> impl Strategy<Value = Array> {
    numbers().prop_recursive(4, 32, 4, |inner| vec(inner, 0..4).prop_map(Array::Array))
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        any::<String>().prop_map(Value::String),
        array().prop_map(Value::Array),
    ]
}

fn metadata() -> impl Strategy<Value = Metadata> {
    vec(("[a-z._]{1,20}", value()), 0..10).prop_map(|entries| {
        let mut metadata = Metadata::new();
        for (key, value) in entries {
            metadata.set(key, value);
        }
        metadata
    })
}

#[derive(Clone, Debug)]
struct Tensor {
    shape: Vec<usize>,
    dtype: TensorType,
    data: Vec<u8>,
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let dtype = prop::sample::select(TensorType::all().collect::<Vec<_>>());
    (dtype, 1usize..3, vec(1usize..4, 0..4)).prop_flat_map(|(dtype, n_blocks, outer)| {
        let n_rows: usize = outer.iter().product();
        let mut shape = vec![n_blocks * dtype.block_elems()];
        shape.extend(outer);
        vec(any::<u8>(), n_blocks * dtype.block_bytes() * n_rows).prop_map(move |data| Tensor {
            shape: shape.clone(),
            dtype,
            data,
        })
    })
}

/// Writes the tensors, named by number, in pieces of `piece` bytes.
fn write(metadata: &Metadata, tensors: &[Tensor], piece: usize) -> Vec<u8> {
    let mut writer = GgufWriter::new(metadata.clone()).unwrap();
    for (i, t) in tensors.iter().enumerate() {
        assert_eq!(writer.add_tensor(&format!("t{i}"), &t.shape, t.dtype).unwrap(), t.data.len());
    }
    let mut data = writer.start(Vec::new()).unwrap();
    for chunk in tensors.iter().flat_map(|t| t.data.chunks(piece)) {
        data.write(chunk).unwrap();
    }
    data.finish().unwrap()
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        mut metadata in metadata(),
        tensors in vec(tensor(), 0..6),
        alignment in prop::sample::select(vec![None, Some(8u32), Some(64), Some(4096)]),
        piece in 1usize..200,
    ) {
        if let Some(alignment) = alignment {
            metadata.set("general.alignment", Value::U32(alignment));
        }
        let model = Gguf::from_bytes(write(&metadata, &tensors, piece)).unwrap();
        // NaNs are not equal to themselves, so compare what they print.
        prop_assert_eq!(format!("{:?}", model.metadata().iter().collect::<Vec<_>>()),
            format!("{:?}", metadata.iter().collect::<Vec<_>>()));
        prop_assert_eq!(model.alignment(), u64::from(alignment.unwrap_or(32)));
        prop_assert_eq!(model.version(), 3);
        prop_assert_eq!(model.tensors().len(), tensors.len());
        for ((i, info), t) in model.tensors().enumerate().zip(&tensors) {
            prop_assert_eq!(&info.name, &format!("t{i}"));
            prop_assert_eq!((&info.shape, info.dtype), (&t.shape, t.dtype));
            prop_assert_eq!(model.data(info), t.data.as_slice());
            prop_assert_eq!(info.offset() as u64 % model.alignment(), 0);
        }
    }
}

fn refusal(add: impl FnOnce(&mut GgufWriter) -> Result<usize, WriteError>) -> Fault {
    let mut writer = GgufWriter::new(Metadata::new()).unwrap();
    writer.add_tensor("there", &[4], TensorType::F32).unwrap();
    match add(&mut writer) {
        Err(WriteError::Refused(fault)) => fault,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn tensors_that_the_reader_would_refuse_are_refused() {
    let f32 = TensorType::F32;
    let long = "x".repeat(65);
    assert_eq!(refusal(|w| w.add_tensor(&long, &[1], f32)), Fault::TensorNameLength { len: 65 });
    assert_eq!(refusal(|w| w.add_tensor("", &[1], f32)), Fault::TensorNameLength { len: 0 });
    assert_eq!(
        refusal(|w| w.add_tensor("there", &[1], f32)),
        Fault::DuplicateTensor { name: "there".into() }
    );
    assert_eq!(refusal(|w| w.add_tensor("t", &[], f32)), Fault::Dims { name: "t".into(), n_dims: 0 });
    assert_eq!(refusal(|w| w.add_tensor("t", &[1; 5], f32)), Fault::Dims { name: "t".into(), n_dims: 5 });
    assert_eq!(refusal(|w| w.add_tensor("t", &[1, 0], f32)), Fault::ZeroDim { name: "t".into(), dim: 1 });
    let dtype = TensorType::Q4_K;
    assert_eq!(
        refusal(|w| w.add_tensor("t", &[32], dtype)),
        Fault::PartialBlock { name: "t".into(), row: 32, dtype }
    );
    let shape = vec![1 << 40, 1 << 40];
    assert_eq!(
        refusal(|w| w.add_tensor("t", &[1 << 40, 1 << 40], f32)),
        Fault::TensorSize { name: "t".into(), shape }
    );
}

fn metadata_refusal(key: &str, value: Value) -> Fault {
    let mut metadata = Metadata::new();
    metadata.set(key, value);
    match GgufWriter::new(metadata) {
        Err(WriteError::Refused(fault)) => fault,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn metadata_that_the_reader_would_refuse_is_refused() {
    let mut deep = Array::U8(vec![]);
    for _ in 0..MAX_ARRAY_DEPTH {
        deep = Array::Array(vec![deep]);
    }
    let what = "the value of 'a'".to_owned();
    assert_eq!(metadata_refusal("a", Value::Array(deep)), Fault::ArrayDepth { what });
    assert_eq!(metadata_refusal("", Value::U8(1)), Fault::KeyLength { len: 0 });
    assert_eq!(metadata_refusal(&"k".repeat(65536), Value::U8(1)), Fault::KeyLength { len: 65536 });
    let alignment = |value| metadata_refusal("general.alignment", value);
    for bad in [0, 3, 4, 24, 1 << 21] {
        assert_eq!(alignment(Value::U32(bad)), Fault::Alignment { found: bad.to_string() });
    }
    assert_eq!(alignment(Value::String("32".into())), Fault::Alignment { found: "string".into() });
}

#[test]
fn data_must_be_exactly_as_long_as_announced() {
    let start = || {
        let mut writer = GgufWriter::new(Metadata::new()).unwrap();
        writer.add_tensor("a", &[4], TensorType::F32).unwrap();
        writer.start(Vec::new()).unwrap()
    };
    let mut data = start();
    data.write(&[0; 10]).unwrap();
    let error = data.write(&[0; 7]).unwrap_err();
    assert!(matches!(error, WriteError::TooMuchData { expected: 6, found: 7, .. }), "{error}");
    let error = data.finish().unwrap_err();
    assert!(matches!(error, WriteError::Incomplete { missing: 6, .. }), "{error}");

    let mut data = start();
    data.write(&[0; 16]).unwrap();
    let error = data.write(&[0]).unwrap_err();
    assert!(matches!(error, WriteError::NoSuchTensor { found: 1 }), "{error}");
}

fn names_in(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    use std::io::{self, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");

    let failed = create_atomically(&path, |out| {
        out.write_all(b"half")?;
        Err(io::Error::other("disk full"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "disk full");
    assert!(names_in(folder.path()).is_empty());

    create_atomically(&path, |out| out.write_all(b"whole")).unwrap();
    create_atomically(&path, |out| out.write_all(b"newer")).unwrap();
    let failed = create_atomically(&path, |_| Err(io::Error::other("no")));
    assert!(failed.is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    assert_eq!(names_in(folder.path()), ["model.gguf"]);

    let nowhere = folder.path().join("no/such/folder.gguf");
    let error = create_atomically(&nowhere, |out| out.write_all(b"x")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("folder.gguf"));
}

#[test]
fn a_released_tensor_reads_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("released.gguf");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/qwen2-tied-q4_0.gguf");
    std::fs::copy(model, &path).unwrap();
    let file = Gguf::open(&path).unwrap();
    for tensor in file.tensors() {
        let before = file.data(tensor).to_vec();
        file.release(tensor, 0..before.len() / 2);
        file.release(tensor, 0..before.len());
        assert_eq!(file.data(tensor), before, "{}", tensor.name);
    }
}
