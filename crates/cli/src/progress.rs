//! How far long work is, on standard error: a bar on a terminal, now and then a line elsewhere.
//!
//! Work that takes less than [`PATIENCE`] shows nothing; what [`Pace`] decides, so that it can be tested without waiting.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use minfer_hub::Progress;

use crate::{report, units};

/// How long a person waits without wondering.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a log may stay silent.
const MAX_SILENCE: Duration = Duration::from_secs(10);

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes.
    Bytes,
    /// Things of this name, in the plural.
    Things(&'static str),
}

/// How far one piece of work is.
pub(crate) struct Meter {
    what: &'static str,
    unit: Unit,
    started: Instant,
    pace: Pace,
    is_terminal: bool,
    bar: Option<ProgressBar>,
}

impl Meter {
    /// A meter of work that begins now; nothing is shown until there is something to show.
    pub(crate) fn new(what: &'static str, unit: Unit) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { what, unit, started: Instant::now(), pace: Pace::default(), is_terminal, bar: None }
    }

    /// Shows that `done` of `total` is done.
    pub(crate) fn update(&mut self, done: u64, total: Option<u64>) {
        let elapsed = self.started.elapsed();
        if elapsed < PATIENCE {
            return;
        }
        if self.is_terminal {
            self.bar.get_or_insert_with(|| new_bar(self.what, self.unit, total)).set_position(done);
        } else if self.pace.is_due(elapsed, done, total) {
            self.say(&format!("{}: {}", self.what, so_far(self.unit, done, total)));
        }
    }

    /// Shows a line, above the bar if there is one.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| report::note(line)),
            None => report::note(line),
        }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Shows how a model is fetched.
pub(crate) struct FetchProgress(Meter);

impl FetchProgress {
    pub(crate) fn new() -> Self {
        Self(Meter::new("fetching", Unit::Bytes))
    }

    /// Shows what has happened.
    pub(crate) fn event(&mut self, event: Progress) {
        match event {
            Progress::Bytes { done, total } => self.0.update(done, total),
            Progress::Verifying { .. } => {}
            Progress::Fetched { path } => {
                self.0.clear();
                self.0.say(&format!("fetched {}", path.display()));
            }
            event => self.0.say(&in_words(&event)),
        }
    }
}

fn in_words(event: &Progress) -> String {
    match event {
        Progress::Waiting { path } => format!("waiting for another process that fetches {}", path.display()),
        Progress::Replacing { path, found, expected } => {
            format!("fetching {} again: it has {found} bytes instead of {expected}", path.display())
        }
        Progress::Part { name, part, parts, package } if *parts > 1 => {
            format!("fetching {name}: part {part} of {parts} ({package})")
        }
        Progress::Part { name, package, .. } => format!("fetching {name} ({package})"),
        Progress::Retry { package, attempt, attempts, reason } => {
            format!("fetching {package} again, attempt {attempt} of {attempts}: {reason}")
        }
        other => format!("{other:?}"),
    }
}

fn so_far(unit: Unit, done: u64, total: Option<u64>) -> String {
    let figure = |n| match unit {
        Unit::Bytes => units::bytes(n),
        Unit::Things(_) => n.to_string(),
    };
    let things = if let Unit::Things(name) = unit { format!(" {name}") } else { String::new() };
    match total {
        Some(total) => {
            format!("{} of {}{things} ({} %)", figure(done), figure(total), percent(done, total))
        }
        None => figure(done) + &things,
    }
}

fn percent(done: u64, total: u64) -> u64 {
    (u128::from(done) * 100 / u128::from(total.max(1))) as u64
}

fn new_bar(what: &'static str, unit: Unit, total: Option<u64>) -> ProgressBar {
    let template = match (unit, total) {
        (Unit::Bytes, Some(_)) => {
            "{msg} {bar:30} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left"
        }
        (Unit::Bytes, None) => "{msg} {spinner} {decimal_bytes}, {decimal_bytes_per_sec}",
        (Unit::Things(_), _) => "{msg} {bar:30} {pos} of {len} {prefix}, {eta} left",
    };
    let bar = ProgressBar::new(total.unwrap_or(0)).with_message(what);
    if let Unit::Things(name) = unit {
        bar.set_prefix(name);
    }
    // A template that cannot be parsed would only cost the looks.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// When the next line is due where there is no terminal: every tenth of the work, but not one upon the other, and whenever
/// it was quiet for long.
#[derive(Debug, Default)]
struct Pace {
    last_tenth: u64,
    last_line: Duration,
}

impl Pace {
    fn is_due(&mut self, elapsed: Duration, done: u64, total: Option<u64>) -> bool {
        let tenth = total.map_or(0, |total| percent(done, total) / 10);
        let silence = elapsed.saturating_sub(self.last_line);
        let due = tenth > self.last_tenth && silence >= PATIENCE || silence >= MAX_SILENCE;
        if due {
            (self.last_tenth, self.last_line) = (tenth, elapsed);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_each_tenth_and_after_silence() {
        let mut pace = Pace::default();
        let mut due = |seconds, done| pace.is_due(Duration::from_secs(seconds), done, Some(100));
        let steps = [(1, 5), (2, 10), (2, 29), (3, 35), (4, 39), (12, 39), (13, 39), (14, 100), (15, 100)];
        let seen: Vec<_> = steps.into_iter().filter(|&(at, done)| due(at, done)).collect();
        assert_eq!(seen, [(2, 10), (3, 35), (13, 39), (14, 100)]);
    }

    #[test]
    fn without_a_total_only_silence_counts() {
        let mut pace = Pace::default();
        let seen = [1, 9, 10, 19, 20].map(|at| pace.is_due(Duration::from_secs(at), 1 << 40, None));
        assert_eq!(seen, [false, false, true, false, true]);
    }

    #[test]
    fn figures_in_words() {
        assert_eq!(so_far(Unit::Bytes, 50_000_000, Some(100_000_000)), "50.0 MB of 100.0 MB (50 %)");
        assert_eq!(so_far(Unit::Bytes, 1000, None), "1.0 kB");
        assert_eq!(so_far(Unit::Things("tokens"), 5, Some(20)), "5 of 20 tokens (25 %)");
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
        assert_eq!(percent(1, 0), 100);
    }
}
