//! `GET /metrics`: what Prometheus reads, under llama.cpp's names where it has them.
//!
//! What happens to a request is counted as it happens; what the engine knows is asked when somebody reads.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use minfer_engine::{Engine, EngineStats, Generated};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::error::ApiError;
use crate::routes::Routes;
use crate::state::SharedApp;

/// Classes of times, in seconds.
const SECONDS: [f64; 16] =
    [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

/// Classes of counts of tokens.
const TOKENS: [f64; 12] =
    [0.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 16384.0, 65536.0];

/// The endpoint.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes.get("/metrics", show)
}

async fn show(State(app): State<SharedApp>) -> Result<Response, ApiError> {
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = app.metrics().text().map_err(|error| {
        tracing::error!(%error, "the metrics could not be written");
        ApiError::internal()
    })?;
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Status {
    status: u16,
}

/// Counts of responses by status, which a server has before its model is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Responses(Family<Status, Counter>);

impl Responses {
    pub(crate) fn note(&self, status: u16) {
        self.0.get_or_create(&Status { status }).inc();
    }
}

/// The figures of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    first_token: Histogram,
    inter_token: Histogram,
    queued: Histogram,
    prompt_tokens: Histogram,
    cached_tokens: Histogram,
    prompt_seconds: Counter<f64, std::sync::atomic::AtomicU64>,
    predicted_seconds: Counter<f64, std::sync::atomic::AtomicU64>,
}

impl Metrics {
    pub(crate) fn new(engine: &Engine, responses: &Responses) -> Self {
        let mut registry = Registry::default();
        registry.register("minfer:responses", "Responses by status", responses.0.clone());
        let seconds = |registry: &mut Registry, name, help| {
            let histogram = Histogram::new(SECONDS);
            registry.register(name, help, histogram.clone());
            histogram
        };
        let tokens = |registry: &mut Registry, name, help| {
            let histogram = Histogram::new(TOKENS);
            registry.register(name, help, histogram.clone());
            histogram
        };
        let counter = |registry: &mut Registry, name, help| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let r = &mut registry;
        let first_token =
            seconds(r, "minfer:time_to_first_token_seconds", "From submission to the first token");
        let inter_token = seconds(r, "minfer:inter_token_seconds", "From a token to the next");
        let queued = seconds(r, "minfer:queue_seconds", "Time in the queue");
        let prompt_tokens = tokens(r, "minfer:request_prompt_tokens", "Tokens of prompts");
        let cached_tokens = tokens(r, "minfer:request_cached_tokens", "Tokens of prompts found in the cache");
        let prompt_seconds = counter(r, "llamacpp:prompt_seconds", "Time of reading prompts");
        let predicted_seconds = counter(r, "llamacpp:tokens_predicted_seconds", "Time of generating");
        registry.register_collector(Box::new(OfEngine(engine.clone())));
        Self {
            registry: Mutex::new(registry),
            first_token,
            inter_token,
            queued,
            prompt_tokens,
            cached_tokens,
            prompt_seconds,
            predicted_seconds,
        }
    }

    pub(crate) fn note_first_token(&self, wait: Duration) {
        self.first_token.observe(wait.as_secs_f64());
    }

    pub(crate) fn note_token(&self, wait: Duration) {
        self.inter_token.observe(wait.as_secs_f64());
    }

    pub(crate) fn note_finished(&self, generated: &Generated) {
        let timings = &generated.timings;
        self.queued.observe(timings.queued.as_secs_f64());
        self.prompt_tokens.observe((timings.n_prompt + timings.n_cached) as f64);
        self.cached_tokens.observe(timings.n_cached as f64);
        self.prompt_seconds.inc_by(timings.prompt.as_secs_f64());
        self.predicted_seconds.inc_by(timings.decode.as_secs_f64());
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }
}

/// What the engine knows.
struct OfEngine(Engine);

impl fmt::Debug for OfEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfEngine")
    }
}

impl Collector for OfEngine {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.0.stats();
        for (name, help, value) in counters(&stats) {
            let counter = ConstCounter::new(value);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        for (name, help, value) in gauges(&stats) {
            let gauge = ConstGauge::new(value);
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        let stalls = classes(stats.stalls.classes().map(|(bound, n)| (bound.map(|it| it.as_secs_f64()), n)));
        let help = "How long streams waited for a token";
        histogram(&mut encoder, "minfer:stall_seconds", help, stats.stalls.total().as_secs_f64(), &stalls)?;
        let batches = classes(stats.batches.classes().map(|(bound, n)| (bound.map(|it| it as f64), n)));
        let help = "Answers that got a token in one step";
        histogram(&mut encoder, "minfer:batch_size", help, stats.batches.total() as f64, &batches)
    }
}

/// Bounds and counts; the last class has no bound.
fn classes(all: impl Iterator<Item = (Option<f64>, u64)>) -> Vec<(f64, u64)> {
    all.map(|(bound, n)| (bound.unwrap_or(f64::INFINITY), n)).collect()
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    sum: f64,
    classes: &[(f64, u64)],
) -> Result<(), fmt::Error> {
    let n = classes.iter().map(|(_, n)| n).sum();
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(sum, n, classes, None)
}

fn counters(stats: &EngineStats) -> [(&'static str, &'static str, u64); 6] {
    [
        ("llamacpp:prompt_tokens", "Tokens of prompts read", stats.n_prompt),
        ("llamacpp:tokens_predicted", "Tokens generated", stats.n_generated),
        ("llamacpp:n_decode", "Steps run", stats.n_steps),
        ("minfer:prompt_tokens_cached", "Tokens of prompts found in the cache", stats.n_cached),
        ("minfer:requests_finished", "Requests that have ended", stats.n_finished),
        ("minfer:requests_suspended", "Times that a request gave its memory back", stats.n_suspended),
    ]
}

fn gauges(stats: &EngineStats) -> [(&'static str, &'static str, f64); 6] {
    let blocks = &stats.blocks;
    let n_blocks = (blocks.in_use + blocks.cached + blocks.free).max(1);
    [
        ("llamacpp:requests_processing", "Requests that run", stats.n_running as f64),
        ("llamacpp:requests_deferred", "Requests that wait", stats.n_waiting as f64),
        ("llamacpp:kv_cache_usage_ratio", "Part of the cache in use", blocks.in_use as f64 / n_blocks as f64),
        ("minfer:kv_blocks_held", "Blocks that requests hold", blocks.in_use as f64),
        ("minfer:kv_blocks_cached", "Blocks kept for prompts to come", blocks.cached as f64),
        ("minfer:kv_blocks_free", "Blocks that hold nothing", blocks.free as f64),
    ]
}
