//! Backend handles: who can own a node.
//!
//! Two orders, never mixed: **identity** (the fixed, append-only id, used in exports and files) and **priority** (who is
//! asked first when a node looks for an owner).

use std::fmt;

/// A small handle that names a backend; the thing that does the work is a [`BackendDriver`](crate::BackendDriver).
/// Ordered by id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend(u8);

struct Row {
    name: &'static str,
    priority: u16,
    /// How a build gets it.
    how: &'static str,
}

/// Indexed by id. Append only: ids appear in exported graphs.
const KNOWN: [Row; 4] = [
    Row { name: "cpu", priority: 100, how: "every build has it" },
    Row { name: "metal", priority: 300, how: "the cargo feature 'gpu' adds it on macOS" },
    Row { name: "cuda", priority: 200, how: "no feature of this version adds it" },
    Row { name: "vulkan", priority: 150, how: "the cargo feature 'gpu' adds it on systems other than macOS" },
];

impl Backend {
    /// The processor: always allowed, and asked last.
    pub const CPU: Backend = Backend(0);
    /// Apple GPUs.
    pub const METAL: Backend = Backend(1);
    /// NVIDIA GPUs.
    pub const CUDA: Backend = Backend(2);
    /// Every other GPU.
    pub const VULKAN: Backend = Backend(3);

    /// Every backend the project knows, in the order of ids, whether or not this build has it.
    pub fn known() -> impl ExactSizeIterator<Item = Backend> {
        (0..KNOWN.len() as u8).map(Backend)
    }

    /// The fixed id.
    pub fn id(self) -> u8 {
        self.0
    }

    /// The name used in requests and exports: `cpu`.
    pub fn name(self) -> &'static str {
        KNOWN[self.0 as usize].name
    }

    /// Who is asked first: the higher, the earlier.
    pub fn priority(self) -> u16 {
        KNOWN[self.0 as usize].priority
    }

    /// How a build gets it, in words.
    pub fn how_to_get(self) -> &'static str {
        KNOWN[self.0 as usize].how
    }

    /// The backend with this name; surrounding space and case do not matter.
    pub fn from_name(name: &str) -> Option<Backend> {
        Backend::known().find(|b| b.name().eq_ignore_ascii_case(name.trim()))
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Upper case, as the trace prints it: `CPU`.
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_ascii_uppercase())
    }
}

/// A set of backends; the CPU is a member of every set.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BackendSet(u32);

impl BackendSet {
    /// Only the CPU.
    pub const CPU_ONLY: BackendSet = BackendSet(1);

    /// Every backend the project knows.
    pub fn all() -> BackendSet {
        Backend::known().collect()
    }

    /// Whether `backend` is in the set.
    pub fn contains(self, backend: Backend) -> bool {
        self.0 & (1 << backend.id()) != 0
    }

    /// The set with `backend` added.
    #[must_use]
    pub fn with(self, backend: Backend) -> BackendSet {
        BackendSet(self.0 | 1 << backend.id())
    }

    /// The set with `backend` taken out; the CPU stays.
    #[must_use]
    pub fn without(self, backend: Backend) -> BackendSet {
        BackendSet(self.0 & !(1 << backend.id()) | 1)
    }

    /// Members in the order of ids.
    pub fn iter(self) -> impl Iterator<Item = Backend> {
        Backend::known().filter(move |b| self.contains(*b))
    }
}

impl FromIterator<Backend> for BackendSet {
    fn from_iter<I: IntoIterator<Item = Backend>>(iter: I) -> Self {
        iter.into_iter().fold(BackendSet::CPU_ONLY, BackendSet::with)
    }
}

impl fmt::Debug for BackendSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_priorities_are_two_orders() {
        let ids: Vec<_> = Backend::known().map(|b| (b.id(), b.name(), b.priority())).collect();
        assert_eq!(ids, [(0, "cpu", 100), (1, "metal", 300), (2, "cuda", 200), (3, "vulkan", 150)]);
    }

    #[test]
    fn names_are_trimmed_and_case_insensitive() {
        assert_eq!(Backend::from_name(" CUDA "), Some(Backend::CUDA));
        assert_eq!(Backend::from_name("tpu"), None);
    }

    #[test]
    fn the_cpu_never_leaves_a_set() {
        let set = BackendSet::all().without(Backend::CPU).without(Backend::CUDA);
        assert!(set.contains(Backend::CPU) && !set.contains(Backend::CUDA) && set.contains(Backend::METAL));
    }
}
