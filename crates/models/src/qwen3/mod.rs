//! Qwen3 (dense): as Qwen2 without biases, with an RMS norm over each query and key head before the rotation, and a head
//! size of its own (<https://arxiv.org/abs/2505.09388>).

use minfer_graph::RopeStyle;

use crate::decoder::REFUSED;
use crate::{Architecture, Presence};

pub(crate) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3",
    rope_style: RopeStyle::Neox,
    qkv_bias: Presence::Optional,
    qk_norm: Presence::Required,
    rope_factors: Presence::Optional,
    refused: REFUSED,
};
