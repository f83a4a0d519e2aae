//! `minfer bench`: how fast a model runs, and how near that is to what the machine can do.
//!
//! [`plan`] turns lists of settings into tests, [`measure`] runs one, [`work`] says what a test has to read and compute
//! at least, [`record`] puts that beside the limits of the machine, [`report`] writes it.
//!
//! Trap: both limits of a shared machine move by the second. So they are measured between parts of every run, the share of
//! a part is taken of the limits beside it, and the medians over the parts are printed.

mod measure;
mod model;
mod plan;
mod record;
mod report;
mod stats;
mod work;

use std::sync::Arc;

use minfer_cpu::isa::Isa;
use minfer_cpu::limits;
use minfer_cpu::threads::default_n_threads;
use minfer_engine::{Context, Model};

use crate::args::BenchArgs;
use crate::engine;
use crate::interrupt::Interrupt;
use crate::shell::Shell;

use measure::Runner;
use model::ModelFacts;
use plan::{Setup, Test};
use record::{Measured, Record};
use report::Report;
use work::Costs;

pub(super) fn run(args: &BenchArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let default = shell.env.n_threads.unwrap_or_else(default_n_threads);
    let (setups, tests) = (plan::setups(args, default), plan::tests(args)?);
    let isa = shell.env.isa.as_deref().map_or_else(|| Ok(Isa::detect()), Isa::from_name)?;
    let model = engine::load(args.model.name()?, &args.model.open)?;
    let bench = Bench {
        args,
        facts: ModelFacts::of(&model, !args.model.open.no_mmap),
        model,
        isa,
        interrupt: Interrupt::listen(),
    };
    let mut report = Report::new(args.output, &setups);
    report.begin(&mut shell.out)?;
    for setup in &setups {
        bench.run_all(setup, &tests, &mut report, shell)?;
    }
    report.end(isa, &mut shell.out)
}

/// What all tests have in common.
struct Bench<'a> {
    args: &'a BenchArgs,
    model: Arc<Model>,
    facts: ModelFacts,
    isa: Isa,
    interrupt: Interrupt,
}

impl Bench<'_> {
    /// One context serves all tests of a setup: its weights are loaded once.
    fn run_all(
        &self,
        setup: &Setup,
        tests: &[Test],
        report: &mut Report,
        shell: &mut Shell,
    ) -> anyhow::Result<()> {
        let n_ctx = tests.iter().map(Test::n_tokens).max().unwrap_or(0);
        let compute = setup.compute(self.args);
        let mut context = engine::with_size(&self.model, n_ctx, &compute, shell)?;
        engine::load_weights(&mut context, shell)?;
        let backends = names(&context);
        let limits = limits::Meter::new(self.isa, setup.n_threads)?;
        let costs = Costs::of(&self.model, setup.kv_type());
        let mut runner = Runner::new(&mut context, costs, &limits, &self.interrupt)?;
        for test in tests {
            let runs = runner.run(test, self.args.repetitions, !self.args.no_warmup)?;
            let record = Record::new(&self.facts, &backends, setup, test, self.isa, Measured { runs });
            report.add(record, &mut shell.out)?;
        }
        engine::finish(&mut context, &compute, shell)
    }
}

/// `CPU`; several are separated by commas.
fn names(context: &Context) -> String {
    let drivers = context.scheduler().registry().drivers();
    drivers.iter().map(|it| it.backend().name().to_uppercase()).collect::<Vec<_>>().join(",")
}
