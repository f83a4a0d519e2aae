//! Which part of a model a GPU takes.

use clap::Args;
use minfer_engine::GpuLayers;

/// Where these flags stand in the help.
const HEADING: &str = "Running";

/// The flags of every command that may use a GPU.
#[derive(Args, Clone, Debug)]
pub(crate) struct GpuArgs {
    /// Layers that a GPU takes: so many, `all`, or `auto` for as many as fit into its memory (also -ngl)
    #[arg(long, value_name = "N", value_parser = parse_layers, default_value = "auto", help_heading = HEADING)]
    pub(crate) gpu_layers: GpuLayers,
    /// The device to use, by a part of its name, as `minfer devices` shows it [default: the best GPU]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub(crate) device: Option<String>,
}

/// A number of layers that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number, 'all' or 'auto'")]
pub(crate) struct LayersError;

fn parse_layers(text: &str) -> Result<GpuLayers, LayersError> {
    match text {
        "auto" => Ok(GpuLayers::Auto),
        "all" => Ok(GpuLayers::Count(usize::MAX)),
        n => n.parse().map(GpuLayers::Count).map_err(|_| LayersError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_a_number_or_a_word() {
        assert_eq!(parse_layers("auto"), Ok(GpuLayers::Auto));
        assert_eq!(parse_layers("12"), Ok(GpuLayers::Count(12)));
        assert_eq!(parse_layers("all"), Ok(GpuLayers::Count(usize::MAX)));
        for text in ["", "many", "-1", "1.5"] {
            assert_eq!(parse_layers(text), Err(LayersError), "{text}");
        }
    }
}
