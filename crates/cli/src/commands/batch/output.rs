//! The output: a line is appended and on disk, or it is not there.
//!
//! A process that dies while it writes leaves a line without an end, which the next run cuts off; its request is answered
//! again. Lines that are whole were reported, and are never touched. What does not begin as an answer does was not written
//! here, and is never cut off.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::fingerprint::Fingerprint;
use super::input::Line;
use crate::error::CliError;

/// How each line begins: `answer` puts the name of the answer first.
const LINE_START: &[u8] = br#"{"id":"batch_req_"#;

pub(super) struct Output {
    path: PathBuf,
    file: File,
    /// Names of the answers that are there.
    reported: HashSet<String>,
}

impl Output {
    /// Opens or makes the file, finds out what it reports on, and cuts off what is no whole line. A file that has other
    /// lines than answers to these requests is refused and left as it is.
    pub(super) fn open(path: &Path, lines: &[Line<'_>], setup: Fingerprint) -> Result<Output, CliError> {
        let failed = |source| CliError::WriteFile { path: path.into(), source };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            let reason = "it is no file, and what was answered before could not be found in it";
            return Err(failed(std::io::Error::other(reason)));
        }
        file.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => failed(std::io::Error::other("another process is writing to it")),
            TryLockError::Error(e) => failed(e),
        })?;
        let mut output = Output { path: path.into(), file, reported: HashSet::new() };
        let end = output.recover(lines, setup)?;
        output.file.set_len(end).map_err(failed)?;
        output.file.seek(SeekFrom::End(0)).map_err(failed)?;
        output.file.sync_all().map_err(failed)?;
        Ok(output)
    }

    /// The requests that have no answer yet.
    pub(super) fn left<'a>(&self, lines: Vec<Line<'a>>) -> Vec<Line<'a>> {
        lines.into_iter().filter(|line| !self.reported.contains(&line.answer_id())).collect()
    }

    /// Appends a line, and waits until it is on disk.
    pub(super) fn append(&mut self, line: &Value) -> Result<(), CliError> {
        let failed = |source| CliError::WriteFile { path: self.path.clone(), source };
        let mut text = line.to_string();
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.file.sync_data().map_err(failed)
    }

    /// Reads what is there; gives the end of the last whole line.
    fn recover(&mut self, lines: &[Line<'_>], setup: Fingerprint) -> Result<u64, CliError> {
        let failed = |source| CliError::WriteFile { path: self.path.clone(), source };
        let asked: HashMap<String, &Line<'_>> = lines.iter().map(|line| (line.answer_id(), line)).collect();
        let (mut end, mut text, mut number) = (0, Vec::new(), 0);
        let mut input = BufReader::new(&self.file);
        loop {
            text.clear();
            number += 1;
            let n = input.read_until(b'\n', &mut text).map_err(failed)?;
            if text.last() != Some(&b'\n') {
                let is_ours = text.iter().zip(LINE_START).all(|(have, want)| have == want);
                return if is_ours { Ok(end) } else { Err(self.foreign(number)) };
            }
            end += n as u64;
            let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
            let id = answer["id"].as_str().unwrap_or_default();
            let line = asked.get(id).filter(|line| line.custom_id == answer["custom_id"]);
            let line = line.ok_or_else(|| self.foreign(number))?;
            self.check(number, line, setup, &answer["response"]["request_id"])?;
            self.reported.insert(id.to_owned());
        }
    }

    /// Whether the answer on line `number` still is one to `line`, by what it says of where it comes from.
    fn check(
        &self,
        number: usize,
        line: &Line<'_>,
        setup: Fingerprint,
        request_id: &Value,
    ) -> Result<(), CliError> {
        let request_id = request_id.as_str().unwrap_or_default();
        let path = self.path.clone();
        if !request_id.starts_with(&line.request_id_start()) {
            return Err(CliError::ChangedRequest { path, number, request: line.number });
        }
        if request_id != line.request_id(setup) {
            return Err(CliError::ChangedSetup { path, number });
        }
        Ok(())
    }

    fn foreign(&self, number: usize) -> CliError {
        CliError::ForeignOutput { path: self.path.clone(), number }
    }
}
