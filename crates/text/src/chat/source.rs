//! A first look at a template's text, before the engine parses it.
//!
//! Three jobs need the tags but not the meaning: Hugging Face's `{% generation %}` must become a tag that the engine
//! knows, operators with a meaning of Python's own become calls ([`operators`]), and the names of filters, tests,
//! functions and methods are collected, with their lines, so that a template that needs an unknown one is refused at
//! load. Text, comments and `{% raw %}` blocks are passed over, and string
//! literals are not looked into. Where the text is not well formed the scan stops; the engine's parser then says why.

pub(super) mod operators;
mod tokens;

use std::collections::HashSet;

use operators::Edit;
use tokens::{Token, tokenize};

use super::dict;
use super::error::Construct;

const MAX_TAG_TOKENS: usize = 1500;
const MAX_UNARY: usize = 32;
const MAX_BLOCK_DEPTH: usize = 64;
const MAX_ELIF: usize = 400;

/// A name that the template uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) kind: Construct,
    pub(super) name: String,
    /// Line of the template, from 1.
    pub(super) line: usize,
    /// Whether some renderings do not reach it: it is in a branch, or (functions and methods) in a macro.
    pub(super) is_guarded: bool,
}

/// What the scan found.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The template for the engine: newlines are `\n`, `generation` tags are `with` tags, operators are rewritten. Lines
    /// keep their numbers.
    pub(super) text: String,
    /// Every filter, test, function and method, in order.
    pub(super) references: Vec<Reference>,
    /// Names that the template itself defines or asks for by `is defined`.
    pub(super) defined: HashSet<String>,
    /// What does not end, or is too long or too deep for the engine's recursive parser, and its line.
    pub(super) excess: Option<(&'static str, usize)>,
    /// The line where a macro uses `varargs` or `kwargs` without having a parameter of that name.
    pub(super) variadic_macro: Option<usize>,
}

impl Source {
    /// Scans a template.
    pub(super) fn scan(template: &str) -> Self {
        let text = template.replace("\r\n", "\n").replace('\r', "\n");
        let mut scan = Scan { text: &text, line: 1, with_add: marks_text_as_safe(&text), ..Scan::default() };
        scan.run();
        scan.attributes_of_dicts();
        let Scan { mut edits, references, defined, variadic, excess, .. } = scan;
        let variadic_macro = variadic.filter(|(name, _)| !defined.contains(*name)).map(|(_, line)| line);
        // Stable: of several at one place, the outer comes first.
        edits.sort_by_key(|(range, _)| range.start);
        Self { text: apply(&text, &edits), references, defined, excess, variadic_macro }
    }
}

/// Whether a filter that marks text as safe may be in use; a false alarm costs nothing but time.
fn marks_text_as_safe(text: &str) -> bool {
    ["safe", "escape", "|e", "| e", "xmlattr"].iter().any(|word| text.contains(word))
}

fn apply(text: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, by) in edits {
        out.push_str(&text[at..range.start]);
        out.push_str(by);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

#[derive(Default)]
struct Scan<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    if_depth: usize,
    macro_depth: usize,
    with_add: bool,
    edits: Vec<Edit>,
    references: Vec<Reference>,
    defined: HashSet<String>,
    excess: Option<(&'static str, usize)>,
    block_depth: usize,
    n_elif: usize,
    variadic: Option<(&'a str, usize)>,
    /// Attributes that are not called, as pairs of dot and name.
    attributes: Vec<(Token<'a>, Token<'a>)>,
    /// Attributes that `{% set x.name = … %}` sets.
    namespace_names: HashSet<&'a str>,
}

impl<'a> Scan<'a> {
    fn run(&mut self) {
        while let Some(open) = self.find_open() {
            self.advance_to(open);
            let is_block = match &self.text[open..open + 2] {
                "{#" => {
                    let Some(end) = self.text[open..].find("#}") else {
                        return self.exceed("comment that does not end");
                    };
                    self.advance_to(open + end + 2);
                    continue;
                }
                marker => marker == "{%",
            };
            let Some((tokens, end)) = tokenize(self.text, open + 2, self.line, is_block) else {
                return self.exceed("tag that does not end");
            };
            self.measure(&tokens, is_block);
            if self.excess.is_some() {
                // The template is refused; rewriting a tag takes time that grows with the square of its length.
                return;
            }
            self.tag(&tokens, is_block);
            self.advance_to(end);
            if is_block && tokens.first().is_some_and(|t| t.is_name("raw")) && !self.skip_raw() {
                return;
            }
        }
    }

    /// Notes what exceeds the limits: each operator, block and `elif` is one level of the engine's syntax tree.
    fn measure(&mut self, tokens: &[Token<'a>], is_block: bool) {
        let keyword = tokens.first().filter(|_| is_block).map_or("", |t| t.text);
        self.n_elif += usize::from(keyword == "elif");
        match keyword {
            "if" | "for" | "macro" | "call" | "filter" | "with" | "generation" | "block" | "set"
            | "autoescape" => {
                // A `set` that is no block is never closed, so its depth is not counted.
                self.block_depth += usize::from(keyword != "set" || !tokens.iter().any(|t| t.text == "="));
            }
            _ if keyword.starts_with("end") => self.block_depth = self.block_depth.saturating_sub(1),
            _ => {}
        }
        let is_unary = |t: &Token<'_>| matches!(t.text, "-" | "+" | "not" | "**");
        let excess = if tokens.len() > MAX_TAG_TOKENS {
            Some("tag with too many operators and operands")
        } else if tokens.chunk_by(|a, b| is_unary(a) && is_unary(b)).any(|run| run.len() > MAX_UNARY) {
            Some("too many signs in a row")
        } else if self.block_depth > MAX_BLOCK_DEPTH {
            Some("blocks nested too deeply")
        } else if self.n_elif > MAX_ELIF {
            Some("too many elif tags")
        } else {
            None
        };
        if let Some(construct) = excess {
            self.exceed(construct);
        }
    }

    fn exceed(&mut self, construct: &'static str) {
        self.excess = self.excess.or(Some((construct, self.line)));
    }

    fn find_open(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        (self.at..bytes.len().saturating_sub(1))
            .find(|&i| bytes[i] == b'{' && matches!(bytes[i + 1], b'{' | b'%' | b'#'))
    }

    fn advance_to(&mut self, at: usize) {
        self.line += self.text[self.at..at].matches('\n').count();
        self.at = at;
    }

    /// Moves to the `{% endraw %}` tag; false if there is none.
    fn skip_raw(&mut self) -> bool {
        let found = self.text[self.at..].match_indices("{%").find(|(i, _)| {
            let tag = self.text[self.at + i + 2..].trim_start_matches(['-', '+']);
            tag.trim_start().starts_with("endraw")
        });
        match found {
            Some((i, _)) => {
                self.advance_to(self.at + i);
                true
            }
            None => false,
        }
    }

    fn tag(&mut self, tokens: &[Token<'a>], is_block: bool) {
        match tokens.first().filter(|_| is_block) {
            Some(keyword) => self.block(keyword, tokens),
            None => self.expression(tokens, 0),
        }
    }

    fn block(&mut self, keyword: &Token<'a>, tokens: &[Token<'a>]) {
        match keyword.text {
            "generation" => self.edits.push((keyword.range(), "with".to_owned())),
            "endgeneration" => self.edits.push((keyword.range(), "endwith".to_owned())),
            // The condition itself is always looked at, the rest of the chain is not.
            "if" => {
                self.expression(tokens, 1);
                self.if_depth += 1;
                return;
            }
            "endif" => self.if_depth = self.if_depth.saturating_sub(1),
            "macro" => {
                self.define(&tokens[1..]);
                self.macro_depth += 1;
            }
            "call" => self.define_parameters(tokens),
            "endmacro" => self.macro_depth = self.macro_depth.saturating_sub(1),
            "set" => {
                self.define_until(tokens, "=");
                self.edits.extend(operators::bound_assignment(tokens));
                if let [_, _, dot, name, ..] = tokens
                    && dot.text == "."
                {
                    self.namespace_names.insert(name.text);
                }
            }
            "for" => self.define_until(tokens, "in"),
            "with" | "import" | "from" => self.define(&tokens[1..]),
            _ => {}
        }
        if keyword.text == "filter" {
            self.filter_block(tokens);
        }
        // `{% macro f(x) %}` and `{% call f(x) %}` look like calls; only the latter is one.
        let start = if keyword.text == "macro" { tokens.len().min(2) } else { 1 };
        self.expression(tokens, start);
    }

    fn define(&mut self, tokens: &[Token<'a>]) {
        self.defined.extend(tokens.iter().filter(|t| t.is_any_name()).map(|t| t.text.to_owned()));
    }

    fn define_until(&mut self, tokens: &[Token<'a>], end: &str) {
        let n = tokens.iter().position(|t| t.text == end).unwrap_or(tokens.len());
        self.define(&tokens[1.min(n)..n]);
    }

    /// `{% call(a, b) f() %}` defines `a` and `b`.
    fn define_parameters(&mut self, tokens: &[Token<'a>]) {
        if tokens.get(1).is_some_and(|t| t.text == "(") {
            self.define_until(tokens, ")");
        }
    }

    fn filter_block(&mut self, tokens: &[Token<'a>]) {
        if let Some(name) = tokens.get(1) {
            self.refer(Construct::Filter, name, false);
        }
    }

    fn expression(&mut self, tokens: &[Token<'a>], start: usize) {
        self.edits.extend(operators::rewrite(tokens, start, self.with_add));
        let has_inline_if = tokens.iter().skip(start).any(|t| t.is_name("if"));
        for i in start..tokens.len() {
            let previous = i.checked_sub(1).filter(|&p| p >= start).map(|p| tokens[p].text);
            let token = &tokens[i];
            if !token.is_any_name() {
                continue;
            }
            let is_call = tokens.get(i + 1).is_some_and(|next| next.text == "(");
            match previous {
                Some("|") => self.refer(Construct::Filter, token, has_inline_if),
                Some("is") if token.text != "not" => self.test(tokens, i, has_inline_if),
                Some("not") if i >= 2 && tokens[i - 2].text == "is" => self.test(tokens, i, has_inline_if),
                Some(".") if is_call => self.refer(Construct::Method, token, has_inline_if),
                Some(".") => self.attributes.push((tokens[i - 1], *token)),
                _ if self.macro_depth > 0
                    && matches!(token.text, "varargs" | "kwargs")
                    && !is_keyword_argument(tokens, i) =>
                {
                    self.variadic = self.variadic.or(Some((token.text, token.line)));
                }
                _ if is_call && !is_keyword(token.text) => {
                    self.refer(Construct::Function, token, has_inline_if)
                }
                _ => {}
            }
        }
    }

    /// See [`dict`]; names that a namespace has are left alone.
    fn attributes_of_dicts(&mut self) {
        for (dot, name) in &self.attributes {
            if !self.namespace_names.contains(name.text)
                && let Some(subscript) = dict::method_subscript(name.text)
            {
                self.edits.push((dot.range().start..name.range().end, subscript));
            }
        }
    }

    fn test(&mut self, tokens: &[Token<'a>], i: usize, is_guarded: bool) {
        self.refer(Construct::Test, &tokens[i], is_guarded);
        let subject = tokens[..i].iter().rev().find(|t| !matches!(t.text, "is" | "not"));
        if let Some(subject) = subject
            .filter(|t| t.is_any_name() && matches!(tokens[i].text, "defined" | "undefined" | "callable"))
        {
            self.defined.insert(subject.text.to_owned());
        }
    }

    fn refer(&mut self, kind: Construct, name: &Token<'a>, is_inline_guarded: bool) {
        let in_macro = self.macro_depth > 0 && matches!(kind, Construct::Function | Construct::Method);
        let is_guarded = is_inline_guarded || self.if_depth > 0 || in_macro;
        self.references.push(Reference { kind, name: name.text.to_owned(), line: name.line, is_guarded });
    }
}

/// `f(kwargs=…)`.
fn is_keyword_argument(tokens: &[Token<'_>], i: usize) -> bool {
    tokens.get(i + 1).is_some_and(|next| next.text == "=")
}

/// Words that may stand before a parenthesis without being called.
fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 9] = ["and", "call", "elif", "else", "if", "in", "is", "not", "or"];
    KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(template: &str) -> Vec<(Construct, String, usize, bool)> {
        Source::scan(template)
            .references
            .into_iter()
            .map(|r| (r.kind, r.name, r.line, r.is_guarded))
            .collect()
    }

    #[test]
    fn finds_names_and_lines() {
        let found =
            names("a {{ x|trim }}\n{% if y is not odd(2) %}{{ f(x.g('|no')) }}{% endif %}\n{{ 1 if h() }}");
        let expected = [
            (Construct::Filter, "trim", 1, false),
            (Construct::Test, "odd", 2, false),
            (Construct::Function, "f", 2, true),
            (Construct::Method, "g", 2, true),
            (Construct::Function, "h", 3, true),
        ];
        assert_eq!(found, expected.map(|(kind, name, line, guarded)| (kind, name.to_owned(), line, guarded)));
    }

    #[test]
    fn text_comments_and_raw_blocks_are_passed_over() {
        assert_eq!(
            names("x|a {# y|b #}{% raw %}{{ z|c }}{% generation %}{%- endraw %}{{ '}}'|d }}").len(),
            1
        );
    }

    #[test]
    fn generation_becomes_with() {
        let source = Source::scan("{%- generation -%}a{% endgeneration %}\r\nb {{ 'generation' }}");
        assert_eq!(source.text, "{%- with -%}a{% endwith %}\nb {{ 'generation' }}");
    }

    #[test]
    fn operators_become_calls() {
        let cases = [
            ("{{ a ~ b ~ 1e-7 }}", "{{ __concat__(a , b , 1e-7) }}"),
            (
                "{{ 'x' + a ~ b * c if d ~ e else f }}",
                "{{ 'x' + __concat__(a , b * c) if __concat__(d , e) else f }}",
            ),
            ("{{ a * b % c % d }}", "{{ __mod__(__mod__(a * b , c) , d) }}"),
            (
                "{{ f(a ~ b, k=c ~ d)[x ~ y:] ~ z|g(p ~ q) is not in r ~ s }}",
                "{{ __concat__(f(__concat__(a , b), k=__concat__(c , d))[__concat__(x , y):] , z|g(__concat__(p , q)) is not in r , s) }}",
            ),
            ("{{ +a - +b }}", "{{  a -  b }}"),
            ("{{ a + b - c + d|safe }}", "{{ __add__(__add__(a , b) - c , d|safe) }}"),
            ("{{ a + b + c|safe }}", "{{ __add__(a , b , c|safe) }}"),
            (
                "{% for x in a ~ b recursive %}{% endfor %}",
                "{% for x in __concat__(a , b) recursive %}{% endfor %}",
            ),
            ("{% set x = not a ~ b %}", "{% set x = __bound__(not __concat__(a , b)) %}"),
            (
                "{{ {'a': b ~ c} }}{{ x.1.2 ~ -1 }}{{ a ~ }}",
                "{{ {'a': __concat__(b , c)} }}{{ __concat__(x.1.2 , -1) }}{{ a ~ }}",
            ),
            ("{{ a(*b, **c) ** 2 ~ d }}", "{{ __concat__(a(*b, **c) ** 2 , d) }}"),
        ];
        for (template, expected) in cases {
            assert_eq!(Source::scan(template).text, expected);
        }
    }

    #[test]
    fn malformed_text_ends_the_scan() {
        for template in
            ["{{ x|a", "{{ 'a", "{% x", "{% if 'x %}", "{#", "{", "{%", "{% raw %}", "{{ ) }}{{", "{{ ]]] }}"]
        {
            Source::scan(template);
        }
    }
}
