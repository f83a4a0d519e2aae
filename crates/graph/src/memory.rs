//! The memory behind plans: an arena of buffers for each backend, and the regions of the KV cache.
//!
//! The arena only grows. Buffers are found by their key and never move, so several prepared graphs share them: one graph
//! runs at a time.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::Backend;
use crate::driver::{Buffer, JobMemory, KernelFault, KvSpec};
use crate::graph::NodeId;
use crate::op::KvPart;
use crate::plan::{BufferKey, MemoryPlan};
use crate::registry::Registry;

/// Buffers by key.
#[derive(Default)]
pub struct Arena {
    buffers: HashMap<BufferKey, Arc<dyn Buffer>>,
}

impl Arena {
    /// Makes sure that every buffer of `plan` exists.
    pub fn reserve(&mut self, plan: &MemoryPlan, registry: &Registry) -> Result<(), KernelFault> {
        for key in plan.buffers() {
            if self.buffers.contains_key(&key) {
                continue;
            }
            let driver = driver(registry, key.backend)?;
            self.buffers.insert(key, driver.allocate(key.bytes)?);
        }
        Ok(())
    }

    /// The buffer of `key`, once reserved.
    pub fn get(&self, key: BufferKey) -> Option<&Arc<dyn Buffer>> {
        self.buffers.get(&key)
    }

    /// Bytes of all buffers of `backend`.
    pub fn bytes(&self, backend: Backend) -> usize {
        self.buffers.keys().filter(|k| k.backend == backend).map(|k| k.bytes).sum()
    }
}

/// The KV cache of a context: for each layer one region of keys and one of values, on the backend of its attention.
pub struct KvCache {
    specs: Vec<KvSpec>,
    regions: HashMap<(usize, KvPart), (Backend, Arc<dyn Buffer>)>,
}

impl KvCache {
    /// A cache with one spec a layer; regions are allocated when their owner is known.
    pub fn new(specs: Vec<KvSpec>) -> Self {
        KvCache { specs, regions: HashMap::new() }
    }

    /// Geometry by layer.
    pub fn specs(&self) -> &[KvSpec] {
        &self.specs
    }

    /// Bytes of all regions allocated so far.
    pub fn bytes(&self) -> usize {
        self.regions.values().map(|(_, region)| region.bytes()).sum()
    }

    /// Allocates the regions of `layer` on `backend` unless they are there.
    pub fn reserve(
        &mut self,
        layer: usize,
        backend: Backend,
        registry: &Registry,
    ) -> Result<(), KernelFault> {
        let Some(spec) = self.specs.get(layer) else {
            return Err(KernelFault::Bug(format!("layer {layer} has no KV geometry")));
        };
        for part in [KvPart::K, KvPart::V] {
            match self.regions.get(&(layer, part)) {
                Some((owner, _)) if *owner == backend => {}
                Some((owner, _)) => {
                    return Err(KernelFault::Bug(format!(
                        "the KV cache of layer {layer} lies on {owner}, a graph wants it on {backend}"
                    )));
                }
                None => {
                    let region = driver(registry, backend)?.allocate_kv(spec, part)?;
                    self.regions.insert((layer, part), (backend, region));
                }
            }
        }
        Ok(())
    }

    /// Copies block `from` to block `to` in every region there is.
    pub fn copy_block(&self, from: usize, to: usize, registry: &Registry) -> Result<(), KernelFault> {
        for ((layer, part), (backend, region)) in &self.regions {
            let Some(spec) = self.specs.get(*layer) else { continue };
            let bytes = driver(registry, *backend)?.kv_block_bytes(spec, *part);
            region.copy_within(from * bytes, to * bytes, bytes)?;
        }
        Ok(())
    }

    /// A region and its owner, once reserved.
    pub fn region(&self, layer: usize, part: KvPart) -> Option<&(Backend, Arc<dyn Buffer>)> {
        self.regions.get(&(layer, part))
    }
}

fn driver(registry: &Registry, backend: Backend) -> Result<&Arc<dyn crate::BackendDriver>, KernelFault> {
    registry.driver(backend).ok_or_else(|| KernelFault::Bug(format!("{backend} is not registered")))
}

/// What a backend sees of arena and cache while it prepares.
pub(crate) struct BackendMemory<'a> {
    pub backend: Backend,
    pub plan: &'a MemoryPlan,
    pub arena: &'a Arena,
    pub kv: &'a KvCache,
}

impl JobMemory for BackendMemory<'_> {
    fn value(&self, id: NodeId) -> Result<(Arc<dyn Buffer>, usize), KernelFault> {
        let placed = self.plan.buffer(id, self.backend);
        placed
            .and_then(|(key, offset)| Some((self.arena.get(key)?.clone(), offset)))
            .ok_or_else(|| KernelFault::Bug(format!("node {} has no memory on {}", id.0, self.backend)))
    }

    fn kv(&self, layer: usize, part: KvPart) -> Result<Arc<dyn Buffer>, KernelFault> {
        match self.kv.region(layer, part) {
            Some((backend, region)) if *backend == self.backend => Ok(region.clone()),
            _ => {
                Err(KernelFault::Bug(format!("{} does not hold the KV cache of layer {layer}", self.backend)))
            }
        }
    }
}
