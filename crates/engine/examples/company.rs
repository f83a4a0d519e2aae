//! What company costs: tokens per second of one stream and of several, how long running streams wait while a long prompt
//! arrives, how fast the second turn of a conversation begins, and what guessing ahead brings.
//!
//! `cargo run --release -p minfer-engine --example company -- MODEL.gguf [STREAMS] [PROMPT_TOKENS]`; with 0 tokens only the
//! speed of the streams.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use minfer_engine::sampler::SamplerParams;
use minfer_engine::{
    Context, ContextParams, Engine, EngineError, EngineParams, GenerateParams, LoadOptions, Model, Request,
    Row, Speculation,
};

type Outcome<T> = Result<T, EngineError>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        println!("usage: company MODEL.gguf [STREAMS] [PROMPT_TOKENS]");
        return Ok(());
    };
    let mut number = |default| args.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (n_streams, n_long) = (number(8), number(4000));
    let model = Model::load(path.as_ref(), &LoadOptions::default())?;
    graphs(&model, n_streams)?;
    decode(&model, n_streams)?;
    if n_long == 0 {
        return Ok(());
    }
    stalls(&model, n_long)?;
    second_turn(&model)?;
    guesses(&model)
}

fn engine(model: &Arc<Model>, n_seq_max: usize) -> Outcome<Engine> {
    let context =
        ContextParams { n_seq_max, n_ctx: 4608, n_outputs_max: Some(32), ..ContextParams::default() };
    Engine::new(model, &EngineParams { context, ..EngineParams::default() })
}

fn request(prompt: Vec<u32>, n_predict: usize) -> Request {
    let sampler = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    let params =
        GenerateParams { n_predict: Some(n_predict), ignore_eos: true, sampler, ..GenerateParams::default() };
    Request::new(prompt, params)
}

fn prompt(model: &Model, topic: usize, n_tokens: usize) -> Outcome<Vec<u32>> {
    let text = format!("Chapter {topic}. ")
        + &"It was the best of times, it was the worst of times. ".repeat(n_tokens / 8);
    let tokens = model.encode(&text)?;
    Ok(tokens.into_iter().cycle().take(n_tokens).collect())
}

/// What a step costs whose graph has to be built, beside one that finds it ready.
fn graphs(model: &Arc<Model>, n_streams: usize) -> Outcome<()> {
    let params = ContextParams { n_seq_max: n_streams, n_ctx: 256, ..ContextParams::default() };
    let mut context = Context::new(model, &params, &mut |_, _| {})?;
    let mut rows = Vec::new();
    for _ in 0..n_streams {
        rows.push(Row { seq: context.new_sequence()?, token: 1, wants_logits: true });
    }
    let mut seconds = [0.0; 2];
    for _ in 0..20 {
        for (rebuilt, seconds) in seconds.iter_mut().enumerate() {
            if rebuilt == 1 {
                context.scheduler_mut().forget_graphs();
            }
            let start = Instant::now();
            context.step(&rows)?;
            *seconds += start.elapsed().as_secs_f64() / 20.0;
        }
    }
    println!(
        "graphs: a step of {n_streams} takes {:.1} ms, {:.1} ms with a new graph",
        seconds[0] * 1e3,
        seconds[1] * 1e3
    );
    Ok(())
}

/// Tokens per second of one stream alone and of all together, after their prompts.
fn decode(model: &Arc<Model>, n_streams: usize) -> Outcome<()> {
    let engine = engine(model, n_streams)?;
    let n_tokens = 96;
    let rate = |n: usize| -> Outcome<f64> {
        let streams: Vec<_> = (0..n)
            .map(|i| engine.submit(request(prompt(model, i, 32)?, n_tokens)))
            .collect::<Outcome<_>>()?;
        let mut rate = 0.0;
        for stream in streams {
            rate += stream.wait()?.timings.decode_per_second();
        }
        Ok(rate)
    };
    // The first run builds the graphs.
    rate(n_streams)?;
    let (one, all) = (rate(1)?, rate(n_streams)?);
    println!(
        "decode: 1 stream {one:.1} tokens/s, {n_streams} streams {all:.1} tokens/s, {:.2} times",
        all / one
    );
    Ok(())
}

/// The waits of four streams while a long prompt arrives.
fn stalls(model: &Arc<Model>, n_long: usize) -> Outcome<()> {
    let engine = engine(model, 5)?;
    let mut streams = Vec::new();
    for i in 0..4 {
        streams.push(engine.submit(request(prompt(model, i, 40)?, 400))?);
    }
    while engine.stats().n_generated < 40 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = engine.stats();
    let start = Instant::now();
    let long = engine.submit(request(prompt(model, 9, n_long)?, 1))?.wait()?;
    let stats = engine.stats();
    println!(
        "stalls: a prompt of {n_long} beside 4 streams took {:.1} s, in {} steps; longest wait {:.0} ms, longer than \
         250 ms: {} of {}",
        start.elapsed().as_secs_f64(),
        stats.n_steps - before.n_steps,
        stats.stalls.longest().as_secs_f64() * 1e3,
        stats.stalls.n_longer_than(Duration::from_millis(250)),
        stats.stalls.n(),
    );
    for (bound, n) in stats.stalls.classes().filter(|(_, n)| *n > 0) {
        println!("  {:>8} {n}", bound.map_or("more".into(), |bound| format!("{bound:?}")));
    }
    assert_eq!(long.tokens.len(), 1);
    Ok(())
}

/// Time to the first token, cold, and with 1500 tokens known.
fn second_turn(model: &Arc<Model>) -> Outcome<()> {
    let engine = engine(model, 1)?;
    let first = prompt(model, 3, 1500)?;
    let cold = engine.submit(request(first.clone(), 20))?.wait()?;
    let second = [&first[..], &cold.tokens, &prompt(model, 4, 24)?].concat();
    let warm = engine.submit(request(second, 20))?.wait()?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "second turn: {} tokens cold in {:.0} ms, {} more with {} cached in {:.1} ms, {:.1} %",
        cold.timings.n_prompt,
        ms(cold.timings.prompt),
        warm.timings.n_prompt,
        warm.timings.n_cached,
        ms(warm.timings.prompt),
        100.0 * ms(warm.timings.prompt) / ms(cold.timings.prompt),
    );
    Ok(())
}

/// Tokens per second with and without guesses, for a text that repeats itself and for one that does not.
fn guesses(model: &Arc<Model>) -> Outcome<()> {
    let engine = engine(model, 1)?;
    let texts = [
        (
            "repetitive",
            "fn get_a(&self) -> u32 { self.a }\nfn get_b(&self) -> u32 { self.b }\nfn get_c(&self)"
                .to_owned(),
        ),
        ("new", "Once upon a time, in a land far away, there lived".to_owned()),
    ];
    for (name, text) in texts {
        for speculation in [Speculation::Off, Speculation::PromptLookup { max: 8 }] {
            let mut request = request(model.encode(&text)?, 200);
            request.params.speculation = speculation;
            let answer = engine.submit(request)?.wait()?;
            let (rate, report) = (answer.timings.decode_per_second(), answer.timings.speculation);
            println!("guesses: {name}, {speculation:?}: {rate:.1} tokens/s, {report:?}");
        }
    }
    Ok(())
}
