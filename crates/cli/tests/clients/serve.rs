//! The server, while a test runs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The longest that a model may take to be there.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Serving {
    child: Child,
    /// Where it listens.
    pub url: String,
}

impl Serving {
    /// Starts it with a model that it calls `m`, on a port that is free, with the key `secret`.
    pub(crate) fn start(model: &Path, args: &[String]) -> Serving {
        let mut command = Command::new(env!("CARGO_BIN_EXE_minfer"));
        command.arg("serve").arg(model).args([
            "--port",
            "0",
            "--alias",
            "m",
            "--api-key",
            "secret",
            "-c",
            "4096",
        ]);
        let mut child = command.args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // Read to its end, so that the server never waits for a reader.
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut said = Vec::new();
        let url = loop {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                let _ = child.kill();
                panic!("the server did not start:\n{}", said.join("\n"));
            };
            if let Some((_, url)) = line.split_once("listening on ") {
                break url.trim().to_owned();
            }
            said.push(line);
        };
        Serving { child, url }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
