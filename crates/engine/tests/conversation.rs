//! A conversation reads only what is new: the cache holds what was read and generated before.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and says what it skips")]

mod common;

use std::ops::ControlFlow;

use common::*;
use minfer_engine::sampler::SamplerParams;
use minfer_engine::{Context, Conversation, Event, GenerateParams, Generated, OnFull, SeqId};

/// Greedy answers of six tokens, whatever they are.
fn six_tokens() -> GenerateParams {
    let sampler = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    GenerateParams { n_predict: Some(6), ignore_eos: true, sampler, ..GenerateParams::default() }
}

fn reply(talk: &mut Conversation, context: &mut Context, seq: SeqId, params: &GenerateParams) -> Generated {
    talk.reply(context, seq, params, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn the_second_turn_reads_only_new_tokens() {
    for name in COMMITTED {
        let model = load(&data().join(format!("{name}.gguf")));
        let mut context = context(&model, &small());
        let seq = context.new_sequence().unwrap();
        let mut talk = Conversation::new(model.chat_template(false).unwrap(), Default::default());
        talk.push("user", "the cat");
        let first = reply(&mut talk, &mut context, seq, &six_tokens());
        assert_eq!(first.timings.n_cached, 0);
        talk.push("user", "and then");
        let second = reply(&mut talk, &mut context, seq, &six_tokens());
        // Nothing came after the last token of the answer, so it was not read.
        let held = first.timings.n_prompt + first.tokens.len() - 1;
        assert_eq!(second.timings.n_cached, held, "{name}");
        assert!(second.timings.n_prompt < first.timings.n_prompt + 10, "{name}: {:?}", second.timings);
        // Answered again, the same prompt gives the same.
        talk.pop("assistant").unwrap();
        let again = reply(&mut talk, &mut context, seq, &six_tokens());
        assert_eq!((again.timings.n_prompt, &again.tokens), (1, &second.tokens), "{name}");
    }
}

#[test]
fn an_appended_cache_gives_what_reading_everything_gives() {
    for name in COMMITTED {
        let model = load(&data().join(format!("{name}.gguf")));
        let mut warm = context(&model, &small());
        let seq = warm.new_sequence().unwrap();
        let mut talk = Conversation::new(model.chat_template(false).unwrap(), Default::default());
        talk.push("user", "the cat");
        reply(&mut talk, &mut warm, seq, &six_tokens());
        talk.push("user", "and then");
        let prompt = talk.prompt(&model).unwrap();
        let second = reply(&mut talk, &mut warm, seq, &six_tokens());
        let mut cold = context(&model, &small());
        let seq = cold.new_sequence().unwrap();
        let keep_on = &mut |_: minfer_engine::Event| ControlFlow::Continue(());
        let whole = minfer_engine::generate(&mut cold, seq, &prompt, &six_tokens(), keep_on).unwrap();
        assert_eq!(whole.timings.n_cached, 0);
        assert_eq!(whole.tokens, second.tokens, "{name}");
    }
}

#[test]
fn a_changed_beginning_is_read_again() {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let mut context = context(&model, &small());
    let seq = context.new_sequence().unwrap();
    let mut talk = Conversation::new(model.chat_template(false).unwrap(), Default::default());
    talk.push("user", "the cat");
    reply(&mut talk, &mut context, seq, &six_tokens());
    talk.set_system(Some("be brief"));
    talk.push("user", "and then");
    let prompt = talk.prompt(&model).unwrap();
    assert_eq!(prompt, model.encode_chat(&talk.render().unwrap()).unwrap());
    let answer = reply(&mut talk, &mut context, seq, &six_tokens());
    assert!(answer.timings.n_cached < 3, "only what opens every message is the same: {:?}", answer.timings);
}

#[test]
fn an_answer_that_was_cut_is_tokenized_as_it_is_shown() {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let mut context = context(&model, &small());
    let seq = context.new_sequence().unwrap();
    let mut talk = Conversation::new(model.chat_template(false).unwrap(), Default::default());
    talk.push("user", "the cat");
    let mut n_tokens = 0;
    let answer = talk.reply(&mut context, seq, &six_tokens(), &mut |event| {
        n_tokens += usize::from(matches!(event, minfer_engine::Event::Token { .. }));
        if n_tokens == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(answer.unwrap().tokens.len(), 3);
    talk.push("user", "and then");
    let shown = model.encode_chat(&talk.render().unwrap()).unwrap();
    let opening = model.encode_chat("<|im_end|>\n<|im_start|>user\nand then").unwrap();
    let prompt = talk.prompt(&model).unwrap();
    assert!(prompt.windows(opening.len()).any(|window| window == opening));
    assert_eq!(
        model.tokenizer().decode(&prompt, true).unwrap(),
        model.tokenizer().decode(&shown, true).unwrap()
    );
}

#[test]
fn a_long_conversation_drops_its_oldest_turns_and_answers_as_one_without_them() {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let params = GenerateParams { on_full: OnFull::DropOldest { keep: 0 }, ..six_tokens() };
    let mut context = context(&model, &small());
    let seq = context.new_sequence().unwrap();
    let new = || {
        let mut talk = Conversation::new(model.chat_template(false).unwrap(), Default::default());
        talk.set_system(Some("be brief"));
        talk
    };
    let mut talk = new();
    let mut n_dropped = 0;
    for turn in 0..12 {
        talk.push("user", &format!("the cat sat on mat number {turn}"));
        let answer = talk.reply(&mut context, seq, &params, &mut |event| {
            if let Event::DroppedTurn { n_messages } = event {
                n_dropped += n_messages;
            }
            ControlFlow::Continue(())
        });
        let answer = answer.unwrap();
        assert_eq!((answer.tokens.len(), &answer.dropped[..]), (6, &[][..]), "turn {turn}");
        assert_eq!(talk.messages()[0]["content"], "be brief");
        assert_eq!(talk.messages().len() + talk.dropped().len(), 1 + 2 * (turn + 1));
        if turn < 11 {
            continue;
        }
        // The same messages, told to a context that has never seen the others.
        let mut fresh = new();
        let (last, before) = talk.messages().split_last().unwrap();
        assert_eq!(last["role"], "assistant");
        for message in &before[1..] {
            fresh.push(message["role"].as_str().unwrap(), message["content"].as_str().unwrap());
        }
        let mut cold = common::context(&model, &small());
        let seq = cold.new_sequence().unwrap();
        assert_eq!(reply(&mut fresh, &mut cold, seq, &params).text, answer.text);
    }
    assert_eq!(talk.dropped().len(), n_dropped);
    assert!((4..24).contains(&n_dropped), "{n_dropped}");
    // Without leave to drop, it is refused and stays as it was.
    talk.push("user", &"the cat sat on the mat. ".repeat(60));
    let before = talk.messages().to_vec();
    assert!(talk.reply(&mut context, seq, &six_tokens(), &mut |_| ControlFlow::Continue(())).is_err());
    assert_eq!(talk.messages(), before);
}

#[test]
fn an_answer_that_outgrows_the_context_goes_on_behind_the_system_message() {
    let model = load(&data().join("qwen2-tied-q4_0.gguf"));
    let params =
        GenerateParams { on_full: OnFull::DropOldest { keep: 0 }, n_predict: Some(400), ..six_tokens() };
    let mut context = context(&model, &small());
    let seq = context.new_sequence().unwrap();
    let mut talk = Conversation::new(model.chat_template(false).unwrap(), Default::default());
    talk.set_system(Some("be brief"));
    talk.push("user", "the cat");
    let answer = reply(&mut talk, &mut context, seq, &params);
    assert_eq!(answer.tokens.len(), 400);
    let system = model.encode_chat("<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n").unwrap();
    assert!(!answer.dropped.is_empty());
    assert!(answer.dropped.iter().all(|dropped| dropped.position == system.len()), "{:?}", answer.dropped);
}
