//! The fields that chats and completions have in common: sampler, limits, order.

use std::time::Duration;

use minfer_engine::GenerateParams;
use minfer_engine::sampler::SamplerParams;
use serde_json::Value;

use crate::chat::Settings;
use crate::error::ApiError;
use crate::fields::{Fields, whole};

/// Most answers to one request.
const MAX_N: usize = 128;

/// Most stop strings; OpenAI takes 4.
const MAX_STOP: usize = 64;

/// Longest stop string, in bytes.
pub(crate) const MAX_STOP_BYTES: usize = 4096;

/// Most tokens with a bias.
const MAX_BIAS: usize = 4096;

/// Most log-probabilities beside a token's own.
pub(crate) const MAX_TOP_LOGPROBS: usize = 20;

/// Longest deadline, in milliseconds: a day.
const MAX_DEADLINE_MS: i64 = 86_400_000;

const ANY: std::ops::RangeInclusive<f32> = f32::MIN..=f32::MAX;

/// What changes no answer.
const IGNORED: [&str; 11] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "verbosity",
    "samplers",
    "timings_per_token",
    "return_progress",
];

/// Settings of llama.cpp that are not here, and the value that switches them off.
const ABSENT: [(&str, f64); 6] = [
    ("mirostat", 0.0),
    ("dynatemp_range", 0.0),
    ("xtc_probability", 0.0),
    ("dry_multiplier", 0.0),
    ("adaptive_target", -1.0),
    ("n_indent", 0.0),
];

/// Reads them; the limit of tokens and log-probabilities are for the caller to fill in.
pub(crate) fn read(fields: &mut Fields) -> Result<Settings, ApiError> {
    fields.ignore(&IGNORED);
    refuse_absent(fields)?;
    // Requests share no fixed places: any will do.
    fields.integer("id_slot", -1..=i64::MAX)?;
    let params = GenerateParams {
        sampler: sampler(fields)?,
        stop: stop(fields)?,
        ignore_eos: fields.bool("ignore_eos")?.unwrap_or(false),
        skip_cache: !fields.bool("cache_prompt")?.unwrap_or(true),
        ..GenerateParams::default()
    };
    let deadline = fields.integer("deadline_ms", 1..=MAX_DEADLINE_MS)?;
    let priority = fields.integer("priority", i64::from(i32::MIN)..=i64::from(i32::MAX))?;
    Ok(Settings {
        params,
        format: super::format::read(fields)?,
        n: fields.count("n", 1..=MAX_N)?.unwrap_or(1),
        priority: priority.and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
        deadline: deadline.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
    })
}

fn refuse_absent(fields: &mut Fields) -> Result<(), ApiError> {
    for (name, off) in ABSENT {
        match fields.take(name) {
            None => {}
            Some(value) if value.as_f64() == Some(off) => {}
            Some(_) => return Err(ApiError::unsupported(name, "this server does not have it")),
        }
    }
    Ok(())
}

fn sampler(fields: &mut Fields) -> Result<SamplerParams, ApiError> {
    let default = SamplerParams::default();
    let top_k = fields.integer("top_k", -1..=i64::MAX)?;
    let repeat_last_n = fields.integer("repeat_last_n", -1..=i64::from(i32::MAX))?;
    let min_keep = fields.integer("min_keep", 0..=i64::from(u32::MAX))?;
    Ok(SamplerParams {
        seed: seed(fields)?,
        temperature: fields.number("temperature", 0.0..=2.0)?.unwrap_or(default.temperature),
        // More than a vocabulary can have is all, and so is less than one.
        top_k: top_k.map_or(default.top_k, |k| u32::try_from(k).unwrap_or(0)),
        top_p: fields.number("top_p", 0.0..=1.0)?.unwrap_or(default.top_p),
        min_p: fields.number("min_p", 0.0..=1.0)?.unwrap_or(default.min_p),
        typical_p: fields.number("typical_p", 0.0..=1.0)?.unwrap_or(default.typical_p),
        top_n_sigma: fields.number("top_n_sigma", ANY)?.unwrap_or(default.top_n_sigma),
        min_keep: min_keep.and_then(|n| u32::try_from(n).ok()).unwrap_or(default.min_keep),
        repeat_penalty: repeat_penalty(fields)?.unwrap_or(default.repeat_penalty),
        repeat_last_n: repeat_last_n.and_then(|n| i32::try_from(n).ok()).unwrap_or(default.repeat_last_n),
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        logit_bias: logit_bias(fields)?,
    })
}

/// llama.cpp's name, and that of other servers.
fn repeat_penalty(fields: &mut Fields) -> Result<Option<f32>, ApiError> {
    let range = f32::MIN_POSITIVE..=f32::MAX;
    let other = fields.number("repetition_penalty", range.clone())?;
    Ok(fields.number("repeat_penalty", range)?.or(other))
}

/// As for llama.cpp, -1 means another one each time.
fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let Some(value) = fields.take("seed") else { return Ok(None) };
    let seed = value.as_u64().or_else(|| whole(&value).map(i64::cast_unsigned));
    let seed = seed.ok_or_else(|| fields.wrong("seed", "a whole number"))?;
    Ok(Some(seed).filter(|seed| *seed != u64::MAX))
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let stop = fields.strings("stop", MAX_STOP)?.unwrap_or_default();
    if stop.iter().any(|text| text.is_empty() || text.len() > MAX_STOP_BYTES) {
        return Err(fields.wrong("stop", format_args!("texts of 1 to {MAX_STOP_BYTES} bytes")));
    }
    Ok(stop)
}

/// OpenAI's object of ids and numbers, or llama.cpp's list of pairs, in which `false` forbids a token.
fn logit_bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let wrong =
        |fields: &Fields| fields.wrong("logit_bias", "an object of token ids and numbers from -100 to 100");
    let pairs: Option<Vec<(u32, f32)>> = match fields.take("logit_bias") {
        None => return Ok(Vec::new()),
        Some(Value::Object(map)) if map.len() <= MAX_BIAS => {
            map.iter().map(|(id, bias)| Some((id.parse().ok()?, bias_of(bias)?))).collect()
        }
        Some(Value::Array(list)) if list.len() <= MAX_BIAS => list.iter().map(pair_of).collect(),
        Some(_) => None,
    };
    pairs.ok_or_else(|| wrong(fields))
}

fn pair_of(pair: &Value) -> Option<(u32, f32)> {
    match pair.as_array()?.as_slice() {
        [id, bias] => Some((u32::try_from(id.as_u64()?).ok()?, bias_of(bias)?)),
        _ => None,
    }
}

fn bias_of(bias: &Value) -> Option<f32> {
    match bias {
        Value::Bool(false) => Some(f32::NEG_INFINITY),
        bias => bias.as_f64().filter(|x| x.abs() <= 100.0).map(|x| x as f32),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(body: Value) -> Result<Settings, ApiError> {
        read(&mut Fields::of_body(body).unwrap())
    }

    #[test]
    fn nothing_asked_is_the_default() {
        let settings = settings(json!({})).unwrap();
        assert_eq!(settings.params.sampler, SamplerParams::default());
        assert_eq!((settings.n, settings.params.skip_cache), (1, false));
    }

    #[test]
    fn every_field_is_read() {
        let body = json!({
            "temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1, "typical_p": 0.8, "top_n_sigma": 1.0,
            "repeat_penalty": 1.1, "repeat_last_n": 5, "presence_penalty": 0.25, "frequency_penalty": -0.5,
            "seed": 7, "stop": ["a", "b"], "logit_bias": { "5": -100 }, "n": 2, "cache_prompt": false,
            "deadline_ms": 1500, "priority": -3, "ignore_eos": true,
        });
        let settings = settings(body).unwrap();
        let sampler = &settings.params.sampler;
        assert_eq!((sampler.temperature, sampler.top_p, sampler.top_k, sampler.min_p), (0.5, 0.9, 3, 0.1));
        assert_eq!((sampler.typical_p, sampler.top_n_sigma, sampler.seed), (0.8, 1.0, Some(7)));
        assert_eq!((sampler.repeat_penalty, sampler.repeat_last_n), (1.1, 5));
        assert_eq!((sampler.presence_penalty, sampler.frequency_penalty), (0.25, -0.5));
        assert_eq!(sampler.logit_bias, [(5, -100.0)]);
        assert_eq!(settings.params.stop, ["a", "b"]);
        assert!(settings.params.skip_cache && settings.params.ignore_eos);
        assert_eq!((settings.n, settings.priority), (2, -3));
        assert_eq!(settings.deadline, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn values_that_make_no_sense_name_their_field() {
        for (name, value) in [
            ("temperature", json!(-0.1)),
            ("temperature", json!(2.1)),
            ("temperature", json!("hot")),
            ("top_p", json!(1.01)),
            ("presence_penalty", json!(3)),
            ("seed", json!(1.5)),
            ("n", json!(0)),
            ("n", json!(-1)),
            ("stop", json!([1])),
            ("stop", json!("")),
            ("stop", json!("x".repeat(MAX_STOP_BYTES + 1))),
            ("logit_bias", json!({ "x": 1 })),
            ("logit_bias", json!({ "1": 101 })),
            ("logit_bias", json!([[1]])),
            ("mirostat", json!(2)),
            ("repeat_penalty", json!(0)),
            ("deadline_ms", json!(0)),
            ("id_slot", json!("x")),
            ("id_slot", json!(-2)),
        ] {
            let error = settings(json!({ name: value.clone() })).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(name), "{value}");
        }
    }

    #[test]
    fn a_seed_of_minus_one_is_another_one_each_time() {
        let seed = |value: Value| settings(json!({ "seed": value })).unwrap().params.sampler.seed;
        assert_eq!(seed(json!(-1)), None);
        assert_eq!(seed(json!(0)), Some(0));
        assert_eq!(seed(json!(-2)), Some(u64::MAX - 1));
    }

    #[test]
    fn a_bias_may_forbid_a_token() {
        let bias =
            settings(json!({ "logit_bias": [[3, false], [4, 1.5]] })).unwrap().params.sampler.logit_bias;
        assert_eq!(bias, [(3, f32::NEG_INFINITY), (4, 1.5)]);
    }
}
