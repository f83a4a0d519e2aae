//! What can go wrong before a device runs anything.

/// A device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The system shows no adapter.
    #[error("no adapter was found: install a Vulkan driver for the GPU")]
    NoAdapter,
    /// Only adapters that run on the processor.
    #[error(
        "only software adapters were found ({names}); one is used if it is asked for by name, with --device"
    )]
    OnlySoftware {
        /// Their names.
        names: String,
    },
    /// No adapter has that name.
    #[error("no adapter is called '{asked}'; there are: {names}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// The names there are.
        names: String,
    },
    /// The adapter cannot do what every kernel needs.
    #[error("adapter '{name}' cannot run the kernels: {reason}")]
    Unfit {
        /// The adapter.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// The system refused to open it.
    #[error("adapter '{name}' could not be opened: {reason}")]
    Refused {
        /// The adapter.
        name: String,
        /// What the system said.
        reason: String,
    },
}
