//! `minfer batch`: a file of requests, answered many at once.
//!
//! Threads take lines, hand them to the engine and wait for the answers; there are more of them than requests that run, so
//! that the engine always has a next one. One thread, this one, writes: a line is on disk before it counts as reported.

mod answer;
mod asked;
mod fingerprint;
mod input;
mod output;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use minfer_engine::{Engine, EngineError, EngineParams, Fault, FinishReason};
use minfer_hub::DEFAULT_MODEL;
use minfer_server::ApiError;
use minfer_server::answer::{Job, Whole};
use minfer_server::chat::Templates;
use serde_json::Value;

use crate::args::BatchArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::progress::{Meter, Unit};
use crate::shell::Shell;
use crate::{engine, files, report};

use fingerprint::Fingerprint;
use input::Line;
use output::Output;

/// How often it is asked whether to stop.
const GLANCE: Duration = Duration::from_millis(100);

/// Requests that wait for each that runs.
const WAITING_PER_RUNNING: usize = 2;

pub(super) fn run(args: &BatchArgs, shell: &mut Shell) -> anyhow::Result<()> {
    files::writes(&args.output, "the answers")?;
    engine::claim_outputs(&args.context.compute, shell)?;
    let text = input::read(&args.input)?;
    let lines = input::lines(&text);
    let model = engine::load(args.model.as_deref().unwrap_or(DEFAULT_MODEL), &args.open)?;
    let setup = fingerprint::of_setup(&model, &engine::planned(&model, &args.context, args.parallel, shell)?);
    let output = Output::open(&args.output, &lines, setup)?;
    let (n_lines, left) = (lines.len(), output.left(lines));
    if left.len() < n_lines {
        report::note(format_args!("{} of {n_lines} requests are answered already", n_lines - left.len()));
    }
    if left.is_empty() {
        return Ok(());
    }
    let guesses = (&args.speculation, &args.open);
    let mut context = engine::for_requests(&model, &args.context, guesses, args.parallel, shell)?;
    engine::load_weights(&mut context, shell)?;
    let n_threads = args.parallel.saturating_mul(1 + WAITING_PER_RUNNING).min(left.len());
    let speculation = args.speculation.mode();
    let params = EngineParams { max_queue: n_threads, speculation, ..EngineParams::default() };
    let batch = Batch {
        templates: Templates::of(&model),
        name: args.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
        engine: Engine::with_context(context, None, &params)?,
        setup,
        left: &left,
        next: AtomicUsize::new(0),
        is_stopped: AtomicBool::new(false),
    };
    let done = batch.run(n_threads, output, n_lines);
    let closed = batch.engine.close();
    let totals = done?;
    let mut context = closed?;
    report::note(&totals);
    engine::finish(&mut context, &args.context.compute, shell)?;
    match totals.n_failed == totals.n_answered {
        true => Err(CliError::NoneServed { n_requests: totals.n_failed, path: args.output.clone() }.into()),
        false => Ok(()),
    }
}

/// What was answered in this run.
struct Totals {
    n_answered: usize,
    n_failed: usize,
    n_tokens: usize,
    time: Duration,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.n_tokens as f64 / self.time.as_secs_f64().max(1e-9);
        write!(f, "{} requests answered", self.n_answered)?;
        if self.n_failed > 0 {
            write!(f, ", {} of them with an error", self.n_failed)?;
        }
        write!(f, "; {} tokens in {:.1} s, {rate:.1} a second", self.n_tokens, self.time.as_secs_f64())
    }
}

/// One line that is to be reported.
struct Finished {
    line: Value,
    n_tokens: usize,
    is_error: bool,
}

struct Batch<'a> {
    templates: Templates,
    name: String,
    engine: Engine,
    setup: Fingerprint,
    left: &'a [Line<'a>],
    next: AtomicUsize,
    is_stopped: AtomicBool,
}

impl Batch<'_> {
    fn run(&self, n_threads: usize, mut output: Output, n_lines: usize) -> anyhow::Result<Totals> {
        let interrupt = Interrupt::listen();
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            for _ in 0..n_threads {
                let sender = sender.clone();
                scope.spawn(move || self.answer_lines(&sender));
            }
            drop(sender);
            let done = self.report(&receiver, &mut output, n_lines, &interrupt);
            if done.is_err() {
                self.is_stopped.store(true, Ordering::Relaxed);
                // Ends what runs, so that no thread waits for it. The context is of no use any more.
                let _ = self.engine.close();
                // What was complete is reported all the same, unless reporting is what failed.
                if interrupt.is_set() {
                    for finished in receiver.iter().flatten() {
                        output.append(&finished.line)?;
                    }
                }
            }
            done
        })
    }

    /// Writes what comes in, until nothing more does.
    fn report(
        &self,
        receiver: &Receiver<Result<Finished, EngineError>>,
        output: &mut Output,
        n_lines: usize,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Totals> {
        let mut meter = Meter::new("answering", Unit::Things("requests"));
        let n_before = n_lines - self.left.len();
        let start = Instant::now();
        let mut totals = Totals { n_answered: 0, n_failed: 0, n_tokens: 0, time: Duration::ZERO };
        loop {
            if interrupt.is_set() {
                return Err(CliError::Interrupted.into());
            }
            let finished = match receiver.recv_timeout(GLANCE) {
                Ok(finished) => finished?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            output.append(&finished.line)?;
            totals.n_answered += 1;
            totals.n_failed += usize::from(finished.is_error);
            totals.n_tokens += finished.n_tokens;
            meter.update((n_before + totals.n_answered) as u64, Some(n_lines as u64));
        }
        totals.time = start.elapsed();
        Ok(totals)
    }

    /// Takes one line after the other, until there are none or it is over.
    fn answer_lines(&self, sender: &Sender<Result<Finished, EngineError>>) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            let Some(line) = self.left.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            let finished = match self.answer(line) {
                Ok(None) => return,
                Ok(Some(finished)) => Ok(finished),
                Err(error) => Err(error),
            };
            let is_over = finished.is_err();
            if sender.send(finished).is_err() || is_over {
                return;
            }
        }
    }

    /// The line that reports on a request; `None` if it was not answered because all is over. Errors that are not the
    /// request's are not reported: run again, it may be answered.
    fn answer(&self, line: &Line<'_>) -> Result<Option<Finished>, EngineError> {
        let model = self.engine.model();
        let prepared = line.parse().and_then(|asked| {
            let prepared = asked.prepare(model, &self.templates)?;
            Ok((asked, prepared))
        });
        let (asked, mut prepared) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Some(self.failed(line, &error))),
        };
        let mut all = Vec::new();
        for job in std::mem::take(&mut prepared.jobs) {
            match self.generate(job) {
                Ok(Some(whole)) => all.push(whole),
                Ok(None) => return Ok(None),
                Err(_) if self.is_stopped.load(Ordering::Relaxed) => return Ok(None),
                Err(error) if matches!(error.fault(), Fault::BadRequest | Fault::Unsupported) => {
                    return Ok(Some(self.failed(line, &ApiError::from(&error))));
                }
                Err(error) => return Err(error),
            }
        }
        let n_tokens =
            all.iter().filter_map(|whole| whole.finished.as_ref()).map(|it| it.n_completion()).sum();
        let body = asked.body(&line.answer_id(), &self.name, model, &prepared, all);
        Ok(Some(Finished { line: answer::success(line, self.setup, &body), n_tokens, is_error: false }))
    }

    /// One answer; `None` if it was not made because all is over.
    fn generate(&self, job: Job) -> Result<Option<Whole>, EngineError> {
        let Job { request, reader } = job;
        let n_prompt = request.prompt.len();
        let generated = self.engine.submit(request)?.wait()?;
        if generated.reason == FinishReason::Interrupted {
            return Ok(None);
        }
        Ok(Some(Whole::of(self.engine.model(), n_prompt, generated, reader)))
    }

    fn failed(&self, line: &Line<'_>, error: &ApiError) -> Finished {
        Finished { line: answer::failure(line, self.setup, error), n_tokens: 0, is_error: true }
    }
}
