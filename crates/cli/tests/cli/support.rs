//! How the tests run the command, and where they find models.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Child;

use assert_cmd::Command;
use assert_cmd::assert::Assert;

/// A whole model of 25 KB: qwen2, 264 tokens, byte-level, with a chat template.
pub(crate) const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny.gguf");

/// Every variable that changes what the command does.
const VARIABLES: [&str; 14] = [
    "MINFER_MODELS",
    "MINFER_BACKENDS",
    "MINFER_THREADS",
    "MINFER_THREADS_BATCH",
    "MINFER_ISA",
    "MINFER_PACKED_CACHE",
    "MINFER_NO_FUSE_QKV",
    "MINFER_NO_FUSE_FFN",
    "MINFER_NO_GPU_IMPORT",
    "MINFER_DISABLE_MPS",
    "MINFER_DISABLE_CUDA",
    "MINFER_GRAPH_TRACE",
    "MINFER_OP_PROFILE",
    "MINFER_TRACE",
];

/// A folder that nobody can make, an administrator neither.
const NO_FOLDER: &str = "/proc/nonexistent/minfer-models";

/// The path of the binary.
pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_minfer")
}

/// The command with `args`, in surroundings that are the same everywhere: no variables, no models in the cache.
pub(crate) fn minfer<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(binary());
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.env("MINFER_MODELS", NO_FOLDER).env("MINFER_PACKED_CACHE", "0");
    command.env("NO_COLOR", "1").args(args);
    command
}

/// A process that runs beside the test, and is killed with what becomes of this: a test that fails leaves none behind.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut std::process::Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Sends a signal by its name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = std::process::Command::new("kill").args(["-s", name, &self.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is left alone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Standard output as text.
pub(crate) fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).expect("the output is UTF-8")
}

/// Standard error as text.
pub(crate) fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).expect("messages are UTF-8")
}

/// Standard output as JSON.
pub(crate) fn json(assert: &Assert) -> serde_json::Value {
    serde_json::from_str(&stdout(assert)).expect("the output is JSON")
}

/// A folder of the shared fixtures; says so and gives nothing where they are absent.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let default = || Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).to_owned();
    let path = std::env::var_os("MINFER_SHARED").map_or_else(default, PathBuf::from).join(folder);
    if !path.is_dir() {
        eprintln!("skipped: no folder {}", path.display());
        return None;
    }
    Some(path)
}

/// A real model, if it is in the folder of models; says so and gives nothing where it is not.
pub(crate) fn real(file: &str) -> Option<PathBuf> {
    let default = || std::env::home_dir().unwrap_or_default().join(".cache/minfer/models");
    let path = std::env::var_os("MINFER_MODELS").map_or_else(default, PathBuf::from).join(file);
    if !path.is_file() {
        eprintln!("skipped: no file {}", path.display());
        return None;
    }
    Some(path)
}
