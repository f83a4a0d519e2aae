//! Places every live value in memory.
//!
//! **Rule.** A value lives from the node that makes it to the last node that reads it, in build order; inputs and outputs
//! live from the start, or to the end. Values whose lives do not meet may share a buffer of the same size class. The value
//! of an in-place op or of a view is its source's storage. KV handles and orphans get nothing.
//!
//! **Classes.** Sizes are rounded up to a quarter of a power of two, and a buffer is named by backend, class and ordinal.
//! Buffers never move, so graphs of different shapes share them and a prepared graph may keep pointers to them.
//!
//! **Trap.** An op may write over its source only when nobody else will look at that storage: see `may_overwrite`.

use std::collections::HashMap;

use crate::backend::Backend;
use crate::graph::{ComputeGraph, NodeId};
use crate::op::Op;
use crate::split::Split;

/// A buffer of a backend's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferKey {
    /// Whose memory.
    pub backend: Backend,
    /// Its size, a size class.
    pub bytes: usize,
    /// Which of that size.
    pub ordinal: usize,
}

/// Where a value lies on one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Index into [`MemoryPlan::storages`].
    pub storage: usize,
    /// Bytes before the value in the storage.
    pub offset: usize,
}

/// A stretch of memory with one life; several values share it by aliasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Which buffer.
    pub buffer: BufferKey,
    /// Bytes in use.
    pub bytes: usize,
    /// Position of the first node that needs it.
    pub first: usize,
    /// Position of the last node that needs it; the number of nodes when it lives to the end.
    pub last: usize,
}

/// The memory of one graph.
#[derive(Clone, Debug, Default)]
pub struct MemoryPlan {
    /// Lives and buffers.
    pub storages: Vec<Storage>,
    values: HashMap<(NodeId, Backend), Placement>,
}

impl MemoryPlan {
    /// Where `backend` finds the value of `id`: its own, or its copy.
    pub fn placement(&self, id: NodeId, backend: Backend) -> Option<Placement> {
        self.values.get(&(id, backend)).copied()
    }

    /// The buffer and byte offset where `backend` finds the value of `id`.
    pub fn buffer(&self, id: NodeId, backend: Backend) -> Option<(BufferKey, usize)> {
        self.placement(id, backend).map(|p| (self.storages[p.storage].buffer, p.offset))
    }

    /// Every buffer in use, each once, in order.
    pub fn buffers(&self) -> Vec<BufferKey> {
        let mut keys: Vec<_> = self.storages.iter().map(|s| s.buffer).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The same in the order in which an arena lays them out: the largest first.
    pub fn laid_out(&self) -> Vec<BufferKey> {
        let mut keys = self.buffers();
        keys.sort_by_key(|key| std::cmp::Reverse(key.bytes));
        keys
    }

    /// Bytes of all buffers of `backend`.
    pub fn bytes(&self, backend: Backend) -> usize {
        self.buffers().iter().filter(|k| k.backend == backend).map(|k| k.bytes).sum()
    }
}

/// The size class of `bytes`: at least 4 KiB, then quarters of powers of two.
pub fn size_class(bytes: usize) -> usize {
    const SMALLEST: usize = 4096;
    if bytes <= SMALLEST {
        return SMALLEST;
    }
    let step = (1usize << bytes.ilog2()) / 4;
    bytes.next_multiple_of(step)
}

/// Plans memory for the live nodes of a graph that has been cut into `splits`.
pub fn plan(graph: &ComputeGraph, live: &[bool], splits: &[Split]) -> MemoryPlan {
    let mut planner = Planner::new(graph, live);
    planner.place_inputs();
    for split in splits {
        planner.place_copies(split);
        for &id in &split.nodes {
            planner.place_node(id, split.backend);
        }
    }
    planner.extend_outputs();
    planner.pack()
}

struct Life {
    backend: Backend,
    bytes: usize,
    first: usize,
    last: usize,
}

struct Planner<'a> {
    graph: &'a ComputeGraph,
    readers: Vec<usize>,
    lives: Vec<Life>,
    values: HashMap<(NodeId, Backend), Placement>,
}

impl<'a> Planner<'a> {
    fn new(graph: &'a ComputeGraph, live: &[bool]) -> Self {
        let mut readers = vec![0; graph.nodes.len()];
        for node in graph.nodes.iter().filter(|n| live[n.id.index()]) {
            for src in &node.src {
                readers[src.index()] += 1;
            }
        }
        Planner { graph, readers, lives: Vec::new(), values: HashMap::new() }
    }

    fn place_inputs(&mut self) {
        for &id in &self.graph.inputs {
            let node = self.graph.node(id);
            if let Some(backend) = node.backend {
                self.new_storage(id, backend, node.out_bytes(), 0);
                self.extend(id, backend, self.graph.nodes.len());
            }
        }
    }

    fn place_copies(&mut self, split: &Split) {
        let start = split.nodes[0].index();
        for &id in &split.copies {
            let node = self.graph.node(id);
            if let Some(owner) = node.backend {
                self.extend(id, owner, start);
            }
            self.new_storage(id, split.backend, node.out_bytes(), start);
        }
    }

    fn place_node(&mut self, id: NodeId, backend: Backend) {
        let node = self.graph.node(id);
        for &src in &node.src {
            self.extend(src, backend, id.index());
        }
        if node.op.is_kv_handle() {
            return;
        }
        match self.alias(id, backend) {
            Some(placement) => {
                self.values.insert((id, backend), placement);
            }
            None => self.new_storage(id, backend, node.out_bytes(), id.index()),
        }
    }

    /// The placement that the node takes over from its first source, if it may.
    fn alias(&self, id: NodeId, backend: Backend) -> Option<Placement> {
        let node = self.graph.node(id);
        let source = *node.src.first()?;
        let placement = *self.values.get(&(source, backend))?;
        match node.op {
            Op::View { offset } => {
                Some(Placement { offset: placement.offset + offset * node.out_dtype.bytes(), ..placement })
            }
            Op::Reshape => Some(placement),
            _ => (node.op.may_run_in_place() && self.may_overwrite(source, backend)).then_some(placement),
        }
    }

    /// Whether the value of `id` is on this backend, has one reader, and is neither an input nor an output; for a view the
    /// same must hold of what it shows.
    fn may_overwrite(&self, id: NodeId, backend: Backend) -> bool {
        let node = self.graph.node(id);
        node.backend == Some(backend)
            && node.op != Op::Input
            && !self.graph.outputs.contains(&id)
            && self.readers[id.index()] == 1
            && (!node.op.is_view() || node.src.iter().all(|s| self.may_overwrite(*s, backend)))
    }

    fn new_storage(&mut self, id: NodeId, backend: Backend, bytes: usize, first: usize) {
        let storage = self.lives.len();
        self.lives.push(Life { backend, bytes, first, last: first });
        self.values.insert((id, backend), Placement { storage, offset: 0 });
    }

    fn extend(&mut self, id: NodeId, backend: Backend, position: usize) {
        if let Some(p) = self.values.get(&(id, backend)) {
            let life = &mut self.lives[p.storage];
            life.last = life.last.max(position);
        }
    }

    fn extend_outputs(&mut self) {
        let end = self.graph.nodes.len();
        for &id in &self.graph.outputs {
            if let Some(backend) = self.graph.node(id).backend {
                self.extend(id, backend, end);
            }
        }
    }

    /// Gives every life a buffer: the lowest free ordinal of its class.
    fn pack(self) -> MemoryPlan {
        let mut order: Vec<usize> = (0..self.lives.len()).collect();
        order.sort_by_key(|&i| self.lives[i].first);
        // For each (backend, class): the last position at which each ordinal is in use.
        let mut busy: HashMap<(Backend, usize), Vec<usize>> = HashMap::new();
        let mut storages: Vec<Option<Storage>> = vec![None; self.lives.len()];
        for i in order {
            let life = &self.lives[i];
            let class = size_class(life.bytes);
            let ordinals = busy.entry((life.backend, class)).or_default();
            // A buffer read by the node at `first` is not free for that node's own result, hence `<`.
            let ordinal = ordinals.iter().position(|&last| last < life.first).unwrap_or(ordinals.len());
            if ordinal == ordinals.len() {
                ordinals.push(life.last);
            } else {
                ordinals[ordinal] = life.last;
            }
            let buffer = BufferKey { backend: life.backend, bytes: class, ordinal };
            storages[i] = Some(Storage { buffer, bytes: life.bytes, first: life.first, last: life.last });
        }
        MemoryPlan { storages: storages.into_iter().flatten().collect(), values: self.values }
    }
}
