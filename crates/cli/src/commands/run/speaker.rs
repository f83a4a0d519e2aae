//! Generates one answer after another in one sequence, and shows them.

use std::ops::ControlFlow;

use minfer_engine::{
    CompiledGrammar, Context, Conversation, Event, GenerateParams, Generated, Request, SeqId,
    generate_request,
};

use crate::interrupt::Interrupt;
use crate::printer::{self, Printer};
use crate::shell::Shell;
use crate::{escape, report};

use super::keeper::Keeper;
use super::opening::check_bytes;

/// What to generate and what to tell of it.
pub(super) struct Settings {
    pub(super) params: GenerateParams,
    /// What a text that goes on must look like; a conversation has its own.
    pub(super) grammar: Option<CompiledGrammar>,
    /// Whether the tokens of each prompt are shown.
    pub(super) with_prompt: bool,
    /// Whether it is told how long each answer took.
    pub(super) with_timings: bool,
}

/// One sequence, and where its answers go.
pub(super) struct Speaker<'a> {
    context: &'a mut Context,
    seq: SeqId,
    settings: Settings,
    keeper: Keeper,
    interrupt: Interrupt,
    shell: &'a mut Shell,
}

type Sink<'a> = dyn FnMut(Event) -> ControlFlow<()> + 'a;

impl<'a> Speaker<'a> {
    /// Takes over Ctrl-C, which from now on ends an answer instead of the process.
    pub(super) fn new(
        context: &'a mut Context,
        mut settings: Settings,
        keeper: Keeper,
        shell: &'a mut Shell,
    ) -> anyhow::Result<Self> {
        let seq = context.new_sequence()?;
        let sampler = keeper.load(context, seq)?;
        if settings.params.sampler.seed.is_none() {
            settings.params.resume = sampler;
        }
        Ok(Self { context, seq, settings, keeper, interrupt: Interrupt::listen(), shell })
    }

    /// Goes on with a text.
    pub(super) fn go_on(&mut self, ids: &[u32]) -> anyhow::Result<Generated> {
        if self.settings.with_prompt {
            self.show_prompt(ids);
        }
        let constraint = self.settings.grammar.as_ref().map(CompiledGrammar::constraint);
        self.speak(|context, seq, params, sink| {
            let request = Request { constraint, ..Request::new(ids.to_vec(), params.clone()) };
            Ok(generate_request(context, seq, request, sink)?)
        })
    }

    /// Answers the last message of a conversation, and adds the answer to it.
    pub(super) fn answer(&mut self, conversation: &mut Conversation) -> anyhow::Result<Generated> {
        if self.settings.with_prompt {
            self.show_prompt(&conversation.prompt(self.context.model())?);
        }
        self.speak(|context, seq, params, sink| Ok(conversation.reply(context, seq, params, sink)?))
    }

    /// Warns of bytes of `text` that the model has no token for.
    pub(super) fn check_bytes(&self, text: &str) -> anyhow::Result<()> {
        check_bytes(self.context.model(), text, self.shell)
    }

    fn speak(
        &mut self,
        run: impl FnOnce(&mut Context, SeqId, &GenerateParams, &mut Sink<'_>) -> anyhow::Result<Generated>,
    ) -> anyhow::Result<Generated> {
        self.interrupt.reset();
        let mut printer = Printer::new(&mut self.shell.out, &self.interrupt, true);
        let answer = run(self.context, self.seq, &self.settings.params, &mut |event| printer.event(event))?;
        printer.finish(&answer)?;
        self.keeper.save(self.context, self.seq, &answer)?;
        // The next answer of this run has draws of its own.
        self.settings.params.resume = None;
        if self.settings.with_timings {
            printer::timings(&answer);
        }
        // Made again with the same seed, an answer would be the same.
        let seed = &mut self.settings.params.sampler.seed;
        *seed = seed.map(|seed| seed.wrapping_add(1));
        Ok(answer)
    }

    fn show_prompt(&self, ids: &[u32]) {
        let tokenizer = self.context.model().tokenizer();
        for id in ids {
            let bytes = tokenizer.token_bytes(*id).unwrap_or_default();
            report::note(format_args!("{id:6} {}", escape::quoted(bytes)));
        }
    }
}
