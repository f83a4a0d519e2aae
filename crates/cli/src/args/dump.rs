//! Graphs to look at.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Where these flags stand in the help.
const HEADING: &str = "Graphs";

/// Files that a graph is written to, built by the same passes as the one that runs.
#[derive(Args, Debug)]
pub(crate) struct DumpArgs {
    /// Write the graph of a step to a file, in the DOT language
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) dump_graph: Option<PathBuf>,
    /// The same as JSON
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) dump_graph_json: Option<PathBuf>,
    /// Which step
    #[arg(long, value_name = "STEP", default_value = "decode", help_heading = HEADING)]
    pub(crate) dump_graph_step: DumpStep,
}

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpStep {
    /// One token is generated
    Decode,
    /// A chunk of a prompt is read: --ubatch-size tokens, the last of which is answered
    Prefill,
}

impl DumpArgs {
    /// Whether there is anything to write.
    pub(crate) fn is_wanted(&self) -> bool {
        self.dump_graph.is_some() || self.dump_graph_json.is_some()
    }
}
