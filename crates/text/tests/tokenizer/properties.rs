//! What holds for any text and any tokens: nothing is lost, a stream is its whole, long runs are no trap.

use minfer_text::tokenizer::{EncodeOptions, StreamDecoder, Tokenizer, TokenizerError};
use proptest::prelude::*;

use crate::made_up::{build, byte_level, plain, sentence_piece, string, with};

/// The names that an unknown one is told about: all there are.
fn pre_names() -> Vec<&'static str> {
    let unknown = Tokenizer::from_metadata(&with(byte_level(), "tokenizer.ggml.pre", string("?")));
    match unknown {
        Err(TokenizerError::UnknownPre { known, .. }) => known,
        other => panic!("{other:?}"),
    }
}

fn tokenizer(pre: &str) -> Tokenizer {
    build(&with(byte_level(), "tokenizer.ggml.pre", string(pre)))
}

fn bytes_of(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|&id| tokenizer.token_bytes(id).expect("a known id")).copied().collect()
}

/// Texts of what pre-tokenizers look at, so that short ones meet every alternative.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ \t\r\n\u{a0}\u{3000}]{1,4}",
        "[a-zA-Zéßж]{1,4}",
        "[0-9²½٣]{1,4}",
        "[!-/'$_£€]{1,3}",
        "'(s|S|ll|RE|ſ)",
        "[一-四ぁ-えァ-エ가-각]{1,3}",
        "[\u{300}\u{93c}\u{e31}\u{1f3fd}]{1,2}",
        "(<s>|<think>|<think)",
        ".{1,2}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Those whose published files ask for normal form C.
const COMPOSING: [&str; 7] =
    ["command-r", "mpt", "olmo", "modern-bert", "qwen2", "qwen35", "deepseek-r1-qwen"];

#[test]
fn no_byte_is_lost_whatever_the_pre_tokenizer() {
    let all: Vec<_> = pre_names().into_iter().map(|pre| (pre, tokenizer(pre))).collect();
    proptest!(|(text in text(), parse_special: bool)| {
        let options = EncodeOptions { add_special: false, parse_special };
        for (pre, tokenizer) in &all {
            let encoding = tokenizer.encode(&text, options).unwrap();
            prop_assert!(encoding.dropped.is_empty());
            let back = String::from_utf8(bytes_of(tokenizer, &encoding.ids)).unwrap();
            if back != text {
                prop_assert!(COMPOSING.contains(pre), "{}", pre);
                prop_assert_eq!(tokenizer.encode(&back, options).unwrap().ids, encoding.ids, "{}", pre);
            }
        }
    });
}

#[test]
fn a_sentence_piece_text_comes_back() {
    let tokenizer = build(&sentence_piece());
    proptest!(|(text in text())| {
        let ids = plain(&tokenizer, &text);
        prop_assert_eq!(tokenizer.decode(&ids, true).unwrap(), text.replace('▁', " "));
    });
}

#[test]
fn a_stream_is_what_decode_gives() {
    let both = [build(&byte_level()), build(&sentence_piece())];
    proptest!(|(ids in prop::collection::vec(0u32..262, 0..40), special: bool)| {
        for tokenizer in &both {
            let mut decoder = StreamDecoder::new(tokenizer, special);
            let mut out = String::new();
            for &id in &ids {
                decoder.push(tokenizer, id, &mut out).unwrap();
            }
            decoder.finish(&mut out);
            prop_assert_eq!(out, tokenizer.decode(&ids, special).unwrap());
        }
    });
}

#[test]
fn a_stream_holds_back_half_a_character() {
    let tokenizer = build(&byte_level());
    let mut decoder = StreamDecoder::new(&tokenizer, true);
    let mut out = String::new();
    let mut seen = Vec::new();
    for byte in "é🦊".bytes().chain([0xF0, 0x9F, b'!', 0xE2]) {
        decoder.push(&tokenizer, byte.into(), &mut out).unwrap();
        seen.push(out.clone());
    }
    let expected = ["", "é", "é", "é", "é", "é🦊", "é🦊", "é🦊", "é🦊\u{FFFD}!", "é🦊\u{FFFD}!"];
    assert_eq!(seen, expected);
    assert_eq!(decoder.pending(), [0xE2]);
    decoder.finish(&mut out);
    assert_eq!(out, "é🦊\u{FFFD}!\u{FFFD}");
}

#[test]
fn a_stream_that_goes_on_keeps_its_first_space() {
    let tokenizer = build(&sentence_piece());
    let text = |mut decoder: StreamDecoder| {
        let mut out = String::new();
        decoder.push(&tokenizer, 260, &mut out).unwrap();
        out
    };
    assert_eq!(text(StreamDecoder::new(&tokenizer, true)), "a");
    assert_eq!(text(StreamDecoder::continuing(true)), " a");
}

/// A quadratic step anywhere would make this test run for an hour; it takes seconds.
#[test]
fn long_runs_are_no_trap() {
    let runs = [
        "a",
        " ",
        "\n",
        " \n",
        "0",
        "!",
        "<",
        "<think",
        "'s",
        "\u{301}",
        "一",
        "▁",
        "\u{10FFFF}",
        "a ",
        " a",
    ];
    let tokenizers = ["gpt-2", "qwen2", "deepseek-v3", "deepseek-llm", "falcon", "tekken"].map(tokenizer);
    for run in runs {
        let text = run.repeat((1 << 16) / run.len());
        for tokenizer in &tokenizers {
            check_length(tokenizer, &text, text.len());
        }
        check_length(&build(&sentence_piece()), &text, 1 + text.replace('▁', " ").len());
    }
}

#[test]
fn a_megabyte_of_one_character_is_no_trap() {
    for run in ["a", " "] {
        let text = run.repeat(1 << 20);
        check_length(&tokenizer("qwen2"), &text, text.len());
        check_length(&build(&sentence_piece()), &text, 1 + text.len());
    }
}

fn check_length(tokenizer: &Tokenizer, text: &str, n_bytes: usize) {
    let ids = plain(tokenizer, text);
    assert_eq!(bytes_of(tokenizer, &ids).len(), n_bytes, "{:?}…", text.chars().next());
}
