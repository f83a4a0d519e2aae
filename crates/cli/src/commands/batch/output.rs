//! The output: a line is appended and on disk, or it is not there.
//!
//! A process that dies while it writes leaves a line without an end, which the next run cuts off; its request is answered
//! again. Lines that are whole were reported, and are never touched. What does not begin as an answer does was not written
//! here, and is never cut off.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::input::Line;
use crate::error::CliError;

/// How each line begins: `answer` puts the name of the answer first.
const LINE_START: &[u8] = br#"{"id":"batch_req_"#;

pub(super) struct Output {
    path: PathBuf,
    file: File,
    /// Names of requests, and of the answers that are there, by those of the answers.
    reported: HashMap<String, Value>,
}

impl Output {
    /// Opens or makes the file, finds out what it reports on, and cuts off what is no whole line. A file that has other
    /// lines than answers to these requests is refused and left as it is.
    pub(super) fn open(path: &Path, lines: &[Line<'_>]) -> Result<Output, CliError> {
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
        let mut output = Output { path: path.into(), file, reported: HashMap::new() };
        let end = output.recover(lines)?;
        output.file.set_len(end).map_err(failed)?;
        output.file.seek(SeekFrom::End(0)).map_err(failed)?;
        output.file.sync_all().map_err(failed)?;
        Ok(output)
    }

    /// The requests that have no answer yet.
    pub(super) fn left<'a>(&self, lines: Vec<Line<'a>>) -> Vec<Line<'a>> {
        lines.into_iter().filter(|line| !self.reported.contains_key(&line.answer_id())).collect()
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
    fn recover(&mut self, lines: &[Line<'_>]) -> Result<u64, CliError> {
        let failed = |source| CliError::WriteFile { path: self.path.clone(), source };
        let asked: HashMap<String, &Value> = lines.iter().map(|l| (l.answer_id(), &l.custom_id)).collect();
        let (mut end, mut text) = (0, Vec::new());
        let mut input = BufReader::new(&self.file);
        loop {
            text.clear();
            let n = input.read_until(b'\n', &mut text).map_err(failed)?;
            if text.last() != Some(&b'\n') {
                let is_ours = text.iter().zip(LINE_START).all(|(have, want)| have == want);
                return if is_ours { Ok(end) } else { Err(self.foreign()) };
            }
            end += n as u64;
            let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
            let id = answer["id"].as_str().unwrap_or_default().to_owned();
            if asked.get(&id).is_none_or(|custom_id| **custom_id != answer["custom_id"]) {
                return Err(self.foreign());
            }
            self.reported.insert(id, answer["custom_id"].clone());
        }
    }

    fn foreign(&self) -> CliError {
        CliError::ForeignOutput { path: self.path.clone() }
    }
}
