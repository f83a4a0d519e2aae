//! A graph that is ready to run: its values have places, its splits are prepared. A step fills its inputs, runs split after
//! split, copies what crosses between backends, and reads its outputs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::backend::Backend;
use crate::compile::Compiled;
use crate::driver::{Buffer, FaultAt, KernelFault, PrepareJob, Prepared, WeightSource};
use crate::graph::{ComputeGraph, DType, Node, NodeId};
use crate::memory::{BackendMemory, KvCache, Layout, located};
use crate::registry::Registry;
use crate::schedule::{InputData, KernelUse, NamedInput, Observer, RunError, StepError};
use crate::split::Split;
use crate::timeline::NodeNames;
use crate::watch::Watch;

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

/// A graph with everything that running it takes.
pub(crate) struct Ready {
    compiled: Compiled,
    splits: Vec<ReadySplit>,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    /// For a timeline, once one is kept.
    names: Option<Arc<NodeNames>>,
}

/// What graphs are prepared with.
pub(crate) struct Parts<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) weights: &'a dyn WeightSource,
    pub(crate) kv: &'a KvCache,
}

impl Ready {
    /// Has every split prepared by its backend; weights are loaded, regions of the cache are there.
    pub(crate) fn prepare(
        compiled: Compiled,
        layout: &Layout,
        parts: &Parts<'_>,
    ) -> Result<Ready, StepError> {
        let places = Places { compiled: &compiled, layout };
        let splits = compiled.splits.iter().map(|split| prepare_split(&places, split, parts));
        let splits = splits.collect::<Result<_, _>>()?;
        let slots = |ids: &[NodeId]| ids.iter().map(|id| places.slot(*id)).collect::<Result<_, _>>();
        let (inputs, outputs) = (slots(&compiled.graph.inputs)?, slots(&compiled.graph.outputs)?);
        Ok(Ready { compiled, splits, inputs, outputs, names: None })
    }

    /// The decisions it was made by.
    pub(crate) fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The kernels of all splits, by backend and name.
    pub(crate) fn kernel_uses(&self) -> Vec<KernelUse> {
        let mut uses: BTreeMap<(Backend, String), usize> = BTreeMap::new();
        for (split, ready) in self.compiled.splits.iter().zip(&self.splits) {
            for kernel in ready.prepared.kernels() {
                *uses.entry((split.backend, kernel)).or_default() += 1;
            }
        }
        uses.into_iter().map(|((backend, kernel), count)| KernelUse { backend, kernel, count }).collect()
    }

    /// Writes the inputs, which come in the order in which the graph declares them.
    pub(crate) fn fill(&mut self, inputs: &[NamedInput<'_>]) -> Result<(), StepError> {
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

    /// Runs every node. `staging` holds bytes on their way between a device and the host.
    pub(crate) fn run(&mut self, watch: &mut Watch<'_, '_>, staging: &mut Vec<u8>) -> Result<(), StepError> {
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

    /// Reads the first output into `out`, which must have its size.
    pub(crate) fn read(&self, out: &mut [f32], staging: &mut Vec<u8>) -> Result<(), StepError> {
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

fn prepare_split(places: &Places<'_>, split: &Split, parts: &Parts<'_>) -> Result<ReadySplit, StepError> {
    let Places { compiled, layout } = places;
    let memory = BackendMemory { backend: split.backend, plan: &compiled.plan, layout, kv: parts.kv };
    let job = PrepareJob {
        graph: &compiled.graph,
        nodes: &split.nodes,
        gtype: compiled.params.gtype,
        memory: &memory,
        weights: parts.weights,
        kv: parts.kv.specs(),
    };
    let driver = parts.registry.driver(split.backend);
    let driver = driver.ok_or_else(|| KernelFault::Bug(format!("{} is not registered", split.backend)))?;
    let prepared = driver.prepare(&job)?;
    let crossings = split.copies.iter().map(|id| places.crossing(*id, split.backend));
    Ok(ReadySplit {
        nodes: split.nodes.iter().map(|id| (*id, places.located(*id, Some(split.backend)).ok())).collect(),
        crossings: crossings.collect::<Result<_, _>>()?,
        prepared,
    })
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
        for (x, bytes) in out.iter_mut().zip(staging.as_chunks().0) {
            *x = f32::from_le_bytes(*bytes);
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

/// That a node failed.
pub(crate) fn run_error(node: &Node, graph: &ComputeGraph, fault: KernelFault) -> StepError {
    StepError::Run(Box::new(RunError {
        node: node.name.to_string(),
        op: node.op.kind().name(),
        backend: node.backend.unwrap_or(Backend::CPU),
        inputs: node.src.iter().map(|s| (graph.node(*s).out_dtype, graph.node(*s).out_shape)).collect(),
        fault,
    }))
}
