//! HTTP endpoints over an [`Engine`](minfer_engine::Engine), in the dialects of OpenAI, Anthropic, Ollama and llama.cpp.
//!
//! ```no_run
//! use minfer_engine::{Engine, EngineParams, LoadOptions, Model};
//! use minfer_server::{Hosted, Server, ServerConfig};
//!
//! // Clients that come from now on are told that the model loads.
//! let listening = Server::listen(ServerConfig::default())?;
//! let model = Model::load("model.gguf".as_ref(), &LoadOptions::default())?;
//! let engine = Engine::new(&model, &EngineParams::default())?;
//! let server = listening.open(Hosted::new(engine, vec!["model".into()]));
//! println!("listening on {}", server.addr());
//! server.join();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request's way: `manners` lets it in; a dialect's file ([`openai`] and its neighbours) reads it into a
//! [`chat::ChatRequest`], which knows no dialect; [`chat::open`] makes prompts and constraints of it and hands them to the
//! engine; [`answer::Answers`] are what comes back, as events in no dialect; the dialect writes them out. What computes never
//! runs on this crate's threads, which are two: they wait for sockets and for the engine's events.

#![forbid(unsafe_code)]

pub mod answer;
pub mod anthropic;
mod body;
pub mod chat;
mod config;
mod dialect;
mod embed;
mod error;
pub mod fields;
mod frames;
mod front;
mod graph;
mod health;
mod io;
pub mod llama_cpp;
mod manners;
mod metadata;
mod metrics;
mod notes;
pub mod ollama;
pub mod openai;
mod openapi;
mod pages;
mod reader;
mod routes;
mod server;
mod state;
mod tls;

pub use config::{ServerConfig, TlsFiles};
pub use dialect::Dialect;
pub use error::ApiError;
pub use frames::{Frames, Framing};
pub use metrics::Metrics;
pub use openapi::OPENAPI;
pub use reader::Reader;
pub use server::{Listening, Server, ServerError};
pub use state::{App, Hosted, SharedApp, unix_now};
pub use tls::TlsError;
