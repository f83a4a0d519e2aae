//! What can be wrong with a request that the libraries never get to see.

use minfer_engine::insight::StepSizeError;
use std::io;
use std::path::{Path, PathBuf};

use minfer_engine::npz::NpzError;

use crate::fault::Fault;

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// No model was named.
    #[error("no model given")]
    NoModel,
    /// A flag of llama.cpp names a model that would have to be downloaded.
    #[error("{flag} {name}: minfer does not download models from there")]
    NotFetched {
        /// The flag.
        flag: &'static str,
        /// What it names.
        name: String,
    },
    /// A flag gives what an argument gives, too.
    #[error("unexpected argument '{argument}': the {what} is already given by {flag}")]
    ExtraArgument {
        /// The argument.
        argument: String,
        /// What both give.
        what: &'static str,
        /// The flag.
        flag: &'static str,
    },
    /// Something the command needs was left out.
    #[error("no {what} given")]
    Missing {
        /// What it is.
        what: &'static str,
    },
    /// Keys and values in the cache would have different types.
    #[error("the types of --cache-type-k and --cache-type-v differ, and they have to be the same")]
    MixedCache,
    /// Nodes are chosen for a trace that nobody asked for.
    #[error("--trace-nodes chooses what a trace has, and none is written; name its file with --trace")]
    NoTrace,
    /// A draft model would guess more tokens than it may.
    #[error("--draft-min {min} is more than --draft-max {max}")]
    DraftRange {
        /// Fewest.
        min: usize,
        /// Most.
        max: usize,
    },
    /// A conversation needs somebody who types.
    #[error("a conversation needs a terminal on standard input and standard output")]
    NoTerminal,
    /// A picture of a difference.
    #[error("the difference of two graphs can be written as text or JSON, not as dot")]
    NoDotDiff,
    /// A step that cannot be.
    #[error(transparent)]
    StepSize(#[from] StepSizeError),
    /// A setting of a graph, where a model is run.
    #[error("setting '{key}' is about graphs; here a model is run")]
    GraphSetting {
        /// The setting.
        key: &'static str,
    },
    /// Two sides of a comparison that are one.
    #[error("both sides have the same settings, so there is nothing to compare")]
    SameSettings,
    /// A text and token ids.
    #[error("a text and --tokens cannot be used together")]
    TextAndTokens,
    /// The user stopped it.
    #[error("stopped")]
    Interrupted,
    /// Something could not be set up on this machine.
    #[error("cannot {action}: {reason}")]
    Setup {
        /// What was being done.
        action: &'static str,
        /// Why not.
        reason: String,
    },
    /// The output of a batch has lines that answer other requests.
    #[error("{}: line {number} is no answer to one of these requests; name another file", path.display())]
    ForeignOutput {
        /// The file.
        path: PathBuf,
        /// The line.
        number: usize,
    },
    /// The output of a batch has an answer to a request that has changed.
    #[error(
        "{}: line {number} answers line {request} of the requests as it was before it was changed; \
         name another file, or take the line out",
        path.display()
    )]
    ChangedRequest {
        /// The file.
        path: PathBuf,
        /// The line of the answer.
        number: usize,
        /// The line of the request.
        request: usize,
    },
    /// The output of a batch has an answer that would be another one now.
    #[error(
        "{}: line {number} was answered by another model, or with another context size or type of the cache; \
         name another file",
        path.display()
    )]
    ChangedSetup {
        /// The file.
        path: PathBuf,
        /// The line of the answer.
        number: usize,
    },
    /// Every request of a batch was refused.
    #[error("none of {n_requests} requests could be served; {} says why", path.display())]
    NoneServed {
        /// How many.
        n_requests: usize,
        /// The file with their errors.
        path: PathBuf,
    },
    /// A session that another process has.
    #[error("{} is in use by another run; a session is for one at a time", path.display())]
    SessionBusy {
        /// The session.
        path: PathBuf,
    },
    /// A file of keys that has none.
    #[error("{} has no API key; it should have one on each line", path.display())]
    NoKeys {
        /// The file.
        path: PathBuf,
    },
    /// An output would replace a file that the run reads, or another output.
    #[error("{}, for {role}, is the same file as {other}; name another", path.display())]
    SameFile {
        /// The file, as it was named last.
        path: PathBuf,
        /// What it was to be then.
        role: &'static str,
        /// What it is already.
        other: &'static str,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of logits could not be written.
    #[error("cannot write the logits: {0}")]
    WriteLogits(#[source] NpzError),
    /// Nothing is to be measured.
    #[error("no test: -p, -n and -pg are all 0")]
    NoTest,
    /// A file that was named on the command line could not be read.
    #[error("cannot read {}: {source}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Standard input could not be read.
    #[error("cannot read standard input: {0}")]
    ReadStdin(#[source] io::Error),
    /// Something to be read is longer than anything sensible.
    #[error("{origin} has more than {limit} bytes")]
    TooLong {
        /// Where it comes from.
        origin: String,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// Text that is not UTF-8.
    #[error("{origin} is not UTF-8 text (invalid from byte {valid_up_to})")]
    NotUtf8 {
        /// Where it comes from.
        origin: String,
        /// How many bytes at the start are valid.
        valid_up_to: usize,
    },
    /// A token id that is no number.
    #[error("'{text}' is not a token id")]
    TokenId {
        /// What was given.
        text: String,
    },
    /// JSON that cannot be parsed.
    #[error("{origin} is not valid JSON: {source}")]
    Json {
        /// Where it comes from.
        origin: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// JSON that is something else than was asked for.
    #[error("{origin}: {what} should be {expected}")]
    Shape {
        /// Where it comes from.
        origin: String,
        /// Which part of it.
        what: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

impl CliError {
    /// Whose fault it is.
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::NoModel | Self::ExtraArgument { .. } | Self::Missing { .. } | Self::NoKeys { .. } => {
                Fault::Usage
            }
            Self::SameFile { .. } | Self::NotFetched { .. } => Fault::Usage,
            Self::ReadFile { .. } | Self::ForeignOutput { .. } => Fault::Model,
            Self::ChangedRequest { .. } | Self::ChangedSetup { .. } => Fault::Model,
            Self::NoneServed { .. } => Fault::Request,
            Self::SessionBusy { .. } => Fault::Machine,
            Self::MixedCache
            | Self::NoTrace
            | Self::DraftRange { .. }
            | Self::NoTerminal
            | Self::TextAndTokens
            | Self::NoTest => Fault::Usage,
            Self::SameSettings | Self::GraphSetting { .. } | Self::NoDotDiff | Self::StepSize(_) => {
                Fault::Usage
            }
            Self::Interrupted => Fault::Interrupted,
            Self::ReadStdin(_) | Self::Setup { .. } | Self::WriteFile { .. } | Self::WriteLogits(_) => {
                Fault::Machine
            }
            Self::TooLong { .. } | Self::NotUtf8 { .. } | Self::TokenId { .. } => Fault::Request,
            Self::Json { .. } | Self::Shape { .. } => Fault::Request,
        }
    }

    pub(crate) fn read_file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::ReadFile { path, source }
    }

    pub(crate) fn write_file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::WriteFile { path, source }
    }
}
