//! How a server is set up.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of a server; the defaults are those of llama.cpp's where it has them.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address that it listens on.
    pub host: IpAddr,
    /// The port; 0 for one that is free.
    pub port: u16,
    /// Keys of which a client must have one; none for no check.
    pub api_keys: Vec<String>,
    /// Origins whose pages may call, or `*`; none for no page but our own.
    pub cors_origins: Vec<String>,
    /// Most bytes of a request's body.
    pub max_body: usize,
    /// Most connections at once; more wait.
    pub max_connections: usize,
    /// The longest that a connection may stand still: within a request that it sends, or an answer that it does not take.
    pub timeout: Duration,
    /// Time that a request may take, for those that say nothing else.
    pub max_time: Option<Duration>,
    /// How long requests may go on when the server is to stop.
    pub drain: Duration,
    /// Certificate and key; none for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether prompts and answers go to the log.
    pub log_prompts: bool,
}

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, and those that vouch for it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8080,
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
            max_body: 16 << 20,
            max_connections: 1024,
            timeout: Duration::from_secs(600),
            max_time: None,
            drain: Duration::from_secs(30),
            tls: None,
            log_prompts: false,
        }
    }
}
