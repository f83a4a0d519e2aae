//! Packed weights that are kept on disk: the second start uses them, says the same, and tells what it did.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

use crate::support::{minfer, real, stderr, stdout};

fn generate(model: &Path, folder: &Path, more: &[&str]) -> Command {
    let mut command = minfer(["generate".as_ref(), model.as_os_str(), "-p".as_ref(), "The sea is".as_ref()]);
    command.args(["-n", "8", "--greedy", "-v"]).args(more);
    command.env("MINFER_MODELS", folder).env_remove("MINFER_PACKED_CACHE");
    command
}

fn packed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("packed")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_second_start_finds_what_the_first_one_packed() {
    let Some(model) = real("smollm2-135m-instruct-q4_1.gguf") else { return };
    let folder = tempfile::TempDir::new().unwrap();
    let run = |more: &[&str]| generate(&model, folder.path(), more).assert().success();

    let none = run(&["--packed-cache", "0"]);
    assert!(!stderr(&none).contains("packed weights") && packed(folder.path()).is_empty());
    let small = run(&["--packed-cache", "1M"]);
    assert!(stderr(&small).contains("packed weights are not kept"), "{}", stderr(&small));

    let first = run(&[]);
    assert!(stderr(&first).contains("packed weights kept in"), "{}", stderr(&first));
    let second = run(&[]);
    assert!(
        stderr(&second).contains("packed weights mapped from") || stderr(&second).contains("copied from")
    );
    assert_eq!(stdout(&first), stdout(&none));
    assert_eq!(stdout(&second), stdout(&none));

    // Damage is told without being asked, and mended.
    let [path] = &packed(folder.path())[..] else { panic!("one file") };
    let mut bytes = fs::read(path).unwrap();
    bytes[1 << 20] ^= 4;
    fs::write(path, bytes).unwrap();
    let third = run(&[]);
    assert!(stderr(&third).contains("are damaged; they are packed again"), "{}", stderr(&third));
    assert_eq!(stdout(&third), stdout(&none));
    assert!(stderr(&run(&[])).contains("from"));
}

#[test]
fn a_size_that_is_none_is_refused() {
    for size in ["-1", "much", "1.5.2G"] {
        let run = minfer(["generate", "x", "-p", "y", &format!("--packed-cache={size}")]).assert().code(2);
        assert!(stderr(&run).contains("a size is a number of bytes"), "{}", stderr(&run));
    }
}
