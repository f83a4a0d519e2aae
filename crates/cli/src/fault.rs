//! From an error to an exit code, by whose fault it is.
//!
//! This is the only place that knows the numbers; [`FAULTS`] is also the table at the end of `minfer --help`.

use std::error::Error;
use std::io;

use minfer_engine::EngineError;
use minfer_gguf::{FaultClass, GgufError, MetadataError};
use minfer_hub::HubError;
use minfer_server::ServerError;
use minfer_text::chat::TemplateError;
use minfer_text::tokenizer::TokenizerError;

use crate::env::EnvError;
use crate::error::CliError;
use crate::output::StdoutError;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The command line or an environment variable.
    Usage,
    /// The model, or another file that was named.
    Model,
    /// What the model was asked to do.
    Request,
    /// This machine: memory, disk, network, a device.
    Machine,
    /// Ours.
    Bug,
    /// The user stopped it.
    Interrupted,
}

/// Every fault with its meaning, as the help tells it.
pub(crate) const FAULTS: [(Fault, &str); 6] = [
    (Fault::Usage, "wrong flags, arguments or environment variables"),
    (Fault::Model, "a model or file that is not there, is damaged or is of an unsupported kind"),
    (Fault::Request, "a request that the model cannot serve, such as a prompt longer than the context"),
    (Fault::Machine, "this machine: memory, disk, network or device"),
    (Fault::Bug, "a fault in minfer itself"),
    (Fault::Interrupted, "stopped by Ctrl-C (by SIGTERM it is 143)"),
];

impl Fault {
    /// What the command exits with.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Model => 3,
            Self::Request => 4,
            Self::Machine => 5,
            Self::Bug => 70,
            Self::Interrupted => 130,
        }
    }

    /// Whose fault `error` is: what the outermost error of a known type says. An error of no known type is one that
    /// nobody thought of.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(classify).unwrap_or(Self::Bug)
    }
}

fn classify(error: &(dyn Error + 'static)) -> Option<Fault> {
    let known: [Option<Fault>; 10] = [
        says(error, CliError::fault),
        says(error, of_engine),
        says(error, |_: &EnvError| Fault::Usage),
        says(error, of_hub),
        says(error, of_server),
        says(error, of_gguf),
        says(error, |_: &MetadataError| Fault::Model),
        says(error, of_tokenizer),
        says(error, of_template),
        says(error, of_io),
    ];
    known.into_iter().flatten().next()
}

fn says<E: Error + 'static>(error: &(dyn Error + 'static), fault: impl FnOnce(&E) -> Fault) -> Option<Fault> {
    error.downcast_ref().map(fault)
}

fn of_engine(error: &EngineError) -> Fault {
    match error {
        EngineError::Open(inner) => of_gguf(inner),
        EngineError::Tokenizer(inner) => of_tokenizer(inner),
        EngineError::Template(inner) => of_template(inner),
        // What flags and variables say.
        EngineError::Backends(_) | EngineError::Cpu(_) | EngineError::Setting { .. } => Fault::Usage,
        EngineError::SamplerSetting(_) | EngineError::Stop(_) | EngineError::TraceNode { .. } => Fault::Usage,
        EngineError::DraftVocabulary { .. } => Fault::Model,
        other => match other.fault() {
            minfer_engine::Fault::BadModel | minfer_engine::Fault::Unsupported => Fault::Model,
            minfer_engine::Fault::BadRequest => Fault::Request,
            minfer_engine::Fault::OutOfMemory | minfer_engine::Fault::Device | minfer_engine::Fault::Busy => {
                Fault::Machine
            }
            minfer_engine::Fault::Bug => Fault::Bug,
        },
    }
}

fn of_hub(error: &HubError) -> Fault {
    match error.fault() {
        minfer_hub::Fault::Name | minfer_hub::Fault::Data => Fault::Model,
        minfer_hub::Fault::Machine | minfer_hub::Fault::Network => Fault::Machine,
    }
}

fn of_server(error: &ServerError) -> Fault {
    match error {
        ServerError::Listen { .. } | ServerError::Threads { .. } => Fault::Machine,
        ServerError::Tls(_) => Fault::Model,
    }
}

fn of_gguf(error: &GgufError) -> Fault {
    match (error, error.class()) {
        (GgufError::Io { source, .. }, FaultClass::Access) if !is_about_the_path(source) => Fault::Machine,
        _ => Fault::Model,
    }
}

fn of_tokenizer(error: &TokenizerError) -> Fault {
    match error {
        TokenizerError::UnknownId { .. } | TokenizerError::TextTooLong { .. } => Fault::Request,
        TokenizerError::Pattern { .. } => Fault::Bug,
        _ => Fault::Model,
    }
}

fn of_template(error: &TemplateError) -> Fault {
    match error {
        TemplateError::Raised { .. } | TemplateError::InputTooDeep { .. } | TemplateError::Render { .. } => {
            Fault::Request
        }
        _ => Fault::Model,
    }
}

/// The libraries wrap what they read and write; bare errors come from standard output.
fn of_io(error: &io::Error) -> Fault {
    match error.get_ref() {
        Some(inner) if inner.is::<StdoutError>() => Fault::Machine,
        _ if is_about_the_path(error) => Fault::Model,
        _ => Fault::Machine,
    }
}

fn is_about_the_path(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied | IsADirectory | NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_pinned_and_distinct() {
        assert_eq!(FAULTS.map(|(fault, _)| fault.exit_code()), [2, 3, 4, 5, 70, 130]);
    }

    #[test]
    fn the_outermost_known_error_decides() {
        let template = TemplateError::Raised { message: "no".into() };
        assert_eq!(Fault::of(&anyhow::Error::from(template).context("rendering")), Fault::Request);
        let missing = MetadataError::Missing { key: "k".into() };
        assert_eq!(Fault::of(&TokenizerError::from(missing).into()), Fault::Model);
        assert_eq!(Fault::of(&TokenizerError::UnknownId { id: 9, n_vocab: 3 }.into()), Fault::Request);
        assert_eq!(Fault::of(&HubError::NoCacheFolder.into()), Fault::Machine);
        assert_eq!(Fault::of(&CliError::NoModel.into()), Fault::Usage);
        let full = EngineError::ContextFull { n_tokens: 9, n_past: 0, n_ctx: 8 };
        assert_eq!(Fault::of(&full.into()), Fault::Request);
        let raised = TemplateError::Raised { message: "no".into() };
        assert_eq!(Fault::of(&EngineError::from(raised).into()), Fault::Request);
    }

    #[test]
    fn a_missing_file_is_not_the_machines_fault() {
        let open =
            |kind: io::ErrorKind| GgufError::Io { path: "m".into(), doing: "open", source: kind.into() };
        assert_eq!(of_gguf(&open(io::ErrorKind::NotFound)), Fault::Model);
        assert_eq!(of_gguf(&open(io::ErrorKind::OutOfMemory)), Fault::Machine);
    }

    #[test]
    fn what_nobody_thought_of_is_a_bug() {
        assert_eq!(Fault::of(&anyhow::anyhow!("?")), Fault::Bug);
    }
}
