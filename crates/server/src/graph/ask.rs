//! Requests of the graph page, read and bounded.

use minfer_engine::insight::{LiveSettings, StepSize};
use minfer_engine::sampler::SamplerParams;
use minfer_engine::settings::{Settings, SettingsError};
use serde_json::Value;

use crate::error::ApiError;
use crate::fields::Fields;
use crate::state::SharedApp;

/// Most tokens of a prompt that is run.
pub(super) const MAX_PROMPT: usize = 1024;
/// Most tokens that a run generates.
pub(super) const MAX_TOKENS: usize = 256;
/// Most tokens of a prompt that is compared.
pub(super) const MAX_COMPARE_PROMPT: usize = 256;
/// Most tokens that a comparison generates.
pub(super) const MAX_COMPARE_TOKENS: usize = 32;
/// Most bytes of a prompt.
const MAX_TEXT: usize = 64 << 10;
/// Most tokens and sequences of a step that is shown.
const MAX_STEP: usize = 65_536;
const MAX_SEQUENCES: usize = 4096;
/// Most tokens told of a choice.
const MAX_TOP: usize = 50;

/// A step to show.
pub(super) struct StepAsk {
    pub(super) size: StepSize,
    pub(super) set: Settings,
}

impl StepAsk {
    pub(super) fn of(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let n_sequences = fields.count("sequences", 1..=MAX_SEQUENCES)?.unwrap_or(1);
        let n_tokens = fields.count("tokens", 1..=MAX_STEP)?;
        let n_out = fields.count("out_rows", 0..=MAX_STEP)?;
        let size = StepSize::new(n_sequences, n_tokens, n_out);
        let size = size.map_err(|error| ApiError::bad("invalid_value", error.to_string()).at("tokens"))?;
        Ok(Self { size, set: settings(&mut fields, "set")? })
    }
}

/// A prompt to run.
pub(super) struct LiveAsk {
    pub(super) prompt: String,
    pub(super) set: Settings,
    pub(super) settings: LiveSettings,
}

impl LiveAsk {
    pub(super) fn of(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let defaults = LiveSettings::default();
        let seed = fields.integer("seed", 0..=i64::MAX)?;
        let settings = LiveSettings {
            max_tokens: fields.count("max_tokens", 1..=MAX_TOKENS)?.unwrap_or(defaults.max_tokens),
            n_top: fields.count("top", 1..=MAX_TOP)?.unwrap_or(defaults.n_top),
            sampling: SamplerParams {
                temperature: fields.number("temperature", 0.0..=2.0)?.unwrap_or(0.0),
                seed: seed.map(i64::unsigned_abs),
                ..SamplerParams::default()
            },
        };
        Ok(Self { prompt: prompt(&mut fields)?, set: settings_of_run(&mut fields, "set")?, settings })
    }
}

/// Two settings to compare.
pub(super) struct CompareAsk {
    pub(super) prompt: String,
    pub(super) a: Settings,
    pub(super) b: Settings,
    pub(super) n_generate: usize,
}

impl CompareAsk {
    pub(super) fn of(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        Ok(Self {
            prompt: prompt(&mut fields)?,
            a: settings_of_run(&mut fields, "a")?,
            b: settings_of_run(&mut fields, "b")?,
            n_generate: fields.count("max_tokens", 0..=MAX_COMPARE_TOKENS)?.unwrap_or(2),
        })
    }
}

/// A value to look at.
pub(super) struct ValuesAsk {
    pub(super) step: usize,
    pub(super) node: String,
}

impl ValuesAsk {
    pub(super) fn of(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let step = fields.count("step", 0..=MAX_PROMPT + MAX_TOKENS)?;
        let step = step.ok_or_else(|| fields.wrong("step", "the number of a step"))?;
        Ok(Self { step, node: fields.required_string("node")? })
    }
}

/// The tokens of a prompt, at most `most`.
pub(super) fn encoded(app: &SharedApp, prompt: &str, most: usize) -> Result<Vec<u32>, ApiError> {
    let tokens = app.model().encode(prompt)?;
    match tokens.len() {
        0 => Err(ApiError::field("prompt", "a text of at least one token")),
        n if n > most => {
            let message = format!("prompt: {n} tokens are more than the {most} that are run here");
            Err(ApiError::bad("prompt_too_long", message).at("prompt"))
        }
        _ => Ok(tokens),
    }
}

fn prompt(fields: &mut Fields) -> Result<String, ApiError> {
    let prompt = fields.required_string("prompt")?;
    if prompt.len() > MAX_TEXT {
        return Err(ApiError::field("prompt", format!("at most {MAX_TEXT} bytes long")));
    }
    Ok(prompt)
}

/// Settings; a page may not open files.
fn settings(fields: &mut Fields, name: &'static str) -> Result<Settings, ApiError> {
    read_settings(fields, name, str::parse)
}

fn read_settings(
    fields: &mut Fields,
    name: &'static str,
    read: fn(&str) -> Result<Settings, SettingsError>,
) -> Result<Settings, ApiError> {
    let text = fields.string(name)?.unwrap_or_default();
    let settings =
        read(&text).map_err(|error| ApiError::bad("invalid_value", format!("{name}: {error}")).at(name))?;
    if settings.model.is_some() {
        return Err(ApiError::unsupported(name, "another model can be compared with `minfer ab` only"));
    }
    Ok(settings)
}

fn settings_of_run(fields: &mut Fields, name: &'static str) -> Result<Settings, ApiError> {
    let settings = read_settings(fields, name, Settings::of_run)?;
    match settings.of_graphs_only() {
        Some(key) => {
            let message = format!("setting '{key}' is about graphs; here a model is run");
            Err(ApiError::bad("invalid_value", message).at(name))
        }
        None => Ok(settings),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |error: ApiError| (error.status.as_u16(), error.param.unwrap_or_default().into_owned());
        let live = |body| refused(LiveAsk::of(body).err().unwrap());
        assert_eq!(live(json!({})), (400, "prompt".into()));
        assert_eq!(live(json!({ "prompt": "a", "max_tokens": MAX_TOKENS + 1 })), (400, "max_tokens".into()));
        assert_eq!(live(json!({ "prompt": "a", "set": "thread=1" })), (400, "set".into()));
        assert_eq!(live(json!({ "prompt": "a", "set": "tokens=1" })), (400, "set".into()));
        assert_eq!(live(json!({ "prompt": "a", "set": "model=/etc/passwd" })), (400, "set".into()));
        assert_eq!(live(json!({ "prompt": "a".repeat(MAX_TEXT + 1) })), (400, "prompt".into()));
        let step = |body| refused(StepAsk::of(body).err().unwrap());
        assert_eq!(step(json!({ "tokens": 2, "sequences": 3 })), (400, "tokens".into()));
        assert_eq!(step(json!({ "tokens": 2, "out_rows": 3 })), (400, "tokens".into()));
        assert_eq!(refused(ValuesAsk::of(json!({ "step": 0 })).err().unwrap()), (400, "node".into()));
        let compare = CompareAsk::of(json!({ "prompt": "a", "a": "", "b": "stage=built" }));
        assert_eq!(refused(compare.err().unwrap()), (400, "b".into()));
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let ask = LiveAsk::of(json!({ "prompt": "a", "set": "fuse=off" })).unwrap();
        assert_eq!((ask.settings.max_tokens, ask.settings.n_top), (16, 10));
        assert!(ask.settings.sampling.is_greedy());
        assert_eq!(CompareAsk::of(json!({ "prompt": "a" })).unwrap().n_generate, 2);
        assert!(StepAsk::of(json!({})).is_ok());
    }
}
