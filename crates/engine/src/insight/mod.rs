//! What a page or a program asks of a model that it looks at: graphs of steps, memory, a run step by step, values.
//!
//! Everything goes through the passes and the steps of a real run; nothing here decides or computes on its own.

mod live;
mod picture;
mod stages;
mod stats;

pub use live::{
    Choice, KvFill, LiveEvent, LiveRun, LiveSettings, NodeReport, NodeValues, StepKind, StepReport,
    StepStart, Stopped, TopToken,
};
pub use picture::{HeatMap, Histogram};
pub use stages::{StepSize, StepSizeError, snapshot, stages};
pub use stats::Stats;
