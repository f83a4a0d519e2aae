//! Keeping packed weights: what is found again, and what is not trusted.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;

const ORIGIN: &[u8] = b"a file";

fn matrix(name: &str, rows: usize) -> Matrix<'_> {
    Matrix { name, dtype: TensorType::F32, rows, k: 64 }
}

/// Bytes that differ from one matrix, and one place, to the next.
fn packed(m: &Matrix<'_>) -> Vec<u8> {
    let seed = m.name.bytes().map(usize::from).sum::<usize>();
    (0..m.rows.div_ceil(16) * 16 * m.k * 4).map(|i| (i / 97 + seed) as u8).collect()
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    fn options(&self) -> PackedCacheOptions {
        // A folder that is not there yet.
        PackedCacheOptions { folder: self.0.path().join("a/b"), max_bytes: 64 << 20, min_bytes: 0 }
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.options().folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn only(&self) -> PathBuf {
        let files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }

    /// Loads these matrices once: what is found is compared, the rest is added. How many were found, and what was noted.
    fn load(&self, matrices: &[Matrix<'_>]) -> (usize, Vec<LoadNote>) {
        load(self.options(), ORIGIN, matrices)
    }
}

fn load(options: PackedCacheOptions, origin: &[u8], matrices: &[Matrix<'_>]) -> (usize, Vec<LoadNote>) {
    let pool = Pool::new(2).unwrap();
    let mut keeper = Keeper::new(Some(options));
    keeper.begin(Some(origin), matrices, &pool);
    let mut n_found = 0;
    for m in matrices {
        match keeper.find(m.name, m.dtype, m.rows, m.k) {
            Some(Found::InPlace(part) | Found::Copy(part)) => {
                assert!(part.as_slice() == packed(m), "{}", m.name);
                n_found += 1;
            }
            None => keeper.add(m.name, &packed(m)),
        }
    }
    keeper.end();
    (n_found, keeper.take_notes())
}

/// Matrices that end within, at and beyond the end of a chunk.
fn three() -> [Matrix<'static>; 3] {
    [matrix("small", 5), matrix("large", 20_000), matrix("chunk", 8192)]
}

#[test]
fn what_was_packed_is_found_by_the_next_load() {
    let folder = Folder::new();
    let (n_found, notes) = folder.load(&three());
    assert_eq!(n_found, 0);
    assert!(matches!(&notes[..], [LoadNote::Info(text)] if text.contains("kept in")), "{notes:?}");
    let (n_found, notes) = folder.load(&three());
    assert_eq!(n_found, 3);
    // It may be written again, where the system has only some of it on huge pages.
    assert!(matches!(&notes[0], LoadNote::Info(text) if text.contains("from")), "{notes:?}");
    folder.only();
}

#[test]
fn another_origin_list_order_or_shape_is_another_file() {
    let folder = Folder::new();
    let [small, large, chunk] = three();
    folder.load(&[small, large]);
    for other in
        [&[large, small][..], &[small], &[small, large, chunk], &[small, Matrix { rows: 19_999, ..large }]]
    {
        assert_eq!(folder.load(other).0, 0, "{other:?}");
        assert_eq!(folder.load(other).0, other.len(), "{other:?}");
    }
    assert_eq!(load(folder.options(), b"another", &[small, large]).0, 0);
    assert_eq!(folder.files().len(), 6);
    // No origin: nothing is kept, nothing read.
    let mut keeper = Keeper::new(Some(folder.options()));
    keeper.begin(None, &[small, large], &Pool::new(1).unwrap());
    assert!(keeper.find("small", small.dtype, small.rows, small.k).is_none());
}

#[test]
fn damage_anywhere_is_found_and_mended() {
    let folder = Folder::new();
    folder.load(&three());
    let path = folder.only();
    let whole = fs::read(&path).unwrap();
    let weights_end = whole.len() - 16 - 32 - 4 * 4;
    let flipped = [0, 5000, (2 << 20) - 1, weights_end - 1, weights_end, weights_end + 16, whole.len() - 1];
    let flipped = flipped.map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    });
    let lengths = [Vec::new(), whole[..whole.len() - 1].to_vec(), [&whole[..], &[0]].concat()];
    for (i, bytes) in flipped.into_iter().chain(lengths).enumerate() {
        fs::write(&path, bytes).unwrap();
        let (n_found, notes) = folder.load(&three());
        assert_eq!(n_found, 0, "{i}");
        assert!(matches!(&notes[0], LoadNote::Warning(text) if text.contains("damaged")), "{i}: {notes:?}");
        assert!(fs::read(folder.only()).unwrap() == whole, "{i}");
    }
}

#[test]
fn a_load_that_ends_early_or_out_of_order_leaves_nothing() {
    let folder = Folder::new();
    let [small, large, _] = three();
    let pool = Pool::new(1).unwrap();
    let mut keeper = Keeper::new(Some(folder.options()));
    keeper.begin(Some(ORIGIN), &[small, large], &pool);
    keeper.add("small", &packed(&small));
    drop(keeper);
    assert!(folder.files().is_empty());

    for added in [&[small][..], &[large, small], &[small, small, large]] {
        let mut keeper = Keeper::new(Some(folder.options()));
        keeper.begin(Some(ORIGIN), &[small, large], &pool);
        added.iter().for_each(|m| keeper.add(m.name, &packed(m)));
        keeper.end();
        let notes = keeper.take_notes();
        assert!(matches!(&notes[..], [LoadNote::Info(text)] if text.contains("not kept")), "{notes:?}");
        assert!(folder.files().is_empty());
    }
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let folder = Folder::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| matrix(name, 32_768));
    let long_ago = SystemTime::now() - Duration::from_secs(1000);
    for (m, age) in [(a, 500), (b, 700)] {
        let before = folder.files();
        folder.load(&[m]);
        let new = folder.files().into_iter().find(|path| !before.contains(path)).unwrap();
        fs::File::open(new).unwrap().set_modified(long_ago - Duration::from_secs(age)).unwrap();
    }
    // Used just now, so the other one goes: each takes 8 MiB, and two of them have room.
    let options = PackedCacheOptions { max_bytes: 20 << 20, ..folder.options() };
    assert_eq!(load(options.clone(), ORIGIN, &[b]).0, 1);
    assert_eq!(load(options.clone(), ORIGIN, &[c]).0, 0);
    assert_eq!(load(options.clone(), ORIGIN, &[b]).0, 1);
    assert_eq!(load(options.clone(), ORIGIN, &[a]).0, 0);
    assert_eq!(folder.files().len(), 2);

    // What alone is too large goes nowhere, and drives nothing out. Nor does it if nothing is to be kept.
    let (_, notes) = load(options.clone(), ORIGIN, &[matrix("huge", 100_000)]);
    assert!(matches!(&notes[..], [LoadNote::Info(text)] if text.contains("at most")), "{notes:?}");
    let none = PackedCacheOptions { max_bytes: 0, ..options.clone() };
    assert_eq!(load(none, ORIGIN, &[b]), (0, Vec::new()));
    let large_only = PackedCacheOptions { min_bytes: 1 << 30, ..options };
    assert_eq!(load(large_only, ORIGIN, &[b]), (0, Vec::new()));
    assert_eq!(folder.files().len(), 2);
}

#[test]
fn a_file_that_is_written_again_drives_no_other_out() {
    let folder = Folder::new();
    let [a, b] = ["a", "b"].map(|name| matrix(name, 32_768));
    folder.load(&[a]);
    let first = folder.only();
    folder.load(&[b]);
    let needed = fs::metadata(&first).unwrap().len();
    // Two have room, three have not.
    let options = PackedCacheOptions { max_bytes: 20 << 20, ..folder.options() };
    folder::make_room(&options, &first, needed).unwrap();
    assert_eq!(folder.files().len(), 2);
    folder::make_room(&options, &folder.options().folder.join("c.packed"), needed).unwrap();
    assert_eq!(folder.files().len(), 1);
}

#[test]
fn what_killed_processes_left_is_removed_and_other_files_are_not() {
    let folder = Folder::new();
    fs::create_dir_all(folder.options().folder).unwrap();
    let make = |name: &str, age: u64| {
        let path = folder.options().folder.join(name);
        let file = fs::File::create(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        path
    };
    let left = [make(".packing-left", 4000), make(".packing-killed", 0)];
    let others = [make(".packing-now", 4000), make("notes.txt", 4000)];
    let writing = fs::File::open(&others[0]).unwrap();
    writing.lock().unwrap();
    folder.load(&[matrix("a", 16)]);
    assert!(left.iter().all(|path| !path.exists()) && others.iter().all(|path| path.exists()));
}

#[test]
fn what_is_no_file_is_left_alone() {
    let folder = Folder::new();
    folder.load(&three());
    let path = folder.only();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let (n_found, notes) = folder.load(&three());
    assert_eq!(n_found, 0);
    assert!(matches!(&notes[..], [LoadNote::Info(text)] if text.contains("not a file")), "{notes:?}");
    assert!(path.is_dir());
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_used_is_noted() {
    let folder = Folder::new();
    let file = folder.0.path().join("a file");
    fs::write(&file, "").unwrap();
    let options = PackedCacheOptions { folder: file.join("packed"), ..folder.options() };
    let (n_found, notes) = load(options, ORIGIN, &three());
    assert_eq!(n_found, 0);
    assert!(matches!(&notes[..], [LoadNote::Info(_)]), "{notes:?}");
}
