//! A context: KV cache, sequences, and steps that advance any of them together.

use std::sync::Arc;

use minfer_graph::{
    CParams, Counters, GraphParams, GraphType, Head, InputData, LoadNote, NamedInput, Observer, Scheduler,
    StepError,
};
use minfer_models::StepInput;

use crate::backends::Backends;
use crate::error::EngineError;
use crate::kv::{BlockCounts, KvTable, PrefixMatch, ReserveError};
use crate::memory::{GpuShare, Plan, Reservation};
use crate::model::Model;
use crate::params::{ContextParams, MAX_STEP};
use crate::setup::Setup;
use crate::speculate::Drafter;
use crate::step_inputs::StepInputs;
use crate::trace::{TraceSettings, Tracer};

/// Positions in one block of the KV cache.
pub(crate) const KV_BLOCK: usize = 32;

/// A sequence of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeqId(pub(crate) usize);

/// One token of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The sequence that it is appended to; rows of one sequence follow one another in its order.
    pub seq: SeqId,
    /// Its id.
    pub token: u32,
    /// Whether the logits after it are wanted, or the hidden values where those are asked for.
    pub wants_logits: bool,
}

/// Runs sequences of one model.
pub struct Context {
    model: Arc<Model>,
    scheduler: Scheduler,
    cparams: CParams,
    weights_version: u64,
    n_ctx: usize,
    n_ubatch: usize,
    n_outputs_max: usize,
    finds_best: bool,
    kv: KvTable,
    inputs: StepInputs,
    logits: Vec<f32>,
    tracer: Option<Tracer>,
    draft: Option<Box<Drafter>>,
    backends: Arc<Backends>,
    plan_total: usize,
    gpu: Option<GpuShare>,
    gpu_left_out: Option<String>,
    _reservation: Reservation,
}

impl Context {
    /// Checks the memory plan, loads weights. `progress` sees weights done and all. Contexts of a model with equal threads
    /// and instructions share one set of packed weights.
    pub fn new(
        model: &Arc<Model>,
        params: &ContextParams,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Context, EngineError> {
        let mut context = Self::without_weights(model, params)?;
        context.load_weights(progress)?;
        Ok(context)
    }

    /// Loads the weights of a context that was made without them, and those of its draft model.
    pub fn load_weights(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), EngineError> {
        let decode = self.params(1, 1, GraphType::Decode);
        self.scheduler.warm(self.model.description(), &decode, progress)?;
        self.draft.as_mut().map_or(Ok(()), |draft| draft.load_weights(progress))
    }

    /// What happened while weights were loaded that did not stop it, since the last call: for people.
    pub fn take_load_notes(&self) -> Vec<LoadNote> {
        let drivers = self.scheduler.registry().drivers();
        let draft = self.draft.iter().flat_map(|draft| draft.take_load_notes());
        drivers.iter().flat_map(|driver| driver.take_load_notes()).chain(draft).collect()
    }

    /// The same without loading weights: graphs can be compiled and looked at, the first step loads.
    pub fn without_weights(model: &Arc<Model>, params: &ContextParams) -> Result<Context, EngineError> {
        let setup = Setup::new(model, params)?;
        let plan = Plan::of(model, params, &setup)?;
        plan.check(model, params)?;
        setup.try_device(model)?;
        let finds_best = setup.finds_best(model);
        let Setup { backends, registry, cparams, weights_version, kv, n_ctx, gpu_left_out } = setup;
        let mut scheduler = Scheduler::new(registry, model.weights(), kv);
        // Steps beyond the plan may take what the caller's limit leaves over, and no more.
        let spare = params.memory.map(|limit| limit.saturating_sub(plan.total()));
        let arenas: usize = plan.arenas().iter().map(|arena| arena.1).sum();
        let limit = spare.map(|spare| spare.saturating_add(arenas));
        let reserved = scheduler.reserve_arena(plan.arenas(), limit);
        reserved.map_err(|e| e.naming(|backend| plan.largest(backend)))?;
        Ok(Context {
            model: model.clone(),
            scheduler,
            cparams,
            weights_version,
            n_ctx,
            n_ubatch: params.n_ubatch,
            n_outputs_max: crate::memory::n_outputs(params),
            finds_best,
            kv: KvTable::new(KV_BLOCK, cparams.n_kv_blocks, params.n_seq_max),
            inputs: StepInputs::default(),
            logits: Vec::new(),
            tracer: params.trace.as_ref().map(Tracer::create).transpose()?,
            draft: None,
            backends,
            plan_total: plan.total(),
            gpu: plan.gpu().cloned(),
            gpu_left_out,
            // A draft model has a context of its own, which promises the rest.
            _reservation: Reservation::new(plan.missing() - params.draft_bytes),
        })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Positions that one sequence can hold.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    /// Most tokens of prompts in one step.
    pub fn n_ubatch(&self) -> usize {
        self.n_ubatch
    }

    /// Rows of logits in one step that memory is planned for.
    pub fn n_outputs_max(&self) -> usize {
        self.n_outputs_max
    }

    /// Whether a step that only wants best tokens finds them where the logits are, on a device.
    pub(crate) fn finds_best(&self) -> bool {
        self.finds_best
    }

    /// Threads of the CPU backend in decode steps.
    pub fn n_threads(&self) -> usize {
        self.backends.threads().decode
    }

    /// Threads of the CPU backend in steps that read prompts.
    pub fn n_threads_batch(&self) -> usize {
        self.backends.threads().batch
    }

    /// The scheduler, for reports: counters, profile, compiled graphs.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The scheduler, to switch reports on.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// How often graphs were built, planned, prepared and run.
    pub fn counters(&self) -> Counters {
        self.scheduler.counters()
    }

    /// Bytes of the KV cache.
    pub fn kv_bytes(&self) -> usize {
        self.scheduler.kv().bytes()
    }

    /// Bytes that the process takes at most, by the plan that the context was made with.
    pub fn planned_bytes(&self) -> usize {
        self.plan_total
    }

    /// What a device takes of the model, as it was planned, if one does.
    pub fn gpu(&self) -> Option<&GpuShare> {
        self.gpu.as_ref()
    }

    /// Why a GPU of this machine that nobody asked for takes no layers, if that is so.
    pub fn gpu_left_out(&self) -> Option<&str> {
        self.gpu_left_out.as_deref()
    }

    /// Switches the decode fusions; the next step builds another graph, weights stay.
    pub fn set_fusion(&mut self, qkv: bool, ffn: bool) {
        self.cparams.fuse_qkv = qkv;
        self.cparams.fuse_ffn = ffn;
    }

    /// The params of a step, for looking at its graph.
    pub fn params(&self, n_tokens: usize, n_out: usize, gtype: GraphType) -> GraphParams {
        let (cparams, weights_version) = (self.cparams, self.weights_version);
        GraphParams { n_tokens, n_out, head: Head::Logits, gtype, cparams, weights_version }
    }

    /// How the blocks of the KV cache are spread.
    pub fn kv_blocks(&self) -> BlockCounts {
        self.kv.counts()
    }

    /// Blocks that so many tokens of one sequence need.
    pub(crate) fn n_blocks_for(&self, n_tokens: usize) -> usize {
        n_tokens.div_ceil(KV_BLOCK)
    }

    /// Blocks of a sequence, in the order of its positions.
    pub(crate) fn blocks(&self, seq: SeqId) -> &[u32] {
        self.kv.blocks(seq.0)
    }

    /// Makes an empty sequence hold `tokens`, whose keys and values the caller writes into its blocks.
    pub(crate) fn hold(&mut self, seq: SeqId, tokens: &[u32]) -> Result<(), EngineError> {
        if !self.kv.contains(seq.0) {
            return Err(EngineError::NoSequence { n_seq_max: self.kv.n_seq_max() });
        }
        self.inputs.lens.clear();
        self.inputs.lens.resize(self.kv.n_seq_max(), 0);
        self.inputs.lens[seq.0] = tokens.len();
        self.reserve()?;
        tokens.iter().for_each(|token| self.kv.push(seq.0, *token));
        Ok(())
    }

    /// The type of the cache.
    pub(crate) fn kv_type_name(&self) -> &'static str {
        self.cparams.kv_type.dtype().name()
    }

    /// Blocks that a sequence holds.
    pub(crate) fn n_blocks_of(&self, seq: SeqId) -> usize {
        self.kv.blocks(seq.0).len()
    }

    /// Blocks of the KV cache.
    pub(crate) fn n_blocks(&self) -> usize {
        self.cparams.n_kv_blocks
    }

    /// Positions in one block.
    pub(crate) fn block_len(&self) -> usize {
        KV_BLOCK
    }

    /// Sequences that there can be at once.
    pub fn n_seq_max(&self) -> usize {
        self.kv.n_seq_max()
    }

    /// Forgets cached texts; sequences keep what they hold.
    pub fn clear_prefix_cache(&mut self) {
        self.kv.clear_cache();
    }

    /// A new, empty sequence.
    pub fn new_sequence(&mut self) -> Result<SeqId, EngineError> {
        let n_seq_max = self.kv.n_seq_max();
        self.kv.create().map(SeqId).ok_or(EngineError::NoSequence { n_seq_max })
    }

    /// A new sequence that holds what `seq` holds. Memory is shared until one of them is appended to, and then all but
    /// the last block still is.
    pub fn fork(&mut self, seq: SeqId) -> Result<SeqId, EngineError> {
        let n_seq_max = self.kv.n_seq_max();
        self.kv.fork(seq.0).map(SeqId).ok_or(EngineError::NoSequence { n_seq_max })
    }

    /// Ends a sequence; what it holds stays cached until its memory is needed.
    pub fn free_sequence(&mut self, seq: SeqId) {
        self.kv.end(seq.0);
    }

    /// Empties a sequence, and begins it anew with the longest cached prefix of `prompt`, at most `limit` tokens of it.
    /// What comes of it is bit for bit what reading those tokens would give.
    pub fn begin(&mut self, seq: SeqId, prompt: &[u32], limit: usize) -> Result<PrefixMatch, EngineError> {
        let scheduler = &mut self.scheduler;
        let found = self.kv.restart(seq.0, prompt, limit, &mut |from, to| scheduler.copy_kv_block(from, to));
        found.map_err(|fault| StepError::Memory(fault).into())
    }

    /// Tokens that the sequence holds.
    pub fn tokens(&self, seq: SeqId) -> &[u32] {
        self.kv.tokens(seq.0)
    }

    /// Forgets everything after the first `len` tokens.
    pub fn truncate(&mut self, seq: SeqId, len: usize) {
        self.kv.truncate(seq.0, len);
    }

    /// Appends the rows to their sequences and gives the wanted logits, a row of `n_vocab` for each wanting token, in
    /// order. A failed step adds no token; blocks that were reserved for it stay with their sequences.
    pub fn step(&mut self, rows: &[Row]) -> Result<&[f32], EngineError> {
        let mut logits = std::mem::take(&mut self.logits);
        let done = self.step_with(rows, Head::Logits, &mut logits, None);
        self.logits = logits;
        done.map(|()| &self.logits[..])
    }

    /// As [`Self::step`], node by node: `observer` sees the values instead of a trace.
    pub fn step_observed(
        &mut self,
        rows: &[Row],
        observer: &mut dyn Observer,
    ) -> Result<&[f32], EngineError> {
        let mut logits = std::mem::take(&mut self.logits);
        let done = self.step_with(rows, Head::Logits, &mut logits, Some(observer));
        self.logits = logits;
        done.map(|()| &self.logits[..])
    }

    /// As [`Self::step`], into a buffer of the caller's: rows of [`Self::row_len`].
    pub(crate) fn step_into(
        &mut self,
        rows: &[Row],
        head: Head,
        out: &mut Vec<f32>,
    ) -> Result<(), EngineError> {
        self.step_with(rows, head, out, None)
    }

    /// Length of a row of what a step gives.
    pub(crate) fn row_len(&self, head: Head) -> usize {
        match head {
            Head::Logits => self.model.n_vocab(),
            Head::Best => 2,
            Head::Hidden => self.model.description().hparams().n_embd,
        }
    }

    fn step_with(
        &mut self,
        rows: &[Row],
        head: Head,
        out: &mut Vec<f32>,
        observer: Option<&mut dyn Observer>,
    ) -> Result<(), EngineError> {
        self.check_rows(rows)?;
        self.reserve()?;
        self.inputs.fill(rows, &self.kv, self.cparams.blocks_per_seq());
        let b = &self.inputs;
        let n_out = b.out_rows.len();
        let single = b.lens.iter().all(|n| *n <= 1);
        let gtype = if single { GraphType::Decode } else { GraphType::Prefill };
        let params = GraphParams { head, ..self.params(rows.len(), n_out, gtype) };
        out.resize(n_out * self.row_len(head), 0.0);
        let inputs: [NamedInput<'_>; 7] = StepInput::ALL.map(|i| (i.name(), InputData::I32(b.of(i))));
        let declared = StepInput::ALL.iter().filter(|i| i.is_declared(&params)).count();
        let observer: Option<&mut dyn Observer> = match (observer, self.tracer.as_mut()) {
            (Some(observer), _) => Some(observer),
            (None, Some(tracer)) => Some(tracer.next_step()),
            (None, None) => None,
        };
        let source = self.model.description();
        self.scheduler.step(source, &params, &inputs[..declared], out, observer)?;
        rows.iter().for_each(|row| self.kv.push(row.seq.0, row.token));
        Ok(())
    }

    /// Appends `tokens` to a sequence in chunks; gives the logits after the last one. `chunk_done` sees tokens done.
    pub fn prefill(
        &mut self,
        seq: SeqId,
        tokens: &[u32],
        chunk_done: &mut dyn FnMut(usize) -> std::ops::ControlFlow<()>,
    ) -> Result<Option<&[f32]>, EngineError> {
        if tokens.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        self.check_room(seq, tokens.len())?;
        let mut rows = Vec::with_capacity(self.n_ubatch.min(tokens.len()));
        let mut done = 0;
        for chunk in tokens.chunks(self.n_ubatch) {
            done += chunk.len();
            let last = done == tokens.len();
            rows.clear();
            rows.extend(chunk.iter().map(|&token| Row { seq, token, wants_logits: false }));
            if let (true, Some(row)) = (last, rows.last_mut()) {
                row.wants_logits = true;
            }
            self.step(&rows)?;
            if chunk_done(done).is_break() && !last {
                return Ok(None);
            }
        }
        Ok(Some(&self.logits))
    }

    /// Gives it a smaller model, run by `draft`, that guesses ahead for requests with
    /// [`Speculation::DraftModel`](crate::Speculation::DraftModel): at least `n_min` tokens or none. `draft` should be as
    /// long and have as many sequences. Fails if its model has another vocabulary.
    pub fn set_draft(&mut self, draft: Context, n_min: usize) -> Result<(), EngineError> {
        self.draft = Some(Box::new(Drafter::new(draft, &self.model, n_min)?));
        Ok(())
    }

    pub(crate) fn take_draft(&mut self) -> Option<Box<Drafter>> {
        self.draft.take()
    }

    pub(crate) fn put_draft(&mut self, draft: Option<Box<Drafter>>) {
        self.draft = draft;
    }

    /// Writes node values to a file from the next step on; a trace that is being written is finished first.
    pub fn start_trace(&mut self, settings: &TraceSettings) -> Result<(), EngineError> {
        self.finish_trace()?;
        self.tracer = Some(Tracer::create(settings)?);
        Ok(())
    }

    /// Finishes the trace file, if one is being written.
    pub fn finish_trace(&mut self) -> Result<(), EngineError> {
        self.tracer.take().map_or(Ok(()), Tracer::finish)
    }

    fn check_room(&self, seq: SeqId, n_tokens: usize) -> Result<(), EngineError> {
        let n_past = self.tokens(seq).len();
        if n_past + n_tokens <= self.n_ctx {
            return Ok(());
        }
        Err(EngineError::ContextFull { n_tokens, n_past, n_ctx: self.n_ctx })
    }

    fn check_rows(&mut self, rows: &[Row]) -> Result<(), EngineError> {
        if rows.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if rows.len() > MAX_STEP {
            let (value, reason) = (rows.len().to_string(), "it must be at most 65536");
            return Err(EngineError::Setting { setting: "the number of tokens in a step", value, reason });
        }
        let n_vocab = self.model.n_vocab();
        self.inputs.lens.clear();
        self.inputs.lens.resize(self.kv.n_seq_max(), 0);
        for row in rows {
            if row.token as usize >= n_vocab {
                return Err(EngineError::Token { id: row.token, n_vocab });
            }
            if !self.kv.contains(row.seq.0) {
                return Err(EngineError::NoSequence { n_seq_max: self.kv.n_seq_max() });
            }
            self.inputs.lens[row.seq.0] += 1;
        }
        for seq in 0..self.kv.n_seq_max() {
            self.check_room(SeqId(seq), self.inputs.lens[seq])?;
        }
        Ok(())
    }

    /// Gives every sequence the blocks that its new tokens need.
    fn reserve(&mut self) -> Result<(), EngineError> {
        let n_blocks = self.cparams.n_kv_blocks;
        let scheduler = &mut self.scheduler;
        for (seq, n_new) in self.inputs.lens.iter().enumerate() {
            let reserved = self.kv.reserve(seq, *n_new, &mut |from, to| scheduler.copy_kv_block(from, to));
            reserved.map_err(|error| match error {
                ReserveError::OutOfBlocks => EngineError::OutOfBlocks { n_blocks, block_len: KV_BLOCK },
                ReserveError::Copy(fault) => StepError::Memory(fault).into(),
            })?;
        }
        Ok(())
    }
}
