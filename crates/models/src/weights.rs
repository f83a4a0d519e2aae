//! Finds every tensor of a decoder by name and shape; what is left over is an error.

use std::collections::HashSet;

use minfer_gguf::{Gguf, TensorInfo, TensorType};
use minfer_graph::WeightRef;

use crate::error::ModelError;
use crate::hparams::HParams;
use crate::{Architecture, Presence};

/// Divisors of the rotary frequencies, as llama 3.1 and later have them.
pub(crate) const ROPE_FACTORS: &str = "rope_freqs.weight";

/// The tensors of one block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LayerWeights {
    pub(crate) attn_norm: WeightRef,
    /// Query, key, value.
    pub(crate) qkv: [WeightRef; 3],
    pub(crate) qkv_bias: Option<[WeightRef; 3]>,
    /// Norms of query and key heads.
    pub(crate) qk_norm: Option<[WeightRef; 2]>,
    pub(crate) attn_output: WeightRef,
    pub(crate) attn_output_bias: Option<WeightRef>,
    pub(crate) ffn_norm: WeightRef,
    pub(crate) ffn_gate: WeightRef,
    pub(crate) ffn_up: WeightRef,
    pub(crate) ffn_down: WeightRef,
}

/// All tensors of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weights {
    pub(crate) token_embd: WeightRef,
    pub(crate) layers: Vec<LayerWeights>,
    pub(crate) output_norm: WeightRef,
    /// The embedding once more, where the model has no output matrix of its own.
    pub(crate) output: WeightRef,
    pub(crate) rope_factors: Option<WeightRef>,
}

impl Weights {
    pub(crate) fn find(architecture: &Architecture, h: &HParams, file: &Gguf) -> Result<Weights, ModelError> {
        let mut table = Table { architecture, file, used: HashSet::new() };
        let token_embd = table.matrix("token_embd.weight", h.n_embd, h.n_vocab)?;
        let output_norm = table.vector("output_norm.weight", h.n_embd)?;
        let output = match file.tensor("output.weight") {
            Some(_) => table.matrix("output.weight", h.n_embd, h.n_vocab)?,
            None => token_embd.clone(),
        };
        let rope_factors = table.optional(architecture.rope_factors, ROPE_FACTORS, h.rope.n_rot / 2)?;
        if let Some(factors) = &rope_factors {
            check_factors(file, factors)?;
        }
        // The number of layers is a claim of the file, so nothing is reserved for it.
        let mut layers = Vec::new();
        for layer in 0..h.n_layers {
            layers.push(table.layer(layer, h)?);
        }
        table.refuse_unused()?;
        Ok(Weights { token_embd, layers, output_norm, output, rope_factors })
    }
}

struct Table<'a> {
    architecture: &'a Architecture,
    file: &'a Gguf,
    used: HashSet<String>,
}

impl Table<'_> {
    fn layer(&mut self, layer: usize, h: &HParams) -> Result<LayerWeights, ModelError> {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let (q, kv) = (h.q_dim(), h.kv_dim());
        let a = self.architecture;
        Ok(LayerWeights {
            attn_norm: self.vector(&name("attn_norm.weight"), h.n_embd)?,
            qkv: [
                self.matrix(&name("attn_q.weight"), h.n_embd, q)?,
                self.matrix(&name("attn_k.weight"), h.n_embd, kv)?,
                self.matrix(&name("attn_v.weight"), h.n_embd, kv)?,
            ],
            qkv_bias: self.together(
                a.qkv_bias,
                [name("attn_q.bias"), name("attn_k.bias"), name("attn_v.bias")],
                [q, kv, kv],
            )?,
            qk_norm: self.together(
                a.qk_norm,
                [name("attn_q_norm.weight"), name("attn_k_norm.weight")],
                [h.head_dim; 2],
            )?,
            attn_output: self.matrix(&name("attn_output.weight"), q, h.n_embd)?,
            attn_output_bias: self.optional(Presence::Optional, &name("attn_output.bias"), h.n_embd)?,
            ffn_norm: self.vector(&name("ffn_norm.weight"), h.n_embd)?,
            ffn_gate: self.matrix(&name("ffn_gate.weight"), h.n_embd, h.n_ff)?,
            ffn_up: self.matrix(&name("ffn_up.weight"), h.n_embd, h.n_ff)?,
            ffn_down: self.matrix(&name("ffn_down.weight"), h.n_ff, h.n_embd)?,
        })
    }

    fn matrix(&mut self, name: &str, n_in: usize, n_out: usize) -> Result<WeightRef, ModelError> {
        self.find(name, &[n_in, n_out])
    }

    fn vector(&mut self, name: &str, n: usize) -> Result<WeightRef, ModelError> {
        self.find(name, &[n])
    }

    fn optional(
        &mut self,
        presence: Presence,
        name: &str,
        n: usize,
    ) -> Result<Option<WeightRef>, ModelError> {
        let wanted = match presence {
            Presence::Required => true,
            Presence::Optional => self.file.tensor(name).is_some(),
            Presence::Absent => false,
        };
        wanted.then(|| self.vector(name, n)).transpose()
    }

    /// Vectors that come all or none.
    fn together<const N: usize>(
        &mut self,
        presence: Presence,
        names: [String; N],
        sizes: [usize; N],
    ) -> Result<Option<[WeightRef; N]>, ModelError> {
        let any = names.iter().any(|n| self.file.tensor(n).is_some());
        if presence == Presence::Absent || (presence == Presence::Optional && !any) {
            return Ok(None);
        }
        let mut found = Vec::with_capacity(N);
        for (name, n) in names.iter().zip(sizes) {
            found.push(self.vector(name, n)?);
        }
        Ok(found.try_into().ok())
    }

    fn find(&mut self, name: &str, shape: &[usize]) -> Result<WeightRef, ModelError> {
        let Some(tensor) = self.file.tensor(name) else {
            return Err(ModelError::MissingTensor {
                name: name.into(),
                architecture: self.architecture.name,
                shape: show(shape),
            });
        };
        if padded(&tensor.shape) != padded(shape) {
            let (expected, found) = (show(shape), show(&tensor.shape));
            return Err(ModelError::TensorShape { name: name.into(), expected, found });
        }
        check_type(tensor, shape.len() == 1)?;
        self.used.insert(name.into());
        Ok(WeightRef { name: name.into(), dtype: tensor.dtype, shape: padded(shape) })
    }

    fn refuse_unused(&self) -> Result<(), ModelError> {
        let mut unused = self.file.tensors().filter(|t| !self.used.contains(&t.name));
        let Some(first) = unused.next() else { return Ok(()) };
        let more = match unused.count() {
            0 => String::new(),
            n => format!(", nor are {n} more"),
        };
        Err(ModelError::UnusedTensor { name: first.name.clone(), architecture: self.architecture.name, more })
    }
}

/// Vectors are used as floats, matrices in every type that there is a kernel for.
fn check_type(tensor: &TensorInfo, vector: bool) -> Result<(), ModelError> {
    let plain = matches!(tensor.dtype, TensorType::F32 | TensorType::F16 | TensorType::BF16);
    let block = matches!(
        tensor.dtype,
        TensorType::Q4_0
            | TensorType::Q4_1
            | TensorType::Q5_0
            | TensorType::Q5_1
            | TensorType::Q8_0
            | TensorType::Q2_K
            | TensorType::Q3_K
            | TensorType::Q4_K
            | TensorType::Q5_K
            | TensorType::Q6_K
            | TensorType::IQ4_NL
            | TensorType::IQ4_XS
            | TensorType::MXFP4
    );
    if plain || (block && !vector) {
        return Ok(());
    }
    let hint = match vector {
        true => "norms, biases and divisors must be F32, F16 or BF16",
        false => "take a file quantized as Q4_0 … Q8_0, Q2_K … Q6_K, IQ4_NL, IQ4_XS, MXFP4, F16, BF16 or F32",
    };
    Err(ModelError::TensorType { name: tensor.name.clone(), found: tensor.dtype, hint })
}

/// A divisor of zero would turn every position into NaN without a word.
fn check_factors(file: &Gguf, factors: &WeightRef) -> Result<(), ModelError> {
    let unusable = || ModelError::TensorType {
        name: factors.name.to_string(),
        found: factors.dtype,
        hint: "divisors must be F32, F16 or BF16",
    };
    let tensor = file.tensor(&factors.name).ok_or_else(unusable)?;
    let mut values = vec![0.0f32; tensor.n_elems()];
    minfer_gguf::dequantize(tensor.dtype, file.data(tensor), &mut values).map_err(|_| unusable())?;
    match values.iter().position(|v| !(v.is_finite() && *v > 0.0)) {
        None => Ok(()),
        Some(index) => Err(ModelError::TensorValue {
            name: factors.name.to_string(),
            index,
            value: values[index],
            reason: "divisors of rotary frequencies must be finite and positive",
        }),
    }
}

fn padded(shape: &[usize]) -> [usize; 4] {
    let mut out = [1; 4];
    for (o, s) in out.iter_mut().zip(shape) {
        *o = *s;
    }
    out
}

fn show(shape: &[usize]) -> String {
    let parts: Vec<_> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", parts.join(", "))
}
