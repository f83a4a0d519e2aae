//! `minfer viz`.

use clap::Args;

use super::{ContextArgs, ModelArgs};

/// Show the graph of a model as a page in the browser, and run prompts through it live
///
/// The page shows the graph folded by layer and what each pass decides: who owns a node and why, what is fused, where values
/// lie. A prompt runs step by step, with the time and the figures of every node, the values of any node, the most probable
/// tokens; two settings are compared node by node. The page comes from a server that only this machine can reach, and asks
/// nobody else. Ctrl-C ends it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer viz smollm2-135m
  minfer viz model.gguf --port 9000 --no-open")]
pub(crate) struct VizArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Port to listen on; 0 for any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}
