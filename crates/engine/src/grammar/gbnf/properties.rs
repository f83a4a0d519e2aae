//! The rewritten grammar derives what the grammar derives: random grammars, all short texts, against a matcher of our own.

use std::collections::BTreeSet;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{ParserFactory, TokenParser};
use proptest::prelude::*;

use super::parse::{Expr, Rules, parse};
use super::to_lark;

/// Where a match of each rule can end, for each place where it begins.
type Ends = Vec<Vec<BTreeSet<usize>>>;

/// Whether the rules derive `text`: sets of ends are filled in until nothing is new, so recursion of any kind is no trouble.
fn derives(rules: &Rules, text: &[char]) -> bool {
    let mut ends: Ends = vec![vec![BTreeSet::new(); text.len() + 1]; rules.bodies.len()];
    loop {
        let before = ends.clone();
        for (rule, body) in rules.bodies.iter().enumerate() {
            for at in 0..=text.len() {
                let found = matches(body, &BTreeSet::from([at]), text, &ends);
                ends[rule][at].extend(found);
            }
        }
        if ends == before {
            return ends[rules.root][0].contains(&text.len());
        }
    }
}

fn matches(expr: &Expr, from: &BTreeSet<usize>, text: &[char], ends: &Ends) -> BTreeSet<usize> {
    match expr {
        Expr::Chars(class) => {
            from.iter().filter(|i| text.get(**i).is_some_and(|c| class.has(*c))).map(|i| i + 1).collect()
        }
        Expr::Rule(rule) => from.iter().flat_map(|i| ends[*rule][*i].iter().copied()).collect(),
        Expr::Seq(all) => all.iter().fold(from.clone(), |at, e| matches(e, &at, text, ends)),
        Expr::Alt(all) => all.iter().flat_map(|e| matches(e, from, text, ends)).collect(),
        Expr::Repeat(inner, min, max) => {
            let (mut at, mut all) = (from.clone(), BTreeSet::new());
            // More rounds than characters bring nothing new.
            let rounds = max.unwrap_or(u32::MAX).min(min + text.len() as u32 + 1);
            for round in 0..=rounds {
                if round >= *min {
                    all.extend(&at);
                }
                at = matches(inner, &at, text, ends);
            }
            all
        }
    }
}

fn factory() -> ParserFactory {
    let mut factory = ParserFactory::new_simple(&ApproximateTokEnv::single_byte_env()).unwrap();
    factory.quiet();
    factory
}

fn parser(factory: &ParserFactory, lark: &str) -> TokenParser {
    let mut parser = factory.create_parser(TopLevelGrammar::from_lark(lark.into())).unwrap();
    parser.start_without_prompt();
    parser
}

/// Whether the parser takes `text` and can end there.
fn accepts(parser: &TokenParser, text: &str) -> bool {
    let mut parser = parser.deep_clone();
    for byte in text.bytes() {
        if parser.check_stop().unwrap() || !parser.validate_token(byte.into()).unwrap() {
            return false;
        }
        parser.consume_token(byte.into()).unwrap();
    }
    parser.is_accepting()
}

fn texts(alphabet: &[char], longest: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..longest {
        last = last.iter().flat_map(|t| alphabet.iter().map(move |c| format!("{t}{c}"))).collect();
        all.extend(last.clone());
    }
    all
}

fn check(factory: &ParserFactory, gbnf: &str, alphabet: &[char], longest: usize) {
    let rules = parse(gbnf).unwrap();
    let texts = texts(alphabet, longest);
    let Ok(lark) = to_lark(gbnf) else {
        assert!(texts.iter().all(|t| !derives(&rules, &t.chars().collect::<Vec<_>>())), "{gbnf}");
        return;
    };
    let parser = parser(factory, &lark);
    for text in &texts {
        let want = derives(&rules, &text.chars().collect::<Vec<_>>());
        assert_eq!(accepts(&parser, text), want, "{text:?} under\n{gbnf}\n{lark}");
    }
}

/// A part of a rule, as text; rules are `root`, `x` and `y`.
fn part() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["\"a\"", "\"b\"", "\"ab\"", "\"ba\"", "\"\"", "\"é\"", "[ab]", "[^a]", "[b-é]", "."]),
        2 => prop::sample::select(vec!["root", "x", "y"]),
    ]
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|all| format!("({})", all.join(" "))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|all| format!("({})", all.join(" | "))),
            (inner, prop::sample::select(vec!["*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}"]))
                .prop_map(|(part, times)| format!("{part}{times}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_grammars_derive_the_same(root in part(), x in part(), y in part()) {
        let gbnf = format!("root ::= {root}\nx ::= {x}\ny ::= {y}\n");
        check(&factory(), &gbnf, &['a', 'b', 'é'], 4);
    }

    #[test]
    fn random_text_is_read_or_refused(text in "[ -~\n]{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = to_lark(&text);
        let _ = to_lark(&String::from_utf8_lossy(&bytes));
        let _ = to_lark(&format!("root ::= {text}"));
    }

    /// Pieces of the language in any order come closer to being grammars than characters do.
    #[test]
    fn random_pieces_are_read_or_refused(pieces in prop::collection::vec(prop::sample::select(vec![
        "root", " ", "::=", "\n", "\"", "a", "[", "]", "^", "-", "(", ")", "|", "*", "+", "?", "{", "}", ",", "1", "\\", "x41",
        "#", ".", "é", "\u{0}",
    ]), 0..40)) {
        if let Ok(lark) = to_lark(&format!("root ::= {}", pieces.concat())) {
            // What is written is Lark; it may still be more than the parser's bounds allow.
            let _ = factory().create_parser(TopLevelGrammar::from_lark(lark));
        }
    }
}

/// Grammars in the style of llama.cpp's own.
#[test]
fn usual_grammars_derive_the_same() {
    let factory = factory();
    let arithmetic = r#"root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*"#;
    check(&factory, arithmetic, &['a', '1', '=', '\n', '+'], 5);
    let json = r#"root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}"#;
    check(&factory, json, &['{', '"', ':', '1', '}'], 6);
    let rules = parse(json).unwrap();
    let parser = parser(&factory, &to_lark(json).unwrap());
    for (text, want) in [
        (r#"{"a": [1, 2.5e-1, {"b": null}], "c\"\u00e9é": "x"}"#, true),
        ("{\n  \"a\": true,\n  \"b\": []\n}\n", true),
        (r#"{"a": 01}"#, false),
        (r#"{"a": 1,}"#, false),
        ("{\"a\": \"\u{1}\"}", false),
    ] {
        assert_eq!(derives(&rules, &text.chars().collect::<Vec<_>>()), want, "{text}");
        assert_eq!(accepts(&parser, text), want, "{text}");
    }
    let list = "root ::= item+\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"";
    check(&factory, list, &['-', ' ', 'a', '\n'], 5);
    let chess = r#"root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?"#;
    let parser = self::parser(&factory, &to_lark(chess).unwrap());
    assert!(accepts(&parser, "1. e4 e5\n2. Nf3 Nc6\n3. O-O exd4=Q+\n"));
    assert!(!accepts(&parser, "1. e4 e9\n2. Nf3 Nc6\n"));
}

#[test]
fn left_recursion_is_fine() {
    let factory = factory();
    check(&factory, "root ::= root \"+\" n | n\nn ::= [0-9]+", &['1', '+'], 6);
    check(&factory, "root ::= root root | \"a\" | \"\"", &['a', 'b'], 5);
    check(&factory, "root ::= x \"b\"\nx ::= root? \"a\"", &['a', 'b'], 6);
}
