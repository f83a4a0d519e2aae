//! The web pages: as files, and driven by a browser.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use minfer_engine::{ContextParams, Engine, EngineParams, LoadOptions, Model};
use minfer_server::ServerConfig;

use crate::support::{config, model, real_model, send, serve, small, start, start_with};

#[test]
fn pages_need_no_key_and_may_load_nothing_from_elsewhere() {
    let server = start_with(&small(), ServerConfig { api_keys: vec!["right".to_owned()], ..config() });
    for (path, kind) in [
        ("/", "text/html"),
        ("/assets/chat.js", "text/javascript"),
        ("/assets/chat.css", "text/css"),
        ("/assets/theme.js", "text/javascript"),
        ("/assets/icon.svg", "image/svg+xml"),
        ("/assets/licences.txt", "text/plain"),
    ] {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}");
        assert!(page.header("content-type").unwrap().starts_with(kind), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src '"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
        assert!(!page.body.is_empty(), "{path}");
    }
    let html = server.get("/").text();
    assert!(!html.contains("<style") && !html.contains("http"), "{html}");
    assert_eq!(
        html.matches("<script").count(),
        html.matches("src=\"assets/").count(),
        "no inline script: {html}"
    );
}

#[test]
fn a_page_that_the_browser_has_is_not_sent_again() {
    let server = start();
    let tag = server.get("/").header("etag").unwrap().to_owned();
    let again = send(server.addr(), "GET", "/", &[("if-none-match", &tag)], b"");
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag.as_str())));
    assert_ne!(server.get("/assets/chat.js").header("etag"), Some(tag.as_str()));
    assert_eq!(send(server.addr(), "GET", "/", &[("if-none-match", "\"other\"")], b"").status, 200);
}

#[test]
fn a_browser_talks_with_a_tiny_model() {
    browse(&model(), 2048, &["--quick"]);
}

#[test]
fn a_browser_talks_with_a_real_model() {
    if let Some(path) = real_model("smollm2-135m-instruct-q4_1.gguf") {
        browse(&Model::load(&path, &LoadOptions::default()).unwrap(), 4096, &[]);
    }
}

/// Runs `web/tests/pages.mjs`, which says itself what it misses, against a server with `model`.
fn browse(model: &Arc<Model>, n_ctx: usize, args: &[&str]) {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    if !web.join("node_modules").exists() {
        eprintln!("SKIPPED: no browser is driven, since web/node_modules is missing: run npm ci in web/");
        return;
    }
    let context = ContextParams { n_ctx, n_seq_max: 2, ..ContextParams::default() };
    let engine = Engine::new(model, &EngineParams { context, ..EngineParams::default() }).unwrap();
    let server = serve(engine, config());
    let url = format!("http://{}", server.addr());
    let output =
        Command::new("node").arg("tests/pages.mjs").arg(&url).args(args).current_dir(&web).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    eprintln!("{said}");
}
