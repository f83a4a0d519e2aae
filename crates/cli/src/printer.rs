//! Shows an answer while it is generated, and stops it when the user or the reader of the output wants no more.

use std::io;
use std::ops::ControlFlow;

use minfer_engine::{ConstraintEnd, Event, FinishReason, Generated, SpeculationReport, Timings};

use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Out;
use crate::progress::{Meter, Unit};
use crate::report;

/// Takes the events of one generation.
pub(crate) struct Printer<'a> {
    out: &'a mut Out,
    interrupt: &'a Interrupt,
    shows_text: bool,
    reading: Option<Meter>,
    ends_line: bool,
    failed: Option<io::Error>,
}

impl<'a> Printer<'a> {
    /// A printer for one generation; without `shows_text` it only watches over it.
    pub(crate) fn new(out: &'a mut Out, interrupt: &'a Interrupt, shows_text: bool) -> Self {
        let reading = Some(Meter::new("reading", Unit::Things("tokens")));
        Self { out, interrupt, shows_text, reading, ends_line: true, failed: None }
    }

    /// Shows what has happened; breaks off when there is no use in going on.
    pub(crate) fn event(&mut self, event: Event) -> ControlFlow<()> {
        match event {
            Event::Prompt { done, total } => {
                if let Some(meter) = &mut self.reading {
                    meter.update(done as u64, Some(total as u64));
                }
            }
            Event::Token { .. } => self.reading = None,
            Event::Text(text) => self.text(&text),
            Event::Dropped(dropped) => report::note(format_args!(
                "the context is full: {} tokens are dropped, after the first {}",
                dropped.n_tokens, dropped.position
            )),
            Event::DroppedTurn { n_messages } => report::note(format_args!(
                "the context is full: the oldest turn, {n_messages} messages, is dropped"
            )),
            _ => {}
        }
        let is_over = self.failed.is_some() || self.interrupt.is_set();
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn text(&mut self, text: &str) {
        if !self.shows_text {
            return;
        }
        self.ends_line = text.ends_with('\n');
        self.failed = self.out.piece(text).err();
    }

    /// Ends the line, and tells of an answer that does not end by itself. An interrupt is left to the caller.
    pub(crate) fn finish(self, generated: &Generated) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if !self.ends_line {
            self.out.piece("\n")?;
        }
        if let Some(warning) = warning(generated.reason, generated.constraint) {
            report::warning(warning);
        }
        Ok(())
    }
}

/// What is to be said of an answer that a limit has ended.
fn warning(reason: FinishReason, constraint: Option<ConstraintEnd>) -> Option<&'static str> {
    Some(match (reason, constraint) {
        (_, Some(ConstraintEnd::Shortened)) => {
            "the answer was closed early, as grammar or schema allow it, since the limit was near; a larger -n, or a \
             larger context (-c), gives it room"
        }
        (FinishReason::Length, Some(ConstraintEnd::Cut)) => {
            "the answer is cut off by -n, and is not all that grammar or schema ask for; a larger -n gives it room"
        }
        (FinishReason::ContextFull, Some(ConstraintEnd::Cut)) => {
            "the context is full, so the answer is cut off, and is not all that grammar or schema ask for; -c makes it \
             larger"
        }
        (FinishReason::ContextFull, _) => {
            "the context is full, so the answer is cut off; -c makes it larger, --context-shift drops the oldest"
        }
        _ => return None,
    })
}

/// An error if the user has broken off the generation.
pub(crate) fn check_complete(generated: &Generated) -> Result<(), CliError> {
    match generated.reason {
        FinishReason::Interrupted => Err(CliError::Interrupted),
        _ => Ok(()),
    }
}

/// How long reading and generating took, on standard error.
pub(crate) fn timings(generated: &Generated) {
    report::note(in_words(generated.reason, &generated.timings));
}

fn in_words(reason: FinishReason, t: &Timings) -> String {
    let tokens = |n| format!("{n} token{}", if n == 1 { "" } else { "s" });
    let rate = |n, rate: f64| if n == 0 { String::new() } else { format!(", {rate:.1} tokens/s") };
    let known = if t.n_cached == 0 { String::new() } else { format!(" ({} more known already)", t.n_cached) };
    let end = match reason {
        FinishReason::EndOfGeneration | FinishReason::ContextFull | FinishReason::Complete => "",
        FinishReason::StopString => ", ended by a stop text",
        FinishReason::Length => ", ended by -n",
        FinishReason::Deadline => ", ended by its deadline",
        FinishReason::Interrupted => ", ended by Ctrl-C",
    };
    format!(
        "prompt: {}{}{known}; answer: {}{}{}{end}",
        tokens(t.n_prompt),
        rate(t.n_prompt, t.prompt_per_second()),
        tokens(t.n_generated),
        // The first token comes with the prompt.
        rate(t.n_generated.saturating_sub(1), t.decode_per_second()),
        guesses(&t.speculation),
    )
}

fn guesses(report: &SpeculationReport) -> String {
    let end = match report.given_up_after {
        Some(_) => ", then given up as they cost more than they brought",
        None => "",
    };
    match report.n_guessed {
        0 => String::new(),
        n => format!(", {} of {n} guesses right{end}", report.n_accepted),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timings_in_words() {
        let second = Duration::from_secs(1);
        let t = Timings {
            n_cached: 7,
            n_prompt: 30,
            prompt: second,
            n_generated: 5,
            decode: second,
            ..Timings::default()
        };
        let want = "prompt: 30 tokens, 30.0 tokens/s (7 more known already); answer: 5 tokens, 4.0 tokens/s";
        assert_eq!(in_words(FinishReason::EndOfGeneration, &t), want);
        let t = Timings { n_cached: 0, n_generated: 1, ..t };
        let want = "prompt: 30 tokens, 30.0 tokens/s; answer: 1 token, ended by -n";
        assert_eq!(in_words(FinishReason::Length, &t), want);
        let speculation = SpeculationReport { n_guessed: 9, n_accepted: 2, given_up_after: Some(9) };
        let want = "prompt: 30 tokens, 30.0 tokens/s; answer: 1 token, 2 of 9 guesses right, then given up as they \
                    cost more than they brought, ended by -n";
        assert_eq!(in_words(FinishReason::Length, &Timings { speculation, ..t }), want);
    }
}
