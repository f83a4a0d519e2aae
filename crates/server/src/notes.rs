//! What the log says of a request besides its status: counts and times, never its words.
//!
//! Handlers pass nothing on for it: the notes of a request belong to the task that handles it, and its answers look there
//! for them when they are submitted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

tokio::task_local! {
    static CURRENT: Arc<Notes>;
}

/// The notes of one request.
#[derive(Debug)]
pub(crate) struct Notes {
    start: Instant,
    tally: Mutex<Tally>,
}

/// What was noted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tokens of its prompts, each counted once however many answers there are to it.
    pub(crate) n_prompt: Option<usize>,
    /// Those of them that were cached, as far as answers have ended.
    pub(crate) n_cached: Option<usize>,
    /// Tokens generated for all of its answers.
    pub(crate) n_completion: Option<usize>,
    /// From its arrival to its first token.
    pub(crate) first_token: Option<Duration>,
    /// Why its first answer ended.
    pub(crate) finish: Option<&'static str>,
}

impl Notes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), tally: Mutex::default() })
    }

    /// Runs `work`, whose answers note what becomes of them.
    pub(crate) async fn follow<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// Those of the request that this task handles; outside of any, nobody reads them.
    pub(crate) fn current() -> Arc<Self> {
        CURRENT.try_with(Arc::clone).unwrap_or_else(|_| Self::new())
    }

    /// Since the request came.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A prompt was handed to the engine.
    pub(crate) fn prompt(&self, n_tokens: usize) {
        self.change(|tally| add(&mut tally.n_prompt, n_tokens));
    }

    /// So much of a prompt was cached.
    pub(crate) fn cached(&self, n_tokens: usize) {
        self.change(|tally| add(&mut tally.n_cached, n_tokens));
    }

    /// A token was generated.
    pub(crate) fn token(&self) {
        let elapsed = self.elapsed();
        self.change(|tally| {
            add(&mut tally.n_completion, 1);
            tally.first_token.get_or_insert(elapsed);
        });
    }

    /// An answer has ended.
    pub(crate) fn finish(&self, reason: &'static str) {
        self.change(|tally| {
            tally.finish.get_or_insert(reason);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn add(count: &mut Option<usize>, n: usize) {
    *count = Some(count.unwrap_or(0) + n);
}
