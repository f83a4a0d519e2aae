//! Shows an answer while it is generated, and stops it when the user or the reader of the output wants no more.

use std::io::{self, Write};
use std::ops::ControlFlow;

use minfer_engine::{Event, FinishReason, Generated};

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
    pub(crate) fn event(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Prompt { done, total } => {
                if let Some(meter) = &mut self.reading {
                    meter.update(done as u64, Some(total as u64));
                }
            }
            Event::Token(_) => self.reading = None,
            Event::Text(text) => self.text(text),
        }
        let is_over = self.failed.is_some() || self.interrupt.is_set();
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn text(&mut self, text: &str) {
        if !self.shows_text {
            return;
        }
        self.ends_line = text.ends_with('\n');
        self.failed = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).err();
    }

    /// Ends the line, and tells of an answer that does not end by itself. An interrupt is left to the caller.
    pub(crate) fn finish(self, generated: &Generated) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.shows_text && !(self.ends_line && generated.text.ends_with('\n')) {
            writeln!(self.out)?;
            self.out.flush()?;
        }
        if generated.reason == FinishReason::ContextFull {
            report::warning("the context is full, so the answer is cut off; -c makes it larger");
        }
        Ok(())
    }
}

/// An error if the user has broken off the generation.
pub(crate) fn check_complete(generated: &Generated) -> Result<(), CliError> {
    match generated.reason {
        FinishReason::Interrupted => Err(CliError::Interrupted),
        _ => Ok(()),
    }
}

/// `--timings`: how long reading and generating took.
pub(crate) fn timings(generated: &Generated) {
    let t = &generated.timings;
    report::note(format_args!(
        "prompt: {} tokens read at {:.1} a second, {} known already; answer: {} tokens at {:.1} a second",
        t.n_prompt,
        t.prompt_per_second(),
        t.n_cached,
        t.n_generated,
        t.decode_per_second(),
    ));
}
