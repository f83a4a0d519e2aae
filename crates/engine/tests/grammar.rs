//! Constrained answers of models with random weights: they say anything that they may, so what comes out is what the grammar
//! lets through.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests may, and say what they skip"
)]

mod common;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use common::{data, load};
use minfer_engine::sampler::SamplerParams;
use minfer_engine::{
    ConstraintEnd, ContextParams, Engine, EngineParams, FinishReason, GenerateParams, Generated, Grammar,
    Model, Part, Request, Speculation,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn model() -> &'static Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    MODEL.get_or_init(|| load(&data().join("qwen2-tied-q4_0.gguf")))
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let context =
            ContextParams { n_ctx: 1024, n_seq_max: 4, n_outputs_max: Some(32), ..ContextParams::default() };
        Engine::new(model(), &EngineParams { context, ..EngineParams::default() }).unwrap()
    })
}

fn hot(seed: u64, n_predict: usize) -> GenerateParams {
    let sampler = SamplerParams {
        temperature: 3.0,
        seed: Some(seed),
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        ..SamplerParams::default()
    };
    GenerateParams { n_predict: Some(n_predict), sampler, ..GenerateParams::default() }
}

fn request(grammar: &Grammar, params: GenerateParams) -> Request {
    let constraint = Some(model().compile_grammar(grammar).unwrap().constraint());
    Request { constraint, ..Request::new(vec![5, 6, 7], params) }
}

fn answer(grammar: &Grammar, params: GenerateParams) -> Generated {
    engine().submit(request(grammar, params)).unwrap().wait().unwrap()
}

fn is_valid_end(reason: FinishReason) -> bool {
    matches!(reason, FinishReason::Complete | FinishReason::EndOfGeneration)
}

/// A schema of a subset that is often used, with definitions `a` and `b` to refer to.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "null" })),
        Just(json!({ "type": "boolean" })),
        Just(json!({ "type": "integer" })),
        Just(json!({ "type": "number" })),
        Just(json!({ "type": "string" })),
        (-50..50, 0..100)
            .prop_map(|(low, more)| json!({ "type": "integer", "minimum": low, "maximum": low + more })),
        (-5..5, 1..5).prop_map(
            |(low, more)| json!({ "type": "number", "exclusiveMinimum": low, "maximum": low + more })
        ),
        (0..3, 0..4)
            .prop_map(|(min, more)| json!({ "type": "string", "minLength": min, "maxLength": min + more })),
        Just(json!({ "type": "string", "pattern": "^[a-c]+[0-9]{2}$" })),
        Just(json!({ "type": "string", "format": "date" })),
        Just(json!({ "type": "string", "format": "uuid" })),
        Just(json!({ "enum": ["red", 1, null, { "a": [true] }, "é\"\\\n"] })),
        Just(json!({ "const": { "k": ["v", -1.5] } })),
        Just(json!({ "type": ["string", "null"], "maxLength": 2 })),
    ];
    let inner = leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 1..4), 0..8_u32, any::<bool>()).prop_map(object),
            (inner.clone(), 0..3, 0..3)
                .prop_map(|(items, min, more)| json!({ "type": "array", "items": items, "minItems": min, "maxItems": min + more })),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({ "type": "array", "prefixItems": [a, b], "items": false, "minItems": 1 })),
            (inner.clone(), inner).prop_map(|(a, b)| json!({ "anyOf": [a, b] })),
            Just(json!({ "$ref": "#/$defs/tree" })),
        ]
    });
    let tree = json!({
        "type": "object",
        "properties": { "children": { "type": "array", "items": { "$ref": "#/$defs/tree" }, "maxItems": 2 } },
        "required": ["children"],
        "additionalProperties": false,
    });
    inner.prop_map(move |mut schema| {
        schema["$defs"] = json!({ "tree": tree });
        schema
    })
}

fn object((schemas, required, is_open): (Vec<Value>, u32, bool)) -> Value {
    let names = ["alpha", "b c", "é\"x"];
    let properties: serde_json::Map<_, _> = names.iter().map(|n| (*n).to_owned()).zip(schemas).collect();
    let required: Vec<_> =
        properties.keys().enumerate().filter(|(i, _)| required >> i & 1 == 1).map(|(_, k)| k).collect();
    let mut schema = json!({ "type": "object", "required": required, "properties": properties });
    if !is_open {
        schema["additionalProperties"] = json!(false);
    }
    schema
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 64, ..ProptestConfig::default() })]

    /// However little room there is: what ends validly is valid, and what does not says so.
    #[test]
    fn what_comes_out_is_what_the_schema_describes(schema in schema(), seed in 0..1000_u64, n_predict in 1..200_usize) {
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        let answer = answer(&Grammar::JsonSchema(schema.clone()), hot(seed, n_predict));
        if is_valid_end(answer.reason) {
            let value: Value = serde_json::from_str(&answer.text)
                .unwrap_or_else(|e| panic!("{e}: {:?} under {schema}", answer.text));
            prop_assert!(validator.is_valid(&value), "{value} under {schema}");
        } else {
            prop_assert_eq!(answer.reason, FinishReason::Length);
            prop_assert!(n_predict < 150, "{} tokens were too few for {schema}: {:?}", n_predict, answer.text);
        }
    }
}

/// What people write besides the usual.
fn odd_schemas() -> Vec<Value> {
    let list = json!({ "type": "object", "properties": { "value": { "type": "integer" }, "next": {
        "anyOf": [{ "$ref": "#/$defs/list" }, { "type": "null" }] } }, "required": ["value", "next"],
        "additionalProperties": false });
    let case = |name: &str, more: Value| {
        json!({ "type": "object",
        "properties": { "kind": { "const": name }, "data": more }, "required": ["kind", "data"] })
    };
    vec![
        json!(true),
        json!({}),
        json!({ "$ref": "#/$defs/list", "$defs": { "list": list } }),
        json!({ "definitions": { "a": { "type": "string", "maxLength": 3 } }, "type": "object",
            "patternProperties": { "^x-[a-z]{1,3}$": { "$ref": "#/definitions/a" } }, "additionalProperties": false,
            "minProperties": 1, "maxProperties": 2 }),
        json!({ "oneOf": [case("dog", json!({ "type": "boolean" })), case("cat", json!({ "type": "null" }))] }),
        json!({ "allOf": [
            { "type": "object", "properties": { "a": { "type": "integer", "minimum": 3 } }, "required": ["a"] },
            { "properties": { "a": { "maximum": 5 }, "b": { "enum": [1, 2] } }, "required": ["b"] },
        ], "additionalProperties": false, "properties": { "a": true, "b": true } }),
        json!({ "const": { "\u{1F389} \\ / \"q\"": ["\u{7f}\u{1}\ttab", 1.5e-3, -0.0, 9007199254740992_u64] } }),
        json!({ "enum": ["\n", "", "ü\u{301}", 1e21, [], {}] }),
        json!({ "type": "string", "format": "date-time" }),
        json!({ "type": "object", "additionalProperties": { "type": "boolean" }, "minProperties": 2, "maxProperties": 3 }),
        json!({ "type": "array", "items": { "type": "number", "multipleOf": 0.25 }, "minItems": 2, "maxItems": 3 }),
        json!({ "type": "array", "items": [{ "type": "null" }], "additionalItems": { "type": "boolean" }, "maxItems": 3,
            "$schema": "http://json-schema.org/draft-07/schema#" }),
        json!({ "type": ["string", "integer"], "pattern": "^[^\"]\\\\d{2,3}$|x$", "maximum": 3 }),
        json!({ "anyOf": [{ "type": "string", "minLength": 2, "maxLength": 2 }, { "type": "array", "maxItems": 0 }] }),
        json!({ "type": "object", "required": ["undeclared"], "properties": { "z": { "type": "null" } } }),
    ]
}

#[test]
fn odd_schemas_are_enforced() {
    for schema in odd_schemas() {
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        let compiled = model().compile_grammar(&Grammar::JsonSchema(schema.clone()));
        let compiled = compiled.unwrap_or_else(|e| panic!("{e}: {schema}"));
        for seed in 0..6 {
            let constraint = Some(compiled.constraint());
            let request = Request { constraint, ..Request::new(vec![5, 6, 7], hot(seed, 160)) };
            let answer = engine().submit(request).unwrap().wait().unwrap();
            // A pattern that is open at its end may have none in sight when the limit comes; the answer says so.
            if schema["pattern"].is_string() && answer.reason == FinishReason::Length {
                continue;
            }
            assert!(is_valid_end(answer.reason), "{:?} under {schema}", answer.text);
            let value: Value = serde_json::from_str(&answer.text)
                .unwrap_or_else(|e| panic!("{e}: {:?} under {schema}", answer.text));
            assert!(validator.is_valid(&value), "{value} under {schema}");
        }
    }
}

#[test]
fn an_answer_is_closed_before_the_limit() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "list": { "type": "array", "items": {
                "type": "object",
                "properties": { "first": { "type": "string", "minLength": 3 }, "second": { "type": "number" } },
                "required": ["first", "second"],
            } },
        },
        "required": ["name", "list"],
        "additionalProperties": false,
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut n_shortened = 0;
    for seed in 0..20 {
        let answer = answer(&Grammar::JsonSchema(schema.clone()), hot(seed, 60 + seed as usize));
        assert!(is_valid_end(answer.reason), "{:?}", answer.text);
        assert!(validator.is_valid(&serde_json::from_str(&answer.text).unwrap()), "{:?}", answer.text);
        n_shortened += usize::from(answer.constraint == Some(ConstraintEnd::Shortened));
    }
    assert!(n_shortened > 0);
    // Three tokens cannot be enough.
    let cut = answer(&Grammar::JsonSchema(schema), hot(1, 3));
    assert_eq!((cut.reason, cut.constraint), (FinishReason::Length, Some(ConstraintEnd::Cut)));
}

#[test]
fn an_answer_tells_how_the_limit_has_changed_it() {
    let end = |regex: &str, n_predict| {
        let answer = answer(&Grammar::Regex(regex.into()), hot(2, n_predict));
        (answer.text.len(), answer.constraint.unwrap())
    };
    // All that it can be, with the last token and long before it.
    assert_eq!(end("[xy]{3}", 3), (3, ConstraintEnd::Whole));
    assert_eq!(end("[xy]{3}", 100), (3, ConstraintEnd::Whole));
    // It may end here, and there is more that it might have been.
    assert_eq!(end("[xy]+", 4), (4, ConstraintEnd::Shortened));
    assert_eq!(end("[xy]{5}", 4).1, ConstraintEnd::Cut);
    let free = engine().submit(Request::new(vec![5, 6, 7], hot(2, 4))).unwrap().wait().unwrap();
    assert_eq!(free.constraint, None);
}

#[test]
fn json_without_a_schema_is_an_object_with_bounded_space_and_numbers() {
    for seed in 0..20 {
        let answer = answer(&Grammar::JsonObject, hot(seed, 200));
        assert!(is_valid_end(answer.reason), "{:?}", answer.text);
        let value: Value = serde_json::from_str(&answer.text).unwrap();
        assert!(value.is_object());
        let outside: String = answer.text.split('"').step_by(2).collect();
        assert!(!outside.contains("  \n") && !outside.contains("\n\n"), "{:?}", answer.text);
    }
    let number = Grammar::JsonSchema(json!({ "type": "number" }));
    // The only thing that it wants to say is a digit.
    let digits: Vec<(u32, f32)> =
        (0..10).map(|d| (model().tokenizer().token_id(&d.to_string()).unwrap(), 1000.0)).collect();
    let mut params = hot(1, 400);
    params.sampler.logit_bias = digits;
    let answer = answer(&number, params);
    assert!(answer.text.len() < 60, "{}", answer.text);
    assert!(answer.text.parse::<f64>().unwrap().is_finite(), "{}", answer.text);
}

#[test]
fn regular_expressions_lark_and_gbnf_shape_the_answer() {
    for seed in 0..8 {
        let text = |grammar: &Grammar| answer(grammar, hot(seed, 100)).text;
        let date = text(&Grammar::Regex("20[0-9]{2}-(0[1-9]|1[0-2])".into()));
        assert!(date.len() == 7 && date.starts_with("20") && date.as_bytes()[4] == b'-', "{date}");
        let sum = text(&Grammar::Lark("start: NUM (\"+\" NUM){2}\nNUM: /[1-9][0-9]?/".into()));
        assert_eq!(sum.split('+').filter(|n| (1..100).contains(&n.parse::<i32>().unwrap())).count(), 3);
        let word = text(&Grammar::Gbnf("root ::= \"yes\" | \"no\"".into()));
        assert!(word == "yes" || word == "no", "{word}");
        let nested = text(&Grammar::Gbnf("root ::= \"(\" root? \")\"".into()));
        let half = nested.len() / 2;
        assert_eq!(nested, "(".repeat(half) + &")".repeat(half));
    }
}

#[test]
fn parts_are_put_together() {
    let call = |name: &str| {
        let schema =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        vec![Part::Text(format!("{name}/\"'é\n")), Part::Json(schema)]
    };
    let end = model().tokenizer().token_id("<|im_start|>").unwrap();
    for (seed, n_ends) in (0..12).zip([0, 2].into_iter().cycle()) {
        let parts = vec![
            Part::Choice(vec![call("one"), call("two")]),
            Part::Repeat(vec![Part::Token(end), Part::Text("|".into())], n_ends, Some(n_ends)),
            Part::Until("</x>".into()),
            Part::Without("stop".into()),
        ];
        let answer = answer(&Grammar::Composed(parts), hot(seed, 300));
        let Some((begin, rest)) = answer.text.split_once("</x>") else {
            assert_eq!(answer.reason, FinishReason::Length);
            continue;
        };
        assert!(!rest.contains("stop"), "{rest:?}");
        let begin = begin.strip_prefix("one/\"'é\n").or_else(|| begin.strip_prefix("two/\"'é\n")).unwrap();
        let mut values = serde_json::Deserializer::from_str(begin).into_iter::<Value>();
        assert!(values.next().unwrap().unwrap()["n"].is_number());
        // Control tokens are not shown.
        assert!(n_ends == 0 || begin[values.byte_offset()..].trim_start().starts_with("||"), "{begin:?}");
        assert!(answer.tokens.iter().filter(|t| **t == end).count() == n_ends as usize);
    }
    let hidden = Part::Json(json!({ "not": {} }));
    let error = model().compile_grammar(&Grammar::Composed(vec![hidden])).unwrap_err();
    assert!(error.to_string().contains("'not' at #"), "{error}");
}

#[test]
fn company_speculation_and_cancellation_change_nothing() {
    let schema = Grammar::JsonSchema(json!({
        "type": "object",
        "properties": { "a": { "type": "string" }, "b": { "type": "array", "items": { "type": "integer" } } },
        "required": ["a", "b"],
    }));
    let params = |speculation| GenerateParams { speculation, ..hot(7, 90) };
    let alone = answer(&schema, params(Speculation::Off));
    assert!(alone.tokens.len() > 10);
    let guessed = answer(&schema, params(Speculation::PromptLookup { max: 8 }));
    assert_eq!((&guessed.tokens, guessed.reason), (&alone.tokens, alone.reason));
    assert!(guessed.timings.speculation.n_guessed > 0);
    let streams: Vec<_> = (0..6)
        .map(|i| {
            let (grammar, seed) = if i % 2 == 0 { (schema.clone(), 7) } else { (Grammar::JsonObject, i) };
            engine().submit(request(&grammar, GenerateParams { ..hot(seed, 90) })).unwrap()
        })
        .collect();
    for (i, stream) in streams.into_iter().enumerate() {
        if i == 3 {
            drop(stream);
            continue;
        }
        let answer = stream.wait().unwrap();
        if i % 2 == 0 {
            assert_eq!(answer.tokens, alone.tokens);
        }
    }
}

#[test]
fn a_compiled_grammar_serves_many_requests() {
    let compiled = model().compile_grammar(&Grammar::Regex("[a-z]{5}".into())).unwrap();
    let run = |seed| {
        let request =
            Request { constraint: Some(compiled.constraint()), ..Request::new(vec![5], hot(seed, 20)) };
        engine().submit(request).unwrap().wait().unwrap()
    };
    let texts: Vec<String> = (0..4).map(|seed| run(seed).text).collect();
    assert!(texts.iter().all(|t| t.len() == 5), "{texts:?}");
    assert_eq!(run(2).text, texts[2]);
}

/// Compiles a grammar and answers with it; what hangs is found out instead of hanging.
fn tried(grammar: Grammar) -> Result<FinishReason, String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let compiled = model().compile_grammar(&grammar).map_err(|e| e.to_string());
        let answer = compiled.and_then(|compiled| {
            let constraint = Some(compiled.constraint());
            let request = Request { constraint, ..Request::new(vec![5], hot(1, 50)) };
            engine().submit(request).unwrap().wait().map(|a| a.reason).map_err(|e| e.to_string())
        });
        sender.send(answer)
    });
    // Far more than the bounds on its work come to.
    receiver.recv_timeout(Duration::from_secs(60)).expect("it hangs")
}

/// Rules, each of which needs the next.
fn chain(letter: char, n: usize) -> String {
    (0..n).map(|i| format!("{letter}{i}: {letter}{} \"a\"\n", i + 1)).collect()
}

#[test]
fn hostile_grammars_end() {
    let deep_choice = (0..12).fold("\"x\"".to_owned(), |inner, _| format!("({inner} | {inner}?)"));
    for grammar in [
        Grammar::Regex("a{1000}{1000}{1000}".into()),
        Grammar::Regex("((a{0,1000}b?){0,1000}c?){0,1000}".into()),
        Grammar::Regex("(a|aa|aaa|b.*a.{200})+".into()),
        Grammar::Lark("start: a a a a a a a a a\na: (\"a\" | \"aa\" | a a)*".into()),
        Grammar::Gbnf("root ::= (((\"a\"{1,1000}){1,1000}){1,1000}){1,1000}".into()),
        Grammar::Gbnf("root ::= root root root | \"a\" | \"\" | [a-z]{0,100} root".into()),
        Grammar::Gbnf("root ::= \"(\" root \")\" | x{0,100000}\nx ::= [a-z]{0,1000} | root".into()),
        Grammar::Gbnf(format!("root ::= {deep_choice}")),
        Grammar::Lark(format!("start: t0\n{}t3000: \"b\"", chain('t', 3000))),
        Grammar::Lark(format!("start: T0\n{}T3000: \"b\"", chain('T', 3000))),
        Grammar::JsonSchema(json!({ "type": "string", "minLength": 100_000_000 })),
        Grammar::JsonSchema(
            json!({ "type": "array", "items": { "const": 1 }, "minItems": 1_000_000_000_u64 }),
        ),
        Grammar::JsonSchema(json!({ "type": "string", "pattern": "(a|b|ab|.{0,50}c){0,1000}$" })),
    ] {
        let (name, start): (String, _) = (format!("{grammar:?}").chars().take(80).collect(), Instant::now());
        println!("{name}: {:?} in {:?}", tried(grammar), start.elapsed());
    }
}

#[test]
fn hostile_grammars_are_refused() {
    let deep_schema = (0..90).fold(
        json!({ "type": "string" }),
        |inner, _| json!({ "anyOf": [{ "type": "array", "items": inner }, { "not": {} }] }),
    );
    let cases = [
        Grammar::Regex("(".into()),
        Grammar::Regex("(a|b|ab)*c(?=d)".into()),
        Grammar::JsonSchema(json!({ "type": "string", "pattern": "^a{1000}{1000}{1000}$" })),
        Grammar::Regex("(".repeat(5000)),
        Grammar::Regex("x".repeat(1 << 20)),
        Grammar::Lark(String::new()),
        Grammar::Lark("start: start".into()),
        Grammar::Lark("start: \"a\" start".repeat(2000)),
        Grammar::Lark("start: a\na: b".into()),
        Grammar::Lark(format!("start: {}\"a\"{}", "(".repeat(3000), ")".repeat(3000))),
        Grammar::Lark(format!("start: t0\n{}", chain('t', 6000))),
        Grammar::Lark("start: \"\\x\" /[/".into()),
        Grammar::Gbnf("root ::= root".into()),
        Grammar::Gbnf(format!("root ::= {} \"a\"", "x ".repeat(5000))),
        Grammar::JsonSchema(json!(false)),
        Grammar::JsonSchema(json!({ "type": "integer", "minimum": 2, "maximum": 1 })),
        Grammar::JsonSchema(json!({ "type": "object", "properties": { "a": false }, "required": ["a"] })),
        Grammar::JsonSchema(json!({ "type": "string", "pattern": "(?!a)b" })),
        Grammar::JsonSchema(json!({ "oneOf": [{ "minimum": 1 }, { "maximum": 3 }] })),
        Grammar::JsonSchema(deep_schema),
    ];
    for grammar in cases {
        let name: String = format!("{grammar:?}").chars().take(80).collect();
        let start = Instant::now();
        let error = tried(grammar).expect_err(&name);
        println!("{name}: {error} in {:?}", start.elapsed());
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
