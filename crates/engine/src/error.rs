//! One error for the whole library, and whose fault each is.

use std::time::Duration;

use minfer_cpu::CpuError;
use minfer_cpu::pool::PoolError;
use minfer_gguf::{FaultClass, GgufError, MetadataError};
use minfer_graph::{CompileError, KernelFault, RequestError, StepError};
use minfer_models::ModelError;
use minfer_text::chat::TemplateError;
use minfer_text::tokenizer::TokenizerError;

use crate::constraint::ConstraintError;
use crate::gpu::CacheRefusal;
use crate::grammar::GrammarError;
use crate::memory::{GpuShare, Shortage};
use crate::npz::NpzError;
use crate::sampler::{ParamError, SampleError};
use crate::session::SessionError;
use crate::stop::StopError;

/// Whose fault an error is: decides exit codes and HTTP statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The file is damaged, or not what it says.
    BadModel,
    /// The file is fine; this program cannot run it.
    Unsupported,
    /// The caller asked for something that makes no sense.
    BadRequest,
    /// It does not fit into memory.
    OutOfMemory,
    /// Too much else is going on; later it may work.
    Busy,
    /// A device, a disk or the system failed.
    Device,
    /// A defect of this program.
    Bug,
}

/// Everything that can go wrong between a file name and a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The file could not be opened.
    #[error(transparent)]
    Open(Box<GgufError>),
    /// The file holds no model that can be run.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// The file's tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(Box<TokenizerError>),
    /// The file's chat template cannot be used, or refused the conversation.
    #[error(transparent)]
    Template(Box<TemplateError>),
    /// Tokenizer and embedding disagree.
    #[error("the tokenizer has {n_tokens} tokens, the embedding has {n_rows} rows; they must agree")]
    Vocabulary {
        /// Tokens of the tokenizer.
        n_tokens: usize,
        /// Rows of the embedding.
        n_rows: usize,
    },
    /// The file names a pooling that is not done here.
    #[error(
        "the file asks for embeddings by pooling type {number}; mean (1) and last token (3) are done here: choose one"
    )]
    Pooling {
        /// As the file has it.
        number: u32,
    },
    /// A key of the file has a value of another type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Backends were asked for that cannot be used.
    #[error(transparent)]
    Backends(#[from] RequestError),
    /// The CPU backend could not be set up.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// A setting of the context makes no sense.
    #[error("{setting} is {value}: {reason}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What was asked for.
        value: String,
        /// What it must be.
        reason: &'static str,
    },
    /// The plan needs more memory than there is.
    #[error(transparent)]
    Memory(Box<Shortage>),
    /// A device computes nonsense, so nothing is run on it.
    #[error("device '{device}' fails its self-test: {op} of {dtype}, {what}; --gpu-layers 0 runs without it")]
    SelfTest {
        /// The device.
        device: String,
        /// The op whose kernel fails.
        op: &'static str,
        /// The type that decides the kernel.
        dtype: minfer_gguf::TensorType,
        /// The case and what it shows.
        what: String,
    },
    /// What was to go to a device does not fit there.
    #[error("{0}, but it has {own} bytes: give it fewer layers (--gpu-layers)", own = .0.own_memory.unwrap_or(0))]
    DeviceMemory(Box<GpuShare>),
    /// A device that was asked for cannot hold the KV cache.
    #[error("device '{device}' cannot hold the KV cache: {refusal}; --gpu-layers 0 runs without it")]
    DeviceCache {
        /// The device.
        device: String,
        /// Why not.
        refusal: CacheRefusal,
    },
    /// Tokens do not fit into what is left of the context.
    #[error("{n_tokens} tokens do not fit into the context of {n_ctx}{}", held(*n_past))]
    ContextFull {
        /// How many were to be added.
        n_tokens: usize,
        /// How many are there.
        n_past: usize,
        /// How many there can be.
        n_ctx: usize,
    },
    /// Every sequence of the context is in use.
    #[error("all {n_seq_max} sequences of the context are in use")]
    NoSequence {
        /// How many there are.
        n_seq_max: usize,
    },
    /// The sequences together need more memory than the KV cache has.
    #[error(
        "the sequences together need more than the {n_blocks} blocks of {block_len} positions that the KV cache has"
    )]
    OutOfBlocks {
        /// How many there are.
        n_blocks: usize,
        /// Positions in one.
        block_len: usize,
    },
    /// More requests wait than the queue may hold.
    #[error("{n_waiting} requests are waiting already; try again later")]
    QueueFull {
        /// How many.
        n_waiting: usize,
    },
    /// A request waited longer than it may.
    #[error("the request waited {waited:.1?} for its turn, which is longer than it may; try again later")]
    WaitedTooLong {
        /// How long.
        waited: Duration,
    },
    /// The engine is not there any more: it was closed, or its thread ended by a defect.
    #[error("the engine has stopped")]
    EngineStopped,
    /// The engine's thread could not be started.
    #[error("a thread could not be started: {reason}")]
    Thread {
        /// What the system said.
        reason: String,
    },
    /// A name for the trace that no node has.
    #[error("no node of the graphs that ran is called '{pattern}', so the trace has nothing of it")]
    TraceNode {
        /// The name, or pattern of names.
        pattern: String,
    },
    /// A draft model that speaks another language.
    #[error("the draft model has {n_draft} tokens, the model {n_own}{}; they must be the same", first_other(*first))]
    DraftVocabulary {
        /// Tokens of the draft model.
        n_draft: usize,
        /// Tokens of the model.
        n_own: usize,
        /// The first that differs.
        first: Option<u32>,
    },
    /// A constraint cannot go on.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The caller said that it is enough.
    #[error("stopped before it was done")]
    Stopped,
    /// A grammar cannot be enforced.
    #[error(transparent)]
    Grammar(Box<GrammarError>),
    /// There is nothing to run.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A token id that the model does not have.
    #[error("token {id} is outside the vocabulary of {n_vocab}")]
    Token {
        /// The id.
        id: u32,
        /// How many there are.
        n_vocab: usize,
    },
    /// A sampler setting makes no sense.
    #[error(transparent)]
    SamplerSetting(#[from] ParamError),
    /// No token can be chosen: the logits are not numbers.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A stop string cannot be used.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// A session could not be saved or restored.
    #[error(transparent)]
    Session(Box<SessionError>),
    /// A step failed.
    #[error(transparent)]
    Step(Box<StepError>),
    /// A step that others shared failed.
    #[error("a step failed: {reason}")]
    SharedStep {
        /// What the step's own error says.
        reason: String,
        /// Whose fault that is.
        fault: Fault,
    },
    /// A trace could not be written.
    #[error("the trace: {0}")]
    Trace(#[from] NpzError),
}

fn first_other(first: Option<u32>) -> String {
    first.map_or_else(String::new, |id| format!(", and token {id} is another"))
}

fn held(n_past: usize) -> String {
    if n_past == 0 { String::new() } else { format!(", which holds {n_past} already") }
}

/// The larger errors are boxed, so that results stay small.
macro_rules! boxed {
    ($($variant:ident($error:ty)),*) => {
        $(impl From<$error> for EngineError {
            fn from(error: $error) -> Self {
                EngineError::$variant(Box::new(error))
            }
        })*
    };
}

boxed!(
    Open(GgufError),
    Model(ModelError),
    Tokenizer(TokenizerError),
    Template(TemplateError),
    Step(StepError),
    Memory(Shortage),
    Session(SessionError),
    Grammar(GrammarError)
);

impl EngineError {
    /// The same for each request that shared the step.
    pub(crate) fn of_step(&self) -> EngineError {
        match self {
            EngineError::Step(error) => EngineError::Step(error.clone()),
            other => EngineError::SharedStep { reason: other.to_string(), fault: other.fault() },
        }
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            EngineError::Open(e) => match e.class() {
                FaultClass::Unsupported => Fault::Unsupported,
                FaultClass::NotGguf | FaultClass::Truncated | FaultClass::Malformed => Fault::BadModel,
                FaultClass::Access => Fault::Device,
            },
            EngineError::Model(e) => model_fault(e),
            EngineError::Tokenizer(e) => tokenizer_fault(e),
            EngineError::Template(e) => template_fault(e),
            EngineError::Vocabulary { .. } | EngineError::Metadata(_) => Fault::BadModel,
            EngineError::Pooling { .. } => Fault::Unsupported,
            EngineError::Backends(RequestError::NotUsable { .. }) => Fault::Device,
            EngineError::QueueFull { .. } | EngineError::WaitedTooLong { .. } => Fault::Busy,
            EngineError::EngineStopped | EngineError::Thread { .. } => Fault::Device,
            EngineError::SharedStep { fault, .. } => *fault,
            EngineError::Backends(_)
            | EngineError::Setting { .. }
            | EngineError::ContextFull { .. }
            | EngineError::NoSequence { .. }
            | EngineError::EmptyPrompt
            | EngineError::Stopped
            | EngineError::Token { .. }
            | EngineError::SamplerSetting(_)
            | EngineError::Constraint(_)
            | EngineError::DraftVocabulary { .. }
            | EngineError::TraceNode { .. }
            | EngineError::Stop(_) => Fault::BadRequest,
            // Logits that are not numbers come from weights that are not.
            EngineError::Sample(_) => Fault::BadModel,
            EngineError::Cpu(CpuError::Pool(PoolError::Spawn(_))) => Fault::Device,
            EngineError::Cpu(_) => Fault::BadRequest,
            EngineError::Memory(_) | EngineError::DeviceMemory(_) | EngineError::OutOfBlocks { .. } => {
                Fault::OutOfMemory
            }
            EngineError::DeviceCache { refusal: CacheRefusal::Type { .. }, .. } => Fault::Unsupported,
            EngineError::DeviceCache { refusal: CacheRefusal::Size { .. }, .. } => Fault::OutOfMemory,
            EngineError::Session(e) => e.fault(),
            EngineError::Grammar(e) => grammar_fault(e),
            EngineError::Step(e) => step_fault(e),
            EngineError::Trace(_) | EngineError::SelfTest { .. } => Fault::Device,
        }
    }
}

fn model_fault(e: &ModelError) -> Fault {
    match e {
        ModelError::UnsupportedArchitecture { .. }
        | ModelError::UnsupportedFeature { .. }
        | ModelError::TensorType { .. } => Fault::Unsupported,
        _ => Fault::BadModel,
    }
}

fn grammar_fault(e: &GrammarError) -> Fault {
    match e {
        GrammarError::Vocabulary { .. } => Fault::Unsupported,
        _ => Fault::BadRequest,
    }
}

fn template_fault(e: &TemplateError) -> Fault {
    match e {
        TemplateError::Raised { .. } | TemplateError::InputTooDeep { .. } | TemplateError::Render { .. } => {
            Fault::BadRequest
        }
        TemplateError::Syntax { .. } | TemplateError::Unknown { .. } => Fault::Unsupported,
        _ => Fault::BadModel,
    }
}

fn tokenizer_fault(e: &TokenizerError) -> Fault {
    match e {
        TokenizerError::TextTooLong { .. } | TokenizerError::UnknownId { .. } => Fault::BadRequest,
        TokenizerError::Pattern { .. } => Fault::Bug,
        TokenizerError::UnknownModel { .. } | TokenizerError::UnknownPre { .. } => Fault::Unsupported,
        _ => Fault::BadModel,
    }
}

fn step_fault(e: &StepError) -> Fault {
    let kernel = |fault: &KernelFault| match fault {
        KernelFault::BadInput(_) => Fault::BadRequest,
        KernelFault::Weight { .. } => Fault::BadModel,
        KernelFault::OutOfMemory { .. } => Fault::OutOfMemory,
        KernelFault::Device(_) => Fault::Device,
        KernelFault::Bug(_) => Fault::Bug,
    };
    match e {
        StepError::Run(e) => kernel(&e.fault),
        StepError::Memory(fault) | StepError::Values { fault, .. } => kernel(fault),
        StepError::Compile(CompileError::Assign(_)) => Fault::Unsupported,
        StepError::Compile(_) | StepError::Input { .. } => Fault::Bug,
    }
}
