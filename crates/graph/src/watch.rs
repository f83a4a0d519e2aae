//! What looks on while a step runs: an observer of values, a profile, a timeline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::driver::Prepared;
use crate::graph::{ComputeGraph, Node};
use crate::op::Op;
use crate::params::{GraphParams, GraphType};
use crate::profile::Profile;
use crate::schedule::{InputData, NamedInput, Observer};
use crate::timeline::{NodeNames, Timeline, Track, What};
use crate::work::{Seen, work};

/// Everything that looks on during one step.
pub(crate) struct Watch<'a, 'o> {
    pub(crate) observer: Option<&'o mut (dyn Observer + 'o)>,
    pub(crate) profile: Option<&'a mut Profile>,
    pub(crate) timeline: Option<&'a mut Timeline>,
    /// The inputs of the step.
    pub(crate) inputs: &'a [NamedInput<'a>],
}

impl Watch<'_, '_> {
    /// Whether nodes have to run one by one.
    pub(crate) fn wants_nodes(&self) -> bool {
        self.observer.is_some() || self.profile.is_some()
    }

    /// A node has run for `time`.
    pub(crate) fn node_ran(
        &mut self,
        graph: &ComputeGraph,
        params: &GraphParams,
        node: &Node,
        time: Duration,
    ) {
        let Some(profile) = &mut self.profile else { return };
        let seen =
            if matches!(node.op, Op::Attn(_)) { seen(graph, node, self.inputs) } else { Seen::default() };
        profile.add(node, time, work(graph, node, params.cparams.kv_type, seen));
    }

    /// Spans of a split that has run.
    pub(crate) fn split_ran(
        &mut self,
        names: &Arc<NodeNames>,
        backend: Backend,
        prepared: &mut dyn Prepared,
    ) {
        let Some(timeline) = &mut self.timeline else { return };
        prepared.take_spans(&mut |span| {
            let track = span.thread.map_or(Track::Nodes(backend), |thread| Track::Thread(backend, thread));
            timeline.add(track, What::Node(names.clone(), span.node), (span.start, span.end));
        });
    }

    /// The whole step has run: inputs were there at `filled`, outputs were to be read from `ran` on.
    pub(crate) fn step_ran(&mut self, params: &GraphParams, start: Instant, filled: Instant, ran: Instant) {
        let end = Instant::now();
        if let Some(profile) = &mut self.profile {
            profile.add_step(end - start, (filled - start) + (end - ran));
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.add(Track::Steps, What::Step(step_name(params)), (start, end));
            timeline.add(Track::Steps, What::Step("inputs".into()), (start, filled));
            timeline.add(Track::Steps, What::Step("outputs".into()), (ran, end));
        }
    }
}

/// `prefill of 512 tokens`.
fn step_name(params: &GraphParams) -> Arc<str> {
    let kind = match params.gtype {
        GraphType::Prefill => "prefill",
        GraphType::Decode => "decode",
    };
    let unit = if params.n_tokens == 1 { "token" } else { "tokens" };
    format!("{kind} of {} {unit}", params.n_tokens).into()
}

/// How much of the cache an attention sees, from the inputs that bound it.
fn seen(graph: &ComputeGraph, node: &Node, inputs: &[NamedInput<'_>]) -> Seen {
    let ints = |source: usize| -> Option<&[i32]> {
        let id = node.src.get(source)?;
        let place = graph.inputs.iter().position(|input| input == id)?;
        match inputs.get(place)?.1 {
            InputData::I32(values) => Some(values),
            InputData::F32(_) => None,
        }
    };
    // Sources of an attention: query, keys, values, block table, sequence of each row, positions it sees.
    match (ints(4), ints(5)) {
        (Some(rows), Some(lens)) => Seen::of(rows, lens),
        _ => Seen::default(),
    }
}
