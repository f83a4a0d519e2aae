//! Hyper-parameters of a decoder-only transformer, read and checked once.

use minfer_gguf::Gguf;
use minfer_graph::{RopeScaling, RopeSpec};

use crate::Architecture;
use crate::error::ModelError;
use crate::keys::Keys;

/// Sizes and constants of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct HParams {
    /// Transformer blocks.
    pub n_layers: usize,
    /// Values in the residual stream.
    pub n_embd: usize,
    /// Values inside the feed-forward network.
    pub n_ff: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Values per head.
    pub head_dim: usize,
    /// Tokens of the vocabulary: rows of the embedding.
    pub n_vocab: usize,
    /// Context that the model was trained for; 0 when the file does not say.
    pub n_ctx_train: usize,
    /// Added to the mean of squares by every norm.
    pub norm_eps: f32,
    /// Multiplies attention scores.
    pub attn_scale: f32,
    /// Rotary embedding.
    pub rope: RopeSpec,
}

impl HParams {
    /// Rows of the query projection.
    pub fn q_dim(&self) -> usize {
        self.n_heads * self.head_dim
    }

    /// Rows of the key projection, and of the value projection.
    pub fn kv_dim(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }

    pub(crate) fn read(architecture: &Architecture, file: &Gguf) -> Result<HParams, ModelError> {
        let keys = Keys::new(file, architecture);
        for refused in architecture.refused {
            keys.refuse(refused)?;
        }
        let n_layers = keys.usize("block_count")?;
        let n_embd = positive(&keys, "embedding_length", keys.usize("embedding_length")?)?;
        let n_heads = keys.opt_per_layer("attention.head_count", n_layers)?;
        let n_heads = n_heads.map_or_else(|| keys.usize("attention.head_count"), Ok)?;
        let n_heads = positive(&keys, "attention.head_count", n_heads)?;
        let n_kv_heads = keys.opt_per_layer("attention.head_count_kv", n_layers)?.unwrap_or(n_heads);
        if n_kv_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) {
            return Err(keys.bad("attention.head_count_kv", "it must divide attention.head_count"));
        }
        let head_dim = head_dim(&keys, n_embd, n_heads)?;
        let embedding = file.tensor("token_embd.weight");
        Ok(HParams {
            n_layers,
            n_embd,
            n_ff: n_ff(&keys, file, n_layers)?,
            n_heads,
            n_kv_heads,
            head_dim,
            n_vocab: embedding.map_or(0, |t| t.shape.get(1).copied().unwrap_or(1)),
            n_ctx_train: keys.opt_usize("context_length")?.unwrap_or(0),
            norm_eps: norm_eps(&keys)?,
            attn_scale: attn_scale(&keys, head_dim)?,
            rope: rope(architecture, &keys, file, head_dim)?,
        })
    }
}

fn positive(keys: &Keys<'_>, key: &str, value: usize) -> Result<usize, ModelError> {
    if value == 0 { Err(keys.bad(key, "it must be positive")) } else { Ok(value) }
}

/// The embedding split over the heads, unless the file says otherwise.
fn head_dim(keys: &Keys<'_>, n_embd: usize, n_heads: usize) -> Result<usize, ModelError> {
    let (key, value) = ("attention.key_length", "attention.value_length");
    let head_dim = match keys.opt_usize(key)? {
        Some(k) => positive(keys, key, k)?,
        None if n_embd.is_multiple_of(n_heads) => n_embd / n_heads,
        None => return Err(keys.bad("attention.head_count", "it must divide embedding_length")),
    };
    match keys.opt_usize(value)? {
        Some(v) if v != head_dim => Err(keys.bad(value, "it must equal the head size of the keys")),
        _ => Ok(head_dim),
    }
}

/// Files without the key show the size in the first block's tensors.
fn n_ff(keys: &Keys<'_>, file: &Gguf, n_layers: usize) -> Result<usize, ModelError> {
    match keys.opt_per_layer("feed_forward_length", n_layers)? {
        Some(n) => positive(keys, "feed_forward_length", n),
        None => match file.tensor("blk.0.ffn_up.weight").and_then(|t| t.shape.get(1)) {
            Some(n) => Ok(*n),
            None => keys.usize("feed_forward_length"),
        },
    }
}

fn norm_eps(keys: &Keys<'_>) -> Result<f32, ModelError> {
    let key = "attention.layer_norm_rms_epsilon";
    let eps = keys.f32(key)?;
    if eps.is_finite() && eps >= 0.0 {
        Ok(eps)
    } else {
        Err(keys.bad(key, "it must be finite and not negative"))
    }
}

fn attn_scale(keys: &Keys<'_>, head_dim: usize) -> Result<f32, ModelError> {
    match keys.opt_f32("attention.scale")? {
        // Writers put 0 where the usual scale is meant.
        None | Some(0.0) => Ok((1.0 / (head_dim as f64).sqrt()) as f32),
        Some(scale) if scale.is_finite() => Ok(scale),
        Some(_) => Err(keys.bad("attention.scale", "it must be finite")),
    }
}

fn rope(
    architecture: &Architecture,
    keys: &Keys<'_>,
    file: &Gguf,
    head_dim: usize,
) -> Result<RopeSpec, ModelError> {
    let n_rot = keys.opt_usize("rope.dimension_count")?.unwrap_or(head_dim);
    if n_rot == 0 || !n_rot.is_multiple_of(2) || n_rot > head_dim {
        return Err(keys.bad("rope.dimension_count", "it must be even, positive and at most the head size"));
    }
    let freq_base = keys.opt_f32("rope.freq_base")?.unwrap_or(10_000.0);
    if !(freq_base.is_finite() && freq_base > 1.0) {
        return Err(keys.bad("rope.freq_base", "it must be finite and above 1"));
    }
    Ok(RopeSpec {
        style: architecture.rope_style,
        head_dim,
        n_rot,
        freq_base,
        scaling: rope_scaling(architecture, keys)?,
        freq_factors: file.tensor(crate::weights::ROPE_FACTORS).is_some(),
    })
}

fn rope_scaling(architecture: &Architecture, keys: &Keys<'_>) -> Result<RopeScaling, ModelError> {
    let factor = match keys.opt_f32("rope.scaling.factor")? {
        Some(f) => Some(f),
        None => keys.opt_f32("rope.scale_linear")?,
    };
    // A factor of 0 or 1 is how writers say "none".
    let factor = factor.filter(|f| *f != 0.0 && *f != 1.0);
    let kind = keys.opt_str("rope.scaling.type")?;
    match (kind.unwrap_or("none"), factor) {
        ("none", None) | ("linear", None) => Ok(RopeScaling::None),
        ("none" | "linear", Some(factor)) => Ok(RopeScaling::Linear { factor: stretch(keys, factor)? }),
        ("yarn", factor) => yarn(keys, factor.unwrap_or(1.0)),
        (other, _) => Err(ModelError::UnsupportedFeature {
            key: keys.full("rope.scaling.type"),
            value: format!("'{other}'"),
            feature: "this rope scaling",
            architecture: architecture.name,
        }),
    }
}

fn stretch(keys: &Keys<'_>, factor: f32) -> Result<f32, ModelError> {
    if factor.is_finite() && factor > 0.0 {
        return Ok(factor);
    }
    Err(keys.bad("rope.scaling.factor", "it must be finite and positive"))
}

fn yarn(keys: &Keys<'_>, factor: f32) -> Result<RopeScaling, ModelError> {
    let original = "rope.scaling.original_context_length";
    let original_ctx = match keys.opt_usize(original)? {
        Some(n) => positive(keys, original, n)?,
        None => positive(keys, "context_length", keys.usize("context_length")?)?,
    };
    let number = |key: &str, default: f32| -> Result<f32, ModelError> {
        let value = keys.opt_f32(key)?.unwrap_or(default);
        let ok = value.is_finite() && value > 0.0;
        if ok { Ok(value) } else { Err(keys.bad(key, "it must be finite and positive")) }
    };
    Ok(RopeScaling::Yarn {
        factor: stretch(keys, factor)?,
        original_ctx: original_ctx as u32,
        attn_factor: number("rope.scaling.attn_factor", 1.0)?,
        beta_fast: number("rope.scaling.yarn_beta_fast", 32.0)?,
        beta_slow: number("rope.scaling.yarn_beta_slow", 1.0)?,
    })
}
