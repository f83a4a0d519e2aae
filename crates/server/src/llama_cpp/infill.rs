//! `POST /infill`: what stands between two texts.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use minfer_text::tokenizer::Tokenizer;
use serde_json::Value;

use super::completion::{PromptPart, RawCompletion, RawPrompt, answer};
use crate::body::JsonBody;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::state::SharedApp;

/// Most other files.
const MAX_EXTRA: usize = 1000;

/// The tokens of a model that can insert text.
struct InfillTokens {
    prefix: u32,
    suffix: u32,
    middle: u32,
    repository: Option<u32>,
    separator: Option<u32>,
}

impl InfillTokens {
    /// By the key of the metadata, or by the spellings that models use.
    fn of(app: &SharedApp) -> Option<Self> {
        let metadata = app.model().file().metadata();
        let tokenizer = app.model().tokenizer();
        let token = |key: &str, spellings: &[&str]| {
            let id = metadata.opt_u32(&format!("tokenizer.ggml.{key}_token_id")).ok().flatten();
            let id = id.filter(|id| (*id as usize) < tokenizer.n_vocab());
            id.or_else(|| spellings.iter().find_map(|text| special(tokenizer, text)))
        };
        Some(Self {
            prefix: token("fim_pre", &["<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<PRE>", "▁<PRE>"])?,
            suffix: token("fim_suf", &["<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<SUF>", "▁<SUF>"])?,
            middle: token("fim_mid", &["<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<MID>", "▁<MID>"])?,
            repository: token("fim_rep", &["<|repo_name|>", "<fim-repo>", "<reponame>", "<REPO>"]),
            separator: token("fim_sep", &["<|file_sep|>"]),
        })
    }
}

/// The token of this spelling, if it is no ordinary text.
fn special(tokenizer: &Tokenizer, text: &str) -> Option<u32> {
    use minfer_text::tokenizer::TokenKind;
    let id = tokenizer.token_id(text)?;
    matches!(tokenizer.kind(id), Some(TokenKind::Control | TokenKind::UserDefined)).then_some(id)
}

pub(super) async fn create(
    State(app): State<SharedApp>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let Some(tokens) = InfillTokens::of(&app) else {
        let message = "this model cannot insert text: it has no tokens for it";
        return Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message));
    };
    let mut fields = Fields::of_body(body)?;
    let prompt = prompt(&mut fields, &tokens, app.model().tokenizer())?;
    answer(&app, RawCompletion::with_prompts(fields, vec![prompt], false)?).await
}

/// Other files, then what comes before the gap, then what comes after it; then the gap.
fn prompt(fields: &mut Fields, tokens: &InfillTokens, tokenizer: &Tokenizer) -> Result<RawPrompt, ApiError> {
    let prefix = fields.required_string("input_prefix")?;
    let suffix = fields.required_string("input_suffix")?;
    // What is written at the gap already.
    let begun = fields.string("prompt")?.unwrap_or_default();
    let extra = fields.list("input_extra", MAX_EXTRA)?.unwrap_or_default();
    let mut parts = Parts::default();
    if tokenizer.add_bos() {
        parts.token(tokenizer.special_ids().bos);
    }
    if !extra.is_empty() {
        parts.token(tokens.repository);
        parts.text("myproject\n".to_owned());
        for (index, file) in extra.into_iter().enumerate() {
            let (name, text) = extra_file(file, format!("input_extra[{index}]"))?;
            parts.token(tokens.separator);
            parts.text(format!("{name}\n{text}"));
        }
        parts.token(tokens.separator);
        parts.text("filename\n".to_owned());
    }
    parts.token(Some(tokens.prefix));
    parts.text(prefix + &begun);
    parts.token(Some(tokens.suffix));
    parts.text(suffix);
    parts.token(Some(tokens.middle));
    Ok(RawPrompt(parts.0))
}

fn extra_file(file: Value, path: String) -> Result<(String, String), ApiError> {
    let mut fields = Fields::of(file, path)?;
    let name = fields.string("filename")?.unwrap_or_else(|| "tmp".to_owned());
    Ok((name, fields.required_string("text")?))
}

/// The prompt so far. It never begins with a text, so that no begin token comes before it.
#[derive(Default)]
struct Parts(Vec<PromptPart>);

impl Parts {
    fn token(&mut self, id: Option<u32>) {
        self.0.extend(id.map(|id| PromptPart::Tokens(vec![id])));
    }

    fn text(&mut self, text: String) {
        if !text.is_empty() {
            if self.0.is_empty() {
                self.0.push(PromptPart::Tokens(Vec::new()));
            }
            self.0.push(PromptPart::Text(text));
        }
    }
}
