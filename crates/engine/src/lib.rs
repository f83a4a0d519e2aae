//! The library that applications embed: load a model, run sequences, sample, generate.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use minfer_engine::{Context, ContextParams, Event, GenerateParams, LoadOptions, Model, generate};
//!
//! let model = Model::load("model.gguf".as_ref(), &LoadOptions::default())?;
//! let mut context = Context::new(&model, &ContextParams::default(), &mut |_, _| {})?;
//! let sequence = context.new_sequence()?;
//! let prompt = model.encode("Once upon a time")?;
//! let done = generate(&mut context, sequence, &prompt, &GenerateParams::default(), &mut |event| {
//!     if let Event::Text(text) = event {
//!         print!("{text}");
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! println!("\n{} tokens, {:?}", done.tokens.len(), done.reason);
//! # Ok::<(), minfer_engine::EngineError>(())
//! ```
//!
//! For many requests at once, from blocking or async code, there is [`Engine`]. A request gets the same tokens there, bit for
//! bit, whatever else runs.

#![forbid(unsafe_code)]

pub mod ab;
mod answer;
mod backends;
mod constraint;
mod context;
mod conversation;
mod devices;
mod embed;
mod engine;
mod error;
mod generate;
mod gpu;
mod grammar;
pub mod insight;
pub mod json;
mod kv;
pub mod memory;
mod model;
pub mod npz;
mod params;
mod request;
pub mod sampler;
pub mod selftest;
mod session;
pub mod settings;
mod setup;
mod speculate;
mod step;
mod step_inputs;
pub mod stop;
mod task;
mod trace;
pub mod verify;
mod weights;

pub use answer::{ConstraintEnd, Departure, Dropped, Event, FinishReason, Generated, StepLogprobs, Timings};
pub use constraint::{ConstraintError, TokenConstraint};
pub use context::{Context, Row, SeqId};
pub use conversation::Conversation;
pub use devices::{DeviceInfo, devices};
pub use embed::{Pooling, l2_normalize};
pub use engine::{BatchHistogram, Engine, EngineParams, EngineStats, EventStream, StallHistogram};
pub use error::{EngineError, Fault};
pub use generate::{generate, generate_request};
pub use gpu::{CacheRefusal, GpuLayers, LayersError};
pub use grammar::{CompiledGrammar, Grammar, GrammarError, GrammarKind, Part, gbnf_to_lark};
pub use kv::{BlockCounts, Divergence, PrefixMatch};
pub use model::{LoadOptions, Model};
pub use params::ContextParams;
pub use request::{GenerateParams, OnFull, Request, Speculation};
pub use session::{Session, SessionError};
pub use speculate::SpeculationReport;
pub use trace::TraceSettings;
