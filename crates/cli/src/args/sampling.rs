//! How tokens are chosen, and when to stop.

use clap::Args;
use minfer_engine::sampler::SamplerParams;
use minfer_engine::{GenerateParams, OnFull};

use super::SpeculationArgs;

/// Where these flags stand in the help.
const HEADING: &str = "Sampling";

/// The flags of every command that generates.
#[derive(Args, Debug)]
pub(crate) struct SamplingArgs {
    /// Most tokens to generate; -1 for as many as the context holds
    #[arg(short = 'n', long = "predict", visible_alias = "n-predict", value_name = "N", default_value_t = -1, allow_negative_numbers = true, help_heading = HEADING)]
    n_predict: i64,
    /// Seed of the random draws; -1 for another one each time; answers after the first count up from it
    #[arg(short, long, value_name = "N", default_value = "-1", allow_negative_numbers = true, value_parser = parse_seed, help_heading = HEADING)]
    seed: Seed,
    /// Always take the best token, as --temp 0 does
    #[arg(long, help_heading = HEADING)]
    greedy: bool,
    /// Temperature: above 1 more surprising, below 1 more predictable
    #[arg(long = "temp", visible_alias = "temperature", value_name = "X", default_value_t = SamplerParams::default().temperature, allow_negative_numbers = true, help_heading = HEADING)]
    temperature: f32,
    /// Draw from this many of the best tokens only; 0 or less for all
    #[arg(long, value_name = "N", default_value_t = i64::from(SamplerParams::default().top_k), allow_negative_numbers = true, help_heading = HEADING)]
    top_k: i64,
    /// Draw from the fewest best tokens that together are this likely; 1 for all
    #[arg(long, value_name = "P", default_value_t = SamplerParams::default().top_p, help_heading = HEADING)]
    top_p: f32,
    /// Draw from tokens that are at least this likely, measured by the best one; 0 for all
    #[arg(long, value_name = "P", default_value_t = SamplerParams::default().min_p, help_heading = HEADING)]
    min_p: f32,
    /// Draw from tokens that are about as surprising as tokens are on average, up to this probability; 1 for all
    #[arg(long, visible_alias = "typical-p", value_name = "P", default_value_t = SamplerParams::default().typical_p, help_heading = HEADING)]
    typical: f32,
    /// Draw from tokens within this many standard deviations of the best logit; -1 for all
    #[arg(long, value_name = "X", default_value_t = SamplerParams::default().top_n_sigma, allow_negative_numbers = true, help_heading = HEADING)]
    top_nsigma: f32,
    /// Make tokens that came up lately less likely; 1 changes nothing
    #[arg(long, value_name = "X", default_value_t = SamplerParams::default().repeat_penalty, help_heading = HEADING)]
    repeat_penalty: f32,
    /// How many tokens count as lately; 0 for none, -1 for all
    #[arg(long, value_name = "N", default_value_t = SamplerParams::default().repeat_last_n, allow_negative_numbers = true, help_heading = HEADING)]
    repeat_last_n: i32,
    /// What a token's logit loses if it came up lately
    #[arg(long, value_name = "X", default_value_t = SamplerParams::default().presence_penalty, allow_negative_numbers = true, help_heading = HEADING)]
    presence_penalty: f32,
    /// What a token's logit loses for each time it came up lately
    #[arg(long, value_name = "X", default_value_t = SamplerParams::default().frequency_penalty, allow_negative_numbers = true, help_heading = HEADING)]
    frequency_penalty: f32,
    /// Add BIAS to the logit of token ID, as in `15043+1` or `29905-inf` (may be repeated)
    #[arg(short = 'l', long, value_name = "ID(+/-)BIAS", value_parser = parse_bias, help_heading = HEADING)]
    logit_bias: Vec<(u32, f32)>,
    /// End the answer before this text (may be repeated)
    #[arg(short = 'r', long, visible_alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true, help_heading = HEADING)]
    stop: Vec<String>,
    /// Drop the oldest when the context is full, and go on: whole turns of a conversation, whose system message stays, or
    /// else tokens after the first --keep
    #[arg(long, help_heading = HEADING)]
    context_shift: bool,
    /// Tokens at the beginning of the prompt that --context-shift leaves in place
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = HEADING)]
    keep: usize,
    /// Go on after the token that ends an answer
    #[arg(long, help_heading = HEADING)]
    ignore_eos: bool,
    /// Show control tokens such as `<|im_end|>` in the answer (also -sp)
    #[arg(long, help_heading = HEADING)]
    special: bool,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
}

impl SamplingArgs {
    /// The same in the engine's terms.
    pub(crate) fn params(&self) -> GenerateParams {
        GenerateParams {
            n_predict: usize::try_from(self.n_predict).ok(),
            sampler: self.sampler(),
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            special: self.special,
            speculation: self.speculation.mode(),
            on_full: if self.context_shift { OnFull::DropOldest { keep: self.keep } } else { OnFull::Stop },
            ..GenerateParams::default()
        }
    }

    fn sampler(&self) -> SamplerParams {
        SamplerParams {
            seed: self.seed,
            temperature: if self.greedy { 0.0 } else { self.temperature },
            // More than a vocabulary can have is all, too.
            top_k: u32::try_from(self.top_k.max(0)).unwrap_or(0),
            top_p: self.top_p,
            min_p: self.min_p,
            typical_p: self.typical,
            top_n_sigma: self.top_nsigma,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            ..SamplerParams::default()
        }
    }
}

/// `None` for another one each time.
type Seed = Option<u64>;

/// A value of a flag that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum ValueError {
    #[error("expected a number from 0 to 2^64 - 1, or -1")]
    Seed,
    #[error("expected a token id, a sign and a number, for instance 15043+1 or 29905-inf")]
    Bias,
}

fn parse_seed(text: &str) -> Result<Seed, ValueError> {
    if text == "-1" { Ok(None) } else { text.parse().map(Some).map_err(|_| ValueError::Seed) }
}

fn parse_bias(text: &str) -> Result<(u32, f32), ValueError> {
    let (id, bias) = text.split_at(text.find(['+', '-']).ok_or(ValueError::Bias)?);
    id.parse().ok().zip(bias.parse().ok()).ok_or(ValueError::Bias)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        sampling: SamplingArgs,
    }

    fn params(args: &[&str]) -> GenerateParams {
        Only::parse_from(["x"].iter().chain(args)).sampling.params()
    }

    #[test]
    fn the_defaults_are_the_engines() {
        let default = params(&[]);
        assert_eq!(default.sampler, SamplerParams::default());
        assert_eq!((default.n_predict, default.ignore_eos, default.special), (None, false, false));
    }

    #[test]
    fn flags_are_spelled_as_in_llama_cpp() {
        let set = params(&[
            "-n",
            "5",
            "-s",
            "7",
            "--temp",
            "0.5",
            "--top-k",
            "3",
            "--repeat-last-n",
            "-1",
            "-r",
            "-x",
        ]);
        assert_eq!((set.n_predict, set.sampler.seed, set.sampler.temperature), (Some(5), Some(7), 0.5));
        assert_eq!((set.sampler.top_k, set.sampler.repeat_last_n), (3, -1));
        assert_eq!(set.stop, ["-x"]);
        assert_eq!(params(&["--n-predict", "-1", "--seed", "-1"]).n_predict, None);
        assert!(params(&["--greedy", "--temp", "1"]).sampler.is_greedy());
        assert_eq!(params(&["--top-k", "-1"]).sampler.top_k, 0);
        assert_eq!(params(&["--top-k", "99999999999"]).sampler.top_k, 0);
        let bias = params(&["-l", "5+1.5", "--logit-bias", "7-inf"]).sampler.logit_bias;
        assert_eq!(bias, [(5, 1.5), (7, f32::NEG_INFINITY)]);
    }

    #[test]
    fn a_seed_is_any_number_of_64_bits() {
        assert_eq!(parse_seed("18446744073709551615"), Ok(Some(u64::MAX)));
        assert_eq!(parse_seed("-1"), Ok(None));
        for text in ["-2", "", "x", "18446744073709551616"] {
            assert_eq!(parse_seed(text), Err(ValueError::Seed), "{text}");
        }
    }

    #[test]
    fn a_bias_has_an_id_a_sign_and_a_number() {
        for text in ["", "5", "+1", "5+", "5+x", "-5+1", "5*1"] {
            assert_eq!(parse_bias(text), Err(ValueError::Bias), "{text}");
        }
    }
}
