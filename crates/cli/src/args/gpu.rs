//! Which part of a model a GPU takes.

use clap::Args;
use minfer_engine::GpuLayers;

/// Where these flags stand in the help.
const HEADING: &str = "Running";

/// The flags of every command that may use a GPU.
#[derive(Args, Clone, Debug)]
pub(crate) struct GpuArgs {
    /// Layers that a GPU takes: so many, `all`, or `auto` for as many as fit into its memory (also -ngl)
    #[arg(long, value_name = "N", default_value = "auto", help_heading = HEADING)]
    pub(crate) gpu_layers: GpuLayers,
    /// The device to use, by a part of its name, as `minfer devices` shows it [default: the best GPU]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub(crate) device: Option<String>,
}
