//! What each kind of token does, on vocabularies small enough to work out by hand.

use minfer_gguf::{Array, Value};
use minfer_text::tokenizer::{Dropped, EncodeOptions, TokenKind};

use crate::made_up::{
    AAAA, AB, CONTROL, UNUSED, USER, build, byte_level, plain, sentence_piece, string, strings, with, without,
};

const SPECIAL: EncodeOptions = EncodeOptions { add_special: false, parse_special: true };
const AROUND: EncodeOptions = EncodeOptions { add_special: true, parse_special: false };

#[test]
fn merges_apply_by_rank_and_from_the_left() {
    let tokenizer = build(&byte_level());
    // `a b` comes before `a a`, so the last a goes with b.
    assert_eq!(plain(&tokenizer, "aaaaab"), [AAAA, AB]);
    assert_eq!(plain(&tokenizer, "aaa"), [257, 97]);
}

#[test]
fn control_tokens_are_text_unless_asked_for_and_user_defined_ones_never_are() {
    let tokenizer = build(&byte_level());
    assert_eq!(plain(&tokenizer, "<s>"), [60, 115, 62]);
    assert_eq!(tokenizer.encode("<s>", SPECIAL).unwrap().ids, [CONTROL]);
    assert_eq!(plain(&tokenizer, "ab<think>ab"), [AB, USER, AB]);
}

#[test]
fn the_longest_added_token_wins_and_gaps_are_never_found() {
    let tokenizer = build(&byte_level());
    assert_eq!(plain(&tokenizer, "<think>more<think>mor"), [USER + 1, USER, 109, 111, 114]);
    assert!(!tokenizer.encode("[PAD264]", SPECIAL).unwrap().ids.contains(&UNUSED));
}

#[test]
fn hidden_tokens_show_only_when_asked_for() {
    let tokenizer = build(&byte_level());
    let ids = [AB, CONTROL, USER];
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "ab<s><think>");
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), "ab<think>");
    assert_eq!(tokenizer.kind(CONTROL), Some(TokenKind::Control));
    assert_eq!((tokenizer.token_id("<s>"), tokenizer.token_text(AB)), (Some(CONTROL), Some("ab")));
}

#[test]
fn bos_and_eos_go_around_the_whole() {
    let meta = with(byte_level(), "tokenizer.ggml.bos_token_id", Value::U32(CONTROL));
    let meta = with(meta, "tokenizer.ggml.eos_token_id", Value::U32(USER));
    assert_eq!(build(&meta).encode("ab", AROUND).unwrap().ids, [AB], "gpt-2 has no bos by default");
    let meta = with(meta, "tokenizer.ggml.add_bos_token", Value::Bool(true));
    let meta = with(meta, "tokenizer.ggml.add_eos_token", Value::Bool(true));
    let tokenizer = build(&meta);
    assert_eq!(tokenizer.encode("ab", AROUND).unwrap().ids, [CONTROL, AB, USER]);
    assert_eq!(plain(&tokenizer, "ab"), [AB]);
    assert!(
        tokenizer.add_bos() && tokenizer.add_eos() && tokenizer.is_eog(USER) && !tokenizer.is_eog(CONTROL)
    );
}

#[test]
fn end_of_generation_is_known_by_id_and_by_text() {
    let tokens = ["a", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "x"];
    let meta = with(byte_level(), "tokenizer.ggml.tokens", strings(tokens));
    let meta = with(meta, "tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1, 3, 3, 1, 3])));
    let meta = with(meta, "tokenizer.ggml.merges", strings([] as [&str; 0]));
    let meta = with(meta, "tokenizer.ggml.eot_token_id", Value::U32(4));
    // `<|eot_id|>` is ordinary text here.
    assert_eq!(build(&meta).eog_ids(), [1, 2, 4]);
}

#[test]
fn end_of_a_channel_does_not_end_an_answer() {
    let tokens = ["<|end|>", "<|return|>", "<|channel|>"];
    let meta = with(byte_level(), "tokenizer.ggml.tokens", strings(tokens));
    let meta = with(meta, "tokenizer.ggml.token_type", Value::Array(Array::I32(vec![3, 3, 3])));
    let meta = with(meta, "tokenizer.ggml.merges", strings([] as [&str; 0]));
    assert_eq!(build(&meta).eog_ids(), [1]);
}

#[test]
fn bytes_without_a_token_are_reported_with_their_place() {
    let meta = with(byte_level(), "tokenizer.ggml.tokens", strings(["a", "b", "ab", "<s>"]));
    let meta = with(meta, "tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1, 1, 1, 3])));
    let tokenizer = build(&with(meta, "tokenizer.ggml.merges", strings(["a b"])));
    let encoding = tokenizer.encode("b<s>a\u{e9}!b", SPECIAL).unwrap();
    assert_eq!(encoding.ids, [1, 3, 0, 1]);
    let dropped = [(5, 0xC3), (6, 0xA9), (7, b'!')].map(|(offset, byte)| Dropped { offset, byte });
    assert_eq!(encoding.dropped, dropped);
}

#[test]
fn qwen_text_is_composed_first() {
    let tokenizer = build(&with(byte_level(), "tokenizer.ggml.pre", string("qwen2")));
    assert_eq!(plain(&tokenizer, "e\u{301}"), plain(&tokenizer, "\u{e9}"));
    assert_ne!(plain(&build(&byte_level()), "e\u{301}"), plain(&tokenizer, "\u{e9}"));
}

#[test]
fn a_text_that_stands_twice_encodes_to_the_lower_id() {
    let meta = with(byte_level(), "tokenizer.ggml.tokens", strings(["a", "b", "a", "<s>", "<s>"]));
    let meta = with(meta, "tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1, 1, 1, 3, 3])));
    let tokenizer = build(&with(meta, "tokenizer.ggml.merges", strings([] as [&str; 0])));
    assert_eq!(tokenizer.encode("a<s>", SPECIAL).unwrap().ids, [0, 3]);
    assert_eq!(tokenizer.decode(&[2, 4], true).unwrap(), "a<s>");
}

#[test]
fn sentence_piece_joins_by_score_and_falls_back_to_bytes() {
    let tokenizer = build(&sentence_piece());
    // With the space in front: `▁a` (-1) is better than `ab` (-2).
    assert_eq!(plain(&tokenizer, "ab"), [260, 259]);
    assert_eq!(plain(&tokenizer, "bab"), [257, 259, 261]);
    assert_eq!(plain(&tokenizer, "é"), [257, 1 + 0xC3, 1 + 0xA9]);
    assert_eq!(plain(&tokenizer, ""), [] as [u32; 0]);
    assert_eq!(tokenizer.decode(&[260, 259, 1 + 0xC3, 1 + 0xA9], false).unwrap(), "abé");
}

#[test]
fn the_space_prefix_can_be_switched_off() {
    let tokenizer = build(&with(sentence_piece(), "tokenizer.ggml.add_space_prefix", Value::Bool(false)));
    assert_eq!(plain(&tokenizer, "ab a"), [261, 260]);
    assert_eq!(tokenizer.decode(&[260], false).unwrap(), " a");
}

#[test]
fn what_sentence_piece_cannot_express_is_unknown_once_or_reported() {
    let meta = with(sentence_piece(), "tokenizer.ggml.tokens", strings(["<unk>", "▁", "a"]));
    let meta = with(meta, "tokenizer.ggml.scores", Value::Array(Array::F32(vec![0.0; 3])));
    let types = |first| Value::Array(Array::I32(vec![first, 1, 1]));
    let with_unknown = build(&with(meta.clone(), "tokenizer.ggml.token_type", types(2)));
    assert_eq!(plain(&with_unknown, "a\u{e9}\u{e9}a"), [1, 2, 0, 2]);
    let without_unknown = build(&with(meta, "tokenizer.ggml.token_type", types(1)));
    let encoding = without_unknown.encode("a a\u{e9}a", EncodeOptions::default()).unwrap();
    assert_eq!(encoding.ids, [1, 2, 1, 2, 2]);
    let dropped = [(3, 0xC3), (4, 0xA9)].map(|(offset, byte)| Dropped { offset, byte });
    assert_eq!(encoding.dropped, dropped);
}

#[test]
fn byte_tokens_are_known_by_their_text_where_types_are_missing() {
    let tokenizer = build(&without(&sentence_piece(), "tokenizer.ggml.token_type"));
    assert_eq!(tokenizer.kind(11), Some(TokenKind::Byte));
    assert_eq!(tokenizer.token_bytes(11), Some(&b"\n"[..]));
}
