//! What to do next, for the errors whose message does not say so already.

use std::borrow::Cow;
use std::error::Error;

use minfer_engine::EngineError;
use minfer_gguf::{FaultClass, GgufError, MetadataError};
use minfer_hub::HubError;
use minfer_text::chat::TemplateError;
use minfer_text::tokenizer::TokenizerError;

use crate::env::EnvError;
use crate::error::CliError;
use crate::fault::Fault;

/// Advice on `error`, if there is any to give.
pub(crate) fn of(error: &anyhow::Error) -> Option<Cow<'static, str>> {
    let report = || (Fault::of(error) == Fault::Bug).then_some(REPORT);
    let shortage = error.chain().find_map(|cause| on_shortage(cause.downcast_ref()?));
    shortage.or_else(|| error.chain().find_map(on).or_else(report).map(Cow::Borrowed))
}

/// What to do about a fault of minfer itself.
pub(crate) const REPORT: &str =
    "this is a fault in minfer: please report it with the command and the model's name";

const STATE_KEY: &str = "if you know the right value, state it with --override-kv KEY=TYPE:VALUE";

fn on(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let known: [Option<&'static str>; 8] = [
        error.downcast_ref().and_then(on_cli),
        error.downcast_ref().and_then(on_engine),
        error.downcast_ref().map(|_: &EnvError| "unset it, or see the list at the end of `minfer --help`"),
        error.downcast_ref().and_then(on_hub),
        error.downcast_ref().and_then(on_gguf),
        error.downcast_ref().map(|_: &MetadataError| STATE_KEY),
        error.downcast_ref().and_then(on_tokenizer),
        error.downcast_ref().and_then(on_template),
    ];
    known.into_iter().flatten().next()
}

fn on_cli(error: &CliError) -> Option<&'static str> {
    match error {
        CliError::NoModel => Some("give a path or a name; `minfer models` lists the names"),
        CliError::TokenId { .. } => Some("ids are whole numbers from 0, as in `1,2,3` or `[1, 2, 3]`"),
        CliError::NotFetched { .. } => Some(
            "download the .gguf file yourself, and give its path as the model, or put it into the folder that \
             `minfer models` shows; that lists the models that are fetched by name, too",
        ),
        CliError::SameSettings => Some(
            "say with --a or --b what differs, as in `--b fuse=off`; `minfer help ab` lists the settings",
        ),
        CliError::NotUtf8 { .. } => Some("convert it first, for instance with `iconv -t UTF-8`"),
        CliError::Shape { .. } => {
            Some("give a list of messages, or an object with `messages`, as OpenAI spells them")
        }
        _ => None,
    }
}

/// Transparent errors do not show in the chain, so the ones inside are asked here.
fn on_engine(error: &EngineError) -> Option<&'static str> {
    match error {
        EngineError::Open(inner) => on_gguf(inner),
        EngineError::Tokenizer(inner) => on_tokenizer(inner),
        EngineError::Template(inner) => on_template(inner),
        EngineError::ContextFull { .. } => Some("shorten the prompt, or make the context larger with -c"),
        EngineError::EmptyPrompt => Some("give one after the model, with -p, or on standard input"),
        _ => None,
    }
}

/// What does not fit into memory, with the flag that makes it fit.
fn on_shortage(error: &EngineError) -> Option<Cow<'static, str>> {
    let EngineError::Memory(shortage) = error else { return None };
    Some(match shortage.suggested_n_ctx() {
        0 => "take a smaller model, or free memory".into(),
        n => format!("-c {n} fits; or take a smaller model").into(),
    })
}

fn on_hub(error: &HubError) -> Option<&'static str> {
    if matches!(error, HubError::Unknown { name, .. } if name.contains(char::is_whitespace)) {
        return Some("the first argument is the model; `minfer run -p PROMPT` takes the default one");
    }
    let lacks_a_name = matches!(error, HubError::NoSuchFile { near, .. } if near.is_empty());
    lacks_a_name.then_some("`minfer models` lists the models that can be named")
}

fn on_gguf(error: &GgufError) -> Option<&'static str> {
    match error.class() {
        FaultClass::Access => None,
        FaultClass::NotGguf => Some("give the .gguf file of a model"),
        FaultClass::Unsupported => Some("look for the same model in another GGUF version or quantization"),
        FaultClass::Truncated => Some("the download may have been cut off: fetch the file again"),
        FaultClass::Malformed => {
            Some("the file is damaged or was written wrongly: fetch or convert it again")
        }
    }
}

fn on_tokenizer(error: &TokenizerError) -> Option<&'static str> {
    match error {
        TokenizerError::Metadata(_)
        | TokenizerError::SpecialId { .. }
        | TokenizerError::NoSuchSpecial { .. } => Some(STATE_KEY),
        _ => None,
    }
}

fn on_template(error: &TemplateError) -> Option<&'static str> {
    match error {
        TemplateError::Missing | TemplateError::Metadata(_) => {
            Some("give one with --template-file; `minfer run --no-template` does without")
        }
        TemplateError::Syntax { .. } | TemplateError::Unknown { .. } | TemplateError::Limit { .. } => {
            Some("give another template with --template-file")
        }
        TemplateError::Raised { .. } => Some("these are the template's own words: change the messages"),
        _ => None,
    }
}
