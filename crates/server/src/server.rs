//! Listens, serves connections, and stops in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::config::ServerConfig;
use crate::front::Front;
use crate::io::TimedIo;
use crate::routes;
use crate::state::{App, Hosted};
use crate::tls::{self, TlsError};

/// Threads that wait for sockets and events; nothing is computed on them.
const N_THREADS: usize = 2;

/// Most threads that read prompts and bodies.
const N_BLOCKING: usize = 8;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long answers that are cancelled have to tell so.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// How long is waited when a connection cannot be taken, for instance because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Certificate and key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The threads could not be started.
    #[error("the server's threads could not be started: {source}")]
    Threads {
        /// Why not.
        source: io::Error,
    },
}

/// A server that listens and has no model yet: every request is answered with 503. Dropped, it stops at once.
pub struct Listening(Server);

impl Listening {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.0.addr
    }

    /// Serves a model from now on.
    pub fn open(self, hosted: Hosted) -> Server {
        let Listening(server) = self;
        let app = Arc::new(App::new(server.front.clone(), hosted));
        server.front.open(routes::endpoints(&app));
        server
    }
}

/// A server that runs. Dropped, it stops at once.
pub struct Server {
    addr: SocketAddr,
    front: Arc<Front>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    runtime: Runtime,
}

impl Server {
    /// Starts to listen, before there is a model; clients are told that it loads.
    pub fn listen(config: ServerConfig) -> Result<Listening, ServerError> {
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let addr = SocketAddr::new(config.host, config.port);
        let failed = |source| ServerError::Listen { addr, source };
        let listener = std::net::TcpListener::bind(addr).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(N_THREADS)
            .max_blocking_threads(N_BLOCKING)
            .thread_name("minfer-http")
            .enable_all()
            .build()
            .map_err(|source| ServerError::Threads { source })?;
        let listener = runtime.block_on(async { TcpListener::from_std(listener) }).map_err(failed)?;
        let front = Arc::new(Front::new(config));
        let (stop, stopping) = watch::channel(false);
        let task = runtime.spawn(serve(listener, front.clone(), tls, stopping));
        Ok(Listening(Server { addr, front, stop, task, runtime }))
    }

    /// Starts to listen and serves a model that is there.
    pub fn start(hosted: Hosted, config: ServerConfig) -> Result<Server, ServerError> {
        Ok(Self::listen(config)?.open(hosted))
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Begins to stop: nothing new is taken, and what runs has until [`ServerConfig::drain`] to end.
    pub fn stop(&self) {
        self.front.drain();
        self.stop.send_replace(true);
    }

    /// Stops when the process is asked to end by SIGTERM.
    #[cfg(unix)]
    pub fn stop_on_sigterm(&self) -> Result<(), ServerError> {
        use tokio::signal::unix::{SignalKind, signal};
        let _context = self.runtime.enter();
        let mut terminate =
            signal(SignalKind::terminate()).map_err(|source| ServerError::Threads { source })?;
        let (front, stop) = (self.front.clone(), self.stop.clone());
        self.runtime.spawn(async move {
            terminate.recv().await;
            tracing::info!("stopping: SIGTERM");
            front.drain();
            stop.send_replace(true);
        });
        Ok(())
    }

    /// Whether it has stopped.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits until it has stopped, which takes somebody to call [`stop`](Self::stop).
    pub fn join(self) {
        let Server { task, runtime, .. } = self;
        if let Err(error) = runtime.block_on(task) {
            tracing::error!(%error, "the server ended by a defect");
        }
        runtime.shutdown_background();
    }
}

/// Takes connections until it is told to stop; then waits for them, with a bound.
async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    tls: Option<TlsAcceptor>,
    mut stopping: watch::Receiver<bool>,
) {
    let router = routes::router(&front);
    let connections = Arc::new(Semaphore::new(front.config().max_connections));
    let graceful = GracefulShutdown::new();
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = stopped(&mut stopping) => break,
        };
        let (router, watcher, timeout) = (router.clone(), graceful.watcher(), front.config().timeout);
        let tls = tls.clone();
        tokio::spawn(async move {
            connection(stream, tls, router, watcher, timeout).await;
            drop(permit);
        });
    }
    drop(listener);
    drain(&front, graceful).await;
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Who could ask for it is gone: then nobody wants it to go on, either.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Lets what runs come to its end; what takes too long is cancelled.
async fn drain(front: &Front, graceful: GracefulShutdown) {
    let mut over = std::pin::pin!(graceful.shutdown());
    if tokio::time::timeout(front.config().drain, &mut over).await.is_err() {
        tracing::warn!("requests that still run are cancelled");
        front.cancel();
        let _ = tokio::time::timeout(CANCEL_GRACE, over).await;
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    watcher: Watcher,
    timeout: Duration,
) {
    // Tokens are small, and go out one by one.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return http(stream, router, watcher, timeout).await };
    match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => http(stream, router, watcher, timeout).await,
        Ok(Err(error)) => tracing::debug!(%error, "a client could not agree on TLS"),
        Err(_) => tracing::debug!("a client was too slow with TLS"),
    }
}

async fn http<S>(stream: S, router: Router, watcher: Watcher, timeout: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let io = TokioIo::new(TimedIo::new(stream, timeout));
    let connection = http.serve_connection(io, TowerToHyperService::new(router));
    // Clients go away as they please.
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}
