//! What happens to an answer, in no dialect.

use minfer_engine::{FinishReason, Generated, StepLogprobs};

/// An event of one choice.
#[derive(Clone, Debug)]
pub enum AnswerEvent {
    /// So many tokens of the prompt have been read.
    Reading {
        /// Read so far.
        n_done: usize,
        /// To be read.
        n_total: usize,
    },
    /// More of the answer.
    Piece(Piece),
    /// It is complete; nothing follows.
    Done(Box<Finished>),
}

/// A piece of an answer.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// What is new, in order.
    pub deltas: Vec<Delta>,
    /// The tokens that it is made of, if log-probabilities were asked for.
    pub tokens: Vec<TokenReport>,
}

/// What an answer is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Thoughts before the answer.
    Reasoning(String),
    /// The answer.
    Content(String),
    /// A tool is called; its arguments follow.
    ToolCall {
        /// Which call of the answer it is, from 0.
        index: usize,
        /// Its id, made here.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the arguments of a call, as JSON text.
    ToolArguments {
        /// The call.
        index: usize,
        /// The text.
        delta: String,
    },
}

/// A token of the answer and how probable the model found it.
#[derive(Clone, Debug)]
pub struct TokenReport {
    /// The token.
    pub id: u32,
    /// Characters of the answer before it.
    pub offset: usize,
    /// Whether it belongs to the thoughts, or to what sets them apart.
    pub is_thought: bool,
    /// Its log-probability, and those beside it.
    pub logprobs: StepLogprobs,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The model ended it, or the constraint did.
    Stop,
    /// A stop string came up.
    StopString,
    /// It is as long as it may be, or its time was up.
    Length,
    /// It calls tools.
    ToolCalls,
}

impl EndReason {
    /// As the log has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::StopString => "stop_string",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }

    /// Of the engine's reason.
    pub(crate) fn of(reason: FinishReason, calls_tools: bool) -> Self {
        match reason {
            FinishReason::EndOfGeneration | FinishReason::Complete if calls_tools => Self::ToolCalls,
            FinishReason::EndOfGeneration | FinishReason::Complete => Self::Stop,
            FinishReason::StopString => Self::StopString,
            FinishReason::Length
            | FinishReason::ContextFull
            | FinishReason::Deadline
            | FinishReason::Interrupted => Self::Length,
        }
    }
}

/// The end of an answer.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Why it ended.
    pub reason: EndReason,
    /// Tokens of its prompt.
    pub n_prompt: usize,
    /// Tokens generated for thoughts, and for what sets them apart.
    pub n_reasoning: usize,
    /// All that the engine says of it; its text is the whole of it, thoughts and calls included.
    pub generated: Generated,
}

impl Finished {
    /// Tokens generated.
    pub fn n_completion(&self) -> usize {
        self.generated.tokens.len()
    }

    /// Tokens of the prompt that were cached.
    pub fn n_cached(&self) -> usize {
        self.generated.timings.n_cached
    }
}
