//! Why a file is not a model that can be run.

use minfer_gguf::{MetadataError, TensorType};

/// A file that is a valid GGUF file but not a model this crate can describe.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The architecture is not among those there are.
    #[error("unsupported architecture '{name}'; supported: {supported}")]
    UnsupportedArchitecture {
        /// What the file says.
        name: String,
        /// All names there are.
        supported: String,
    },
    /// A metadata key is missing or of the wrong type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A hyper-parameter makes no sense.
    #[error("metadata key '{key}' is {value}: {reason}")]
    BadValue {
        /// The key.
        key: String,
        /// What the file says.
        value: String,
        /// What it must be.
        reason: &'static str,
    },
    /// A key asks for something that would be computed wrongly.
    #[error("metadata key '{key}' is {value}: {feature} is not supported for architecture '{architecture}'")]
    UnsupportedFeature {
        /// The key.
        key: String,
        /// What the file says.
        value: String,
        /// What it would ask for.
        feature: &'static str,
        /// The file's architecture.
        architecture: &'static str,
    },
    /// A tensor that the architecture needs is not there.
    #[error("tensor '{name}' is missing; architecture '{architecture}' needs it with shape {shape}")]
    MissingTensor {
        /// Its name.
        name: String,
        /// The file's architecture.
        architecture: &'static str,
        /// The shape it must have.
        shape: String,
    },
    /// A tensor has another shape than the hyper-parameters say.
    #[error("tensor '{name}' has shape {found}, expected {expected}")]
    TensorShape {
        /// Its name.
        name: String,
        /// What the hyper-parameters say.
        expected: String,
        /// What the file says.
        found: String,
    },
    /// A tensor is stored in a way that cannot be computed with.
    #[error("tensor '{name}' is stored as {found}, which cannot be computed with yet; {hint}")]
    TensorType {
        /// Its name.
        name: String,
        /// How it is stored.
        found: TensorType,
        /// What would do.
        hint: &'static str,
    },
    /// A tensor that the architecture does not have: computing without it would give wrong answers.
    #[error("tensor '{name}' is not used by architecture '{architecture}'{more}")]
    UnusedTensor {
        /// The first of them.
        name: String,
        /// The file's architecture.
        architecture: &'static str,
        /// How many more there are, in words, or nothing.
        more: String,
    },
    /// A small tensor holds values that cannot be used.
    #[error("tensor '{name}' holds {value} at position {index}: {reason}")]
    TensorValue {
        /// Its name.
        name: String,
        /// Which element.
        index: usize,
        /// The value.
        value: f32,
        /// What it must be.
        reason: &'static str,
    },
}
