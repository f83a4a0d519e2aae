//! `minfer serve`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use super::{ContextArgs, ModelArgs, SpeculationArgs};

/// Where the flags about connections stand in the help.
const CONNECTIONS: &str = "Connections";
/// Where the flags about requests stand in the help.
const REQUESTS: &str = "Requests";
/// Where the flags about the log stand in the help.
const LOG: &str = "Log";

/// Serve a model over HTTP, as the APIs of OpenAI, Anthropic, Ollama and llama.cpp have it
///
/// Requests are answered side by side, each with a context of its own (`-c`); those that find no place wait in a queue.
/// Only this machine can reach the server unless --host says otherwise. Asked to end (Ctrl-C, SIGTERM), it takes nothing new
/// and gives what runs --drain seconds; Ctrl-C again ends it at once.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  minfer serve smollm2-135m
  minfer serve model.gguf -np 8 -c 8192 --alias gpt-4o-mini
  minfer serve model.gguf --host 0.0.0.0 --api-key-file keys.txt
  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}'")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Names that the model is known by, separated by commas; answers carry the first [default: its name and that of its file]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', help_heading = "Model")]
    pub(crate) alias: Vec<String>,
    /// Address to listen on; 0.0.0.0 for all of this machine's
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = address, help_heading = CONNECTIONS)]
    pub(crate) host: IpAddr,
    /// Port to listen on; 0 for any that is free
    #[arg(long, value_name = "N", default_value_t = 8080, help_heading = CONNECTIONS)]
    pub(crate) port: u16,
    /// Keys of which a client must have one, separated by commas; others can see them in the list of processes
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = CONNECTIONS)]
    pub(crate) api_key: Vec<String>,
    /// File with a key on each line
    #[arg(long, value_name = "FILE", help_heading = CONNECTIONS)]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Certificate in PEM, those that vouch for it after it: serve HTTPS
    #[arg(long, value_name = "FILE", requires = "ssl_key_file", help_heading = CONNECTIONS)]
    pub(crate) ssl_cert_file: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "ssl_cert_file", help_heading = CONNECTIONS)]
    pub(crate) ssl_key_file: Option<PathBuf>,
    /// Origins whose pages may call, separated by commas; * for all
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = CONNECTIONS)]
    pub(crate) cors_origins: Vec<String>,
    /// Most connections at once; more wait
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = count(65536), help_heading = CONNECTIONS)]
    pub(crate) max_connections: usize,
    /// Seconds that a connection may stand still within a request or an answer (also -to)
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = seconds(), help_heading = CONNECTIONS)]
    pub(crate) timeout: u64,
    /// Seconds that requests may go on when the server is asked to end
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = seconds(), help_heading = CONNECTIONS)]
    pub(crate) drain: u64,
    /// Requests that are answered at once, each with a context of its own (also -np)
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count(4096), help_heading = REQUESTS)]
    pub(crate) parallel: usize,
    /// Most requests that wait; more are refused
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = count(1 << 20), help_heading = REQUESTS)]
    pub(crate) max_queue: usize,
    /// Most seconds that a request waits; later it is refused [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), help_heading = REQUESTS)]
    pub(crate) max_wait: Option<u64>,
    /// Most seconds that a request may take; it gets what there is by then [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), help_heading = REQUESTS)]
    pub(crate) max_time: Option<u64>,
    /// Milliseconds that an answer should wait at most for its next token while prompts of others are read
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = RangedU64ValueParser::<u64>::new().range(1..=60_000), help_heading = REQUESTS)]
    pub(crate) max_stall_ms: u64,
    /// Most bytes of the body of a request, such as 16MiB
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = crate::units::parse_bytes, help_heading = REQUESTS)]
    pub(crate) max_body: usize,
    /// How much goes to the log, which is on standard error
    #[arg(long, value_name = "LEVEL", default_value = "info", help_heading = LOG)]
    pub(crate) log_level: LogLevel,
    /// How the lines of the log are written
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = LOG)]
    pub(crate) log_format: LogFormat,
    /// Write prompts to the log, too
    #[arg(long, help_heading = LOG)]
    pub(crate) log_prompts: bool,
    /// Write the description of all endpoints in OpenAPI to standard output, and serve nothing
    #[arg(long)]
    pub(crate) print_openapi: bool,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
}

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing
    Off,
    /// What went wrong
    Error,
    /// What is odd, too
    Warn,
    /// Every request, too
    Info,
    /// Every connection, too
    Debug,
}

/// How it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// An object on each line
    Json,
}

fn count(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

fn seconds() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=31_536_000)
}

/// An address, or the name of one.
fn address(text: &str) -> Result<IpAddr, io::Error> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let found = (text, 0).to_socket_addrs()?.next();
    found.map(|found| found.ip()).ok_or_else(|| io::ErrorKind::NotFound.into())
}
