//! How many tokens an answer took, and where the time went.

use serde_json::{Value, json};

use crate::answer::{EndReason, Finished};

/// Counts of all choices of a request; their prompt counts once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    n_prompt: usize,
    n_cached: usize,
    n_completion: usize,
    n_reasoning: usize,
    n_finished: usize,
}

impl Usage {
    /// Adds a choice of a prompt.
    pub(crate) fn add(&mut self, finished: &Finished) {
        self.n_completion += finished.n_completion();
        self.n_reasoning += finished.n_reasoning;
        if self.n_finished == 0 {
            self.n_prompt = finished.n_prompt;
            self.n_cached = finished.n_cached();
        }
        self.n_finished += 1;
    }

    /// Adds what another prompt took.
    pub(crate) fn add_prompt(&mut self, other: &Usage) {
        self.n_prompt += other.n_prompt;
        self.n_cached += other.n_cached;
        self.n_completion += other.n_completion;
        self.n_reasoning += other.n_reasoning;
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "prompt_tokens": self.n_prompt,
            "completion_tokens": self.n_completion,
            "total_tokens": self.n_prompt + self.n_completion,
            "prompt_tokens_details": { "cached_tokens": self.n_cached },
            "completion_tokens_details": { "reasoning_tokens": self.n_reasoning },
        })
    }
}

/// OpenAI's word for the end of an answer.
pub(crate) fn finish_reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Stop | EndReason::StopString => "stop",
        EndReason::Length => "length",
        EndReason::ToolCalls => "tool_calls",
    }
}

/// Where the time went, as llama.cpp tells it.
pub(crate) fn timings(finished: &Finished) -> Value {
    let timings = &finished.generated.timings;
    let (prompt_ms, predicted_ms) = (timings.prompt.as_secs_f64() * 1e3, timings.decode.as_secs_f64() * 1e3);
    json!({
        "cache_n": timings.n_cached,
        "prompt_n": timings.n_prompt,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / timings.n_prompt.max(1) as f64,
        "prompt_per_second": timings.prompt_per_second(),
        "predicted_n": timings.n_generated,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / timings.n_generated.max(1) as f64,
        "predicted_per_second": timings.decode_per_second(),
        "queued_ms": timings.queued.as_secs_f64() * 1e3,
    })
}
