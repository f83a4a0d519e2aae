//! Many requests at once over one context.

mod pace;
mod queue;
mod reports;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use stats::{BatchHistogram, EngineStats, StallHistogram};
pub use stream::EventStream;

use crate::context::Context;
use crate::error::EngineError;
use crate::model::Model;
use crate::params::ContextParams;
use crate::request::{Request, Speculation};
use crate::task::Task;

use pace::Pace;
use queue::Job;
use worker::{Command, Shared, Worker};

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineParams {
    /// Settings of its context; `n_seq_max` is how many requests run at once.
    pub context: ContextParams,
    /// The longest that a stream should wait for its next token because of other requests' prompts.
    pub max_stall: Duration,
    /// Most requests in the queue; more are refused.
    pub max_queue: usize,
    /// Most time in the queue, for requests that say nothing else.
    pub max_wait: Option<Duration>,
    /// How to guess ahead for requests that do not say it themselves.
    pub speculation: Speculation,
}

impl Default for EngineParams {
    fn default() -> Self {
        EngineParams {
            context: ContextParams { n_seq_max: 8, n_outputs_max: Some(32), ..ContextParams::default() },
            max_stall: Duration::from_millis(250),
            max_queue: 256,
            max_wait: None,
            speculation: Speculation::Off,
        }
    }
}

/// Runs many requests at once.
///
/// ```no_run
/// use minfer_engine::{Engine, EngineParams, Event, GenerateParams, LoadOptions, Model, Request};
///
/// let model = Model::load("model.gguf".as_ref(), &LoadOptions::default())?;
/// let engine = Engine::new(&model, &EngineParams::default())?;
///
/// // From code that blocks: an iterator of events, or the whole answer.
/// let prompt = model.encode("Once upon a time")?;
/// let mut stream = engine.submit(Request::new(prompt.clone(), GenerateParams::default()))?;
/// for event in stream.blocking() {
///     match event? {
///         Event::Text(text) => print!("{text}"),
///         Event::Done(answer) => println!("\n{:?}, {:?}", answer.reason, answer.timings),
///         _ => {}
///     }
/// }
///
/// // From async code, on any runtime: a `futures_core::Stream`, or calls to await.
/// async fn first_text(engine: &Engine, request: Request) -> Result<String, minfer_engine::EngineError> {
///     let mut stream = engine.submit(request)?;
///     while let Some(event) = stream.next_event().await {
///         if let Event::Text(text) = event? {
///             return Ok(text); // Dropping the stream cancels the request.
///         }
///     }
///     Ok(String::new())
/// }
/// # let _ = first_text(&engine, Request::new(prompt, GenerateParams::default()));
/// # Ok::<(), minfer_engine::EngineError>(())
/// ```
///
/// Handles are cheap to clone and can be used from any thread; the engine ends when the last
/// one is gone and all requests are done.
///
/// Company does not matter: the tokens and log-probabilities of a request are bit for bit what it would get alone.
#[derive(Clone)]
pub struct Engine {
    model: Arc<Model>,
    commands: Sender<Command>,
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<Context>>>>,
    limits: Limits,
}

#[derive(Clone, Copy)]
struct Limits {
    n_ctx: usize,
    n_seq_max: usize,
    max_queue: usize,
    max_wait: Option<Duration>,
    speculation: Speculation,
}

impl Engine {
    /// Makes a context and starts the thread that runs it.
    pub fn new(model: &Arc<Model>, params: &EngineParams) -> Result<Engine, EngineError> {
        Self::with_context(Context::new(model, &params.context, &mut |_, _| {})?, None, params)
    }

    /// The same with a draft model, for requests with [`Speculation::DraftModel`](crate::Speculation::DraftModel). It must
    /// have the same vocabulary; its context is like the model's.
    pub fn with_draft(
        model: &Arc<Model>,
        draft: &Arc<Model>,
        params: &EngineParams,
    ) -> Result<Engine, EngineError> {
        let own = &params.context;
        let mut context = Context::without_weights(model, own)?;
        // Both find room before either reads its weights; a trace is the model's.
        let draft = Context::without_weights(draft, &ContextParams { trace: None, ..own.clone() })?;
        context.set_draft(draft, 0)?;
        context.load_weights(&mut |_, _| {})?;
        Self::with_context(context, None, params)
    }

    /// The same over contexts that are there already; what `params` says of a context is passed over. A draft model that
    /// `context` [has](Context::set_draft) guesses here, too, unless another is given.
    pub fn with_context(
        mut context: Context,
        draft: Option<Context>,
        params: &EngineParams,
    ) -> Result<Engine, EngineError> {
        if let Some(draft) = draft {
            context.set_draft(draft, 0)?;
        }
        let limits = Limits {
            // One request alone may take the whole cache, and no more.
            n_ctx: context.n_ctx().min(context.n_blocks() * context.block_len()),
            n_seq_max: context.n_seq_max(),
            max_queue: params.max_queue,
            max_wait: params.max_wait,
            speculation: params.speculation,
        };
        let (model, shared) = (context.model().clone(), Arc::new(Shared::default()));
        let (commands, receiver) = channel();
        let pace = Pace::new(params.max_stall, context.n_ubatch());
        let worker = Worker::new(context, receiver, shared.clone(), pace);
        let thread = std::thread::Builder::new().name("minfer-engine".into()).spawn(move || worker.run());
        let thread = thread.map_err(|e| EngineError::Thread { reason: e.to_string() })?;
        Ok(Engine { model, commands, shared, thread: Arc::new(Mutex::new(Some(thread))), limits })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Most tokens that a request may have, prompt and answer together.
    pub fn n_ctx(&self) -> usize {
        self.limits.n_ctx
    }

    /// Most requests that run at once.
    pub fn n_seq_max(&self) -> usize {
        self.limits.n_seq_max
    }

    /// Most requests in the queue.
    pub fn max_queue(&self) -> usize {
        self.limits.max_queue
    }

    /// Puts a request into the queue. What makes no sense, can never fit, or finds the queue full is refused here.
    pub fn submit(&self, mut request: Request) -> Result<EventStream, EngineError> {
        let (submitted, limits) = (Instant::now(), &self.limits);
        if request.params.speculation == Speculation::Off {
            request.params.speculation = limits.speculation;
        }
        let (priority, deadline, max_wait) = (request.priority, request.deadline, request.max_wait);
        let task = Task::new(&self.model, limits.n_ctx, request)?;
        let (events, stream) = stream::channel();
        let max_wait = max_wait.or(limits.max_wait);
        let job = Job {
            task,
            events,
            priority,
            submitted,
            deadline: deadline.and_then(|deadline| submitted.checked_add(deadline)),
            begin_by: max_wait.and_then(|wait| submitted.checked_add(wait)),
        };
        self.enter_queue()?;
        if self.commands.send(Command::Submit(Box::new(job))).is_err() {
            self.shared.n_waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(EngineError::EngineStopped);
        }
        Ok(stream)
    }

    /// A look at what it has done and is doing.
    pub fn stats(&self) -> EngineStats {
        self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all requests, which give what they have generated so far, and waits for the thread. Gives the context, to the
    /// first who asks.
    pub fn close(&self) -> Result<Context, EngineError> {
        // An engine that has stopped takes no command, and needs none.
        let _ = self.commands.send(Command::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.and_then(|thread| thread.join().ok()).ok_or(EngineError::EngineStopped)
    }

    fn enter_queue(&self) -> Result<(), EngineError> {
        let max_queue = self.limits.max_queue;
        let enter = |n| (n < max_queue).then_some(n + 1);
        let entered = self.shared.n_waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter);
        entered.map(|_| ()).map_err(|n_waiting| EngineError::QueueFull { n_waiting })
    }
}
