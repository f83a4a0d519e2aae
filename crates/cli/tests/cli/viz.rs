//! `minfer viz`: the process, from the address that it prints to its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::{Running, TINY, binary};

#[test]
fn it_prints_the_address_of_the_page_and_ends_when_asked() {
    let mut command = Command::new(binary());
    command.args(["viz", TINY, "--no-open"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut shown = Running::start(&mut command);
    let stdout = shown.stdout.take().unwrap();
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let addr = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/graph")).unwrap();
    assert!(addr.starts_with("127.0.0.1:"), "only this machine can reach it: {line}");
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(stream, "GET /graph HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("assets/graph.js"), "{page}");
    if cfg!(unix) {
        shown.signal("TERM");
        assert_eq!(shown.wait().unwrap().code(), Some(0));
    }
}
