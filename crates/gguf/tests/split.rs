//! Split models: any part opens all of them, and parts that do not fit are refused.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::path::{Path, PathBuf};

use minfer_gguf::{FaultClass, Gguf, GgufError, GgufWriter, Metadata, SplitFault, TensorType, Value};

struct Part<'a> {
    no: u16,
    count: u16,
    n_tensors: i32,
    names: &'a [&'a str],
}

fn path_of(folder: &Path, index: u16, count: u16) -> PathBuf {
    folder.join(format!("m-{:05}-of-{count:05}.gguf", index + 1))
}

/// A file whose tensors hold four bytes each, all equal to the part's number.
fn bytes(part: &Part<'_>) -> Vec<u8> {
    let mut metadata = Metadata::new();
    metadata.set("general.name", Value::String(format!("part {}", part.no)));
    metadata.set("split.no", Value::U16(part.no));
    metadata.set("split.count", Value::U16(part.count));
    metadata.set("split.tensors.count", Value::I32(part.n_tensors));
    let mut writer = GgufWriter::new(metadata).unwrap();
    for name in part.names {
        writer.add_tensor(name, &[1], TensorType::F32).unwrap();
    }
    let mut data = writer.start(Vec::new()).unwrap();
    part.names.iter().for_each(|_| data.write(&[part.no as u8; 4]).unwrap());
    data.finish().unwrap()
}

/// Three parts: metadata alone, then two tensors, then one; `change` may bend one before it is written.
fn three_parts(change: impl Fn(&mut Part<'_>)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (no, names) in [&[][..], &["a", "b"], &["c"]].into_iter().enumerate() {
        let mut part = Part { no: no as u16, count: 3, n_tensors: 3, names };
        change(&mut part);
        std::fs::write(path_of(folder.path(), no as u16, 3), bytes(&part)).unwrap();
    }
    folder
}

fn fault(folder: &tempfile::TempDir) -> SplitFault {
    match Gguf::open(&path_of(folder.path(), 0, 3)) {
        Err(GgufError::Split { path: Some(_), fault }) => fault,
        other => panic!("expected a split fault, got {other:?}"),
    }
}

#[test]
fn any_part_opens_the_whole_model() {
    let folder = three_parts(|_| {});
    for index in 0..3 {
        let model = Gguf::open(&path_of(folder.path(), index, 3)).unwrap();
        assert_eq!(model.files().len(), 3);
        assert_eq!(model.metadata().str("general.name").unwrap(), "part 0");
        let found: Vec<_> = model.tensors().map(|t| (t.name.as_str(), t.part(), model.data(t)[0])).collect();
        assert_eq!(found, [("a", 1, 1), ("b", 1, 1), ("c", 2, 2)]);
    }
}

#[test]
fn a_missing_part_is_named() {
    let folder = three_parts(|_| {});
    std::fs::remove_file(path_of(folder.path(), 1, 3)).unwrap();
    let missing = fault(&folder);
    assert_eq!(missing, SplitFault::MissingPart { number: 2, count: 3 });
    assert_eq!(missing.class(), FaultClass::Access);
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let key = |key, found: &str, expected: &str| SplitFault::Key {
        key,
        found: found.into(),
        expected: expected.into(),
    };
    let count = three_parts(|p| {
        if p.no == 2 {
            p.count = 4
        }
    });
    assert_eq!(fault(&count), key("split.count", "4", "3"));
    let order = three_parts(|p| {
        if p.no == 2 {
            p.no = 1
        }
    });
    assert_eq!(fault(&order), key("split.no", "1", "2"));
    let totals = three_parts(|p| {
        if p.no == 1 {
            p.n_tensors = 9
        }
    });
    assert_eq!(fault(&totals), key("split.tensors.count", "9", "3"));
    let total = three_parts(|p| p.n_tensors = 4);
    assert_eq!(fault(&total), SplitFault::TensorCount { found: 3, expected: 4 });
    let twice = three_parts(|p| {
        if p.no == 2 {
            p.names = &["b"]
        }
    });
    assert_eq!(fault(&twice), SplitFault::DuplicateTensor { name: "b".into(), other: 2 });
    let out_of_range = three_parts(|p| {
        if p.no == 0 {
            p.no = 7
        }
    });
    assert_eq!(fault(&out_of_range), key("split.no", "7", "an integer from 0 to 2"));
}

#[test]
fn a_part_under_another_name_or_in_memory_is_refused() {
    let part = bytes(&Part { no: 0, count: 3, n_tensors: 3, names: &[] });
    let expected = SplitFault::Name { count: 3, suffix: "-00001-of-00003.gguf".into() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("renamed.gguf");
    std::fs::write(&path, &part).unwrap();
    for error in [Gguf::open(&path).unwrap_err(), Gguf::from_bytes(part).unwrap_err()] {
        assert!(matches!(&error, GgufError::Split { fault, .. } if *fault == expected), "{error}");
    }
}

#[test]
fn a_single_part_is_a_whole_model() {
    let part = bytes(&Part { no: 0, count: 1, n_tensors: 1, names: &["a"] });
    assert_eq!(Gguf::from_bytes(part).unwrap().tensors().len(), 1);
}

#[test]
fn what_is_not_a_file_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = Gguf::open(folder.path()).unwrap_err();
    assert!(error.to_string().ends_with("a directory, expected a GGUF file"), "{error}");
    if cfg!(unix) {
        let error = Gguf::open(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "/dev/zero: not a regular file, expected a GGUF file");
    }
    let error = Gguf::open(&folder.path().join("absent.gguf")).unwrap_err();
    assert!(matches!(&error, GgufError::Io { doing: "open", .. }), "{error}");
    assert_eq!(error.class(), FaultClass::Access);
}
