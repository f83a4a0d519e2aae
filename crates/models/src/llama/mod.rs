//! Llama 2 and 3, Mistral, SmolLM2 and everything else converted as `llama`: rotary pairs are neighbours, since the
//! converter permutes query and key rows; llama 3.1 and later bring divisors of the rotary frequencies as a tensor
//! (<https://arxiv.org/abs/2307.09288>, <https://arxiv.org/abs/2407.21783>).

use minfer_graph::RopeStyle;

use crate::decoder::REFUSED;
use crate::{Architecture, Presence};

pub(crate) const ARCHITECTURE: Architecture = Architecture {
    name: "llama",
    rope_style: RopeStyle::Interleaved,
    qkv_bias: Presence::Optional,
    qk_norm: Presence::Absent,
    rope_factors: Presence::Optional,
    refused: REFUSED,
};
