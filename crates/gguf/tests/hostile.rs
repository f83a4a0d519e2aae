//! Hand-built bad headers get exact refusals, and random damage never panics or takes memory.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod common;

use common::alloc::{Metered, peak_of};
use minfer_gguf::{Array, Fault, Foreign, Gguf, GgufError, GgufWriter, Metadata, TensorType, Value};
use proptest::prelude::*;

#[global_allocator]
static ALLOCATOR: Metered = Metered;

/// A header in the making.
#[derive(Clone)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn header(n_tensors: u64, n_entries: u64) -> Bytes {
        Bytes(b"GGUF".to_vec()).u32(3).u64(n_tensors).u64(n_entries)
    }

    fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.0.extend(bytes);
        self
    }

    fn u32(self, x: u32) -> Bytes {
        self.raw(&x.to_le_bytes())
    }

    fn u64(self, x: u64) -> Bytes {
        self.raw(&x.to_le_bytes())
    }

    fn str(self, text: &str) -> Bytes {
        self.u64(text.len() as u64).raw(text.as_bytes())
    }

    fn tensor(self, name: &str, shape: &[u64], type_id: u32, offset: u64) -> Bytes {
        let named = self.str(name).u32(shape.len() as u32);
        shape.iter().fold(named, |b, &n| b.u64(n)).u32(type_id).u64(offset)
    }

    /// Pads to the start of the data and adds `n_bytes` of it.
    fn data(mut self, n_bytes: usize) -> Bytes {
        let start = self.0.len().next_multiple_of(32);
        self.0.resize(start + n_bytes, 0);
        self
    }
}

fn refusal(bytes: Bytes) -> (u64, Fault) {
    match Gguf::from_bytes(bytes.0) {
        Err(GgufError::Refused { path: None, offset, fault }) => (offset, fault),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn foreign_files_are_recognised() {
    let cases: &[(&[u8], Foreign)] = &[
        (b"", Foreign::Empty),
        (b"GG", Foreign::TooShort),
        (&[0; 64], Foreign::Zeros),
        (b"  <!DOCTYPE html>", Foreign::Html),
        (b"version https://git-lfs.github.com/spec/v1\n", Foreign::LfsPointer),
        (b"hello there", Foreign::Text),
        (b"\x10\0\0\0\0\0\0\0{\"a\":1}", Foreign::Safetensors),
        (b"PK\x03\x04more", Foreign::Zip),
        (b"tjggmore", Foreign::LegacyGgml("ggjt")),
        (b"FUGG\0\0\0\x03", Foreign::SwappedMagic),
        (b"\x7fELF", Foreign::Unknown(*b"\x7fELF")),
    ];
    for (bytes, found) in cases {
        assert_eq!(refusal(Bytes(bytes.to_vec())), (0, Fault::NotGguf { found: *found }));
    }
}

#[test]
fn versions_are_named() {
    let version = |bytes: [u8; 4]| refusal(Bytes(b"GGUF".to_vec()).raw(&bytes).u64(0).u64(0));
    assert_eq!(version([1, 0, 0, 0]), (4, Fault::Version { version: 1 }));
    assert_eq!(version([4, 0, 0, 0]), (4, Fault::Version { version: 4 }));
    assert_eq!(version([0, 0, 0, 3]), (4, Fault::BigEndian { version: 3 }));
}

#[test]
fn counts_are_checked_against_the_file() {
    let (offset, fault) = refusal(Bytes::header(1 << 60, 0));
    let what = "tensors".to_owned();
    assert_eq!((offset, fault), (8, Fault::Count { what, claimed: 1 << 60, at_most: 0 }));
    let list = Bytes::header(0, 1).str("k").u32(9).u32(5).u64(u64::MAX).u32(1);
    let what = "elements of 'k'".to_owned();
    assert_eq!(refusal(list), (24 + 9 + 8, Fault::Count { what, claimed: u64::MAX, at_most: 1 }));
}

#[test]
fn bad_entries_are_refused_where_they_are() {
    let entry = |b: Bytes| refusal(b.raw(&[0; 32]));
    let one = || Bytes::header(0, 1);
    assert_eq!(entry(one().str("")), (24, Fault::KeyLength { len: 0 }));
    assert_eq!(entry(one().u64(65536)), (24, Fault::KeyLength { len: 65536 }));
    let what = "a metadata key".to_owned();
    assert_eq!(entry(one().u64(2).raw(b"a\xff")), (33, Fault::NotUtf8 { what, valid_up_to: 1 }));
    let what = || "the value of 'k'".to_owned();
    assert_eq!(entry(one().str("k").u32(13)), (33, Fault::ValueType { what: what(), id: 13 }));
    assert_eq!(entry(one().str("k").u32(7).raw(&[2])), (37, Fault::Bool { what: what(), found: 2 }));
    let twice = Bytes::header(0, 2).str("k").u32(0).raw(&[1]).str("k").u32(0).raw(&[1]);
    assert_eq!(refusal(twice), (38, Fault::DuplicateKey { key: "k".into() }));
    let deep = (0..9).fold(one().str("k").u32(9), |b, _| b.u32(9).u64(1));
    assert_eq!(entry(deep), (37 + 8 * 12, Fault::ArrayDepth { what: what() }));
    let text = one().str("k").u32(8).u64(1 << 40);
    assert_eq!(refusal(text), (45, Fault::Truncated { what: what(), needed: 1 << 40, available: 0 }));
}

#[test]
fn bad_tensors_are_refused_where_they_are() {
    let name = || "t".to_owned();
    let one = |shape: &[u64], type_id, offset| {
        refusal(Bytes::header(1, 0).tensor("t", shape, type_id, offset).data(64))
    };
    let (f32, q8_0) = (TensorType::F32 as u32, TensorType::Q8_0 as u32);
    // name length 24, name 32, number of dimensions 33, shape 37, type 45, offset 49 (for one dimension)
    assert_eq!(one(&[], f32, 0), (33, Fault::Dims { name: name(), n_dims: 0 }));
    assert_eq!(one(&[1; 5], f32, 0), (33, Fault::Dims { name: name(), n_dims: 5 }));
    assert_eq!(one(&[0], f32, 0), (37, Fault::ZeroDim { name: name(), dim: 0 }));
    assert_eq!(one(&[4], 99, 0), (45, Fault::TensorType { name: name(), id: 99 }));
    assert_eq!(one(&[4], 4, 0), (45, Fault::RemovedTensorType { name: name(), id: 4, was: "Q4_2" }));
    let dtype = TensorType::Q8_0;
    assert_eq!(one(&[24], q8_0, 0), (37, Fault::PartialBlock { name: name(), row: 24, dtype }));
    for shape in [vec![1 << 32, 1 << 32], vec![1 << 62], vec![u64::MAX], vec![1 << 21, 1 << 21, 1 << 22]] {
        assert_eq!(one(&shape, f32, 0), (37, Fault::TensorSize { name: name(), shape }));
    }
    let misaligned = Fault::MisalignedOffset { name: name(), at: 8, alignment: 32 };
    assert_eq!(one(&[4], f32, 8), (49, misaligned));
    for at in [64, 1 << 40, !31] {
        let fault = Fault::DataOutOfFile { name: name(), at, bytes: 16, available: 64 };
        assert_eq!(one(&[4], f32, at), (49, fault));
    }
}

#[test]
fn tensors_must_not_share_names_or_bytes() {
    let two = |name: &str, offset| {
        Bytes::header(2, 0).tensor("a", &[16], 0, 0).tensor(name, &[4], 0, offset).data(128)
    };
    assert_eq!(refusal(two("a", 64)), (57, Fault::DuplicateTensor { name: "a".into() }));
    assert_eq!(refusal(two("b", 32)), (82, Fault::Overlap { name: "b".into(), other: "a".into() }));
    assert!(Gguf::from_bytes(two("b", 64).0).is_ok());
}

#[test]
fn text_from_the_file_is_made_safe_for_messages() {
    let key = format!("\u{1b}[31m\n{}", "x".repeat(1000));
    let error = Gguf::from_bytes(Bytes::header(0, 1).str(&key).u32(77).u64(0).0).unwrap_err().to_string();
    assert!(!error.contains(char::is_control) && error.len() < 300, "{error:?}");
}

/// A small valid file with something of everything.
fn valid() -> Vec<u8> {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", Value::String("test".into()));
    metadata.set("general.alignment", Value::U32(32));
    metadata.set("flag", Value::Bool(true));
    metadata.set("words", Value::Array(Array::String(vec!["a", "", "ccc"].into())));
    let inner = vec![Array::I32(vec![1, 2]), Array::F32(vec![0.5])];
    metadata.set("nested", Value::Array(Array::Array(inner)));
    let mut writer = GgufWriter::new(metadata).unwrap();
    let n_bytes = [
        writer.add_tensor("a", &[32, 3], TensorType::Q4_0).unwrap(),
        writer.add_tensor("b", &[5], TensorType::F32).unwrap(),
    ];
    let mut data = writer.start(Vec::new()).unwrap();
    n_bytes.iter().for_each(|&n| data.write(&vec![7; n]).unwrap());
    data.finish().unwrap()
}

#[derive(Clone, Debug)]
enum Damage {
    Flip { at: prop::sample::Index, mask: u8 },
    Word { at: prop::sample::Index, word: u64 },
    Cut { at: prop::sample::Index },
    Splice { from: prop::sample::Index, to: prop::sample::Index, n_bytes: usize },
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    let word = prop_oneof![any::<u64>(), 0u64..64, (0u32..64).prop_map(|bit| 1 << bit), Just(u64::MAX)];
    prop_oneof![
        4 => (index(), 1u8..).prop_map(|(at, mask)| Damage::Flip { at, mask }),
        4 => (index(), word).prop_map(|(at, word)| Damage::Word { at, word }),
        1 => index().prop_map(|at| Damage::Cut { at }),
        1 => (index(), index(), 1usize..40).prop_map(|(from, to, n_bytes)| Damage::Splice { from, to, n_bytes }),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let len = bytes.len();
    if len == 0 {
        return;
    }
    match damage {
        Damage::Flip { at, mask } => bytes[at.index(len)] ^= mask,
        Damage::Word { at, word } => {
            let at = at.index(len);
            bytes[at..].iter_mut().zip(word.to_le_bytes()).for_each(|(b, w)| *b = w);
        }
        Damage::Cut { at } => bytes.truncate(at.index(len)),
        Damage::Splice { from, to, n_bytes } => {
            let from = from.index(len);
            let piece = bytes[from..(from + n_bytes).min(len)].to_vec();
            let to = to.index(len);
            bytes.splice(to..to, piece);
        }
    }
}

/// Opens, and touches everything that opened.
fn exercise(bytes: Vec<u8>) -> Result<usize, String> {
    let model = Gguf::from_bytes(bytes).map_err(|e| e.to_string())?;
    let touched = model.tensors().map(|t| model.data(t).len() + t.n_elems() + t.row_bytes());
    Ok(touched.sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn damage_never_panics_or_takes_memory(damages in prop::collection::vec(damage(), 1..4)) {
        let mut bytes = valid();
        damages.iter().for_each(|d| apply(&mut bytes, d));
        let n_bytes = bytes.len();
        let (_, peak) = peak_of(|| exercise(bytes));
        // The file's aligned copy, vectors that start with a fixed capacity, and owned names and values.
        let bound = 512 * 1024 + 16 * n_bytes;
        prop_assert!(peak <= bound, "{} bytes for a file of {}", peak, n_bytes);
    }
}

#[test]
fn the_file_to_be_damaged_is_valid() {
    assert!(exercise(valid()).is_ok());
}
