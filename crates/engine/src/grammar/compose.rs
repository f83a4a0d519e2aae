//! Grammars put together of parts: texts, tokens, JSON and what may stand around them.

use std::fmt::Write as _;

use serde_json::Value;

use super::error::GrammarError;
use super::gbnf::regex_of_text;
use super::schema;

/// A part of a composed answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// This text.
    Text(String),
    /// This token, such as a control token that no text is read as.
    Token(u32),
    /// JSON that a schema describes.
    Json(Value),
    /// Any text up to the first time that this one comes up, and it.
    Until(String),
    /// Any text in which this one does not come up; none, too.
    Without(String),
    /// Any text; none, too.
    Any,
    /// One of these.
    Choice(Vec<Vec<Part>>),
    /// These, at least so many times, and at most.
    Repeat(Vec<Part>, u32, Option<u32>),
}

/// Any character, line breaks too.
const ANY: &str = "(.|\\n)";

/// The Lark text of parts, one after the other.
pub(super) fn to_lark(parts: &[Part]) -> Result<String, GrammarError> {
    let mut writer = Writer::default();
    let start = writer.all(parts)?;
    Ok(format!("start: {start}\n{}", writer.rules))
}

/// The schemas of parts, in their order.
pub(super) fn schemas<'a>(parts: &'a [Part]) -> Vec<&'a Value> {
    let of_part = |part: &'a Part| match part {
        Part::Json(schema) => vec![schema],
        Part::Choice(ways) => ways.iter().flat_map(|way| schemas(way)).collect(),
        Part::Repeat(parts, _, _) => schemas(parts),
        _ => Vec::new(),
    };
    parts.iter().flat_map(of_part).collect()
}

#[derive(Default)]
struct Writer {
    rules: String,
    n_rules: usize,
}

impl Writer {
    /// Parts, one after the other, as they stand in a rule.
    fn all(&mut self, parts: &[Part]) -> Result<String, GrammarError> {
        if parts.is_empty() {
            return Ok("\"\"".into());
        }
        let parts = parts.iter().map(|part| self.part(part)).collect::<Result<Vec<_>, _>>()?;
        Ok(parts.join(" "))
    }

    fn part(&mut self, part: &Part) -> Result<String, GrammarError> {
        Ok(match part {
            Part::Text(text) if text.is_empty() => "\"\"".into(),
            Part::Text(text) => self.rule('T', "", &format!("/{}/", regex_of_text(text))),
            Part::Token(id) => format!("<[{id}]>"),
            Part::Json(schema) => {
                let schema = schema::prepare(schema)?;
                self.rule('r', "", &format!("%json {schema}"))
            }
            Part::Until(text) => {
                let attribute = format!("[suffix=/{}/]", regex_of_text(text));
                self.rule('r', &attribute, &format!("/{ANY}*/"))
            }
            Part::Without(text) => {
                let has = format!("/{ANY}*{}{ANY}*/", regex_of_text(text));
                format!("{}?", self.rule('T', "", &format!("/{ANY}+/ & ~{has}")))
            }
            Part::Any => format!("{}?", self.rule('T', "", &format!("/{ANY}+/"))),
            Part::Choice(ways) => {
                let ways = ways.iter().map(|way| self.all(way)).collect::<Result<Vec<_>, _>>()?;
                format!("({})", ways.join(" | "))
            }
            // The dialect has no word for none at all.
            Part::Repeat(_, _, Some(0)) => "\"\"".into(),
            Part::Repeat(parts, min, max) => {
                let max = max.map_or_else(String::new, |max| max.to_string());
                format!("({}){{{min},{max}}}", self.all(parts)?)
            }
        })
    }

    fn rule(&mut self, kind: char, attribute: &str, body: &str) -> String {
        let name = format!("{kind}{}", self.n_rules);
        self.n_rules += 1;
        let _ = writeln!(self.rules, "{name}{attribute}: {body}");
        name
    }
}
