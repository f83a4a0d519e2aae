//! What an answer must look like.

use std::path::PathBuf;

use clap::Args;
use minfer_engine::{CompiledGrammar, EngineError, Grammar, Model};

use crate::input::Source;

/// Where these flags stand in the help.
const HEADING: &str = "Grammar";

/// The flags of a grammar, of which there may be one.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(crate) struct GrammarArgs {
    /// Answer only what this GBNF grammar describes, or this Lark grammar if it begins with `%llguidance`
    #[arg(long, value_name = "GRAMMAR", help_heading = HEADING)]
    grammar: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    grammar_file: Option<PathBuf>,
    /// Answer only JSON that this schema describes; `{}` for any
    #[arg(short, long, value_name = "SCHEMA", help_heading = HEADING)]
    json_schema: Option<String>,
    /// The same from a file (also -jf)
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    json_schema_file: Option<PathBuf>,
}

impl GrammarArgs {
    /// The grammar, compiled for a model; `None` without one.
    pub(crate) fn compile(&self, model: &Model) -> anyhow::Result<Option<CompiledGrammar>> {
        let Some(grammar) = self.read()? else { return Ok(None) };
        Ok(Some(model.compile_grammar(&grammar).map_err(EngineError::from)?))
    }

    fn read(&self) -> anyhow::Result<Option<Grammar>> {
        let source = |text: &Option<String>, file: &Option<PathBuf>| {
            let text = text.clone().map(Source::Argument);
            text.or_else(|| file.clone().map(Source::file))
        };
        if let Some(source) = source(&self.grammar, &self.grammar_file) {
            return Ok(Some(Grammar::from_text(&source.read()?)));
        }
        let schema = source(&self.json_schema, &self.json_schema_file);
        Ok(schema.map(Source::read_json).transpose()?.map(Grammar::JsonSchema))
    }
}
