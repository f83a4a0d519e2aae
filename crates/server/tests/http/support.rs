//! A server with a tiny model, and a client that sees every byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use minfer_engine::{ContextParams, Engine, EngineParams, LoadOptions, Model};
use minfer_server::{Hosted, Server, ServerConfig};
use serde_json::{Value, json};

/// A whole model of 25 KB: qwen2, 264 tokens, byte-level, with a chat template.
pub(crate) fn model() -> Arc<Model> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../cli/tests/data/tiny.gguf"].iter().collect();
    Model::load(&path, &LoadOptions::default()).unwrap()
}

/// A real model, if it is in the folder of models; says so and gives nothing where it is not.
pub(crate) fn real_model(file: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("MINFER_MODELS").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/minfer/models"));
    let path = folder.or(home)?.join(file);
    if !path.is_file() {
        eprintln!("SKIPPED: no file {}", path.display());
        return None;
    }
    Some(path)
}

pub(crate) fn engine(params: &EngineParams) -> Engine {
    Engine::new(&model(), params).unwrap()
}

/// Four places, a context of 512.
pub(crate) fn small() -> EngineParams {
    let context =
        ContextParams { n_ctx: 512, n_seq_max: 4, n_outputs_max: Some(32), ..ContextParams::default() };
    EngineParams { context, ..EngineParams::default() }
}

pub(crate) fn config() -> ServerConfig {
    ServerConfig { port: 0, ..ServerConfig::default() }
}

/// As it is known to clients.
pub(crate) fn hosted(engine: Engine) -> Hosted {
    Hosted::new(engine, vec!["tiny".into(), "other".into()])
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) engine: Engine,
}

/// With the usual settings.
pub(crate) fn start() -> Running {
    start_with(&small(), config())
}

pub(crate) fn start_with(params: &EngineParams, config: ServerConfig) -> Running {
    serve(engine(params), config)
}

pub(crate) fn serve(engine: Engine, config: ServerConfig) -> Running {
    Running { server: Server::start(hosted(engine.clone()), config).unwrap(), engine }
}

/// A response, whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The data of each event of a stream.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }

    /// The events less the last, which is `[DONE]`.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        assert_eq!(
            (self.status, self.header("content-type")),
            (200, Some("text/event-stream; charset=utf-8"))
        );
        let mut events = self.events();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{events:?}");
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

impl Running {
    pub(crate) fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        send(self.addr(), "GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        send(self.addr(), "POST", path, &[], body.to_string().as_bytes())
    }

    pub(crate) fn chat(&self, more: Value) -> Reply {
        self.post("/v1/chat/completions", &with(chat_body(), more))
    }

    pub(crate) fn complete(&self, more: Value) -> Reply {
        self.post(
            "/v1/completions",
            &with(json!({ "prompt": "abc", "max_tokens": 8, "temperature": 0 }), more),
        )
    }

    /// Waits until the engine has nothing to do.
    pub(crate) fn wait_until_idle(&self) {
        self.wait_until("nothing runs", |stats| stats.n_running == 0 && stats.n_waiting == 0);
    }

    /// Waits until the engine's figures say so.
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&minfer_engine::EngineStats) -> bool) {
        let start = Instant::now();
        while !holds(&self.engine.stats()) {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}: {:?}", self.engine.stats());
            std::thread::yield_now();
        }
    }
}

pub(crate) fn chat_body() -> Value {
    json!({
        "model": "tiny", "messages": [{ "role": "user", "content": "Hello" }], "max_tokens": 12, "temperature": 0,
    })
}

/// `body` with other fields.
pub(crate) fn with(mut body: Value, more: Value) -> Value {
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

/// A stream that is read up to its first text.
pub(crate) fn begin_stream(server: &Running) -> TcpStream {
    let body = with(chat_body(), json!({ "stream": true, "max_tokens": 400, "ignore_eos": true }));
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.write_all(&request("POST", "/v1/chat/completions", &[], body.to_string().as_bytes())).unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 256];
    while !String::from_utf8_lossy(&seen).contains("\"role\"") {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..n]);
    }
    stream
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    [head.as_bytes(), body].concat()
}

pub(crate) fn send(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let mut stream = TcpStream::connect(addr).unwrap();
    // A server that refuses a large body may close before all of it is written.
    let _ = stream.write_all(&request(method, path, headers, body));
    read_reply(&mut stream)
}

/// Reads to the end of the connection.
pub(crate) fn read_reply(stream: &mut impl Read) -> Reply {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    parse_reply(&bytes)
}

pub(crate) fn parse_reply(bytes: &[u8]) -> Reply {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let split = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned()));
    let mut reply =
        Reply { status, headers: lines.filter_map(split).collect(), body: bytes[end + 4..].to_vec() };
    if reply.header("transfer-encoding") == Some("chunked") {
        reply.body = unchunked(&reply.body);
    }
    reply
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = bytes.windows(2).position(|w| w == b"\r\n") {
        let n = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if n == 0 {
            return out;
        }
        out.extend_from_slice(&bytes[end + 2..end + 2 + n]);
        bytes = &bytes[end + 4 + n..];
    }
    panic!("the stream was cut off");
}
