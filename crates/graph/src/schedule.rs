//! Runs graphs: finds the prepared one for a step's params, or makes it, and runs it.
//!
//! Everything before `execute` happens once per [`GraphParams`]; [`Counters`] prove it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::cache::ReuseCache;
use crate::compile::{CompileError, Compiled, GraphSource, LargestValue, compile};
use crate::driver::{KernelFault, KvSpec, WeightSource, WeightUse};
use crate::graph::{ComputeGraph, DType, Node, Shape};
use crate::memory::{Arena, KvCache, NoRoom};
use crate::op::WeightRef;
use crate::params::GraphParams;
use crate::profile::Profile;
use crate::ready::{Parts, Ready, run_error};
use crate::registry::Registry;
use crate::timeline::Timeline;
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
    /// There is no memory for the values of all nodes together, which lie in one piece.
    #[error("{}", no_room(*.backend, .largest.as_ref(), .fault))]
    Values {
        /// Whose memory.
        backend: Backend,
        /// The largest of them, where the graph is known.
        largest: Option<LargestValue>,
        /// What was asked for, and what was said.
        fault: KernelFault,
    },
    /// Between nodes: memory, copies.
    #[error(transparent)]
    Memory(#[from] KernelFault),
}

fn no_room(backend: Backend, largest: Option<&LargestValue>, fault: &KernelFault) -> String {
    let largest = largest.map_or_else(String::new, |value| {
        format!(
            ", the largest of which is that of node '{}' ({}) with {} bytes",
            value.node,
            value.op.name(),
            value.bytes
        )
    });
    format!(
        "the values of all nodes on {backend}{largest}: {fault}; fewer tokens in a step (--ubatch-size), fewer sequences or \
         fewer layers there take less"
    )
}

impl StepError {
    /// The same, knowing the largest value of the graphs that memory was asked for.
    #[must_use]
    pub fn naming(self, largest: impl FnOnce(Backend) -> Option<LargestValue>) -> StepError {
        match self {
            StepError::Values { backend, largest: None, fault } => {
                StepError::Values { backend, largest: largest(backend), fault }
            }
            other => other,
        }
    }
}

impl From<NoRoom> for StepError {
    fn from(NoRoom { backend, fault }: NoRoom) -> StepError {
        match fault {
            KernelFault::OutOfMemory { .. } => StepError::Values { backend, largest: None, fault },
            other => StepError::Memory(other),
        }
    }
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

    /// Puts a profile in the place of the present one, or none; gives the one that was there.
    pub fn set_profile(&mut self, profile: Option<Profile>) -> Option<Profile> {
        std::mem::replace(&mut self.profile, profile)
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
        self.cache.get(params).map(|ready| ready.compiled())
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
        let layout = self.arena.lay_out(&compiled.plan, &self.registry);
        let layout =
            layout.map_err(|e| StepError::from(e).naming(|backend| compiled.largest_value(backend)))?;
        self.reserve_kv(&compiled.graph)?;
        self.load_weights(&compiled, progress)?;
        let parts = Parts { registry: &self.registry, weights: self.weights.as_ref(), kv: &self.kv };
        let ready = Ready::prepare(compiled, &layout, &parts)?;
        self.counters.prepared += ready.compiled().splits.len() as u64;
        if let Some(hook) = &mut self.prepared_hook {
            hook(&ready.kernel_uses());
        }
        Ok(ready)
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
        for driver in self.registry.drivers() {
            driver.expect_weights(&compiled.weights_of(driver.backend()), self.weights.as_ref());
        }
        let nodes: Vec<&Node> =
            compiled.splits.iter().flat_map(|s| &s.nodes).map(|id| compiled.graph.node(*id)).collect();
        for driver in self.registry.drivers() {
            driver.begin_loading(&uses(&nodes, driver.backend()), self.weights.as_ref());
        }
        let loaded = self.load_each(&nodes, &compiled.graph, progress);
        // After an error, too: what a backend began for it is not left open.
        self.registry.drivers().iter().for_each(|driver| driver.end_loading());
        loaded
    }

    fn load_each(
        &self,
        nodes: &[&Node],
        graph: &ComputeGraph,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), StepError> {
        let total = nodes.iter().map(|n| n.meta.weights.len()).sum();
        let mut done = 0;
        for node in nodes {
            let driver = node.backend.and_then(|b| self.registry.driver(b));
            for (index, weight) in node.meta.weights.iter().enumerate() {
                if let Some(driver) = driver {
                    let usage = WeightUse { name: &weight.name, op: &node.op, index };
                    driver
                        .load_weight(usage, self.weights.as_ref())
                        .map_err(|fault| run_error(node, graph, fault))?;
                }
                done += 1;
                progress(done, total);
            }
        }
        Ok(())
    }
}

/// The weights that `backend` reads for these nodes, in order.
fn uses<'a>(nodes: &[&'a Node], backend: Backend) -> Vec<(WeightUse<'a>, &'a WeightRef)> {
    let mine = nodes.iter().filter(|node| node.backend == Some(backend));
    mine.flat_map(|node| {
        let weights = node.meta.weights.iter().enumerate();
        weights.map(|(index, weight)| (WeightUse { name: &weight.name, op: &node.op, index }, weight))
    })
    .collect()
}
