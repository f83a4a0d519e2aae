//! `minfer devices`: engines, their devices, and why one cannot be used.

use std::io::Write;

use minfer_engine::{DeviceInfo, devices};
use serde::Serialize;

use crate::args::DevicesArgs;
use crate::output::Out;
use crate::shell::Shell;
use crate::table::{Align, Table};
use crate::units;

pub(super) fn run(args: &DevicesArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let devices = devices();
    if args.json {
        let list: Vec<_> = devices.iter().map(Json::of).collect();
        return shell.out.json(&list);
    }
    let verbose = shell.verbose;
    write(&devices, verbose, &mut shell.out)
}

fn write(devices: &[DeviceInfo], verbose: bool, out: &mut Out) -> anyhow::Result<()> {
    let columns = ["engine", "device", "memory", "state"].map(|name| (name, Align::Left));
    let mut table = Table::new(columns);
    for device in devices {
        let memory = device.memory.map_or_else(|| "-".into(), |bytes| units::memory(bytes as usize));
        table.push([device.backend.name().into(), device.name.clone(), memory, state(device).into()]);
    }
    table.write(out, 0)?;
    for device in devices.iter().filter(|_| verbose) {
        writeln!(out, "\n{} {}", device.backend.name(), device.name)?;
        for (what, value) in &device.facts {
            writeln!(out, "  {what}: {value}")?;
        }
        for (what, reason) in &device.refusals {
            writeln!(out, "  leaves to others: {what} ({reason})")?;
        }
    }
    Ok(())
}

fn state(device: &DeviceInfo) -> &str {
    device.unusable.as_deref().unwrap_or("ready")
}

/// A device, as `--json` shows it.
#[derive(Serialize)]
struct Json<'a> {
    engine: &'static str,
    device: &'a str,
    memory: Option<u64>,
    usable: bool,
    reason: Option<&'a str>,
    facts: Vec<[&'a str; 2]>,
    refusals: Vec<[&'a str; 2]>,
}

impl<'a> Json<'a> {
    fn of(device: &'a DeviceInfo) -> Self {
        Self {
            engine: device.backend.name(),
            device: &device.name,
            memory: device.memory,
            usable: device.unusable.is_none(),
            reason: device.unusable.as_deref(),
            facts: device.facts.iter().map(|(what, value)| [*what, value.as_str()]).collect(),
            refusals: device.refusals.iter().map(|(what, reason)| [what.as_str(), *reason]).collect(),
        }
    }
}
