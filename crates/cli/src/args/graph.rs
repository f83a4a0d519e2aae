//! `minfer graph`.

use clap::{Args, ValueEnum};
use minfer_engine::settings::{self, Settings};
use minfer_graph::Stage;

use super::ModelArgs;
use super::settings::{of_graph, of_graph_or_model};

/// Show the graph of a step, and why it is as it is
///
/// The graph goes through the passes of a real run (build, assign, fuse, plan) and is shown as one of them leaves it: what
/// each node computes from what, on which engine and why, where its value lies, and what became of every fusion
/// candidate. No weight is read and no memory is taken, so it may be the graph of a run that this machine has no room for.
/// The text has one node a line and is made to be compared.
///
/// With --diff, two graphs are compared: those of two settings, or of two models. Nodes are matched by name. The exit
/// code is 0 when the graphs are equal and 1 when they are not.
#[derive(Args, Debug)]
#[command(after_long_help = after_help())]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Tokens in the step, of all sequences together [default: one for each sequence, a decode step]
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one())]
    pub(crate) tokens: Option<usize>,
    /// Sequences that share the step
    #[arg(short = 's', long, value_name = "S", value_parser = at_least_one(), default_value = "1")]
    pub(crate) sequences: usize,
    /// Rows of logits that the step gives [default: one for each sequence]
    #[arg(short = 'r', long, value_name = "R")]
    pub(crate) out_rows: Option<usize>,
    /// The pass after which the graph is shown
    #[arg(long, value_name = "STAGE", value_enum, default_value_t = StageArg::Planned)]
    pub(crate) stage: StageArg,
    /// How it is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = GraphFormat::Text)]
    pub(crate) format: GraphFormat,
    /// Settings of the run; see below
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true, value_parser = of_graph)]
    pub(crate) set: Settings,
    /// Compare with the graph of other settings, or of another model
    #[arg(long, value_name = "SETTINGS|MODEL", value_parser = of_graph_or_model)]
    pub(crate) diff: Option<Settings>,
}

fn at_least_one() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..)
}

fn after_help() -> String {
    format!(
        "{}\n\nExamples:\n  minfer graph smollm2-135m\n  minfer graph model.gguf --tokens 512 --stage fused\n  \
         minfer graph model.gguf --diff fuse=off\n  minfer graph model.gguf --diff other.gguf\n  \
         minfer graph model.gguf --format dot | dot -Tsvg > graph.svg",
        settings::help(true)
    )
}

/// A pass, by what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StageArg {
    /// As the model describes it
    Built,
    /// Every node has an engine
    Assigned,
    /// Local patterns are folded
    Fused,
    /// Splits are cut and memory is placed
    Planned,
}

impl From<StageArg> for Stage {
    fn from(stage: StageArg) -> Stage {
        match stage {
            StageArg::Built => Stage::Built,
            StageArg::Assigned => Stage::Assigned,
            StageArg::Fused => Stage::Fused,
            StageArg::Planned => Stage::Planned,
        }
    }
}

/// How a graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// One node a line
    Text,
    /// The language of Graphviz
    Dot,
    /// JSON; docs/schemas/graph.schema.json describes it
    Json,
}
