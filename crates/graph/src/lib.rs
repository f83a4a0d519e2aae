//! The compute graph and everything that happens to it before hardware.
//!
//! A model *describes* a forward step with [`GraphBuilder`]; [`compile`] gives every node to a backend, folds patterns,
//! cuts splits and plans memory; [`Scheduler`] prepares the result once for each [`GraphParams`] and runs it again and
//! again. What a backend must provide is [`BackendDriver`].
//!
//! Nothing here knows a model, a kernel or a device.

#![forbid(unsafe_code)]

mod assign;
mod backend;
mod builder;
mod cache;
mod compile;
mod driver;
pub mod export;
mod fuse;
mod graph;
mod memory;
mod op;
mod params;
mod plan;
mod profile;
mod ready;
mod registry;
mod rope;
mod schedule;
pub mod shape;
mod split;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timeline;
mod verify;
mod watch;
mod work;

pub use assign::{AssignError, Policy, Reason, assign};
pub use backend::{Backend, BackendSet};
pub use builder::{BuildError, GraphBuilder};
pub use cache::ReuseCache;
pub use compile::{CompileError, Compiled, GraphSource, LargestValue, compile};
pub use driver::{
    AttnSpan, BackendDriver, Buffer, FaultAt, InPlace, JobMemory, KernelFault, KvSpec, LoadNote, PrepareJob,
    Prepared, Support, TimeSpan, WeightBytes, WeightData, WeightSource, WeightUse, kernel_dtypes,
};
pub use fuse::{FusionRecord, Match, RULES, Rule, fuse};
pub use graph::{ComputeGraph, DType, Node, NodeId, NodeMeta, Shape};
pub use memory::{Arena, KvCache, Layout, NoRoom};
pub use op::{AttnSpec, KvPart, Op, OpKind, QkvDims, RopeScaling, RopeSpec, RopeStyle, WeightRef};
pub use params::{CParams, GpuOffload, GraphParams, GraphType, Head, KvType};
pub use plan::{BufferKey, MemoryPlan, Placement, Storage, plan, size_class};
pub use profile::{MachineLimits, OpTime, Profile};
pub use registry::{Registry, RequestError, Unusable};
pub use rope::{RopeError, RopeFrequencies};
pub use schedule::{
    CACHED_GRAPHS, CompiledHook, Counters, InputData, KernelUse, NamedInput, Observer, PreparedHook,
    RunError, Scheduler, StepError,
};
pub use split::{Split, split};
pub use timeline::{Event, NodeNames, Timeline, Track, What};
pub use verify::{ParamsError, Stage, VerifyError, Violation, verify, verify_plan};
pub use work::{Seen, Work, work};
