//! Runs graphs: finds the prepared one for a step's params or makes it, fills inputs, runs split after split, copies what
//! crosses between backends, reads outputs.
//!
//! Everything before `execute` happens once per [`GraphParams`]; [`Counters`] prove it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::cache::ReuseCache;
use crate::compile::{CompileError, Compiled, GraphSource, compile};
use crate::driver::{Buffer, FaultAt, KernelFault, KvSpec, PrepareJob, Prepared, WeightSource, WeightUse};
use crate::graph::{ComputeGraph, DType, Node, NodeId, Shape};
use crate::memory::{Arena, BackendMemory, KvCache, Layout, located};
use crate::params::GraphParams;
use crate::profile::Profile;
use crate::registry::Registry;
use crate::timeline::{NodeNames, Timeline};
use crate::watch::Watch;

/// A step failed at a node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("node '{node}' ({op} on {backend}, operands {}): {fault}", show_operands(inputs))]
pub struct RunError {
    /// Name of the node.
    pub node: String,
    /// Name of its op.
    pub op: &'static str,
    /// Who ran it.
    pub backend: Backend,
    /// Its operands.
    pub inputs: Vec<(DType, Shape)>,
    /// What went wrong.
    pub fault: KernelFault,
}

fn show_operands(inputs: &[(DType, Shape)]) -> String {
    let shown: Vec<_> = inputs.iter().map(|(t, s)| format!("{}{s:?}", t.name())).collect();
    shown.join(" ")
}

/// A step failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StepError {
    /// Before anything ran.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// An input that the graph has was not given, or has another size.
    #[error("input '{name}': {reason}")]
    Input {
        /// Name of the input node.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// At a node.
    #[error("{0}")]
    Run(Box<RunError>),
    /// Between nodes: memory, copies.
    #[error(transparent)]
    Memory(#[from] KernelFault),
}

/// The value of an input for one step.
#[derive(Clone, Copy, Debug)]
pub enum InputData<'a> {
    /// Integers: ids, positions, slots, tables.
    I32(&'a [i32]),
    /// Activations.
    F32(&'a [f32]),
}

/// An input by name, in the order in which the graph declares its inputs.
pub type NamedInput<'a> = (&'a str, InputData<'a>);

/// How often each stage has happened; equal before and after a step that reused everything but execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Graphs described, assigned, fused.
    pub built: u64,
    /// Memory plans made.
    pub planned: u64,
    /// Splits prepared by their backends.
    pub prepared: u64,
    /// Steps run.
    pub executed: u64,
}

/// Sees values while a step runs node by node.
pub trait Observer {
    /// Whether this node's value is wanted.
    fn wants(&self, node: &Node) -> bool;

    /// The value of a node as raw little-endian elements.
    fn value(&mut self, node: &Node, bytes: &[u8]);

    /// A node has run, and how long it took; comes before its value.
    fn ran(&mut self, node: &Node, time: Duration) {
        let _ = (node, time);
    }
}

/// A buffer and a byte offset in it.
type Location = (Arc<dyn Buffer>, usize);

struct Crossing {
    id: NodeId,
    from: Location,
    to: Location,
    bytes: usize,
}

struct ReadySplit {
    /// Each node with the place of its value, if it has one.
    nodes: Vec<(NodeId, Option<Location>)>,
    crossings: Vec<Crossing>,
    prepared: Box<dyn Prepared>,
}

struct Slot {
    id: NodeId,
    name: Arc<str>,
    dtype: DType,
    n_elems: usize,
    at: Location,
}

struct Ready {
    compiled: Compiled,
    splits: Vec<ReadySplit>,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    /// For a timeline, once one is kept.
    names: Option<Arc<NodeNames>>,
}

/// Called once for each graph that is made, with every decision in it.
pub type CompiledHook = Box<dyn FnMut(&Compiled) + Send>;

/// A kernel that a graph runs, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelUse {
    /// Whose it is.
    pub backend: Backend,
    /// Its name.
    pub kernel: String,
    /// How often it runs in a step.
    pub count: usize,
}

/// Called once for each graph that is made ready, with the kernels that its backends chose, as far as they say.
pub type PreparedHook = Box<dyn FnMut(&[KernelUse]) + Send>;

/// Runs the graphs of one context.
pub struct Scheduler {
    registry: Registry,
    weights: Arc<dyn WeightSource>,
    kv: KvCache,
    arena: Arena,
    cache: ReuseCache<Ready>,
    /// Bytes on their way between a device and the host.
    staging: Vec<u8>,
    counters: Counters,
    profile: Option<Profile>,
    timeline: Option<Timeline>,
    hook: Option<CompiledHook>,
    prepared_hook: Option<PreparedHook>,
}

/// Graphs kept ready: a few decode batch sizes and prefill chunks.
pub const CACHED_GRAPHS: usize = 32;

impl Scheduler {
    /// A scheduler for a model's weights and a context's KV geometry, one spec a layer.
    pub fn new(registry: Registry, weights: Arc<dyn WeightSource>, kv: Vec<KvSpec>) -> Self {
        Scheduler {
            registry,
            weights,
            kv: KvCache::new(kv),
            arena: Arena::default(),
            cache: ReuseCache::new(CACHED_GRAPHS),
            staging: Vec::new(),
            counters: Counters::default(),
            profile: None,
            timeline: None,
            hook: None,
            prepared_hook: None,
        }
    }

    /// Calls `hook` with every graph that is made from now on.
    pub fn on_compiled(&mut self, hook: CompiledHook) {
        self.hook = Some(hook);
    }

    /// Calls `hook` with the kernels of every graph that is made ready from now on.
    pub fn on_prepared(&mut self, hook: PreparedHook) {
        self.prepared_hook = Some(hook);
    }

    /// Runs node by node from now on and adds up the time of each op.
    pub fn enable_profile(&mut self) {
        self.profile.get_or_insert_default();
    }

    /// Times so far, if they are taken.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// Keeps from now on what ran when; nodes run as they always do.
    pub fn enable_timeline(&mut self) {
        self.timeline.get_or_insert_default();
    }

    /// Puts a timeline in the place of the present one, or none; gives the one that was there.
    pub fn set_timeline(&mut self, timeline: Option<Timeline>) -> Option<Timeline> {
        std::mem::replace(&mut self.timeline, timeline)
    }

    /// What ran when, if it is kept.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// How often each stage has happened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The KV cache.
    pub fn kv(&self) -> &KvCache {
        &self.kv
    }

    /// Copies one block of the KV cache to another, in every layer.
    pub fn copy_kv_block(&mut self, from: u32, to: u32) -> Result<(), KernelFault> {
        self.kv.copy_block(from as usize, to as usize, &self.registry)
    }

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Makes room for the values of graphs up to this size, so that the arena is one piece; `limit` is what all backends'
    /// arenas together may grow to.
    pub fn reserve_arena(
        &mut self,
        sizes: &[(Backend, usize)],
        limit: Option<usize>,
    ) -> Result<(), StepError> {
        if let Some(limit) = limit {
            self.arena.set_limit(limit);
        }
        for (backend, bytes) in sizes {
            self.arena.reserve(*backend, *bytes, &self.registry)?;
        }
        Ok(())
    }

    /// Bytes of node values held on `backend`.
    pub fn arena_bytes(&self, backend: Backend) -> usize {
        self.arena.bytes(backend)
    }

    /// Puts `driver` in the place of the backend's own, for graphs from now on.
    #[cfg(any(test, feature = "testing"))]
    pub fn replace_driver(&mut self, driver: Arc<dyn crate::BackendDriver>) {
        self.registry.register(driver);
        self.cache.clear();
    }

    /// Forgets every prepared graph, so that the next step builds anew.
    pub fn forget_graphs(&mut self) {
        self.cache.clear();
    }

    /// Makes the graph of `params` ready without running it, loading its weights; `progress` sees weights done and all.
    pub fn warm(
        &mut self,
        source: &dyn GraphSource,
        params: &GraphParams,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), StepError> {
        if !self.cache.contains(params) {
            let ready = self.make_ready(source, params, progress)?;
            self.cache.insert(*params, ready);
        }
        Ok(())
    }

    /// Runs one step. `inputs` come in the order in which the graph declares them; the first output is read into `out`,
    /// which must have its size.
    pub fn step(
        &mut self,
        source: &dyn GraphSource,
        params: &GraphParams,
        inputs: &[NamedInput<'_>],
        out: &mut [f32],
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), StepError> {
        self.warm(source, params, &mut |_, _| {})?;
        let Some(ready) = self.cache.get(params) else {
            return Err(KernelFault::Bug("a graph left the cache while it was needed".into()).into());
        };
        let start = Instant::now();
        ready.fill(inputs)?;
        let filled = Instant::now();
        let (profile, timeline) = (self.profile.as_mut(), self.timeline.as_mut());
        let mut watch = Watch { observer, profile, timeline, inputs };
        ready.run(&mut watch, &mut self.staging)?;
        let ran = Instant::now();
        ready.read(out, &mut self.staging)?;
        watch.step_ran(params, start, filled, ran);
        self.counters.executed += 1;
        Ok(())
    }

    /// The decisions made for `params`, if its graph is ready.
    pub fn compiled(&mut self, params: &GraphParams) -> Option<&Compiled> {
        self.cache.get(params).map(|r| &r.compiled)
    }

    fn make_ready(
        &mut self,
        source: &dyn GraphSource,
        params: &GraphParams,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Ready, StepError> {
        let compiled = compile(source, params, &self.registry, &mut |_, _| {})?;
        self.counters.built += 1;
        self.counters.planned += 1;
        if let Some(hook) = &mut self.hook {
            hook(&compiled);
        }
        let layout = self.arena.lay_out(&compiled.plan, &self.registry)?;
        self.reserve_kv(&compiled.graph)?;
        self.load_weights(&compiled, progress)?;
        let splits = self.prepare(&compiled, &layout)?;
        if let Some(hook) = &mut self.prepared_hook {
            hook(&kernel_uses(&compiled, &splits));
        }
        let places = Places { compiled: &compiled, layout: &layout };
        let slots = |ids: &[NodeId]| ids.iter().map(|id| places.slot(*id)).collect::<Result<_, _>>();
        let (inputs, outputs) = (slots(&compiled.graph.inputs)?, slots(&compiled.graph.outputs)?);
        Ok(Ready { compiled, splits, inputs, outputs, names: None })
    }

    fn reserve_kv(&mut self, graph: &ComputeGraph) -> Result<(), StepError> {
        for node in &graph.nodes {
            if let (Some(layer), Some(backend)) = (node.op.kv_layer(), node.backend) {
                let reserved = self.kv.reserve(layer, backend, &self.registry);
                reserved.map_err(|fault| run_error(node, graph, fault))?;
            }
        }
        Ok(())
    }

    fn load_weights(
        &self,
        compiled: &Compiled,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), StepError> {
        let nodes: Vec<&Node> =
            compiled.splits.iter().flat_map(|s| &s.nodes).map(|id| compiled.graph.node(*id)).collect();
        let total = nodes.iter().map(|n| n.meta.weights.len()).sum();
        let mut done = 0;
        for node in nodes {
            let driver = node.backend.and_then(|b| self.registry.driver(b));
            for (index, weight) in node.meta.weights.iter().enumerate() {
                if let Some(driver) = driver {
                    let usage = WeightUse { name: &weight.name, op: &node.op, index };
                    driver
                        .load_weight(usage, self.weights.as_ref())
                        .map_err(|fault| run_error(node, &compiled.graph, fault))?;
                }
                done += 1;
                progress(done, total);
            }
        }
        Ok(())
    }

    fn prepare(&mut self, compiled: &Compiled, layout: &Layout) -> Result<Vec<ReadySplit>, StepError> {
        let places = Places { compiled, layout };
        let mut ready = Vec::with_capacity(compiled.splits.len());
        for split in &compiled.splits {
            let memory = BackendMemory { backend: split.backend, plan: &compiled.plan, layout, kv: &self.kv };
            let job = PrepareJob {
                graph: &compiled.graph,
                nodes: &split.nodes,
                memory: &memory,
                weights: self.weights.as_ref(),
                kv: self.kv.specs(),
            };
            let driver = self.registry.driver(split.backend);
            let driver =
                driver.ok_or_else(|| KernelFault::Bug(format!("{} is not registered", split.backend)))?;
            let prepared = driver.prepare(&job)?;
            self.counters.prepared += 1;
            let crossings = split.copies.iter().map(|id| places.crossing(*id, split.backend));
            ready.push(ReadySplit {
                nodes: split
                    .nodes
                    .iter()
                    .map(|id| (*id, places.located(*id, Some(split.backend)).ok()))
                    .collect(),
                crossings: crossings.collect::<Result<_, _>>()?,
                prepared,
            });
        }
        Ok(ready)
    }
}

/// The kernels of all splits, by backend and name.
fn kernel_uses(compiled: &Compiled, splits: &[ReadySplit]) -> Vec<KernelUse> {
    let mut uses: BTreeMap<(Backend, String), usize> = BTreeMap::new();
    for (split, ready) in compiled.splits.iter().zip(splits) {
        for kernel in ready.prepared.kernels() {
            *uses.entry((split.backend, kernel)).or_default() += 1;
        }
    }
    uses.into_iter().map(|((backend, kernel), count)| KernelUse { backend, kernel, count }).collect()
}

/// Finds values of a graph that has been laid out.
struct Places<'a> {
    compiled: &'a Compiled,
    layout: &'a Layout,
}

impl Places<'_> {
    fn crossing(&self, id: NodeId, to: Backend) -> Result<Crossing, KernelFault> {
        let node = self.compiled.graph.node(id);
        Ok(Crossing {
            id,
            from: self.located(id, node.backend)?,
            to: self.located(id, Some(to))?,
            bytes: node.out_bytes(),
        })
    }

    fn slot(&self, id: NodeId) -> Result<Slot, KernelFault> {
        let node = self.compiled.graph.node(id);
        Ok(Slot {
            id,
            name: node.name.clone(),
            dtype: node.out_dtype,
            n_elems: node.n_elems(),
            at: self.located(id, node.backend)?,
        })
    }

    fn located(&self, id: NodeId, backend: Option<Backend>) -> Result<Location, KernelFault> {
        let place = backend.and_then(|b| located(&self.compiled.plan, self.layout, id, b));
        place.ok_or_else(|| KernelFault::Bug(format!("node {} has no memory", id.0)))
    }
}

impl Ready {
    fn fill(&mut self, inputs: &[NamedInput<'_>]) -> Result<(), StepError> {
        if inputs.len() != self.inputs.len() {
            let reason = format!("the graph has {} inputs, {} were given", self.inputs.len(), inputs.len());
            return Err(StepError::Input { name: String::new(), reason });
        }
        for (slot, (name, data)) in self.inputs.iter().zip(inputs) {
            fill_one(slot, name, data).map_err(|e| self.at(slot.id, e))?;
        }
        Ok(())
    }

    /// A fault between nodes, known to be of the value of `id`.
    fn at(&self, id: NodeId, error: StepError) -> StepError {
        match error {
            StepError::Memory(fault) => self.error(FaultAt { node: id, fault }),
            other => other,
        }
    }

    fn run(&mut self, watch: &mut Watch<'_, '_>, staging: &mut Vec<u8>) -> Result<(), StepError> {
        for i in 0..self.splits.len() {
            self.cross(i, staging)?;
            self.splits[i].prepared.record_spans(watch.timeline.is_some());
            if !watch.wants_nodes() {
                let done = self.splits[i].prepared.execute();
                done.map_err(|at| self.error(at))?;
                self.collect(i, watch);
                continue;
            }
            for n in 0..self.splits[i].nodes.len() {
                let start = Instant::now();
                let done = self.splits[i].prepared.execute_node(n);
                done.map_err(|at| self.error(at))?;
                let (id, location) = &self.splits[i].nodes[n];
                let node = self.compiled.graph.node(*id);
                let time = start.elapsed();
                watch.node_ran(&self.compiled.graph, &self.compiled.params, node, time);
                if let Some(observer) = &mut watch.observer {
                    observer.ran(node, time);
                    observe(node, location.as_ref(), *observer)?;
                }
            }
            self.collect(i, watch);
        }
        Ok(())
    }

    fn collect(&mut self, split: usize, watch: &mut Watch<'_, '_>) {
        if watch.timeline.is_none() {
            return;
        }
        let nodes = &self.compiled.graph.nodes;
        let names = self.names.get_or_insert_with(|| {
            Arc::new(nodes.iter().map(|node| (node.name.clone(), node.op.kind())).collect())
        });
        let backend = self.compiled.splits[split].backend;
        watch.split_ran(names, backend, self.splits[split].prepared.as_mut());
    }

    fn cross(&self, split: usize, staging: &mut Vec<u8>) -> Result<(), StepError> {
        for c in &self.splits[split].crossings {
            staging.resize(c.bytes, 0);
            let copied = c.from.0.read(c.from.1, staging).and_then(|()| c.to.0.write(c.to.1, staging));
            copied.map_err(|fault| self.error(FaultAt { node: c.id, fault }))?;
        }
        Ok(())
    }

    fn read(&self, out: &mut [f32], staging: &mut Vec<u8>) -> Result<(), StepError> {
        let Some(slot) = self.outputs.first() else { return Ok(()) };
        if slot.n_elems != out.len() {
            let reason = format!("has {} elements, {} were asked for", slot.n_elems, out.len());
            return Err(StepError::Input { name: slot.name.to_string(), reason });
        }
        read_f32(&slot.at, out, staging).map_err(|fault| self.error(FaultAt { node: slot.id, fault }))
    }

    fn error(&self, at: FaultAt) -> StepError {
        run_error(self.compiled.graph.node(at.node), &self.compiled.graph, at.fault)
    }
}

fn fill_one(slot: &Slot, name: &str, data: &InputData<'_>) -> Result<(), StepError> {
    let refuse = |reason| Err(StepError::Input { name: slot.name.to_string(), reason });
    if *slot.name != *name {
        return refuse(format!("'{name}' was given in its place"));
    }
    let (dtype, len) = match data {
        InputData::I32(v) => (DType::I32, v.len()),
        InputData::F32(v) => (DType::F32, v.len()),
    };
    if dtype != slot.dtype || len != slot.n_elems {
        let (want, have) = (slot.dtype.name(), dtype.name());
        return refuse(format!("takes {} of {want}, was given {len} of {have}", slot.n_elems));
    }
    match data {
        InputData::I32(v) => write_words(&slot.at, v.iter().map(|x| x.to_le_bytes())),
        InputData::F32(v) => write_words(&slot.at, v.iter().map(|x| x.to_le_bytes())),
    }
    .map_err(StepError::from)
}

/// Writes words through a block on the stack, so that a step allocates nothing.
fn write_words(at: &Location, words: impl ExactSizeIterator<Item = [u8; 4]>) -> Result<(), KernelFault> {
    let mut block = [0u8; 4096];
    let (mut used, mut offset) = (0, at.1);
    for word in words {
        block[used..used + 4].copy_from_slice(&word);
        used += 4;
        if used == block.len() {
            at.0.write(offset, &block)?;
            offset += used;
            used = 0;
        }
    }
    at.0.write(offset, &block[..used])
}

/// Values that are read at once: staging must not be as large as the logits of a long step.
const STAGED_ELEMS: usize = 1 << 18;

fn read_f32(at: &Location, out: &mut [f32], staging: &mut Vec<u8>) -> Result<(), KernelFault> {
    for (i, out) in out.chunks_mut(STAGED_ELEMS).enumerate() {
        staging.resize(out.len() * 4, 0);
        at.0.read(at.1 + i * STAGED_ELEMS * 4, staging)?;
        for (x, bytes) in out.iter_mut().zip(staging.chunks_exact(4)) {
            *x = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
    }
    Ok(())
}

fn observe(node: &Node, at: Option<&Location>, observer: &mut dyn Observer) -> Result<(), KernelFault> {
    if let Some(at) = at.filter(|_| observer.wants(node)) {
        let mut bytes = vec![0; node.out_bytes()];
        at.0.read(at.1, &mut bytes)?;
        observer.value(node, &bytes);
    }
    Ok(())
}

fn run_error(node: &Node, graph: &ComputeGraph, fault: KernelFault) -> StepError {
    StepError::Run(Box::new(RunError {
        node: node.name.to_string(),
        op: node.op.kind().name(),
        backend: node.backend.unwrap_or(Backend::CPU),
        inputs: node.src.iter().map(|s| (graph.node(*s).out_dtype, graph.node(*s).out_shape)).collect(),
        fault,
    }))
}
