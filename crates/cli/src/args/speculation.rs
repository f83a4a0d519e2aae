//! Whether and how tokens are guessed ahead.

use clap::Args;
use minfer_engine::Speculation;

use crate::error::CliError;

/// Where these flags stand in the help.
const HEADING: &str = "Guessing ahead";

/// Most tokens that can be guessed ahead: their rows of logits are planned for.
const MAX_GUESSES: usize = 64;

/// The flags of commands that answer requests. However tokens are guessed, answers are the same.
#[derive(Args, Debug)]
pub(crate) struct SpeculationArgs {
    /// Guess up to N tokens ahead, from what followed the last ones where they came up before; the answer is the same, and
    /// often sooner there when it repeats the prompt; 0 for none; it cannot be used with --model-draft
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = n_guesses, conflicts_with = "model_draft", help_heading = HEADING)]
    prompt_lookup: usize,
    /// A smaller model with the same vocabulary that guesses ahead, by path or name; the answer is the same, and sooner
    /// where it guesses well; it is given up where it does not pay; it cannot be used with --prompt-lookup (also -md)
    #[arg(long, value_name = "MODEL", help_heading = HEADING)]
    pub(crate) model_draft: Option<String>,
    /// Most tokens that the draft model guesses at once
    #[arg(long, visible_aliases = ["draft", "draft-n"], value_name = "N", default_value_t = 16, value_parser = n_guesses, requires = "model_draft", help_heading = HEADING)]
    draft_max: usize,
    /// Fewest tokens that it guesses at once
    #[arg(long, visible_alias = "draft-n-min", value_name = "N", default_value_t = 0, value_parser = n_guesses, requires = "model_draft", help_heading = HEADING)]
    draft_min: usize,
}

impl SpeculationArgs {
    /// The same in the engine's terms.
    pub(crate) fn mode(&self) -> Speculation {
        match (&self.model_draft, self.draft_max, self.prompt_lookup) {
            (Some(_), 1.., _) => Speculation::DraftModel { max: self.draft_max },
            (Some(_), 0, _) | (None, _, 0) => Speculation::Off,
            (None, _, max) => Speculation::PromptLookup { max },
        }
    }

    /// Fewest tokens that a draft model guesses.
    pub(crate) fn n_min(&self) -> Result<usize, CliError> {
        let (min, max) = (self.draft_min, self.draft_max);
        if min > max { Err(CliError::DraftRange { min, max }) } else { Ok(min) }
    }
}

/// A number of guesses that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number from 0 to {MAX_GUESSES}")]
struct NoNumberOfGuesses;

fn n_guesses(text: &str) -> Result<usize, NoNumberOfGuesses> {
    text.parse().ok().filter(|n| *n <= MAX_GUESSES).ok_or(NoNumberOfGuesses)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        speculation: SpeculationArgs,
    }

    fn parse(args: &[&str]) -> Option<SpeculationArgs> {
        Only::try_parse_from(["x"].iter().chain(args)).ok().map(|only| only.speculation)
    }

    #[test]
    fn flags_are_spelled_as_in_llama_cpp() {
        let mode = |args: &[&str]| parse(args).unwrap().mode();
        assert_eq!(mode(&[]), Speculation::Off);
        assert_eq!(mode(&["--prompt-lookup", "5"]), Speculation::PromptLookup { max: 5 });
        assert_eq!(mode(&["--model-draft", "m"]), Speculation::DraftModel { max: 16 });
        for flag in ["--draft-max", "--draft", "--draft-n"] {
            assert_eq!(mode(&["--model-draft", "m", flag, "3"]), Speculation::DraftModel { max: 3 });
        }
        assert_eq!(mode(&["--model-draft", "m", "--draft", "0"]), Speculation::Off);
        let n_min = |args: &[&str]| parse(args).unwrap().n_min().ok();
        assert_eq!(n_min(&["--model-draft", "m", "--draft-min", "4"]), Some(4));
        assert_eq!(n_min(&["--model-draft", "m", "--draft-n-min", "4", "--draft", "3"]), None);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for args in [
            &["--prompt-lookup", "3", "--model-draft", "m"][..],
            &["--draft-max", "3"],
            &["--draft-min", "3"],
            &["--prompt-lookup", "65"],
            &["--model-draft", "m", "--draft", "-1"],
        ] {
            assert!(parse(args).is_none(), "{args:?}");
        }
    }
}
