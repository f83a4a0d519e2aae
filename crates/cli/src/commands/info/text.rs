//! The facts for people.

use std::io::{self, Write};

use crate::escape;
use crate::table::{Align, Table};
use crate::units;

use super::facts::{Facts, SpecialToken, TemplateFacts, TokenizerFacts, UsableTokenizer};

/// Longest name that the summary shows, in characters.
const MAX_NAME_CHARS: usize = 80;

/// Writes a summary, the tensor types, the metadata and, if wanted, the tensors.
pub(super) fn write(facts: &Facts<'_>, with_tensors: bool, out: &mut impl Write) -> io::Result<()> {
    summary(facts, out)?;
    types(facts, out)?;
    metadata(facts, out)?;
    if with_tensors { tensors(facts, out) } else { Ok(()) }
}

fn summary(facts: &Facts<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut line = |label: &str, text: String| writeln!(out, "{label:<14}{text}");
    for file in &facts.files {
        let path = file.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        line("file", format!("{} ({})", escape::one_line(&path), units::bytes(file.bytes)))?;
    }
    line("format", format!("GGUF version {}, alignment {}", facts.gguf_version, facts.alignment))?;
    line("name", known(facts.name))?;
    line("architecture", known(facts.architecture) + &problem(facts.problem.as_deref()))?;
    line("parameters", parameters(facts))?;
    line("tokenizer", tokenizer(&facts.tokenizer))?;
    for token in facts.tokenizer.usable.iter().flat_map(|it| &it.special) {
        line(&format!("  {}", token.role), special_token(token))?;
    }
    line("chat template", chat_template(&facts.chat_template))
}

fn known(text: Option<&str>) -> String {
    text.map_or("not stated".to_owned(), |text| escape::elided(text, MAX_NAME_CHARS))
}

fn parameters(facts: &Facts<'_>) -> String {
    let n = facts.parameters;
    let bits = facts.bits_per_weight.map(|bits| format!(", {bits:.2} bits each")).unwrap_or_default();
    format!("{n} ({}) in {} tensors{bits}", units::count(n), facts.tensors.len())
}

fn tokenizer(facts: &TokenizerFacts<'_>) -> String {
    let pre = facts.pre.map(|pre| format!(", split as {}", known(Some(pre)))).unwrap_or_default();
    let rest = facts.usable.as_ref().map_or_else(|| problem(facts.problem.as_deref()), usable_tokenizer);
    format!("{}{pre}{rest}", known(facts.model))
}

fn usable_tokenizer(facts: &UsableTokenizer) -> String {
    let added = match (facts.add_bos, facts.add_eos) {
        (true, true) => "bos and eos",
        (true, false) => "bos",
        (false, true) => "eos",
        (false, false) => "nothing",
    };
    format!(", {} tokens; {added} added to a text", facts.tokens)
}

fn special_token(token: &SpecialToken) -> String {
    format!("{} {}", token.id, escape::quoted(token.text.as_bytes()))
}

fn chat_template(facts: &TemplateFacts<'_>) -> String {
    let size = facts.bytes.map(|bytes| format!("{bytes} bytes")).unwrap_or_default();
    let names = facts.others.iter().map(|name| known(Some(name))).collect::<Vec<_>>().join(", ");
    let others = if names.is_empty() { names } else { format!("; others: {names}") };
    match facts.present {
        true => format!("{size}{}{others}", problem(facts.problem.as_deref())),
        false => format!("none{others}"),
    }
}

fn problem(problem: Option<&str>) -> String {
    problem.map(|problem| format!(" (unusable: {})", escape::one_line(problem))).unwrap_or_default()
}

fn types(facts: &Facts<'_>, out: &mut impl Write) -> io::Result<()> {
    let columns = ["tensors", "parameters", "bytes"].map(|name| (name, Align::Right));
    let mut table = Table::new([("type", Align::Left), columns[0], columns[1], columns[2]]);
    for row in &facts.types {
        let figures = [row.tensors, row.parameters, row.bytes].map(|n| n.to_string());
        let [tensors, parameters, bytes] = figures;
        table.push([row.dtype.to_owned(), tensors, parameters, bytes]);
    }
    writeln!(out, "\ntensor types")?;
    table.write(out, 2)
}

fn metadata(facts: &Facts<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new([("key", Align::Left), ("type", Align::Left), ("value", Align::Left)]);
    for (key, shown) in &facts.shown {
        table.push([escape::elided(key, MAX_NAME_CHARS), shown.value.kind(), shown.to_text()]);
    }
    writeln!(out, "\nmetadata")?;
    table.write(out, 2)
}

fn tensors(facts: &Facts<'_>, out: &mut impl Write) -> io::Result<()> {
    let columns =
        [("name", Align::Left), ("type", Align::Left), ("shape", Align::Left), ("bytes", Align::Right)];
    let mut table = Table::new(columns);
    for tensor in &facts.tensors {
        let shape = tensor.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ");
        table.push([escape::one_line(tensor.name), tensor.dtype.into(), shape, tensor.bytes.to_string()]);
    }
    writeln!(out, "\ntensors")?;
    table.write(out, 2)
}
