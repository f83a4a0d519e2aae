//! What looks on while a step of a run goes node by node.

use std::time::{Duration, Instant};

use minfer_graph::{DType, Node, Observer};

use super::{LiveEvent, NodeReport};
use crate::insight::stats::Stats;

/// A viewer gets nodes in bundles, one at least so often.
const BUNDLE: Duration = Duration::from_millis(40);

/// Sums every node up and hands the reports on in bundles.
pub(super) struct Collect<'a> {
    sink: &'a mut dyn FnMut(LiveEvent),
    nodes: Vec<NodeReport>,
    flushed: Instant,
}

impl<'a> Collect<'a> {
    pub(super) fn new(sink: &'a mut dyn FnMut(LiveEvent)) -> Self {
        Collect { sink, nodes: Vec::new(), flushed: Instant::now() }
    }

    /// Hands on what is there.
    pub(super) fn flush(&mut self) {
        if !self.nodes.is_empty() {
            (self.sink)(LiveEvent::Nodes(std::mem::take(&mut self.nodes)));
        }
        self.flushed = Instant::now();
    }
}

impl Observer for Collect<'_> {
    fn wants(&self, node: &Node) -> bool {
        node.out_dtype == DType::F32
    }

    fn ran(&mut self, node: &Node, time: Duration) {
        if self.flushed.elapsed() >= BUNDLE {
            self.flush();
        }
        self.nodes.push(NodeReport { name: node.name.clone(), time, stats: None });
    }

    fn value(&mut self, _: &Node, bytes: &[u8]) {
        if let Some(report) = self.nodes.last_mut() {
            report.stats = Some(Stats::of(floats(bytes)));
        }
    }
}

/// Keeps the value of one node.
pub(super) struct KeepOne<'a> {
    name: &'a str,
    value: Option<([usize; 4], Vec<f32>)>,
}

impl<'a> KeepOne<'a> {
    pub(super) fn new(name: &'a str) -> Self {
        KeepOne { name, value: None }
    }

    /// Its extents and numbers, if it came by.
    pub(super) fn into_value(self) -> Option<([usize; 4], Vec<f32>)> {
        self.value
    }
}

impl Observer for KeepOne<'_> {
    fn wants(&self, node: &Node) -> bool {
        node.out_dtype == DType::F32 && *node.name == *self.name
    }

    fn value(&mut self, node: &Node, bytes: &[u8]) {
        self.value = Some((node.out_shape, floats(bytes).collect()));
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b))
}
