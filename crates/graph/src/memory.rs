//! The memory behind plans: an arena of node values for each backend, and the regions of the KV cache.
//!
//! The arena of a backend is as large as the largest graph that it was reserved for: every graph lays its buffers out
//! anew, largest first, in the chunks that are there, since one graph runs at a time. Chunks never move, so prepared graphs
//! keep places in them; a graph that finds no room adds a chunk.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::Backend;
use crate::driver::{Buffer, JobMemory, KernelFault, KvSpec};
use crate::graph::NodeId;
use crate::op::KvPart;
use crate::plan::{BufferKey, MemoryPlan};
use crate::registry::Registry;

/// Memory for node values.
#[derive(Default)]
pub struct Arena {
    chunks: Vec<(Backend, Arc<dyn Buffer>)>,
    limit: Option<usize>,
}

/// An arena cannot grow.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{fault}")]
pub struct NoRoom {
    /// Whose memory.
    pub backend: Backend,
    /// What was said.
    pub fault: KernelFault,
}

/// Where a graph's buffers lie in the arena.
#[derive(Default)]
pub struct Layout(HashMap<BufferKey, (Arc<dyn Buffer>, usize)>);

impl Layout {
    /// The chunk that holds a buffer, and the byte where it starts.
    pub fn get(&self, key: BufferKey) -> Option<(Arc<dyn Buffer>, usize)> {
        self.0.get(&key).cloned()
    }
}

impl Arena {
    /// From now on the arenas of all backends together may not grow beyond so many bytes.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = Some(bytes);
    }

    /// Makes sure that graphs whose buffers add up to `bytes` on `backend` find room.
    pub fn reserve(&mut self, backend: Backend, bytes: usize, registry: &Registry) -> Result<(), NoRoom> {
        match bytes.saturating_sub(self.bytes(backend)) {
            0 => Ok(()),
            missing => {
                self.grow(backend, missing, registry).map_err(|fault| NoRoom { backend, fault })?;
                Ok(())
            }
        }
    }

    /// Gives every buffer of `plan` a place.
    pub fn lay_out(&mut self, plan: &MemoryPlan, registry: &Registry) -> Result<Layout, NoRoom> {
        let keys = plan.laid_out();
        let mut used = vec![0; self.chunks.len()];
        let mut places = HashMap::with_capacity(keys.len());
        for (i, key) in keys.iter().enumerate() {
            let fits = |(at, (backend, chunk)): (usize, &(Backend, Arc<dyn Buffer>))| {
                (*backend == key.backend && key.bytes <= chunk.bytes() - used[at]).then_some(at)
            };
            let at = match self.chunks.iter().enumerate().find_map(fits) {
                Some(at) => at,
                None => {
                    let left = keys[i..].iter().filter(|k| k.backend == key.backend).map(|k| k.bytes).sum();
                    used.push(0);
                    let no_room = |fault| NoRoom { backend: key.backend, fault };
                    self.grow(key.backend, left, registry).map_err(no_room)?
                }
            };
            places.insert(*key, (self.chunks[at].1.clone(), used[at]));
            used[at] += key.bytes;
        }
        Ok(Layout(places))
    }

    /// Bytes of the arena of `backend`.
    pub fn bytes(&self, backend: Backend) -> usize {
        self.chunks.iter().filter(|chunk| chunk.0 == backend).map(|chunk| chunk.1.bytes()).sum()
    }

    /// Adds a chunk; gives its index.
    fn grow(&mut self, backend: Backend, bytes: usize, registry: &Registry) -> Result<usize, KernelFault> {
        let all: usize = self.chunks.iter().map(|chunk| chunk.1.bytes()).sum();
        if let Some(limit) = self.limit.filter(|limit| all.saturating_add(bytes) > *limit) {
            let reason = format!("values of nodes may take {limit} bytes, {all} of which are in use");
            return Err(KernelFault::OutOfMemory { bytes, reason });
        }
        self.chunks.push((backend, driver(registry, backend)?.allocate(bytes)?));
        Ok(self.chunks.len() - 1)
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

    /// Bytes of one block of a layer's keys or values, once reserved.
    pub fn block_bytes(&self, layer: usize, part: KvPart, registry: &Registry) -> Result<usize, KernelFault> {
        match (self.specs.get(layer), self.regions.get(&(layer, part))) {
            (Some(spec), Some((backend, _))) => Ok(driver(registry, *backend)?.kv_block_bytes(spec, part)),
            _ => Err(KernelFault::Bug(format!("layer {layer} has no KV cache yet"))),
        }
    }

    /// Reads one block, in the layout of its backend, into all of `out`.
    pub fn read_block(
        &self,
        (layer, part): (usize, KvPart),
        block: u32,
        registry: &Registry,
        out: &mut [u8],
    ) -> Result<(), KernelFault> {
        let (backend, region) = self.located(layer, part)?;
        driver(registry, *backend)?.read_kv_block(region.as_ref(), block as usize, out)
    }

    /// The values of one block, `[position][kv head][element]`; nothing from a backend that cannot tell.
    pub fn values(
        &self,
        (layer, part): (usize, KvPart),
        block: u32,
        registry: &Registry,
    ) -> Result<Option<Vec<f32>>, KernelFault> {
        let mut bytes = vec![0; self.block_bytes(layer, part, registry)?];
        self.read_block((layer, part), block, registry, &mut bytes)?;
        let (backend, _) = self.located(layer, part)?;
        Ok(driver(registry, *backend)?.kv_values(&self.specs[layer], part, &bytes))
    }

    /// Writes one block that [`Self::read_block`] read.
    pub fn write_block(
        &self,
        (layer, part): (usize, KvPart),
        block: u32,
        registry: &Registry,
        bytes: &[u8],
    ) -> Result<(), KernelFault> {
        let (backend, region) = self.located(layer, part)?;
        driver(registry, *backend)?.write_kv_block(region.as_ref(), block as usize, bytes)
    }

    fn located(&self, layer: usize, part: KvPart) -> Result<&(Backend, Arc<dyn Buffer>), KernelFault> {
        let missing = || KernelFault::Bug(format!("layer {layer} has no KV cache yet"));
        self.region(layer, part).ok_or_else(missing)
    }

    /// A region and its owner, once reserved.
    pub fn region(&self, layer: usize, part: KvPart) -> Option<&(Backend, Arc<dyn Buffer>)> {
        self.regions.get(&(layer, part))
    }
}

fn driver(registry: &Registry, backend: Backend) -> Result<&Arc<dyn crate::BackendDriver>, KernelFault> {
    registry.driver(backend).ok_or_else(|| KernelFault::Bug(format!("{backend} is not registered")))
}

/// The chunk and byte where `backend` finds the value of `id`.
pub(crate) fn located(
    plan: &MemoryPlan,
    layout: &Layout,
    id: NodeId,
    backend: Backend,
) -> Option<(Arc<dyn Buffer>, usize)> {
    let (key, offset) = plan.buffer(id, backend)?;
    let (chunk, start) = layout.get(key)?;
    Some((chunk, start + offset))
}

/// What a backend sees of arena and cache while it prepares.
pub(crate) struct BackendMemory<'a> {
    pub backend: Backend,
    pub plan: &'a MemoryPlan,
    pub layout: &'a Layout,
    pub kv: &'a KvCache,
}

impl JobMemory for BackendMemory<'_> {
    fn value(&self, id: NodeId) -> Result<(Arc<dyn Buffer>, usize), KernelFault> {
        located(self.plan, self.layout, id, self.backend)
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
