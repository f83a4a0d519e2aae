//! What every handler shares.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minfer_engine::{ContextParams, Engine, Model};

use crate::chat::Templates;
use crate::config::ServerConfig;
use crate::error::ApiError;
use crate::front::Front;
use crate::graph::Lab;
use crate::metrics::Metrics;

/// As handlers take it.
pub type SharedApp = Arc<App>;

/// A model that is ready to be served.
#[derive(Clone)]
pub struct Hosted {
    /// Runs the requests.
    pub engine: Engine,
    /// Names that the model is known by; answers carry the first.
    pub names: Vec<String>,
    /// How contexts of the graph page compute; their size is their own.
    pub insight: ContextParams,
}

impl Hosted {
    /// An engine, and the names of its model.
    pub fn new(engine: Engine, names: Vec<String>) -> Self {
        Self { engine, names, insight: ContextParams::default() }
    }
}

/// The engine, what it serves, and how the server stands.
pub struct App {
    front: Arc<Front>,
    hosted: Hosted,
    metrics: Metrics,
    templates: Templates,
    lab: Lab,
    /// Bytes of the longest token.
    max_token_bytes: usize,
    created: u64,
}

impl App {
    pub(crate) fn new(front: Arc<Front>, hosted: Hosted) -> Self {
        let model = hosted.engine.model();
        let templates = Templates::of(model);
        let tokenizer = model.tokenizer();
        let n_bytes = |id| tokenizer.token_bytes(id).map_or(0, <[u8]>::len);
        let n_vocab = u32::try_from(tokenizer.n_vocab()).unwrap_or(u32::MAX);
        let max_token_bytes = (0..n_vocab).map(n_bytes).max().unwrap_or(1).max(1);
        Self {
            metrics: Metrics::new(&hosted.engine, front.responses()),
            templates,
            lab: Lab::default(),
            max_token_bytes,
            front,
            hosted,
            created: unix_now(),
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.hosted.engine
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        self.hosted.engine.model()
    }

    /// The settings.
    pub fn config(&self) -> &ServerConfig {
        self.front.config()
    }

    /// Names that the model is known by.
    pub fn names(&self) -> &[String] {
        &self.hosted.names
    }

    /// How contexts of the graph page compute.
    pub(crate) fn insight(&self) -> &ContextParams {
        &self.hosted.insight
    }

    /// The figures.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Seconds since 1970 when it was started.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// The name that answers carry.
    pub fn name(&self) -> &str {
        self.hosted.names.first().map_or("default", String::as_str)
    }

    /// Checks that a request means the model that is here; one that names none does.
    pub fn check_model(&self, name: Option<&str>) -> Result<(), ApiError> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(()) };
        // As Ollama has it, a name without a tag means the latest.
        let plain = name.strip_suffix(":latest").unwrap_or(name);
        if self.hosted.names.iter().any(|known| known == plain || known == name) {
            return Ok(());
        }
        let known = self.hosted.names.join("', '");
        let message = format!("model '{}' is not here; there is '{known}'", elided(name));
        let status = axum::http::StatusCode::NOT_FOUND;
        Err(ApiError::new(status, "model_not_found", message).at("model"))
    }

    /// What runs of the graph page share.
    pub(crate) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The chat templates.
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// Refuses a text that cannot fit into the context before work is spent on it.
    pub fn check_length(&self, n_bytes: usize, param: &'static str) -> Result<(), ApiError> {
        let n_ctx = self.hosted.engine.n_ctx();
        if n_bytes <= n_ctx.saturating_mul(self.max_token_bytes) {
            return Ok(());
        }
        let message =
            format!("{param}: {n_bytes} bytes of text do not fit into the context of {n_ctx} tokens");
        Err(ApiError::bad("context_length_exceeded", message).at(param))
    }

    /// An id that no other answer of any run has, as in `chatcmpl-…`.
    pub fn new_id(&self, prefix: &str) -> String {
        self.front.new_id(prefix)
    }

    /// Whether no new requests are taken.
    pub fn is_draining(&self) -> bool {
        self.front.is_draining()
    }

    /// Whether what runs is to end, for threads that ask from time to time.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.front.is_cancelling()
    }

    /// Waits until what runs is to end.
    pub(crate) fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.front.cancelled()
    }

    /// Time that a request may take.
    pub(crate) fn deadline(&self, asked: Option<Duration>) -> Option<Duration> {
        match (asked, self.config().max_time) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, most) => asked.or(most),
        }
    }
}

/// Seconds since 1970.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A number that nobody can guess.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// At most so much of a client's text that a message stays readable.
pub(crate) fn elided(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let mut short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
