//! From a grammar to a parser, within bounds.
//!
//! Grammars come from strangers: their size, their nesting and the work that the parser may spend on them are bounded, and
//! they are compiled on a thread of their own, whose stack is large enough for what the bounds allow.

use std::sync::Arc;
use std::thread;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokenizerEnv};
use llguidance::{ParserFactory, TokenParser, panic_utils, regex_to_lark};
use minfer_text::tokenizer::Tokenizer;
use serde_json::{Value, json};

use super::constraint::GrammarConstraint;
use super::digits::DigitTokens;
use super::vocabulary::{MAX_TOKENS, Vocabulary};
use super::{Grammar, GrammarError, GrammarKind, compose, gbnf, regex, schema};
use crate::constraint::TokenConstraint;

/// Bytes of a grammar that is text.
const MAX_TEXT: usize = 1 << 16;
/// Brackets within brackets.
const MAX_NESTING: usize = 100;
/// Recursion is as deep as chains of rules and references are long. Only what is used of it takes memory.
const STACK_BYTES: usize = 256 << 20;

/// What the parser may spend on a grammar, and on one mask.
fn limits() -> ParserLimits {
    ParserLimits {
        max_grammar_size: 200_000,
        max_lexer_states: 50_000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_items_in_row: 2_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
    }
}

/// Sets of tokens that are allowed at once where every text of a slice is allowed; the others are tried one by one. They change
/// no mask. The parser's own are for texts in JSON; sentences, whose full stop ends something, need one without punctuation.
/// Each takes some megabytes.
fn slices() -> Vec<String> {
    let mut slices = SlicedBiasComputer::general_slices();
    slices.push(r"[^\x00-\x1F!-/:-@\[-`{-\x7F]{1,10}".into());
    slices
}

/// Compiles grammars for one model's vocabulary.
pub(crate) struct GrammarCompiler {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
    digits: Arc<DigitTokens>,
}

impl GrammarCompiler {
    /// Sorts the vocabulary: some tenths of a second for 150,000 tokens.
    pub(crate) fn new(tokenizer: Arc<Tokenizer>) -> Result<GrammarCompiler, GrammarError> {
        let unusable = |reason: String| GrammarError::Vocabulary { reason };
        let build = || {
            let Some(vocabulary) = Vocabulary::new(tokenizer).map(Arc::new) else { return Ok(None) };
            let env: TokEnv = vocabulary.clone();
            let slices = slices();
            let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)?;
            factory.quiet();
            *factory.limits_mut() = limits();
            Ok(Some((vocabulary, factory)))
        };
        let built = panic_utils::catch_unwind(std::panic::AssertUnwindSafe(build));
        let Some((vocabulary, factory)) = built.map_err(|e| unusable(first_line(&e)))? else {
            return Err(unusable(format!("no token ends an answer, or there are more than {MAX_TOKENS}")));
        };
        let trie = vocabulary.tok_trie();
        let digits = Arc::new(DigitTokens::new((0..trie.vocab_size() as u32).map(|id| (id, trie.token(id)))));
        Ok(GrammarCompiler { factory, vocabulary, digits })
    }

    /// Compiles a grammar.
    pub(crate) fn compile(&self, grammar: &Grammar) -> Result<CompiledGrammar, GrammarError> {
        let kind = grammar.kind();
        let unusable = |reason: String| GrammarError::Unusable { kind, reason };
        let parser = thread::scope(|scope| {
            let builder = thread::Builder::new().name("grammar".into()).stack_size(STACK_BYTES);
            let work = builder.spawn_scoped(scope, || self.parser(grammar));
            let work = work.map_err(|e| unusable(format!("no thread could be started: {e}")))?;
            work.join().unwrap_or_else(|_| Err(unusable("compiling it failed".into())))
        })?;
        let is_json = kind == GrammarKind::JsonSchema || matches!(grammar, Grammar::Composed(_));
        let digits = is_json.then(|| self.digits.clone());
        Ok(CompiledGrammar { parser, vocabulary: self.vocabulary.clone(), digits })
    }

    /// Of a grammar put together of parts, the schema that is to blame says more than the whole.
    fn parser(&self, grammar: &Grammar) -> Result<TokenParser, GrammarError> {
        let blamed = |error| match grammar {
            Grammar::Composed(parts) => {
                let schemas = compose::schemas(parts).into_iter();
                let of_schema = |schema: &Value| self.build(&Grammar::JsonSchema(schema.clone())).err();
                schemas.filter_map(of_schema).next().unwrap_or(error)
            }
            _ => error,
        };
        self.build(grammar).map_err(blamed)
    }

    fn build(&self, grammar: &Grammar) -> Result<TokenParser, GrammarError> {
        let top = top_level(grammar)?;
        let mut parser = self.factory.create_parser(top).map_err(|e| refused(grammar, &e.to_string()))?;
        parser.start_without_prompt();
        // A grammar under which nothing can begin is found out now.
        let probe = panic_utils::catch_unwind(std::panic::AssertUnwindSafe(|| parser.clone().compute_mask()));
        match probe {
            Ok(_) => Ok(parser),
            Err(e) if first_line(&e).starts_with("panic") => Err(refused(grammar, &first_line(&e))),
            Err(e) => {
                let why = first_line(&e).replace("NoExtensionBias", "it derives nothing");
                let reason = format!("no token of the model can begin an answer: {why}");
                Err(GrammarError::Unusable { kind: grammar.kind(), reason })
            }
        }
    }
}

fn top_level(grammar: &Grammar) -> Result<TopLevelGrammar, GrammarError> {
    Ok(match grammar {
        Grammar::JsonObject => {
            TopLevelGrammar::from_json_schema(schema::prepare(&json!({ "type": "object" }))?)
        }
        Grammar::JsonSchema(schema) => TopLevelGrammar::from_json_schema(schema::prepare(schema)?),
        Grammar::Regex(text) => {
            check_text(grammar.kind(), text)?;
            check_regex(text)?;
            lark(&format!("start: /{}/", regex_to_lark(text, "")))
        }
        Grammar::Lark(text) => {
            check_text(grammar.kind(), text)?;
            lark(text)
        }
        Grammar::Composed(parts) => lark(&compose::to_lark(parts)?),
        Grammar::Gbnf(text) => {
            check_size(grammar.kind(), text)?;
            lark(&gbnf::to_lark(text)?)
        }
    })
}

/// A grammar in Lark. Where it leaves no choice, the parser would go on by itself without bound, so that is switched off; on
/// the last line, so that lines are counted as they were.
fn lark(text: &str) -> TopLevelGrammar {
    TopLevelGrammar::from_lark(format!("{text}\n%llguidance {{ \"no_forcing\": true }}\n"))
}

fn check_regex(text: &str) -> Result<(), GrammarError> {
    regex::check(text).map_err(|regex::Refused { reason, place: (line, column) }| GrammarError::Syntax {
        kind: GrammarKind::Regex,
        line,
        column,
        reason,
    })
}

fn check_size(kind: GrammarKind, text: &str) -> Result<(), GrammarError> {
    let too_large = |what, found, limit| Err(GrammarError::TooLarge { kind, what, found, limit });
    if text.len() > MAX_TEXT {
        return too_large("its text in bytes", text.len(), MAX_TEXT);
    }
    Ok(())
}

/// Brackets are counted wherever they stand, in strings too: what is refused for that is no grammar anybody writes.
fn check_text(kind: GrammarKind, text: &str) -> Result<(), GrammarError> {
    check_size(kind, text)?;
    let mut depth = 0_usize;
    let deepest = text.bytes().map(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth
    });
    let found = deepest.max().unwrap_or(0);
    if found > MAX_NESTING {
        return Err(GrammarError::TooLarge { kind, what: "its nesting", found, limit: MAX_NESTING });
    }
    Ok(())
}

/// What the parser said, in our terms. Where it knows the place, it begins with `LINE(COLUMN):`.
fn refused(grammar: &Grammar, message: &str) -> GrammarError {
    let kind = grammar.kind();
    let text = message.lines().next().unwrap_or_default();
    if let Grammar::JsonSchema(schema) = grammar {
        return schema::refused(schema, message);
    }
    let located = || {
        let (place, reason) = text.strip_prefix("at ").unwrap_or(text).split_once("): ")?;
        let (line, column) = place.split_once('(')?;
        let (line, column) = (line.parse().ok()?, column.parse().ok()?);
        Some(GrammarError::Syntax { kind, line, column, reason: reason.into() })
    };
    if text.starts_with("panic") {
        let reason = "it is beyond what the parser can compute with".into();
        return GrammarError::Unusable { kind, reason };
    }
    // Of a grammar that was rewritten the place says nothing.
    let located = if kind == GrammarKind::Lark { located() } else { None };
    located.unwrap_or_else(|| GrammarError::Unusable { kind, reason: text.into() })
}

fn first_line(error: &impl std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// A grammar that is ready for any number of requests to the model it was compiled for.
#[derive(Clone)]
pub struct CompiledGrammar {
    /// At the beginning; never moved.
    parser: TokenParser,
    vocabulary: Arc<Vocabulary>,
    digits: Option<Arc<DigitTokens>>,
}

impl CompiledGrammar {
    /// A constraint for one request, at the beginning of its answer.
    pub fn constraint(&self) -> Box<dyn TokenConstraint> {
        let parser = self.parser.deep_clone();
        Box::new(GrammarConstraint::new(parser, self.vocabulary.clone(), self.digits.clone()))
    }
}

impl std::fmt::Debug for CompiledGrammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledGrammar").finish_non_exhaustive()
    }
}
