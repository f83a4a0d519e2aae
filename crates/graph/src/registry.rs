//! The backends of this process: which exist, which may be used, and what is said when one may not.

use std::sync::Arc;

use crate::backend::{Backend, BackendSet};
use crate::driver::BackendDriver;

/// Why a backend that this build contains cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Which one.
    pub backend: Backend,
    /// What is missing, in words.
    pub reason: String,
}

/// A request for backends by name that cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No backend has that name.
    #[error("unknown backend '{name}'; known: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The project has it, this build does not.
    #[error("backend '{name}' is not in this build, which has {present}; {how}")]
    NotInBuild {
        /// What was asked for.
        name: &'static str,
        /// The names there are.
        present: String,
        /// How a build gets it.
        how: &'static str,
    },
    /// The build has it, the machine does not.
    #[error("backend '{name}' cannot be used on this machine: {reason}")]
    NotUsable {
        /// What was asked for.
        name: &'static str,
        /// What is missing.
        reason: String,
    },
}

/// All drivers of this process, in priority order.
#[derive(Clone, Default)]
pub struct Registry {
    drivers: Vec<Arc<dyn BackendDriver>>,
    unusable: Vec<Unusable>,
}

impl Registry {
    /// A registry without backends.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a driver, replacing an earlier one of the same backend.
    pub fn register(&mut self, driver: Arc<dyn BackendDriver>) {
        self.drivers.retain(|d| d.backend() != driver.backend());
        self.drivers.push(driver);
        self.drivers.sort_by_key(|d| std::cmp::Reverse(d.backend().priority()));
    }

    /// Notes that this build has `backend` but the machine cannot run it.
    pub fn register_unusable(&mut self, backend: Backend, reason: impl Into<String>) {
        self.unusable.push(Unusable { backend, reason: reason.into() });
    }

    /// Takes a backend of this build out of play, as the user wishes; the CPU stays.
    pub fn switch_off(&mut self, backend: Backend) {
        if backend == Backend::CPU || self.driver(backend).is_none() {
            return;
        }
        self.drivers.retain(|d| d.backend() != backend);
        self.register_unusable(backend, "it is switched off");
    }

    /// Drivers, highest priority first.
    pub fn drivers(&self) -> &[Arc<dyn BackendDriver>] {
        &self.drivers
    }

    /// Backends of this build that cannot be used here.
    pub fn unusable(&self) -> &[Unusable] {
        &self.unusable
    }

    /// The driver of `backend`.
    pub fn driver(&self, backend: Backend) -> Option<&Arc<dyn BackendDriver>> {
        self.drivers.iter().find(|d| d.backend() == backend)
    }

    /// Every backend that has a driver.
    pub fn available(&self) -> BackendSet {
        self.drivers.iter().map(|d| d.backend()).collect()
    }

    /// The set that a list of names asks for, such as `cpu,cuda`; names are trimmed and case does not matter. The CPU is
    /// always in it. Empty names are passed over.
    pub fn request(&self, names: &str) -> Result<BackendSet, RequestError> {
        let names = names.split(',').map(str::trim).filter(|n| !n.is_empty());
        names.map(|name| self.usable(name)).collect()
    }

    fn usable(&self, name: &str) -> Result<Backend, RequestError> {
        let Some(backend) = Backend::from_name(name) else {
            let known = Backend::known().map(Backend::name).collect::<Vec<_>>().join(", ");
            return Err(RequestError::Unknown { name: name.into(), known });
        };
        if self.driver(backend).is_some() {
            return Ok(backend);
        }
        Err(match self.unusable.iter().find(|u| u.backend == backend) {
            Some(u) => RequestError::NotUsable { name: backend.name(), reason: u.reason.clone() },
            None => {
                let present: Vec<_> = self.available().iter().map(Backend::name).collect();
                let (name, how) = (backend.name(), backend.how_to_get());
                RequestError::NotInBuild { name, present: present.join(", "), how }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NullDriver;

    fn registry(backends: &[Backend]) -> Registry {
        let mut r = Registry::new();
        for b in backends {
            r.register(Arc::new(NullDriver::new(*b)));
        }
        r
    }

    #[test]
    fn the_registered_set_and_priority_order_are_pinned() {
        let r = registry(&[Backend::CPU, Backend::METAL, Backend::CUDA, Backend::VULKAN]);
        let order: Vec<_> = r.drivers().iter().map(|d| (d.backend().id(), d.backend().name())).collect();
        assert_eq!(order, [(1, "metal"), (2, "cuda"), (3, "vulkan"), (0, "cpu")]);
    }

    #[test]
    fn a_request_is_trimmed_and_always_includes_the_cpu() {
        let r = registry(&[Backend::CPU, Backend::CUDA]);
        let set = r.request(" CUDA ,").unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Backend::CPU, Backend::CUDA]);
        assert_eq!(r.request("").unwrap(), BackendSet::CPU_ONLY);
    }

    #[test]
    fn a_backend_that_is_switched_off_cannot_be_had() {
        let mut r = registry(&[Backend::CPU, Backend::CUDA]);
        for backend in Backend::known() {
            r.switch_off(backend);
        }
        assert_eq!(r.available(), BackendSet::CPU_ONLY);
        let reason = "it is switched off".to_owned();
        assert_eq!(r.request("cuda"), Err(RequestError::NotUsable { name: "cuda", reason }));
        assert!(matches!(r.request("metal"), Err(RequestError::NotInBuild { name: "metal", .. })));
    }

    #[test]
    fn the_three_refusals_differ() {
        let mut r = registry(&[Backend::CPU]);
        r.register_unusable(Backend::VULKAN, "no adapter was found");
        let unknown = r.request("tpu").unwrap_err();
        assert_eq!(unknown.to_string(), "unknown backend 'tpu'; known: cpu, metal, cuda, vulkan");
        let absent = r.request("cuda").unwrap_err();
        assert_eq!(
            absent.to_string(),
            "backend 'cuda' is not in this build, which has cpu; no feature of this version adds it"
        );
        let unusable = r.request("vulkan").unwrap_err();
        assert_eq!(
            unusable.to_string(),
            "backend 'vulkan' cannot be used on this machine: no adapter was found"
        );
    }
}
