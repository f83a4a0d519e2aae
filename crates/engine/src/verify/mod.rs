//! A model file checked whole: what is wrong with it, and whether it will run.
//!
//! Checks go from the outside in; one that cannot be made because an earlier one failed is left out. Nothing but a file
//! that cannot be read at all is an error: what is wrong with a file is the result.

mod data;
mod digest;
mod model;
mod structure;
mod template;
mod tokenizer;

use std::path::{Path, PathBuf};

use minfer_gguf::{Gguf, GgufError, OpenOptions};

use crate::error::EngineError;

/// How a file is checked.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Threads that read the weights.
    pub n_threads: usize,
    /// Compute the SHA-256 of every file.
    pub digest: bool,
    /// Load the weights and run a few tokens.
    pub run: bool,
    /// Map the file instead of reading it.
    pub mmap: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A fact, nothing wrong.
    Note,
    /// It runs, and something works less well than it could.
    Warning,
    /// It can be loaded, but what it computes cannot be trusted.
    Damage,
    /// It does not run.
    Fatal,
}

impl Severity {
    /// Lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Damage => "damage",
            Severity::Fatal => "fatal",
        }
    }
}

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is, in one sentence.
    pub message: String,
}

/// One check and what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is checked: `structure`, `model`, `data`, `tokenizer`, `template`, `run`.
    pub name: &'static str,
    /// What was found, in the order of the file.
    pub findings: Vec<Finding>,
}

impl Check {
    fn new(name: &'static str) -> Self {
        Check { name, findings: Vec::new() }
    }

    fn add(&mut self, severity: Severity, message: impl Into<String>) {
        self.findings.push(Finding { severity, message: message.into() });
    }

    /// The worst of the findings.
    pub fn severity(&self) -> Severity {
        self.findings.iter().map(|f| f.severity).max().unwrap_or(Severity::Note)
    }
}

/// A file of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub n_bytes: u64,
    /// Its SHA-256 in hexadecimal, if it was asked for.
    pub sha256: Option<String>,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The files of the model; the one that was named if it could not be opened.
    pub files: Vec<FileReport>,
    /// Checks in the order in which they were made.
    pub checks: Vec<Check>,
}

impl Report {
    /// The worst finding of all.
    pub fn severity(&self) -> Severity {
        self.checks.iter().map(Check::severity).max().unwrap_or(Severity::Note)
    }

    /// Whether the model can be loaded and run.
    pub fn runs(&self) -> bool {
        self.severity() < Severity::Fatal
    }

    /// The first finding of the worst severity, unless nothing is wrong.
    pub fn worst(&self) -> Option<&Finding> {
        let worst = self.severity();
        let mut all = self.checks.iter().flat_map(|c| &c.findings);
        all.find(|f| f.severity == worst && worst > Severity::Note)
    }

    /// How many findings have this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.checks.iter().flat_map(|c| &c.findings).filter(|f| f.severity == severity).count()
    }
}

/// Checks the model at `path`; `progress` sees bytes done and all. Errors only if a file cannot be read.
pub fn verify(
    path: &Path,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, EngineError> {
    let file = match Gguf::open_with(path, &OpenOptions { mmap: options.mmap }) {
        Ok(file) => file,
        Err(error @ (GgufError::Io { .. } | GgufError::NotAFile { .. })) => return Err(error.into()),
        Err(error) => {
            let mut check = Check::new("structure");
            check.add(Severity::Fatal, error.to_string());
            return unopened(path, options, check, progress);
        }
    };
    let mut report = Report { files: files(&file), checks: vec![structure::check(&file)] };
    let (model, hparams) = model::check(&file);
    report.checks.push(model);
    let (data, digests) = data::check(&file, options, progress)?;
    for (file, digest) in report.files.iter_mut().zip(digests) {
        file.sha256 = Some(digest);
    }
    report.checks.push(data);
    report.checks.push(tokenizer::check(file.metadata(), hparams.as_ref()));
    report.checks.push(template::check(file.metadata()));
    if options.run && report.severity() < Severity::Damage {
        report.checks.push(model::run(file, options));
    }
    Ok(report)
}

/// A file that is no GGUF file still has a size and a digest.
fn unopened(
    path: &Path,
    options: &VerifyOptions,
    check: Check,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, EngineError> {
    let io = |source| digest::failed(path, source);
    let n_bytes = std::fs::metadata(path).map_err(io)?.len();
    let sha256 = match options.digest {
        true => Some(digest::sha256(path, &mut |n| progress(n, n_bytes))?),
        false => None,
    };
    let file = FileReport { path: path.to_owned(), n_bytes, sha256 };
    Ok(Report { files: vec![file], checks: vec![check] })
}

fn files(file: &Gguf) -> Vec<FileReport> {
    let all = file.files();
    all.map(|f| FileReport {
        path: f.path.map(Into::into).unwrap_or_default(),
        n_bytes: f.n_bytes,
        sha256: None,
    })
    .collect()
}
