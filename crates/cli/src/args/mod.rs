//! What can be typed: one struct for each command, and groups of flags that commands share.
//!
//! Parsing only records. What a value means (which model a name is, whether a prompt fits) is found out by the command.
//! Flags are spelled as users of llama.cpp type them wherever both programs have the same thing.

mod ab;
mod batch;
mod bench;
mod context;
mod detokenize;
mod devices;
mod dump;
mod generate;
mod gpu;
mod grammar;
mod graph;
mod help;
mod info;
mod logits;
mod model;
mod models;
mod numbers;
mod perplexity;
mod plan;
mod prompt;
mod render;
mod run;
mod sampling;
mod selftest;
mod serve;
mod settings;
mod shorts;
mod speculation;
mod tokenize;
mod verify;
mod viz;

use std::ffi::OsString;

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use ab::AbArgs;
pub(crate) use batch::BatchArgs;
pub(crate) use bench::{BenchArgs, BenchFormat};
pub(crate) use context::{CacheType, ComputeArgs, ContextArgs};
pub(crate) use detokenize::DetokenizeArgs;
pub(crate) use devices::DevicesArgs;
pub(crate) use dump::{DumpArgs, DumpStep};
pub(crate) use generate::GenerateArgs;
pub(crate) use gpu::GpuArgs;
pub(crate) use grammar::GrammarArgs;
pub(crate) use graph::{GraphArgs, GraphFormat};
pub(crate) use info::InfoArgs;
pub(crate) use logits::LogitsArgs;
pub(crate) use model::{ModelArgs, OpenArgs};
pub(crate) use models::ModelsArgs;
pub(crate) use perplexity::PerplexityArgs;
pub(crate) use plan::PlanArgs;
pub(crate) use prompt::{PromptArgs, TokensArgs};
pub(crate) use render::RenderArgs;
pub(crate) use run::{ChatArgs, RunArgs};
pub(crate) use sampling::SamplingArgs;
pub(crate) use selftest::SelftestArgs;
pub(crate) use serve::{LogFormat, LogLevel, ServeArgs};
pub(crate) use speculation::SpeculationArgs;
pub(crate) use tokenize::TokenizeArgs;
pub(crate) use verify::VerifyArgs;
pub(crate) use viz::VizArgs;

/// Widest help, in columns.
const MAX_HELP_COLUMNS: usize = 100;

/// Runs large language models from GGUF files
#[derive(Debug, Parser)]
#[command(
    name = "minfer",
    version,
    after_long_help = help::epilogue(),
    max_term_width = MAX_HELP_COLUMNS,
    arg_required_else_help = true,
    // As in llama.cpp, the last one counts: an alias may set a flag and its user another value.
    args_override_self = true
)]
pub(crate) struct Cli {
    /// Say more: on an error, all its causes; of a model that runs, on what
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Serve(Box<ServeArgs>),
    Batch(Box<BatchArgs>),
    Bench(BenchArgs),
    Info(InfoArgs),
    Tokenize(TokenizeArgs),
    Detokenize(DetokenizeArgs),
    Render(RenderArgs),
    Logits(LogitsArgs),
    Generate(GenerateArgs),
    Perplexity(PerplexityArgs),
    Plan(PlanArgs),
    Models(ModelsArgs),
    Devices(DevicesArgs),
    Graph(GraphArgs),
    Viz(VizArgs),
    Verify(VerifyArgs),
    Ab(AbArgs),
    Selftest(SelftestArgs),
    /// Write a completion script for a shell to standard output
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write docs/cli.md, the reference of all commands, to standard output
    #[command(hide = true)]
    Reference,
}

/// Reads the command line; the error may also be the help or the version that was asked for.
pub(crate) fn parse(argv: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut definition = definition();
    let argv = shorts::spell_out(argv, &definition);
    let matches = definition.try_get_matches_from_mut(argv).map_err(numbers::in_plain_words)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

/// The definition of all commands and flags, for what is generated from it.
pub(crate) fn definition() -> clap::Command {
    Cli::command().mut_subcommands(|command| command.mut_args(with_negative_numbers))
}

/// A negative number behind a flag is its value, and so is what is wrong, and no unknown flag.
fn with_negative_numbers(arg: Arg) -> Arg {
    let takes_value = arg.get_action().takes_values() && !arg.is_positional();
    if takes_value { arg.allow_negative_numbers(true) } else { arg }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn every_flag_and_command_says_what_it_is_for_and_has_one_spelling() {
        let mut definition = definition();
        definition.build();
        for command in definition.get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            let mut spellings = HashSet::new();
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "{} {}", command.get_name(), arg.get_id());
                let long = arg.get_long_and_visible_aliases().unwrap_or_default();
                for spelling in long {
                    assert!(spellings.insert(spelling.to_owned()), "{} --{spelling}", command.get_name());
                }
            }
        }
    }
}
