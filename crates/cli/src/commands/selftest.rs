//! `minfer selftest`: kernels against their definitions, and the report for a bug.

use std::collections::BTreeMap;
use std::io::{self, Write};

use minfer_engine::selftest::{KernelResult, Outcome, selftest};
use minfer_graph::Backend;
use serde_json::{Value, json};

use crate::args::SelftestArgs;
use crate::escape;
use crate::machine::Machine;
use crate::progress::{Meter, Unit};
use crate::shell::Shell;
use crate::table::{Align, Table};

pub(super) fn run(args: &SelftestArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let machine = Machine::look();
    let mut meter = Meter::new("testing", Unit::Things("cases"));
    let results =
        selftest(args.device.as_deref(), &mut |done, total| meter.update(done as u64, Some(total as u64)))?;
    meter.clear();
    let n_failed = results.iter().filter(|r| matches!(r.outcome, Outcome::Failed { .. })).count();
    shell.exit_code = u8::from(n_failed > 0);
    match args.json {
        true => shell.out.json(&to_json(&machine, &results)),
        false => Ok(write(&machine, &results, &mut shell.out)?),
    }
}

/// Backends of which nothing was tested: this build does not have them, or no device was there or named.
fn absent(results: &[KernelResult]) -> Vec<&'static str> {
    let is_here = |b: &Backend| results.iter().any(|r| r.device.split(' ').next() == Some(b.name()));
    Backend::known().filter(|b| !is_here(b)).map(Backend::name).collect()
}

fn write(machine: &Machine, results: &[KernelResult], out: &mut impl Write) -> io::Result<()> {
    for line in machine.lines() {
        writeln!(out, "{}", escape::one_line(&line))?;
    }
    writeln!(out, "engines  not tested: {}\n", absent(results).join(", "))?;
    let columns = ["cases", "numbers"].map(|name| (name, Align::Right));
    let mut table = Table::new([
        ("engine", Align::Left),
        ("op", Align::Left),
        ("types", Align::Left),
        columns[0],
        columns[1],
        ("result", Align::Left),
    ]);
    for row in grouped(results) {
        table.push(row);
    }
    table.write(out, 0)?;
    let failed: Vec<_> = results.iter().filter(|r| matches!(r.outcome, Outcome::Failed { .. })).collect();
    match failed.len() {
        0 => {
            let n: usize = results.iter().map(|r| r.n_numbers).sum();
            writeln!(out, "\nevery kernel agrees with its definition: {n} numbers compared")
        }
        n => writeln!(out, "\n{n} kernels FAIL: please report this with everything above"),
    }
}

/// Types with the same result stand in one line.
fn grouped(results: &[KernelResult]) -> Vec<[String; 6]> {
    let mut rows: Vec<([String; 2], Vec<&KernelResult>)> = Vec::new();
    for result in results.iter().filter(|r| !matches!(r.outcome, Outcome::NotClaimed(_))) {
        let key = [result.device.clone(), result.op.to_owned()];
        let same = |row: &&mut ([String; 2], Vec<&KernelResult>)| {
            row.0 == key && row.1[0].outcome == result.outcome && result.outcome == Outcome::Passed
        };
        match rows.iter_mut().find(same) {
            Some(row) => row.1.push(result),
            None => rows.push((key, vec![result])),
        }
    }
    let row = |([device, op], all): ([String; 2], Vec<&KernelResult>)| {
        let types: Vec<_> = all.iter().map(|r| r.dtype.name()).collect();
        let sum = |f: fn(&KernelResult) -> usize| all.iter().map(|r| f(r)).sum::<usize>().to_string();
        let result = match &all[0].outcome {
            Outcome::Failed { n_cases, first } => {
                format!("FAIL in {n_cases}, first {}", escape::one_line(first))
            }
            _ => "ok".into(),
        };
        [device, op, types.join(" "), sum(|r| r.n_cases), sum(|r| r.n_numbers), result]
    };
    rows.into_iter().map(row).collect()
}

fn to_json(machine: &Machine, results: &[KernelResult]) -> Value {
    let passed = !results.iter().any(|r| matches!(r.outcome, Outcome::Failed { .. }));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let kernels: Vec<_> = results
        .iter()
        .map(|r| {
            let (outcome, detail) = match &r.outcome {
                Outcome::Passed => ("passed", Value::Null),
                Outcome::Failed { n_cases, first } => ("failed", json!({ "cases": n_cases, "first": first })),
                Outcome::NotClaimed(reason) => ("not claimed", json!(reason)),
            };
            *counts.entry(outcome).or_default() += 1;
            json!({
                "engine": r.device, "op": r.op, "type": r.dtype.name(), "cases": r.n_cases,
                "numbers": r.n_numbers, "outcome": outcome, "detail": detail,
            })
        })
        .collect();
    json!({
        "schema": "minfer.selftest",
        "version": 1,
        "passed": passed,
        "machine": machine,
        "engines_not_tested": absent(results),
        "counts": counts,
        "kernels": kernels,
    })
}
