//! `minfer generate`: a raw continuation, with everything about it as JSON if wanted.

use minfer_engine::{FinishReason, Generated, generate};
use serde_json::json;

use crate::args::GenerateArgs;
use crate::interrupt::Interrupt;
use crate::printer::{self, Printer};
use crate::shell::Shell;
use crate::{engine, prompt};

pub(super) fn run(args: &GenerateArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let (name, argument) = args.model.require(args.prompt.argument.as_deref())?;
    let model = engine::load(&name, &args.model.open)?;
    let ids = prompt::raw_ids(&model, argument, &args.prompt, &args.tokens, shell)?;
    let mut context = engine::context(&model, &args.context, shell)?;
    let (seq, interrupt) = (context.new_sequence()?, Interrupt::install()?);
    let mut printer = Printer::new(&mut shell.out, &interrupt, !args.json);
    let params = args.sampling.params();
    let generated = generate(&mut context, seq, &ids, &params, &mut |event| printer.event(event))?;
    printer.finish(&generated)?;
    if args.json {
        shell.out.json(&report(&ids, &generated))?;
    }
    engine::finish(&mut context)?;
    Ok(printer::check_complete(&generated)?)
}

fn report(prompt: &[u32], generated: &Generated) -> serde_json::Value {
    let t = &generated.timings;
    json!({
        "prompt": prompt,
        "tokens": generated.tokens,
        "text": generated.text,
        "finish_reason": name(generated.reason),
        "timings": {
            "prompt_n": t.n_prompt,
            "prompt_ms": t.prompt.as_secs_f64() * 1e3,
            "prompt_per_second": t.prompt_per_second(),
            "predicted_n": t.n_generated,
            "predicted_ms": t.decode.as_secs_f64() * 1e3,
            "predicted_per_second": t.decode_per_second(),
        },
    })
}

fn name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::EndOfGeneration => "end",
        FinishReason::StopString => "stop",
        FinishReason::Length => "length",
        FinishReason::ContextFull => "context_full",
        FinishReason::Interrupted => "interrupted",
    }
}
