//! Reads GBNF.
//!
//! `NAME ::= ALTERNATIVES`, one rule a line; in brackets and after `|` a rule goes on in the next line. Elements: `"text"`,
//! `[class]`, `.`, a rule's name, `( )`, each with `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}` behind it. `#` begins a comment.

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

use super::super::error::{GrammarError, GrammarKind};
use super::class::Class;

const MAX_NESTING: usize = 100;
const MAX_REPEAT: u32 = 100_000;

/// A part of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Chars(Class),
    Seq(Vec<Expr>),
    Alt(Vec<Expr>),
    /// At least, and at most.
    Repeat(Box<Expr>, u32, Option<u32>),
    Rule(usize),
}

/// The rules of a grammar; a rule's number is its place.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) bodies: Vec<Expr>,
    pub(super) root: usize,
}

pub(super) fn parse(text: &str) -> Result<Rules, GrammarError> {
    let mut parser = Parser {
        rest: text.chars().peekable(),
        line: 1,
        column: 1,
        names: HashMap::new(),
        rules: Vec::new(),
    };
    parser.skip(true);
    while parser.peek().is_some() {
        parser.rule()?;
        parser.skip(true);
    }
    parser.finish()
}

/// A rule that was named: where first, and what it is.
struct Named {
    name: String,
    place: (usize, usize),
    body: Option<Expr>,
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    column: usize,
    names: HashMap<String, usize>,
    rules: Vec<Named>,
}

type Parsed<T> = Result<T, GrammarError>;

fn error_at<T>((line, column): (usize, usize), reason: impl Into<String>) -> Parsed<T> {
    Err(GrammarError::Syntax { kind: GrammarKind::Gbnf, line, column, reason: reason.into() })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        if is_next {
            self.next();
        }
        is_next
    }

    fn wrong<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        error_at((self.line, self.column), reason)
    }

    fn unexpected<T>(&mut self, expected: &str) -> Parsed<T> {
        match self.peek() {
            Some(c) => self.wrong(format!("expected {expected}, found {c:?}")),
            None => self.wrong(format!("expected {expected}, found the end")),
        }
    }

    /// Skips spaces and comments, and line breaks if they may be.
    fn skip(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {}
                '\r' | '\n' if lines => {}
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                    continue;
                }
                _ => return,
            }
            self.next();
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| is_name(*c)) {
            name.push(c);
            self.next();
        }
        name
    }

    fn named(&mut self, name: String, place: (usize, usize)) -> usize {
        let rules = &mut self.rules;
        *self.names.entry(name.clone()).or_insert_with(|| {
            rules.push(Named { name, place, body: None });
            rules.len() - 1
        })
    }

    fn rule(&mut self) -> Parsed<()> {
        let place = (self.line, self.column);
        let name = self.name();
        if name.is_empty() {
            return self.unexpected("the name of a rule");
        }
        self.skip(false);
        if !(self.eat(':') && self.eat(':') && self.eat('=')) {
            return self.unexpected("'::='");
        }
        self.skip(true);
        let body = self.alternatives(0)?;
        if !matches!(self.peek(), None | Some('\n' | '\r')) {
            return self.unexpected("the end of the rule");
        }
        let index = self.named(name, place);
        if self.rules[index].body.replace(body).is_some() {
            return error_at(place, format!("the rule '{}' is there already", self.rules[index].name));
        }
        Ok(())
    }

    fn alternatives(&mut self, depth: usize) -> Parsed<Expr> {
        if depth > MAX_NESTING {
            return self.wrong(format!("brackets are nested more than {MAX_NESTING} deep"));
        }
        let mut all = vec![self.sequence(depth)?];
        while self.eat('|') {
            self.skip(true);
            all.push(self.sequence(depth)?);
        }
        Ok(one_or(all, Expr::Alt))
    }

    fn sequence(&mut self, depth: usize) -> Parsed<Expr> {
        let mut all = Vec::new();
        loop {
            let element = match self.peek() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.next();
                    Expr::Chars(Class::any())
                }
                Some('(') => {
                    self.next();
                    self.skip(true);
                    let inner = self.alternatives(depth + 1)?;
                    if !self.eat(')') {
                        return self.unexpected("')'");
                    }
                    inner
                }
                Some('<') => return self.wrong("tokens in angle brackets are not supported"),
                Some(c) if is_name(c) => {
                    let place = (self.line, self.column);
                    let name = self.name();
                    Expr::Rule(self.named(name, place))
                }
                _ => return Ok(one_or(all, Expr::Seq)),
            };
            self.skip(depth > 0);
            all.push(self.repeated(element, depth)?);
        }
    }

    fn repeated(&mut self, mut element: Expr, depth: usize) -> Parsed<Expr> {
        for _ in 0..MAX_NESTING {
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.bounds()?,
                _ => return Ok(element),
            };
            self.next();
            self.skip(depth > 0);
            element = Expr::Repeat(Box::new(element), min, max);
        }
        self.wrong(format!("more than {MAX_NESTING} repetitions of repetitions"))
    }

    /// `{m}`, `{m,}`, `{,n}`, `{m,n}`, up to the closing bracket.
    fn bounds(&mut self) -> Parsed<(u32, Option<u32>)> {
        self.next();
        self.skip(false);
        let min = self.number()?;
        self.skip(false);
        let (min, max) = if self.eat(',') {
            self.skip(false);
            (min.unwrap_or(0), self.number()?)
        } else {
            match min {
                Some(n) => (n, Some(n)),
                None => return self.unexpected("a number"),
            }
        };
        self.skip(false);
        if self.peek() != Some('}') {
            return self.unexpected("'}'");
        }
        if max.is_some_and(|max| max < min) {
            return self.wrong(format!("at least {min} times cannot be at most {} times", max.unwrap_or(0)));
        }
        Ok((min, max))
    }

    fn number(&mut self) -> Parsed<Option<u32>> {
        let mut number: Option<u32> = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            let value = number.unwrap_or(0).saturating_mul(10).saturating_add(digit);
            if value > MAX_REPEAT {
                return self.wrong(format!("a repetition has at most {MAX_REPEAT} times"));
            }
            number = Some(value);
            self.next();
        }
        Ok(number)
    }

    fn literal(&mut self) -> Parsed<Expr> {
        self.next();
        let mut all = Vec::new();
        while !self.eat('"') {
            all.push(Expr::Chars(Class::of_char(self.char("'\"'")?)));
        }
        Ok(one_or(all, Expr::Seq))
    }

    fn class(&mut self) -> Parsed<Expr> {
        self.next();
        let negated = self.eat('^');
        let mut ranges = Vec::new();
        while !self.eat(']') {
            let first = self.char("']'")?;
            let mut last = first;
            // A '-' at the end is one of the characters.
            if self.peek() == Some('-') && self.rest.clone().nth(1).is_some_and(|c| c != ']') {
                self.next();
                last = self.char("']'")?;
                if last < first {
                    return self.wrong(format!("the range from {first:?} to {last:?} goes backwards"));
                }
            }
            ranges.push((first.into(), last.into()));
        }
        let class = Class::of_ranges(ranges);
        Ok(Expr::Chars(if negated { class.negated() } else { class }))
    }

    /// A character of a text or a class; `end` is what would have ended it.
    fn char(&mut self, end: &str) -> Parsed<char> {
        match self.next() {
            None => self.wrong(format!("expected {end}, found the end")),
            Some('\n') => self.wrong(format!("expected {end}, found the end of the line; write \\n")),
            Some('\\') => self.escape(),
            Some(c) => Ok(c),
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let n_digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('\\' | '"' | '[' | ']' | '/' | '-' | '^')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(c) => return self.wrong(format!("'\\{c}' is no escape")),
            None => return self.wrong("expected an escape, found the end"),
        };
        let mut value = 0_u32;
        for _ in 0..n_digits {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) else {
                return self.unexpected(&format!("{n_digits} hexadecimal digits"));
            };
            value = value << 4 | digit;
            self.next();
        }
        let Some(c) = char::from_u32(value) else {
            return self.wrong(format!("U+{value:04X} is no character"));
        };
        Ok(c)
    }

    fn finish(self) -> Parsed<Rules> {
        let Some(&root) = self.names.get("root").filter(|root| self.rules[**root].body.is_some()) else {
            return self.wrong("there is no rule 'root'");
        };
        let mut bodies = Vec::with_capacity(self.rules.len());
        for rule in self.rules {
            match rule.body {
                Some(body) => bodies.push(body),
                None => return error_at(rule.place, format!("there is no rule '{}'", rule.name)),
            }
        }
        Ok(Rules { bodies, root })
    }
}

/// A list of one is that one.
fn one_or(mut all: Vec<Expr>, many: impl FnOnce(Vec<Expr>) -> Expr) -> Expr {
    match all.pop() {
        Some(one) if all.is_empty() => one,
        Some(last) => {
            all.push(last);
            many(all)
        }
        None => many(all),
    }
}
