//! Every `MINFER_*` variable of the project: [`VARIABLES`] says what each is for, [`Env::read`] reads them.
//!
//! Contract: a variable that is unset or empty changes nothing; one with a value that makes no sense stops the command
//! before it does anything, with an error that names the variable. A flag beats its variable.

use std::ffi::OsString;
use std::path::PathBuf;

use minfer_cpu::isa::Isa;
use minfer_graph::Backend;

use crate::units;

/// One row of the table at the end of `minfer --help`.
pub(crate) struct Variable {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it holds.
    pub(crate) value: &'static str,
    /// What it is for.
    pub(crate) help: &'static str,
}

const MODELS: &str = "MINFER_MODELS";
const BACKENDS: &str = "MINFER_BACKENDS";
const THREADS: &str = "MINFER_THREADS";
const THREADS_BATCH: &str = "MINFER_THREADS_BATCH";
const ISA: &str = "MINFER_ISA";
const NO_FUSE_QKV: &str = "MINFER_NO_FUSE_QKV";
const NO_FUSE_FFN: &str = "MINFER_NO_FUSE_FFN";
const NO_GPU_IMPORT: &str = "MINFER_NO_GPU_IMPORT";
const DISABLE_MPS: &str = "MINFER_DISABLE_MPS";
const DISABLE_CUDA: &str = "MINFER_DISABLE_CUDA";
const GRAPH_TRACE: &str = "MINFER_GRAPH_TRACE";
const OP_PROFILE: &str = "MINFER_OP_PROFILE";
const PACKED_CACHE: &str = "MINFER_PACKED_CACHE";
const TRACE: &str = "MINFER_TRACE";

/// All variables, in the order of the help.
pub(crate) const VARIABLES: [Variable; 14] = [
    variable(MODELS, "DIR", "folder that models are kept in, instead of ~/.cache/minfer/models"),
    variable(BACKENDS, "LIST", "engines to use, as --backend takes them"),
    variable(THREADS, "N", "number of threads, as --threads takes it"),
    variable(THREADS_BATCH, "N", "number of threads for prompts, as --threads-batch takes it"),
    variable(ISA, "NAME", "slower instruction set to use: scalar, avx2 or avx512"),
    variable(PACKED_CACHE, "SIZE", "most that packed weights may take on disk, as --packed-cache takes it"),
    variable(NO_FUSE_QKV, "1", "keep the query, key and value projections apart"),
    variable(NO_FUSE_FFN, "1", "keep the steps of the feed-forward network apart"),
    variable(NO_GPU_IMPORT, "1", "copy weights to a GPU that could read them where the file is mapped"),
    variable(DISABLE_MPS, "1", "leave the metal engine out"),
    variable(DISABLE_CUDA, "1", "leave the cuda engine out"),
    variable(GRAPH_TRACE, "1", "write splits, ops and kernels of each new graph to standard error"),
    variable(OP_PROFILE, "1", "write the time of each op and engine to standard error"),
    variable(TRACE, "FILE", "write the values of every node to FILE"),
];

const fn variable(name: &'static str, value: &'static str, help: &'static str) -> Variable {
    Variable { name, value, help }
}

/// What the variables say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Env {
    /// Names of engines, separated by commas.
    pub(crate) backends: Option<String>,
    /// Number of threads, at least 1.
    pub(crate) n_threads: Option<usize>,
    /// The same for steps that read prompts.
    pub(crate) n_threads_batch: Option<usize>,
    /// Name of an instruction set that this machine has.
    pub(crate) isa: Option<String>,
    /// Most bytes of packed weights that are kept on disk.
    pub(crate) packed_cache: Option<usize>,
    /// Whether the structural fusion of query, key and value is off.
    pub(crate) no_fuse_qkv: bool,
    /// Whether the structural fusion of the feed-forward network is off.
    pub(crate) no_fuse_ffn: bool,
    /// Whether a GPU gets copies of weights that it could read in place.
    pub(crate) no_gpu_import: bool,
    /// Engines that are left out.
    pub(crate) disabled: Vec<Backend>,
    /// Whether splits and ops are written out.
    pub(crate) graph_trace: bool,
    /// Whether times are written out.
    pub(crate) op_profile: bool,
    /// Where the values of every node go.
    pub(crate) trace: Option<PathBuf>,
}

/// A variable holds something that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {name} is '{value}', expected {expected}")]
pub(crate) struct EnvError {
    name: &'static str,
    value: String,
    expected: String,
}

impl Env {
    /// Reads the variables through `lookup`, which gives the value of a name.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, EnvError> {
        let set = |name| lookup(name).filter(|value| !value.is_empty());
        let text = |name| set(name).map(|value| unicode(name, value)).transpose();
        let threads = |name| text(name)?.map(|value| parse_threads(name, &value)).transpose();
        let switch = |name| text(name)?.map_or(Ok(false), |value| parse_switch(name, &value));
        let disabled = [(DISABLE_MPS, Backend::METAL), (DISABLE_CUDA, Backend::CUDA)]
            .into_iter()
            .filter_map(|(name, backend)| switch(name).map(|off| off.then_some(backend)).transpose());
        Ok(Self {
            backends: text(BACKENDS)?,
            n_threads: threads(THREADS)?,
            n_threads_batch: threads(THREADS_BATCH)?,
            isa: text(ISA)?.map(checked_isa).transpose()?,
            packed_cache: text(PACKED_CACHE)?.map(|value| parse_size(PACKED_CACHE, &value)).transpose()?,
            no_fuse_qkv: switch(NO_FUSE_QKV)?,
            no_fuse_ffn: switch(NO_FUSE_FFN)?,
            no_gpu_import: switch(NO_GPU_IMPORT)?,
            disabled: disabled.collect::<Result<_, _>>()?,
            graph_trace: switch(GRAPH_TRACE)?,
            op_profile: switch(OP_PROFILE)?,
            trace: set(TRACE).map(PathBuf::from),
        })
    }
}

/// Most threads that can be asked for.
pub(crate) const MAX_THREADS: usize = minfer_cpu::pool::MAX_THREADS;

fn parse_threads(name: &'static str, value: &str) -> Result<usize, EnvError> {
    let n = value.trim().parse().ok().filter(|n| (1..=MAX_THREADS).contains(n));
    n.ok_or_else(|| fault(name, value, format!("a number from 1 to {MAX_THREADS}")))
}

fn parse_size(name: &'static str, value: &str) -> Result<usize, EnvError> {
    units::parse_bytes_or_zero(value).map_err(|_| fault(name, value, "a size such as 4GiB or 500M, or 0"))
}

fn parse_switch(name: &'static str, value: &str) -> Result<bool, EnvError> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(fault(name, value, "1 or 0")),
    }
}

/// A wrong name should stop a command that runs no kernel, too.
fn checked_isa(value: String) -> Result<String, EnvError> {
    if Isa::from_name(&value).is_ok() {
        return Ok(value);
    }
    let names: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
    Err(fault(ISA, value, format!("one that this machine can run: {}", names.join(", "))))
}

fn unicode(name: &'static str, value: OsString) -> Result<String, EnvError> {
    value.into_string().map_err(|value| fault(name, value.to_string_lossy(), "text in UTF-8"))
}

fn fault(name: &'static str, value: impl Into<String>, expected: impl Into<String>) -> EnvError {
    EnvError { name, value: value.into(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, value: &str) -> Result<Env, EnvError> {
        Env::read(|asked| (asked == name).then(|| value.into()))
    }

    #[test]
    fn nothing_set_changes_nothing_and_neither_does_an_empty_value() {
        let plain = Env::read(|_| None).unwrap();
        assert!(!plain.no_fuse_qkv && plain.trace.is_none() && plain.n_threads.is_none());
        assert_eq!(Env::read(|_| Some(OsString::new())), Ok(plain));
    }

    #[test]
    fn values_are_read() {
        assert_eq!(read(THREADS, " 3 ").unwrap().n_threads, Some(3));
        assert_eq!(read(THREADS_BATCH, "4").unwrap().n_threads_batch, Some(4));
        assert_eq!(read(BACKENDS, "cpu,cuda").unwrap().backends.as_deref(), Some("cpu,cuda"));
        assert_eq!(read(TRACE, "f").unwrap().trace, Some("f".into()));
        assert_eq!(read(PACKED_CACHE, " 2GiB ").unwrap().packed_cache, Some(2 << 30));
        assert_eq!(read(PACKED_CACHE, "0").unwrap().packed_cache, Some(0));
        assert!(read(NO_FUSE_QKV, "1").unwrap().no_fuse_qkv);
        assert!(read(NO_FUSE_FFN, "True").unwrap().no_fuse_ffn);
        assert!(read(NO_GPU_IMPORT, "1").unwrap().no_gpu_import);
        assert_eq!(read(DISABLE_MPS, "on").unwrap().disabled, [Backend::METAL]);
        assert_eq!(read(DISABLE_CUDA, "yes").unwrap().disabled, [Backend::CUDA]);
        assert_eq!(read(DISABLE_CUDA, "0").unwrap().disabled, []);
        assert!(read(GRAPH_TRACE, "1").unwrap().graph_trace);
        assert!(!read(OP_PROFILE, "0").unwrap().op_profile);
        assert_eq!(read(ISA, "Scalar").unwrap().isa.as_deref(), Some("Scalar"));
    }

    #[test]
    fn nonsense_names_the_variable() {
        for (name, value) in [
            (THREADS, "0"),
            (THREADS, "-1"),
            (THREADS, "513"),
            (THREADS, "99999999999999999999999"),
            (THREADS, "two"),
            (ISA, "mmx"),
            (PACKED_CACHE, "-1"),
            (PACKED_CACHE, "much"),
            (NO_FUSE_QKV, "2"),
            (NO_FUSE_FFN, "maybe"),
            (NO_GPU_IMPORT, "x"),
            (DISABLE_MPS, "x"),
            (DISABLE_CUDA, "x"),
            (GRAPH_TRACE, "x"),
            (OP_PROFILE, "x"),
        ] {
            let error = read(name, value).expect_err(name);
            assert_eq!((error.name, error.value.as_str()), (name, value));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_unicode_is_an_error_except_for_a_path() {
        use std::os::unix::ffi::OsStringExt;
        let hostile = || OsString::from_vec(vec![b'1', 0xff]);
        for name in VARIABLES.map(|variable| variable.name) {
            let result = Env::read(|asked| (asked == name).then(hostile));
            assert_eq!(result.is_ok(), [MODELS, TRACE].contains(&name), "{name}");
        }
    }
}
