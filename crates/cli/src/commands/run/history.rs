//! Lines that are typed in conversations, kept in a file from one to the next.

use std::fs;
use std::path::PathBuf;

use rustyline::DefaultEditor;

/// The file, if there is a place for it. A history that cannot be read or kept is no reason to stop, so nothing here fails.
pub(super) struct History(Option<PathBuf>);

impl History {
    /// Makes the lines of earlier conversations known to `editor`.
    pub(super) fn load(editor: &mut DefaultEditor) -> Self {
        let path = state_folder().map(|folder| folder.join("minfer/history"));
        let path = path.filter(|path| path.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok()));
        if let Some(path) = &path {
            let _ = editor.load_history(path);
        }
        Self(path)
    }

    /// Adds a line.
    pub(super) fn add(&self, editor: &mut DefaultEditor, line: &str) {
        let _ = editor.add_history_entry(line);
        if let Some(path) = &self.0 {
            let _ = editor.append_history(path);
        }
    }
}

/// Where programs keep what they may lose, as the XDG specification has it.
fn state_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let local = if cfg!(windows) { set("LOCALAPPDATA") } else { None };
    set("XDG_STATE_HOME").or(local).or_else(|| Some(std::env::home_dir()?.join(".local/state")))
}
