//! What an engine keeps of its own run: profile, timeline, trace. Each is switched on and off between two steps, and changes no
//! answer.

use std::sync::mpsc::channel;

use minfer_graph::{Profile, Timeline};

use crate::context::Context;
use crate::error::EngineError;
use crate::trace::TraceSettings;

use super::Engine;
use super::worker::Command;

/// Reports on the engine's own run. Calls wait for the step that runs.
///
/// ```no_run
/// # fn example(engine: &minfer_engine::Engine) -> Result<(), minfer_engine::EngineError> {
/// engine.set_profile(true)?;
/// // ... requests come and go ...
/// if let Some(profile) = engine.set_profile(false)? {
///     println!("{}", profile.table(None));
/// }
/// # Ok(())
/// # }
/// ```
impl Engine {
    /// Adds up the time of every op from now on, or ends that; gives what was added up until now. Nodes run one by one
    /// meanwhile, which takes somewhat longer.
    pub fn set_profile(&self, on: bool) -> Result<Option<Profile>, EngineError> {
        self.look(move |context| context.scheduler_mut().set_profile(on.then(Profile::default)))
    }

    /// Keeps what runs when from now on, or ends that; gives what was kept until now.
    pub fn set_timeline(&self, on: bool) -> Result<Option<Timeline>, EngineError> {
        self.look(move |context| context.scheduler_mut().set_timeline(on.then(Timeline::default)))
    }

    /// Writes node values to a file from the next step on; a trace that is being written is finished first.
    pub fn start_trace(&self, settings: TraceSettings) -> Result<(), EngineError> {
        self.look(move |context| context.start_trace(&settings))?
    }

    /// Finishes the trace, if one is being written.
    pub fn finish_trace(&self) -> Result<(), EngineError> {
        self.look(Context::finish_trace)?
    }

    fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Context) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        let (sender, receiver) = channel();
        let look = Box::new(move |context: &mut Context| {
            // Whoever asked may have gone.
            let _ = sender.send(look(context));
        });
        self.commands.send(Command::Look(look)).map_err(|_| EngineError::EngineStopped)?;
        receiver.recv().map_err(|_| EngineError::EngineStopped)
    }
}
