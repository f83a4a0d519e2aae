//! `minfer verify`: a model file checked whole.

use std::io::{self, Write};

use minfer_engine::verify::{FileReport, Report, Severity, VerifyOptions, verify};
use serde_json::{Value, json};

use crate::args::VerifyArgs;
use crate::progress::{Meter, Unit};
use crate::shell::Shell;
use crate::{escape, open, units};

/// Longest finding that is shown, in characters: names come out of the file.
const MAX_FINDING_CHARS: usize = 600;

pub(super) fn run(args: &VerifyArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let path = open::find(args.model.name()?, &args.model.open)?;
    let options = VerifyOptions {
        n_threads: args
            .threads
            .or(shell.env.n_threads)
            .unwrap_or_else(minfer_cpu::threads::default_n_threads),
        digest: !args.no_digest,
        run: !args.no_run,
        mmap: !args.model.open.no_mmap,
    };
    let mut meter = Meter::new("checking", Unit::Bytes);
    let report = verify(&path, &options, &mut |done, total| meter.update(done, Some(total)))?;
    meter.clear();
    shell.exit_code = u8::from(report.severity() >= Severity::Damage);
    match args.json {
        true => shell.out.json(&to_json(&report)),
        false => Ok(write(&report, &mut shell.out)?),
    }
}

fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for file in &report.files {
        let path = escape::one_line(&file.path.display().to_string());
        writeln!(out, "{path} ({})", units::bytes(file.n_bytes))?;
        if let Some(digest) = &file.sha256 {
            writeln!(out, "sha256 {digest}{}", pinned(file).map(|p| format!(" ({p})")).unwrap_or_default())?;
        }
    }
    for check in &report.checks {
        for finding in &check.findings {
            let label = match finding.severity {
                Severity::Note => String::new(),
                other => format!("{}: ", other.name()),
            };
            let message = escape::elided(&finding.message, MAX_FINDING_CHARS);
            writeln!(out, "{:<10} {label}{message}", check.name)?;
        }
    }
    writeln!(out, "verdict    {}", verdict(report))
}

fn verdict(report: &Report) -> String {
    let worst = report.worst().map(|f| escape::elided(&f.message, MAX_FINDING_CHARS)).unwrap_or_default();
    match (report.severity(), report.count(Severity::Warning)) {
        (Severity::Note, _) => "sound: it will run".into(),
        (Severity::Warning, 1) => "it will run, with a warning".into(),
        (Severity::Warning, n) => format!("it will run, with {n} warnings"),
        (Severity::Damage, _) => format!("damaged, its answers cannot be trusted: {worst}"),
        (Severity::Fatal, _) => format!("it will not run: {worst}"),
    }
}

/// What is known of a file by its digest or, of one that has been changed, by its name.
fn pinned(file: &FileReport) -> Option<String> {
    let (digest, name) = (file.sha256.as_deref()?, file.path.file_name()?.to_str()?);
    let all = minfer_hub::catalogue();
    match (all.iter().find(|e| e.sha256 == digest), all.iter().find(|e| e.file == name)) {
        (Some(entry), _) => Some(format!("as published: {}", entry.name)),
        (None, Some(entry)) => Some(format!("not that of {}, which is {}", entry.name, entry.sha256)),
        (None, None) => None,
    }
}

fn to_json(report: &Report) -> Value {
    let file = |file: &FileReport| {
        json!({
            "path": file.path, "bytes": file.n_bytes, "sha256": file.sha256, "pinned": pinned(file),
        })
    };
    let finding =
        |f: &minfer_engine::verify::Finding| json!({ "severity": f.severity.name(), "message": f.message });
    json!({
        "schema": "minfer.verify",
        "version": 1,
        "runs": report.runs(),
        "severity": report.severity().name(),
        "verdict": verdict(report),
        "files": report.files.iter().map(file).collect::<Vec<_>>(),
        "checks": report.checks.iter().map(|check| json!({
            "check": check.name,
            "severity": check.severity().name(),
            "findings": check.findings.iter().map(finding).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}
