//! How a server stops.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use minfer_server::ServerConfig;
use serde_json::{Value, json};

use crate::support::*;

#[test]
fn stopping_lets_what_runs_end_and_takes_nothing_new() {
    let server = start();
    let mut stream = begin_stream(&server);
    server.server.stop();
    let rest = {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert!(rest.contains("data: [DONE]"), "{rest}");
    let Running { server, engine } = server;
    let addr = server.addr();
    server.join();
    assert!(TcpStream::connect(addr).is_err());
    assert_eq!(engine.stats().blocks.in_use, 0);
}

#[test]
fn what_runs_too_long_is_cancelled_when_the_server_stops() {
    let server = start_with(&small(), ServerConfig { drain: Duration::from_millis(1), ..config() });
    let mut streams: Vec<_> = (0..4).map(|_| begin_stream(&server)).collect();
    server.server.stop();
    let Running { server, engine } = server;
    server.join();
    for stream in &mut streams {
        let mut bytes = Vec::new();
        // Cut off or told: either way it ends.
        let _ = stream.read_to_end(&mut bytes);
    }
    let start = std::time::Instant::now();
    while engine.stats().n_running > 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    assert_eq!(engine.stats().blocks.in_use, 0);
}

/// Tokens of an answer that takes longer than what the test does meanwhile.
const N_ENDLESS: usize = 390_000;

fn endless() -> Value {
    json!({
        "messages": [{ "role": "user", "content": "a" }], "max_tokens": N_ENDLESS, "ignore_eos": true, "stream": true,
    })
}

#[test]
fn whoever_still_waits_when_the_drain_is_over_is_told_so() {
    let mut params = small();
    (params.context.n_ctx, params.context.n_seq_max) = (400_000, 1);
    let server = start_with(&params, ServerConfig { drain: Duration::from_millis(1), ..config() });
    let open = |path: &str, body: &Value| {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(&request("POST", path, &[], body.to_string().as_bytes())).unwrap();
        stream
    };
    let mut running = open("/v1/chat/completions", &endless());
    server.wait_until("it runs", |stats| stats.n_running == 1);
    let message = json!([{ "role": "user", "content": "a" }]);
    let chat = json!({ "messages": message, "max_tokens": 4 });
    let mut waiting = [
        open("/v1/chat/completions", &chat),
        open("/v1/chat/completions", &with(chat.clone(), json!({ "stream": true }))),
        open("/v1/messages", &with(chat.clone(), json!({ "model": "tiny" }))),
        open("/api/chat", &json!({ "model": "tiny", "messages": message })),
        open("/v1/embeddings", &json!({ "input": "a" })),
    ];
    server.wait_until("they wait", |stats| stats.n_waiting == 5);
    // One that has not sent all of its body is told as well.
    let mut sending = TcpStream::connect(server.addr()).unwrap();
    let head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\
        expect: 100-continue\r\n\r\n";
    sending.write_all(head).unwrap();
    // This is sent when the body is asked for.
    let mut asked = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    sending.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.server.stop();
    let messages = ["/error/message", "/error/message", "/error/message", "/error", "/error/message"];
    for (stream, at) in waiting.iter_mut().zip(messages) {
        let reply = read_reply(stream);
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")), "{}", reply.text());
        assert_eq!(reply.json().pointer(at), Some(&json!("the server is stopping")), "{}", reply.text());
    }
    assert_eq!(read_reply(&mut sending).status, 503);
    // What had begun ends with the error as its last event.
    let mut text = String::new();
    running.read_to_string(&mut text).unwrap();
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["error"]["message"], "the server is stopping");
    server.server.join();
}
