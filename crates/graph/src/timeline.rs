//! What ran when, step by step, node by node and thread by thread, as a Chrome trace (opens in Perfetto).
//!
//! Nodes run as they always do; backends record spans while they run ([`Prepared::record_spans`](crate::Prepared)), and
//! after each step they are collected here. The last [`Timeline::MAX_EVENTS`] are kept.
//!
//! Format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::graph::NodeId;
use crate::op::OpKind;

/// Where an event is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// Whole steps, and their inputs and outputs.
    Steps,
    /// Nodes of a backend, one after the other.
    Nodes(Backend),
    /// What one thread of a backend had of a node; 0 is the thread that runs the step.
    Thread(Backend, u16),
}

/// What an event is about. Nodes are kept by number: looking each one up while a step runs would miss every cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A step, or a part of one.
    Step(Arc<str>),
    /// A node of a graph.
    Node(Arc<NodeNames>, NodeId),
}

/// Names and ops of a graph's nodes.
pub type NodeNames = Vec<(Arc<str>, OpKind)>;

impl What {
    /// The name of the step or node.
    pub fn name(&self) -> &str {
        match self {
            What::Step(name) => name,
            What::Node(names, id) => names.get(id.index()).map_or("", |(name, _)| name),
        }
    }

    /// The op of a node.
    pub fn op(&self) -> Option<OpKind> {
        match self {
            What::Step(_) => None,
            What::Node(names, id) => names.get(id.index()).map(|(_, op)| *op),
        }
    }
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it is drawn.
    pub track: Track,
    /// What took it.
    pub what: What,
    /// Nanoseconds from the start of the timeline to its own.
    pub start_ns: u64,
    /// How long it took, in nanoseconds.
    pub duration_ns: u64,
}

/// The last events of a context.
#[derive(Debug)]
pub struct Timeline {
    epoch: Instant,
    events: VecDeque<Event>,
    capacity: usize,
    n_dropped: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline::with_capacity(Self::MAX_EVENTS)
    }
}

impl Timeline {
    /// Events that are kept: about 50 MB, a few hundred decode steps of a model with 30 layers on four threads.
    pub const MAX_EVENTS: usize = 1 << 20;

    /// A timeline that begins now and keeps the last `capacity` events.
    pub fn with_capacity(capacity: usize) -> Self {
        Timeline { epoch: Instant::now(), events: VecDeque::new(), capacity, n_dropped: 0 }
    }

    /// Adds an event; the oldest one goes if there is no room.
    pub fn add(&mut self, track: Track, what: What, span: (Instant, Instant)) {
        if self.capacity == 0 {
            return;
        }
        if self.events.len() == self.capacity {
            self.events.pop_front();
            self.n_dropped += 1;
        }
        let since = |at: Instant| at.saturating_duration_since(self.epoch);
        let (start, end) = (since(span.0), since(span.1));
        let nanos = |d: Duration| d.as_nanos() as u64;
        let duration_ns = nanos(end.saturating_sub(start));
        self.events.push_back(Event { track, what, start_ns: nanos(start), duration_ns });
    }

    /// Events, in the order in which they were collected.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &Event> {
        self.events.iter()
    }

    /// How many events have been dropped because newer ones came.
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped
    }

    /// Writes the Chrome trace: a JSON object with an event a line.
    pub fn write_chrome(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped\":{}}},\"traceEvents\":[",
            self.n_dropped
        )?;
        let process = |name: &str| {
            format!(r#"{{"ph":"M","pid":1,"tid":0,"name":"process_name","args":{{"name":"{name}"}}}}"#)
        };
        write!(out, "{}", process("minfer"))?;
        let tracks: BTreeSet<Track> = self.events.iter().map(|e| e.track).collect();
        for (place, track) in tracks.iter().enumerate() {
            let (tid, name) = (track.tid(), track.name());
            write!(
                out,
                ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":\"{name}\"}}}}"
            )?;
            write!(
                out,
                ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{place}}}}}"
            )?;
        }
        for event in &self.events {
            write!(out, ",\n{}", event.line())?;
        }
        writeln!(out, "\n]}}")
    }
}

impl Track {
    /// A number of its own.
    fn tid(self) -> u32 {
        match self {
            Track::Steps => 1,
            Track::Nodes(backend) => 1000 * (u32::from(backend.id()) + 1),
            Track::Thread(backend, thread) => 1000 * (u32::from(backend.id()) + 1) + 1 + u32::from(thread),
        }
    }

    fn name(self) -> String {
        match self {
            Track::Steps => "steps".into(),
            Track::Nodes(backend) => format!("{} nodes", backend.name()),
            Track::Thread(backend, thread) => format!("{} thread {thread}", backend.name()),
        }
    }
}

impl Event {
    /// Times are microseconds with three decimals.
    fn line(&self) -> String {
        let micros = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
        let name = serde_json::Value::from(self.what.name());
        let category = self.what.op().map_or("step", OpKind::name);
        format!(
            r#"{{"ph":"X","pid":1,"tid":{},"ts":{},"dur":{},"name":{name},"cat":"{category}"}}"#,
            self.track.tid(),
            micros(self.start_ns),
            micros(self.duration_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_written_as_json() {
        let mut t = Timeline::with_capacity(3);
        let at = |us: u64| t.epoch + Duration::from_micros(us);
        let spans: Vec<_> = (0..5).map(|i| (at(10 * i), at(10 * i + 7))).collect();
        let tracks = [Track::Steps, Track::Nodes(Backend::CPU), Track::Thread(Backend::CPU, 1)];
        let names: Arc<NodeNames> =
            Arc::new((0..5).map(|i| (format!("node \"{i}\"").into(), OpKind::MatMul)).collect());
        for (i, span) in spans.into_iter().enumerate() {
            let what = match i {
                3 => What::Step("step".into()),
                _ => What::Node(names.clone(), NodeId(i as u32)),
            };
            t.add(tracks[i % 3], what, span);
        }
        assert_eq!((t.events().len(), t.n_dropped()), (3, 2));
        let mut text = Vec::new();
        t.write_chrome(&mut text).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let named = |name: &str| events.iter().find(|e| e["args"]["name"] == name).unwrap()["tid"].clone();
        assert_eq!(
            (named("steps"), named("cpu nodes"), named("cpu thread 1")),
            (1.into(), 1000.into(), 1002.into())
        );
        let last = events.last().unwrap();
        assert_eq!(
            (&last["name"], &last["ts"], &last["dur"]),
            (&"node \"4\"".into(), &40.0.into(), &7.0.into())
        );
        assert_eq!((&last["cat"], &last["tid"]), (&"MatMul".into(), &1000.into()));
        assert_eq!(json["otherData"]["dropped"], 2);
    }
}
