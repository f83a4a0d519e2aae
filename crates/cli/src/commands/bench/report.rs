//! Results as a table, as comma-separated values, or as JSON.

use std::io::{self, Write};

use serde_json::Value;

use crate::args::Format;
use crate::units;

use super::result::TestResult;

/// Takes the results one by one and writes what can be written at once.
pub(super) struct Report {
    format: Format,
    n_written: usize,
}

impl Report {
    pub(super) fn new(format: Format) -> Self {
        Self { format, n_written: 0 }
    }

    /// Writes a result, with what has to stand before it.
    pub(super) fn add(&mut self, result: TestResult, out: &mut impl Write) -> anyhow::Result<()> {
        let is_first = self.n_written == 0;
        self.n_written += 1;
        match self.format {
            Format::Md => markdown(&result, is_first, out)?,
            Format::Csv => csv(&serde_json::to_value(&result)?, is_first, out)?,
            Format::Json => {
                let text = serde_json::to_string_pretty(&result)?.replace('\n', "\n  ");
                write!(out, "{}  {text}", if is_first { "[\n" } else { ",\n" })?;
            }
            Format::Jsonl => writeln!(out, "{}", serde_json::to_string(&result)?)?,
        }
        Ok(out.flush()?)
    }

    /// Writes what has to stand at the end.
    pub(super) fn finish(self, out: &mut impl Write) -> io::Result<()> {
        if self.format == Format::Json { writeln!(out, "\n]") } else { Ok(()) }
    }
}

fn markdown(result: &TestResult, is_first: bool, out: &mut impl Write) -> io::Result<()> {
    if is_first {
        writeln!(
            out,
            "| model                          |       size |     params | backend    | threads |            test |                  t/s |    of the read limit |"
        )?;
        writeln!(
            out,
            "| ------------------------------ | ---------: | ---------: | ---------- | ------: | --------------: | -------------------: | ------------: |"
        )?;
    }
    let rate = format!("{:.2} ± {:.2}", result.avg_ts, result.stddev_ts);
    let share = match (result.read_percent, result.read_limit) {
        (Some(percent), Some(limit)) => format!("{percent:.0} % of {}/s", units::bytes(limit as u64)),
        _ => String::new(),
    };
    writeln!(
        out,
        "| {:30} | {:>10} | {:>10} | {:10} | {:>7} | {:>15} | {rate:>20} | {share:>20} |",
        result.model_type,
        units::bytes(result.model_size),
        units::count(result.model_n_params),
        result.backends,
        result.n_threads,
        result.test_name(),
    )
}

fn csv(result: &Value, is_first: bool, out: &mut impl Write) -> io::Result<()> {
    let Value::Object(fields) = result else { return Ok(()) };
    // As in llama-bench, the samples are left to JSON.
    let fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_array()).collect();
    if is_first {
        writeln!(out, "{}", fields.iter().map(|field| field.0.as_str()).collect::<Vec<_>>().join(","))?;
    }
    writeln!(out, "{}", fields.iter().map(|field| quoted(field.1)).collect::<Vec<_>>().join(","))
}

/// Between quotation marks, those inside doubled (RFC 4180); nothing for null.
fn quoted(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_quoted_and_samples_left_out() {
        let mut text = Vec::new();
        let result = json!({"a": "x \"y\"", "b": 1.5, "c": null, "d": [1]});
        csv(&result, true, &mut text).unwrap();
        csv(&result, false, &mut text).unwrap();
        let row = "\"x \"\"y\"\"\",\"1.5\",\"\"\n";
        assert_eq!(String::from_utf8(text).unwrap(), format!("a,b,c\n{row}{row}"));
    }
}
