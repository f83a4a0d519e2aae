//! TLS.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use minfer_server::{Server, ServerConfig, ServerError, TlsError, TlsFiles};
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};

use crate::support::*;

fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data", name].iter().collect()
}

fn files() -> TlsFiles {
    TlsFiles { cert: data("cert.pem"), key: data("key.pem") }
}

#[test]
fn a_client_that_trusts_the_certificate_is_answered() {
    let server = start_with(&small(), ServerConfig { tls: Some(files()), ..config() });
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(data("cert.pem")).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let client = client.with_safe_default_protocol_versions().unwrap();
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    let connection = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(server.addr()).unwrap());
    stream.write_all(&request("GET", "/health", &[], b"")).unwrap();
    assert_eq!(read_reply(&mut stream).status, 200);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let refused = |tls: TlsFiles| {
        let config = ServerConfig { tls: Some(tls), ..config() };
        match Server::listen(config) {
            Err(ServerError::Tls(error)) => error,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it started"),
        }
    };
    let absent = refused(TlsFiles { cert: data("absent.pem"), ..files() });
    assert!(matches!(&absent, TlsError::Read { path, .. } if *path == data("absent.pem")), "{absent}");
    let swapped = refused(TlsFiles { cert: data("key.pem"), key: data("cert.pem") });
    assert!(matches!(swapped, TlsError::Pem { what: "certificate", .. }), "{swapped}");
    let keyless = refused(TlsFiles { key: data("cert.pem"), ..files() });
    assert!(matches!(keyless, TlsError::Pem { what: "private key", .. }), "{keyless}");
}
