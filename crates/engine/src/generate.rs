//! One answer at a time, in a sequence of the caller's.

use std::ops::ControlFlow;

use crate::answer::{Event, Generated};
use crate::context::{Context, SeqId};
use crate::error::EngineError;
use crate::request::{GenerateParams, Request};
use crate::speculate::Drafter;
use crate::step::{Listener, Seat, Stepper};
use crate::task::Task;

/// Makes the sequence hold `prompt`, reading only what is cached neither there nor elsewhere, then generates. `sink` may
/// break to end early; what was generated so far is returned.
pub fn generate(
    context: &mut Context,
    seq: SeqId,
    prompt: &[u32],
    params: &GenerateParams,
    sink: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Generated, EngineError> {
    generate_request(context, seq, Request::new(prompt.to_vec(), params.clone()), sink)
}

/// The same for a whole request, with its constraint. Nothing else runs beside it, so priority and the time in a queue mean
/// nothing here; the deadline is the caller's, who can break.
pub fn generate_request(
    context: &mut Context,
    seq: SeqId,
    request: Request,
    sink: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Generated, EngineError> {
    let mut task = Task::new(context.model(), context.n_ctx(), request)?;
    task.begin(context, seq)?;
    let mut draft = context.take_draft();
    let answer = run(context, draft.as_deref_mut(), Seat { task, listener: sink });
    context.put_draft(draft);
    answer
}

fn run<L: Listener>(
    context: &mut Context,
    mut draft: Option<&mut Drafter>,
    seat: Seat<L>,
) -> Result<Generated, EngineError> {
    let head = seat.task.head();
    let mut seats = [seat];
    let mut stepper = Stepper::default();
    while seats[0].task.is_active() {
        seats[0].task.guess_from_text();
        if let Some(draft) = &mut draft {
            stepper.set_guess_time(draft.guess(context, &mut seats, context.n_ubatch())?);
        }
        stepper.plan(context, &seats, head, context.n_ubatch());
        stepper.run(context, &mut seats)?;
    }
    let [seat] = seats;
    seat.task.into_answer()
}
