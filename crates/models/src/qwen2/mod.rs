//! Qwen2 and Qwen2.5: grouped-query attention with biases on query, key and value, NeoX rotary layout, SwiGLU
//! (<https://arxiv.org/abs/2407.10671>).

use minfer_graph::RopeStyle;

use crate::decoder::REFUSED;
use crate::{Architecture, Presence};

pub(crate) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen2",
    rope_style: RopeStyle::Neox,
    qkv_bias: Presence::Required,
    qk_norm: Presence::Absent,
    rope_factors: Presence::Optional,
    refused: REFUSED,
};
