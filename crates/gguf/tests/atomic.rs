//! What a file that is written at once does to what is at its path already.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![cfg(unix)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;

use minfer_gguf::{AtomicFile, create_atomically};

fn write(path: &Path, text: &str) -> io::Result<()> {
    create_atomically(path, |out| out.write_all(text.as_bytes()))
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("old"), "old").unwrap();
    for (link, target) in [("near", "old"), ("far", "near"), ("dangling", "new")] {
        symlink(target, at(link)).unwrap();
    }
    for (link, file) in [("near", "old"), ("far", "old"), ("dangling", "new")] {
        write(&at(link), link).unwrap();
        assert!(at(link).is_symlink(), "{link}");
        assert_eq!(fs::read_to_string(at(file)).unwrap(), link);
    }
    symlink("circle", at("circle")).unwrap();
    assert!(write(&at("circle"), "x").is_err());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 6);
}

#[test]
fn a_pipe_is_written_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = {
        let pipe = pipe.clone();
        thread::spawn(move || {
            let mut text = String::new();
            File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
            text
        })
    };
    write(&pipe, "through").unwrap();
    assert_eq!(reader.join().unwrap(), "through");
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn what_a_process_has_open_is_written_in_place() {
    use std::os::fd::AsRawFd;
    let folder = tempfile::tempdir().unwrap();
    let open = File::create(folder.path().join("open")).unwrap();
    for root in ["/dev/fd", "/proc/self/fd"].map(Path::new).iter().filter(|root| root.exists()) {
        write(&root.join(open.as_raw_fd().to_string()), "x").unwrap();
        assert_eq!(open.metadata().unwrap().len(), 1, "{}", root.display());
        open.set_len(0).unwrap();
    }
}

#[test]
fn permissions_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    write(&path, "new").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[test]
fn a_folder_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let fill = |_: &mut io::BufWriter<File>| -> io::Result<()> { panic!("there is nothing to fill") };
    let error = create_atomically(folder.path(), fill).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
}

#[test]
fn a_name_may_be_as_long_as_the_system_allows() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["x".repeat(255), "é".repeat(127)] {
        write(&folder.path().join(&name), "x").unwrap();
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn what_a_killed_process_has_left_is_removed_by_the_next_write_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in [".x.12-0.partial", ".x.partial.txt", ".y.12-0.partial", "x.12-0.partial"] {
        fs::write(at(name), "half").unwrap();
    }
    let at_work = AtomicFile::create(&at("x")).unwrap();
    write(&at("x"), "whole").unwrap();
    at_work.commit().unwrap();
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".x.partial.txt", ".y.12-0.partial", "x", "x.12-0.partial"]);
}
