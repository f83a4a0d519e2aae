//! `key=value,…` on the command line, and the keys that somebody who mistyped one may have meant.

use minfer_engine::settings::{Settings, SettingsError};

/// Settings that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{source}{}", did_you_mean(source))]
pub(super) struct BadSettings {
    source: SettingsError,
}

impl From<SettingsError> for BadSettings {
    fn from(source: SettingsError) -> Self {
        Self { source }
    }
}

/// Settings of a run.
pub(super) fn of_run(text: &str) -> Result<Settings, BadSettings> {
    Ok(Settings::of_run(text)?)
}

/// Settings of a graph.
pub(super) fn of_graph(text: &str) -> Result<Settings, BadSettings> {
    Ok(text.parse::<Settings>()?)
}

/// Settings of a graph, or a model.
pub(super) fn of_graph_or_model(text: &str) -> Result<Settings, BadSettings> {
    Ok(Settings::or_model(text)?)
}

fn did_you_mean(error: &SettingsError) -> String {
    let SettingsError::Unknown { piece, known } = error else { return String::new() };
    let key = piece.split('=').next().unwrap_or_default().trim().replace('-', "_");
    let near = minfer_hub::near(&key, known.iter().copied());
    if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_key_is_answered_with_the_ones_like_it() {
        let said = |text: &str| of_run(text).unwrap_err().to_string();
        assert!(
            said("thread=1").ends_with(" (did you mean threads, threads_batch?)"),
            "{}",
            said("thread=1")
        );
        assert!(said("gpu-layers=1").ends_with(" (did you mean gpu_layers?)"));
        assert!(said("token=1").ends_with("model"), "a key of graphs is none of a run: {}", said("token=1"));
        assert!(of_graph("token=1").unwrap_err().to_string().ends_with(" (did you mean tokens?)"));
        assert!(!said("threads=0").contains("did you mean"));
    }
}
