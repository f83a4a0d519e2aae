//! What there is: the least of what the machine, the process's control groups and the user allow.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{cgroup, ledger};

/// Memory that can still be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes.
    pub bytes: usize,
    /// Who allows no more.
    pub source: LimitSource,
}

/// Who sets the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The machine has no more.
    Machine,
    /// A control group of the process.
    ControlGroup(PathBuf),
    /// The caller: so many bytes for the whole process.
    Caller(usize),
}

impl fmt::Display for LimitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitSource::Machine => f.write_str("this machine"),
            LimitSource::ControlGroup(path) => write!(f, "the control group {}", path.display()),
            LimitSource::Caller(bytes) => write!(f, "a limit of {}", super::shortage::size(*bytes)),
        }
    }
}

impl Available {
    /// What can be taken now, without swapping and beside what other contexts were promised. `limit` is the caller's, for
    /// the whole process. `None` where the system says nothing and the caller sets no limit.
    pub fn now(limit: Option<usize>) -> Option<Available> {
        let proc = Path::new("/proc");
        let read = |name: &str| std::fs::read_to_string(proc.join(name)).ok();
        let mut all = Vec::new();
        if let Some(bytes) = read("meminfo").as_deref().and_then(meminfo_available) {
            all.push(Available { bytes, source: LimitSource::Machine });
        }
        if let (Some(groups), Some(mounts)) = (read("self/cgroup"), read("self/mountinfo")) {
            for (path, bytes) in cgroup::headroom(&groups, &mounts) {
                all.push(Available { bytes, source: LimitSource::ControlGroup(path) });
            }
        }
        let outstanding = ledger::outstanding();
        all.iter_mut().for_each(|a| a.bytes = a.bytes.saturating_sub(outstanding));
        if let Some(limit) = limit {
            let bytes = limit.saturating_sub(ledger::in_use());
            all.push(Available { bytes, source: LimitSource::Caller(limit) });
        }
        all.into_iter().min_by_key(|a| a.bytes)
    }
}

/// Bytes of this process that are in memory.
pub(super) fn resident() -> Option<usize> {
    kibibytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

fn meminfo_available(text: &str) -> Option<usize> {
    kibibytes(text, "MemAvailable:")
}

fn kibibytes(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find(|l| l.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_figures_are_read() {
        assert_eq!(meminfo_available("MemTotal: 8 kB\nMemAvailable:   3 kB\n"), Some(3072));
        assert_eq!(meminfo_available("MemTotal: 8 kB\n"), None);
        assert_eq!(kibibytes("VmRSS:\t 12 kB\n", "VmRSS:"), Some(12 << 10));
        assert_eq!(kibibytes("VmRSS: x kB\n", "VmRSS:"), None);
    }

    #[test]
    fn the_callers_limit_counts_what_the_process_has() {
        let limited = Available::now(Some(1)).unwrap();
        assert_eq!(limited, Available { bytes: 0, source: LimitSource::Caller(1) });
        let free = Available::now(Some(usize::MAX));
        if cfg!(target_os = "linux") {
            assert!(!matches!(free.unwrap().source, LimitSource::Caller(_)));
        }
    }
}
