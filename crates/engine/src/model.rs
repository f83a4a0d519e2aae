//! A loaded model: file, architecture, tokenizer, chat template.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use minfer_gguf::{Gguf, OpenOptions, Value};
use minfer_graph::WeightSource;
use minfer_text::chat::ChatTemplate;
use minfer_text::tokenizer::{EncodeOptions, Tokenizer};

use crate::backends::SharedBackends;
use crate::embed::Pooling;
use crate::error::EngineError;
use crate::grammar::{CompiledGrammar, Grammar, GrammarCompiler, GrammarError};
use crate::session::fingerprint;
use crate::weights::FileWeights;

/// How to load a model.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Map the file instead of reading it.
    pub mmap: bool,
    /// Metadata that replaces, or adds to, what the file says.
    pub overrides: Vec<(String, Value)>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions { mmap: true, overrides: Vec::new() }
    }
}

/// A model ready to be run by any number of contexts.
pub struct Model {
    file: Arc<Gguf>,
    description: minfer_models::Model,
    tokenizer: Arc<Tokenizer>,
    grammars: OnceLock<Result<GrammarCompiler, GrammarError>>,
    weights: Arc<FileWeights>,
    backends: SharedBackends,
    fingerprint: OnceLock<[u8; 32]>,
}

impl Model {
    /// Opens and checks a file; weights are read when a context needs them.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Arc<Model>, EngineError> {
        let file = Gguf::open_with(path, &OpenOptions { mmap: options.mmap })?;
        Self::from_file(file, &options.overrides)
    }

    /// The same for a file that is open already.
    pub fn from_file(mut file: Gguf, overrides: &[(String, Value)]) -> Result<Arc<Model>, EngineError> {
        for (key, value) in overrides {
            file.metadata_mut().set(key.clone(), value.clone());
        }
        let description = minfer_models::describe(&file)?;
        let tokenizer = Arc::new(Tokenizer::from_metadata(file.metadata())?);
        let (n_tokens, n_rows) = (tokenizer.n_vocab(), description.hparams().n_vocab);
        if n_tokens != n_rows {
            return Err(EngineError::Vocabulary { n_tokens, n_rows });
        }
        let file = Arc::new(file);
        let weights = Arc::new(FileWeights::new(file.clone()));
        Ok(Arc::new(Model {
            file,
            description,
            tokenizer,
            grammars: OnceLock::new(),
            weights,
            backends: SharedBackends::default(),
            fingerprint: OnceLock::new(),
        }))
    }

    /// The file.
    pub fn file(&self) -> &Gguf {
        &self.file
    }

    /// Architecture, sizes, graphs.
    pub fn description(&self) -> &minfer_models::Model {
        &self.description
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The chat template for a conversation with or without tools, parsed and tried.
    pub fn chat_template(&self, has_tools: bool) -> Result<ChatTemplate, EngineError> {
        Ok(ChatTemplate::from_metadata(self.file.metadata(), has_tools)?)
    }

    /// Tokens of a raw prompt: the model's begin token in front where its file says so, control tokens recognised.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        let options = EncodeOptions { add_special: true, parse_special: true };
        Ok(self.tokenizer.encode(text, options)?.ids)
    }

    /// Tokens of a rendered chat: the template has put every special token where it belongs.
    pub fn encode_chat(&self, rendered: &str) -> Result<Vec<u32>, EngineError> {
        let options = EncodeOptions { add_special: false, parse_special: true };
        Ok(self.tokenizer.encode(rendered, options)?.ids)
    }

    /// Compiles a grammar for this model. The first one takes some tenths of a second more, for the vocabulary.
    pub fn compile_grammar(&self, grammar: &Grammar) -> Result<CompiledGrammar, GrammarError> {
        let compiler = self.grammars.get_or_init(|| GrammarCompiler::new(self.tokenizer.clone()));
        compiler.as_ref().map_err(Clone::clone)?.compile(grammar)
    }

    /// How its file says that embeddings are pooled, if it says so. A file that names a pooling which is not done here is
    /// refused.
    pub fn pooling(&self) -> Result<Option<Pooling>, EngineError> {
        Pooling::of(self.file.metadata())
    }

    /// Size of the vocabulary, which is the length of a row of logits.
    pub fn n_vocab(&self) -> usize {
        self.description.hparams().n_vocab
    }

    pub(crate) fn weights(&self) -> Arc<dyn WeightSource> {
        self.weights.clone()
    }

    /// A digest of hyper-parameters and of samples of the weights: what sessions of this model are tied to. Computed when it
    /// is first asked for.
    pub fn fingerprint(&self) -> [u8; 32] {
        *self.fingerprint.get_or_init(|| fingerprint(&self.description, &self.file))
    }

    pub(crate) fn backends(&self) -> &SharedBackends {
        &self.backends
    }

    /// Bytes of all tensors.
    pub fn weight_bytes(&self) -> usize {
        self.file.tensors().map(|t| t.n_bytes()).sum()
    }
}
