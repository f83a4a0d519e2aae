//! Results as a table, CSV or JSON, each written as soon as it is there.

use std::io::{self, Write};

use minfer_cpu::isa::Isa;
use serde_json::Value;

use super::plan::Setup;
use super::record::Record;
use crate::args::BenchFormat;
use crate::escape;
use crate::output::Out;
use crate::table::Align;

/// The lists of a record, which CSV leaves out.
const SAMPLES: [&str; 2] = ["samples_ns", "samples_ts"];

/// Writes results in one format.
pub(super) struct Report {
    format: BenchFormat,
    columns: Vec<Column>,
    n_written: usize,
}

/// A column of the table.
struct Column {
    name: &'static str,
    width: usize,
    align: Align,
    cell: fn(&Record) -> String,
}

impl Report {
    /// The table shows a setting that is not always there only if it differs from its default somewhere.
    pub(super) fn new(format: BenchFormat, setups: &[Setup]) -> Self {
        let shows = |differs: fn(&Setup) -> bool| setups.iter().any(differs);
        let mut columns = vec![
            column("model", 30, Align::Left, |it| escape::one_line(&it.model_type)),
            column("size", 10, Align::Right, |it| binary_bytes(it.model_size)),
            column("params", 10, Align::Right, |it| parameters(it.model_n_params)),
            column("backend", 7, Align::Left, |it| it.backends.clone()),
            column("threads", 7, Align::Right, |it| it.n_threads.to_string()),
        ];
        if shows(|setup| setup.n_chunk() != 512) {
            columns.push(column("n_ubatch", 8, Align::Right, |it| it.n_ubatch.to_string()));
        }
        if shows(|setup| setup.kv_type() != minfer_graph::KvType::F16) {
            columns.push(column("type_kv", 7, Align::Right, |it| it.type_k.to_owned()));
        }
        columns.extend([
            column("test", 15, Align::Right, |it| it.test.clone()),
            column("t/s", 22, Align::Right, |it| format!("{:.2} ± {:.2}", it.avg_ts, it.stddev_ts)),
            column("of read", 18, Align::Right, |it| share(it.read_percent, it.limit_read_gbs, "GB/s")),
            column("of peak", 20, Align::Right, |it| share(it.peak_percent, it.peak_gops, "GOP/s")),
        ]);
        Self { format, columns, n_written: 0 }
    }

    /// What comes before the first result.
    pub(super) fn begin(&self, out: &mut Out) -> io::Result<()> {
        match self.format {
            BenchFormat::Md => self.table_head(out)?,
            BenchFormat::Json => out.write_all(b"[")?,
            BenchFormat::Csv | BenchFormat::Jsonl => {}
        }
        out.flush()
    }

    /// Writes a result.
    pub(super) fn add(&mut self, record: Record, out: &mut Out) -> anyhow::Result<()> {
        match self.format {
            BenchFormat::Md => self.table_row(|column| (column.cell)(&record), out)?,
            BenchFormat::Csv => self.csv(&record, out)?,
            BenchFormat::Json => self.json(&record, out)?,
            BenchFormat::Jsonl => {
                serde_json::to_writer(&mut *out, &record).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        self.n_written += 1;
        Ok(out.flush()?)
    }

    /// What comes after the last result.
    pub(super) fn end(&self, isa: Isa, out: &mut Out) -> anyhow::Result<()> {
        match self.format {
            BenchFormat::Md => {
                writeln!(out, "\nbuild: minfer {}, {}", env!("CARGO_PKG_VERSION"), isa.name())?;
            }
            BenchFormat::Json => out.write_all(b"\n]\n")?,
            BenchFormat::Csv | BenchFormat::Jsonl => {}
        }
        Ok(())
    }

    fn table_head(&self, out: &mut Out) -> io::Result<()> {
        self.table_row(|column| column.name.to_owned(), out)?;
        self.table_row(|column| column.rule(), out)
    }

    fn table_row(&self, cell: impl Fn(&Column) -> String, out: &mut Out) -> io::Result<()> {
        for column in &self.columns {
            write!(out, "| {} ", column.pad(&cell(column)))?;
        }
        writeln!(out, "|")
    }

    fn csv(&self, record: &Record, out: &mut Out) -> anyhow::Result<()> {
        let Value::Object(mut fields) = serde_json::to_value(record)? else { return Ok(()) };
        fields.retain(|key, _| !SAMPLES.contains(&key.as_str()));
        if self.n_written == 0 {
            writeln!(out, "{}", fields.keys().map(String::as_str).collect::<Vec<_>>().join(","))?;
        }
        let cells: Vec<_> = fields.values().map(csv_cell).collect();
        Ok(writeln!(out, "{}", cells.join(","))?)
    }

    fn json(&self, record: &Record, out: &mut Out) -> anyhow::Result<()> {
        let comma = if self.n_written == 0 { "" } else { "," };
        let text = serde_json::to_string_pretty(record)?.replace('\n', "\n  ");
        Ok(write!(out, "{comma}\n  {text}")?)
    }
}

fn column(name: &'static str, width: usize, align: Align, cell: fn(&Record) -> String) -> Column {
    Column { name, width, align, cell }
}

impl Column {
    fn pad(&self, cell: &str) -> String {
        let width = self.width;
        match self.align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        }
    }

    fn rule(&self) -> String {
        let dashes = "-".repeat(self.width);
        if self.align == Align::Right { format!("{}:", &dashes[1..]) } else { dashes }
    }
}

/// In quotation marks, as llama-bench writes every value.
fn csv_cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn share(percent: f64, limit: f64, unit: &str) -> String {
    format!("{percent:.0} % of {limit:.1} {unit}")
}

/// `462.96 MiB`, as llama-bench shows sizes.
fn binary_bytes(n: u64) -> String {
    let mib = n as f64 / f64::from(1 << 20);
    if mib < 1024.0 { format!("{mib:.2} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}

/// `494.03 M`, as llama-bench shows numbers of weights.
fn parameters(n: u64) -> String {
    let millions = n as f64 * 1e-6;
    if millions < 1000.0 { format!("{millions:.2} M") } else { format!("{:.2} B", millions * 1e-3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_llama_benchs() {
        assert_eq!(binary_bytes(485_448_704), "462.96 MiB");
        assert_eq!(binary_bytes(4 << 30), "4.00 GiB");
        assert_eq!(parameters(630_167_424), "630.17 M");
        assert_eq!(parameters(7_615_616_512), "7.62 B");
    }

    #[test]
    fn csv_survives_any_text() {
        assert_eq!(csv_cell(&Value::from("a \"b\", c")), "\"a \"\"b\"\", c\"");
        assert_eq!(csv_cell(&Value::Null), "\"\"");
        assert_eq!(csv_cell(&Value::from(1.5)), "\"1.5\"");
    }
}
