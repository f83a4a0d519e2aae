//! How many threads to use when nobody says.
//!
//! The default is the number of *physical cores* that this process may run on, but no more than its CPU quota:
//! * the cores are the distinct sets of hardware threads (`topology/thread_siblings_list`) among the CPUs of the
//!   affinity mask (`taskset`, cpusets, container limits). A second hardware thread of a core adds nothing to kernels
//!   that keep its vector units busy;
//! * the quota is that of cgroup v1 or v2, rounded down, as [`std::thread::available_parallelism`] reads it.
//!
//! Threads are not pinned: on a machine that others use too, a pinned worker waits for its core while another is idle.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "the affinity mask is read by a system call"))]

use std::collections::BTreeSet;
use std::path::Path;

use crate::pool::MAX_THREADS;

/// The default number of threads: at least 1, at most [`MAX_THREADS`].
pub fn default_n_threads() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    let cores = n_cores(Path::new("/sys/devices/system/cpu"), &affinity());
    cores.map_or(allowed, |n| n.min(allowed)).clamp(1, MAX_THREADS)
}

/// The number of physical cores that the `cpus` belong to, as the system describes them under `sysfs`; nothing if it
/// does not describe every one.
fn n_cores(sysfs: &Path, cpus: &[usize]) -> Option<usize> {
    let siblings = |cpu: &usize| {
        let file = sysfs.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        std::fs::read_to_string(file).ok().map(|list| list.trim().to_string())
    };
    let cores = cpus.iter().map(siblings).collect::<Option<BTreeSet<_>>>()?;
    (!cores.is_empty()).then_some(cores.len())
}

/// The CPUs that this process may run on; empty where that can't be asked.
#[cfg(target_os = "linux")]
fn affinity() -> Vec<usize> {
    // SAFETY: the all-zero bit pattern is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the given size into `set`.
    let status = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    if status != 0 {
        return Vec::new();
    }
    // SAFETY: `CPU_ISSET` reads a bit of `set`; the numbers are below its size.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// The CPUs that this process may run on; empty where that can't be asked.
#[cfg(not(target_os = "linux"))]
fn affinity() -> Vec<usize> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 4 cores with 2 hardware threads each: CPUs `i` and `i + 4` share a core.
    fn machine(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("minfer-{name}-{}", std::process::id()));
        for cpu in 0..8 {
            let dir = root.join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("thread_siblings_list"), format!("{},{}\n", cpu % 4, cpu % 4 + 4))
                .unwrap();
        }
        root
    }

    #[test]
    fn hardware_threads_of_a_core_count_once() {
        let root = machine("cores");
        assert_eq!(n_cores(&root, &[0, 1, 2, 3, 4, 5, 6, 7]), Some(4));
        assert_eq!(n_cores(&root, &[0, 4]), Some(1));
        assert_eq!(n_cores(&root, &[1, 2, 6]), Some(2));
        assert_eq!(n_cores(&root, &[]), None);
        assert_eq!(n_cores(&root, &[0, 8]), None, "CPU 8 is not described");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_default_is_within_what_the_system_allows() {
        let n = default_n_threads();
        assert!(n >= 1 && n <= std::thread::available_parallelism().unwrap().get());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_affinity_mask_is_read() {
        let cpus = affinity();
        assert!(!cpus.is_empty());
        assert!(cpus.len() >= std::thread::available_parallelism().unwrap().get());
    }
}
