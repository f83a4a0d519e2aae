//! TLS, with the certificate that the user gives.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig, crypto};

use crate::config::TlsFiles;

/// Certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is no PEM, or holds something else.
    #[error("{} holds no {what} in PEM: {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Key and certificate do not go together, or are of a kind that is not known.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// What answers those who speak TLS.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let certificates: Vec<CertificateDer<'static>> = {
        let all = CertificateDer::pem_slice_iter(&read(&files.cert)?).collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|error| wrong(&files.cert, "certificate", &error))?;
        if all.is_empty() {
            return Err(wrong(&files.cert, "certificate", &pem::Error::NoItemsFound));
        }
        all
    };
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
    let key = key.map_err(|error| wrong(&files.key, "private key", &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.into(), source })
}

fn wrong(path: &Path, what: &'static str, error: &pem::Error) -> TlsError {
    TlsError::Pem { path: path.into(), what, reason: error.to_string() }
}
