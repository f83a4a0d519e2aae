//! `minfer serve`.

use std::time::Duration;

use minfer_engine::{Engine, EngineParams, Model};
use minfer_server::{Hosted, OPENAPI, Server, ServerConfig, TlsFiles};

use crate::args::{LogFormat, LogLevel, ServeArgs};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::shell::Shell;
use crate::{engine, interrupt, report};

/// How often it is asked whether to stop.
const GLANCE: Duration = Duration::from_millis(50);

pub(super) fn run(args: &ServeArgs, shell: &mut Shell) -> anyhow::Result<()> {
    if args.print_openapi {
        return Ok(shell.out.exact(OPENAPI)?);
    }
    let name = args.model.name()?;
    let api_keys = keys(args)?;
    start_log(args);
    let listening = Server::listen(ServerConfig { api_keys, ..config(args) })?;
    let scheme = if args.ssl_cert_file.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", listening.addr());
    report::note(format_args!("loading; {url}/health says when the model is there"));
    let hosted = load(args, name, shell)?;
    let engine = hosted.engine.clone();
    let server = listening.open(hosted);
    // Until here SIGTERM ends the process, as there is nobody to be waited for.
    stop_on_sigterm(&server)?;
    report::note(format_args!("listening on {url}"));
    wait(&server);
    server.join();
    let mut context = engine.close()?;
    engine::finish(&mut context, &args.context.compute, shell)
}

fn load(args: &ServeArgs, name: &str, shell: &mut Shell) -> anyhow::Result<Hosted> {
    let model = engine::load(name, &args.model.open)?;
    let insight = engine::planned(&model, &args.context, 1, shell)?;
    let guesses = (&args.speculation, &args.model.open);
    let mut context = engine::for_requests(&model, &args.context, guesses, args.parallel, shell)?;
    engine::load_weights(&mut context, shell)?;
    let params = EngineParams {
        max_stall: Duration::from_millis(args.max_stall_ms),
        max_queue: args.max_queue,
        max_wait: args.max_wait.map(Duration::from_secs),
        speculation: args.speculation.mode(),
        ..EngineParams::default()
    };
    let engine = Engine::with_context(context, None, &params)?;
    Ok(Hosted { engine, names: names(&args.alias, name, &model), insight })
}

fn config(args: &ServeArgs) -> ServerConfig {
    ServerConfig {
        host: args.host,
        port: args.port,
        cors_origins: args.cors_origins.clone(),
        max_body: args.max_body,
        max_connections: args.max_connections,
        timeout: Duration::from_secs(args.timeout),
        max_time: args.max_time.map(Duration::from_secs),
        drain: Duration::from_secs(args.drain),
        tls: tls(args),
        log_prompts: args.log_prompts,
        ..ServerConfig::default()
    }
}

fn tls(args: &ServeArgs) -> Option<TlsFiles> {
    let (cert, key) = args.ssl_cert_file.clone().zip(args.ssl_key_file.clone())?;
    Some(TlsFiles { cert, key })
}

/// Has SIGTERM stop the server, which then gives its requests their time.
pub(super) fn stop_on_sigterm(server: &Server) -> anyhow::Result<()> {
    server.stop_on_sigterm()?;
    interrupt::leave_termination();
    Ok(())
}

/// Waits until the server has stopped; Ctrl-C asks it to.
pub(super) fn wait(server: &Server) {
    let interrupt = Interrupt::listen();
    let mut is_asked = false;
    while !server.is_over() {
        if interrupt.is_set() && !is_asked {
            is_asked = true;
            report::note("stopping; Ctrl-C again to end at once");
            server.stop();
        }
        std::thread::sleep(GLANCE);
    }
}

/// The names that the model is known by: those that were given, or else what it was called here and its file.
pub(super) fn names(alias: &[String], name: &str, model: &Model) -> Vec<String> {
    let given: Vec<String> =
        alias.iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect();
    if !given.is_empty() {
        return given;
    }
    let path = model.file().files().next().and_then(|file| file.path);
    let parts = path.iter().flat_map(|path| [path.file_stem(), path.file_name()]).flatten();
    let mut names: Vec<String> = parts.map(|part| part.to_string_lossy().into_owned()).collect();
    // Where a file lies is nobody's business but ours.
    if !name.contains(['/', '\\']) && !names.iter().any(|known| known == name) {
        names.insert(0, name.to_owned());
    }
    names
}

/// The keys of both flags.
fn keys(args: &ServeArgs) -> Result<Vec<String>, CliError> {
    let mut keys = args.api_key.clone();
    if let Some(path) = &args.api_key_file {
        let text = std::fs::read_to_string(path).map_err(CliError::read_file(path))?;
        keys.extend(text.lines().map(str::to_owned));
        // A file without keys must not let everybody in.
        if text.trim().is_empty() {
            return Err(CliError::NoKeys { path: path.clone() });
        }
    }
    let trimmed = keys.iter().map(|key| key.trim().to_owned());
    Ok(trimmed.filter(|key| !key.is_empty()).collect())
}

fn start_log(args: &ServeArgs) {
    use tracing_subscriber::filter::LevelFilter;
    let level = match args.log_level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // It is the only log of the process; a second one would not be taken.
    let _ = match args.log_format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}
