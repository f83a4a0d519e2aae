//! The clients, installed once into `target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Where they are.
pub(crate) struct Clients {
    folder: PathBuf,
}

/// Tests run side by side; one installs.
static INSTALLING: Mutex<()> = Mutex::new(());

impl Clients {
    /// Installs them from the lists in `scripts`, unless that was done; says why not and gives nothing where it cannot be.
    pub(crate) fn install(scripts: &Path) -> Option<Clients> {
        for tool in ["python3", "npm"] {
            if Command::new(tool).arg("--version").output().is_err() {
                eprintln!("skipped: {tool} is not installed, and the clients are tested with it");
                return None;
            }
        }
        let _one = INSTALLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let clients = Clients { folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients") };
        fs::create_dir_all(&clients.folder).unwrap();
        for entry in fs::read_dir(scripts).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, clients.folder.join(path.file_name().unwrap())).unwrap();
            }
        }
        clients.once("requirements.txt", |clients| {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(clients.folder.join("venv")));
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
            run(Command::new(clients.python()).args(pip).arg(clients.folder.join("requirements.txt")));
        });
        clients.once("package-lock.json", |clients| {
            run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&clients.folder));
        });
        Some(clients)
    }

    /// Installs what a list says if it is not what was installed last.
    fn once(&self, list: &str, install: impl FnOnce(&Self)) {
        let wanted = fs::read_to_string(self.folder.join(list)).unwrap();
        let mark = self.folder.join(format!("{list}.installed"));
        if fs::read_to_string(&mark).ok().as_ref() != Some(&wanted) {
            install(self);
            fs::write(mark, wanted).unwrap();
        }
    }

    fn python(&self) -> PathBuf {
        self.folder.join("venv/bin/python")
    }

    /// The command that runs a script.
    pub(crate) fn command(&self, script: &str) -> Command {
        let program = if script.ends_with(".mjs") { PathBuf::from("node") } else { self.python() };
        let mut command = Command::new(program);
        command.arg(self.folder.join(script)).current_dir(&self.folder);
        // Nothing of the machine's settings, and no traffic but to the server.
        for name in
            ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"]
        {
            command.env_remove(name);
        }
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(name);
        }
        command.env("LANGSMITH_TRACING", "false");
        command
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{said}\n{}", String::from_utf8_lossy(&output.stdout));
}
