//! `minfer viz`: a server on this machine, and a browser that shows its graph page.

use std::io::Write;
use std::process::{Command, Stdio};

use minfer_engine::{Engine, EngineParams};
use minfer_server::{Hosted, Server, ServerConfig};

use super::serve;
use crate::args::VizArgs;
use crate::shell::Shell;
use crate::{engine, report};

pub(super) fn run(args: &VizArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let name = args.model.name()?;
    let model = engine::load(name, &args.model.open)?;
    let insight = engine::planned(&model, &args.context, 1, shell)?;
    let mut context = engine::with_outputs(&model, &args.context, 1, shell)?;
    engine::load_weights(&mut context, shell)?;
    let engine = Engine::with_context(context, None, &EngineParams::default())?;
    let names = serve::names(&[], name, &model);
    let hosted = Hosted { engine: engine.clone(), names, insight };
    let server = Server::start(hosted, ServerConfig { port: args.port, ..ServerConfig::default() })?;
    serve::stop_on_sigterm(&server)?;
    let url = format!("http://{}/graph", server.addr());
    writeln!(shell.out, "{url}")?;
    shell.out.flush()?;
    if !args.no_open && !open(&url) {
        report::note("no browser could be opened; open the address in one");
    }
    serve::wait(&server);
    server.join();
    let mut context = engine.close()?;
    engine::finish(&mut context, &args.context.compute, shell)
}

/// Asks the desktop to open an address; whether there was somebody to ask.
fn open(url: &str) -> bool {
    let Some((program, args)) = opener() else { return false };
    let mut command = Command::new(program);
    command.args(args).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

/// The program that opens addresses here; nothing if there is no display.
fn opener() -> Option<(&'static str, &'static [&'static str])> {
    if cfg!(target_os = "macos") {
        return Some(("open", &[]));
    }
    if cfg!(windows) {
        return Some(("rundll32", &["url.dll,FileProtocolHandler"]));
    }
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    has_display.then_some(("xdg-open", &[]))
}
