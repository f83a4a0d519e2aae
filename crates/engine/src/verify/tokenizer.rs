//! The tokenizer: whether it can be built, whether it can write every byte, what its special tokens are.

use minfer_gguf::Metadata;
use minfer_models::HParams;
use minfer_text::tokenizer::{EncodeOptions, TokenKind, Tokenizer};

use super::{Check, Severity};

/// A text with letters, figures, marks and blanks of several kinds; what is encoded must come back.
const SAMPLE: &str = "Hello, wörld! 12345 naïve 漢字 Привет\n\tfn main() { x += 1; }  👋";

pub(super) fn check(metadata: &Metadata, hparams: Option<&HParams>) -> Check {
    let mut check = Check::new("tokenizer");
    let tokenizer = match Tokenizer::from_metadata(metadata) {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            check.add(Severity::Fatal, error.to_string());
            return check;
        }
    };
    let text = |key| metadata.opt_str(key).ok().flatten().unwrap_or("none").to_owned();
    check.add(
        Severity::Note,
        format!(
            "{} of {} tokens, pre-tokenizer {}",
            text("tokenizer.ggml.model"),
            tokenizer.n_vocab(),
            text("tokenizer.ggml.pre")
        ),
    );
    sizes(&tokenizer, hparams, &mut check);
    bytes(&tokenizer, &mut check);
    special(&tokenizer, &mut check);
    round_trip(&tokenizer, &mut check);
    check
}

fn sizes(tokenizer: &Tokenizer, hparams: Option<&HParams>, check: &mut Check) {
    let Some(h) = hparams else { return };
    let n = tokenizer.n_vocab();
    if n != h.n_vocab {
        check.add(
            Severity::Fatal,
            format!("the tokenizer has {n} tokens, the embedding has {} rows; they must agree", h.n_vocab),
        );
    }
}

/// Bytes without a token are dropped from a text without a word.
fn bytes(tokenizer: &Tokenizer, check: &mut Check) {
    let mut has = [false; 256];
    for id in 0..tokenizer.n_vocab() as u32 {
        let is_text = matches!(tokenizer.kind(id), Some(TokenKind::Normal | TokenKind::Byte));
        if let (true, Some([byte])) = (is_text, tokenizer.token_bytes(id)) {
            has[usize::from(*byte)] = true;
        }
    }
    let missing = |in_text: bool| -> Vec<String> {
        let bytes = (0..=255u8).filter(|b| !has[usize::from(*b)] && occurs_in_text(*b) == in_text);
        bytes.map(|b| format!("{b:02X}")).collect()
    };
    let (text, never) = (missing(true), missing(false));
    if !text.is_empty() && has.iter().any(|has| *has) && tokenizer_is_bytewise(&has) {
        let (n, list) = (text.len(), text.join(" "));
        check.add(
            Severity::Warning,
            format!("bytes without a token, which a text loses when it is encoded ({n}): {list}"),
        );
    }
    if !never.is_empty() {
        let n = never.len();
        check.add(Severity::Note, format!("{n} bytes that never occur in UTF-8 have no token"));
    }
}

/// A vocabulary of words only (SentencePiece without byte tokens) says what it lacks by its unknown token.
fn tokenizer_is_bytewise(has: &[bool; 256]) -> bool {
    has.iter().filter(|has| **has).count() > 128
}

fn occurs_in_text(byte: u8) -> bool {
    !matches!(byte, 0xc0 | 0xc1 | 0xf5..=0xff)
}

fn special(tokenizer: &Tokenizer, check: &mut Check) {
    let ids = tokenizer.special_ids();
    let name = |id: u32| String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default()).into_owned();
    let roles = [("bos", ids.bos), ("eos", ids.eos), ("eot", ids.eot), ("unknown", ids.unknown)];
    let known: Vec<_> =
        roles.iter().filter_map(|(role, id)| Some(format!("{role} {} '{}'", (*id)?, name((*id)?)))).collect();
    if !known.is_empty() {
        check.add(Severity::Note, known.join(", "));
    }
    if tokenizer.eog_ids().is_empty() {
        check.add(Severity::Warning, "no token ends an answer: generation goes on until a limit stops it");
    }
    for (role, id) in [("bos", ids.bos), ("eos", ids.eos)] {
        let is_plain = id.and_then(|id| tokenizer.kind(id)) == Some(TokenKind::Normal);
        if let (true, Some(id)) = (is_plain, id) {
            check.add(
                Severity::Warning,
                format!("the {role} token {id} '{}' is marked as ordinary text", name(id)),
            );
        }
    }
    let n_empty =
        (0..tokenizer.n_vocab() as u32).filter(|id| tokenizer.token_bytes(*id) == Some(&[])).count();
    if n_empty > 0 {
        check.add(Severity::Warning, format!("{n_empty} tokens are empty: generating them adds nothing"));
    }
}

fn round_trip(tokenizer: &Tokenizer, check: &mut Check) {
    let encoded = match tokenizer.encode(SAMPLE, EncodeOptions::default()) {
        Ok(encoded) => encoded,
        Err(error) => return check.add(Severity::Fatal, error.to_string()),
    };
    match tokenizer.decode(&encoded.ids, true) {
        Ok(text) if text == SAMPLE => {}
        Ok(_) if !encoded.dropped.is_empty() => {
            let n = encoded.dropped.len();
            check.add(Severity::Warning, format!("a sample text loses {n} bytes when it is encoded"));
        }
        Ok(_) => check.add(
            Severity::Warning,
            "a sample text does not come back as it was when it is encoded and decoded",
        ),
        Err(error) => check.add(Severity::Fatal, error.to_string()),
    }
}
